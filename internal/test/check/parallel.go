package check

import (
	"flag"
	"runtime"
	"strconv"
)

// MoreParallel raises the number of parallel tests to n, unless the -parallel flag sets it. Call it in TestMain of a
// package whose tests mostly wait, for example for processes or leases: the default is the number of processors.
func MoreParallel(n int) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set(strconv.Itoa(max(n, runtime.GOMAXPROCS(0))))
	}
}
