package workers

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine of the runtime may outlive the tests. The idle connections of the process's HTTP transport may.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}
