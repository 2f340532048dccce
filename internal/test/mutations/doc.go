// Mutations changes the product in small ways and counts which changes its tests notice.
//
//	.ci/mutations [-n 40] [-seed 1] [-only FOLDER] [-operator NAME] [-own] [-list]
//	               [-numbers 3,17] [-tests PATTERN] [-keep FOLDER] [-for 4m]
//	.ci/mutations -syncs PATTERN
//
// It mutates the packages where a silent mistake loses data: the states of the services, the store, the extents. Of
// each it draws a sample of the places that an operator fits, and some of the syncs in any case; with -operator "drop
// the sync", syncs alone. Places that only log are left out. It builds the test binaries once, with all mutants of the
// sample inside and an environment variable that chooses one. It runs each test once alone, without a mutant, to learn
// which tests come to which mutant, and then these tests for each mutant: those of the package first, and fast ones
// before others; those of another folder only if none of these notices. A mutant is caught if a test fails or does not
// end. The files of the tree stay as they are: the mutated ones are given to the compiler by -overlay.
//
// With -syncs, it removes in place of that each sync that has a row in internal/test/lint/syncs.md, and runs the tests
// that the row names: the pattern, a regular expression, selects rows by file, function and test.
//
// With -keep and -for, it runs in parts: each goes on where the one before has stopped, and the status is 3 until all
// is done.
//
// With -numbers and -tests, it runs some mutants of the sample, with some tests: to try a new test.
//
// Mutants that survived and were looked at are in survivors.md, with the reason. A report of one that survives ends
// with the rows of its function there.
//
// Start at [operators] for what is changed, at [target] for what is run, and at [runSyncs] for the syncs.
package main
