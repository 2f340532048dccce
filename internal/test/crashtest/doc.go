// Package crashtest kills a Lazuli process under load repeatedly, and checks that no acknowledged change is lost.
//
// The test builds the binary, serves a data folder with it, and writes through the Azure SDKs to all three services at
// once. Each worker keeps a ledger: the acknowledged operations, and the one operation in flight when the process was
// killed, whose outcome is unknown. After each SIGKILL the folder must pass fsck, the next process must start, and the
// content must match the ledger.
//
// After SIGKILL the kernel still writes data that was not synced. Tests of power failures are in the packages that
// write the data, store and extent.
//
// A second test does the same with versions and restored containers, in half as many rounds.
// A third test reads the change feed, and copies from a host outside the process. TestKillTwoOfThree kills two of three
// nodes of a cluster at once.
//
//	go test ./internal/test/crashtest -args -kills 100 -seed 7
//	go test ./internal/test/crashtest -run TwoOfThree -timeout 2h -args -two-kills 200 -two-stream 200
package crashtest
