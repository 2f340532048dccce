// Package offline works on the database of a Blob service that is stopped: it checks every invariant of the records
// ([Check]), puts records in order after damage took some of them ([Repair]), and names for people what a key belongs
// to ([Names]).
//
// It reads records alone (package record) and needs nothing of package state, which changes them for requests. So its
// invariants do not follow from the code that writes the records, and a fault of that code is found here. The tests of
// package state run the check after each case ([CheckOpen]).
//
// # Where to start
//
// check.go has the list of invariants; check_tree.go has the invariants of trees. repair.go plans a repair in one read
// and writes it in batches, each of which leaves less to repair; repair_tree.go decides which item has which place in a
// tree.
package offline
