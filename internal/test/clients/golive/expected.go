package main

// expectedToFail are tests that cannot pass, with the reason.
var expectedToFail = map[string]string{}
