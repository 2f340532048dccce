// Package crashtest kills a real Lazuli under load, again and again, and looks whether it keeps what it acknowledged.
//
// The test builds the binary, serves a data folder with it, and writes through the Azure SDKs to all three services at
// once. Each worker keeps a ledger: what was acknowledged, and the one operation that was under way when the process
// died, which may have happened or not. After each SIGKILL the folder must pass fsck as it is, the next process must
// start, and everything must be as the ledger says.
//
// A killed process leaves what it wrote to the kernel, synced or not: that a power failure is survived as well is
// tested where the bytes are written, in packages store and extent.
//
// A second test does the same with versions and restored containers, in half as many rounds.
// A third reads the change feed, and copies from a host outside the process.
//
//	go test ./internal/test/crashtest -args -kills 100 -seed 7
package crashtest
