package check

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
)

// MoreParallel raises the number of parallel tests to n, unless the -parallel flag sets it. Call it in TestMain of a
// package whose tests mostly wait, for example for processes or leases: the default is the number of processors. It
// calls [CollectRarely].
func MoreParallel(n int) {
	CollectRarely()
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set(strconv.Itoa(max(n, runtime.GOMAXPROCS(0))))
	}
}

// CollectRarely lets the heap grow to five times of what is in use before memory is collected, unless GOGC says how
// often. Call it in TestMain of a package whose tests take long: of heaps of a few MiB, collecting was a sixth of the
// processor time.
func CollectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}
