package check

import "os"

// FullVariable is the environment variable with which tests have their full size: more crashes, kills and random steps
// of what the quick size has, too, as documented in CONTRIBUTING.md.
const FullVariable = "LAZULI_TEST_FULL"

// Size returns how much a test does of what it repeats: quick, or full with [FullVariable].
func Size[T any](quick, full T) T {
	if os.Getenv(FullVariable) != "" {
		return full
	}
	return quick
}
