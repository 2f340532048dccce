package bboltpage

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // heaps of a few MiB, of which bbolt allocates many: collecting them was a third of the work
	os.Exit(m.Run())
}
