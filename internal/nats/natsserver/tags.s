// Without an assembly file, the compiler refuses functions without a body, as those of tags.go are.
