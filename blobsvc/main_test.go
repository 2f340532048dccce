package blobsvc_test

import (
	"flag"
	"os"
	"testing"
)

// modelChecks is the number of random sequences that of operations a comparison with a model tries, unless the flag
// sets it.
const modelChecks = "40"

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", modelChecks)
	flag.Parse()
	os.Exit(m.Run())
}
