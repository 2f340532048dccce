package check

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
)

// MoreParallel raises the number of parallel tests to n, unless the -parallel flag sets it. Call it in TestMain of a
// package whose tests mostly wait, for example for processes or leases: the default is the number of processors. Memory
// is collected less often, unless GOGC says how often: of heaps of a few MiB, that was a sixth of the processor time.
func MoreParallel(n int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set(strconv.Itoa(max(n, runtime.GOMAXPROCS(0))))
	}
}
