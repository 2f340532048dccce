package workers

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/ownserver"
)

// No goroutine of the runtime may outlive the tests. The idle connections of the process's HTTP transport may.
func TestMain(m *testing.M) {
	check.MoreParallel(8)
	goleak.VerifyTestMain(ownserver.Main{M: m},
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// openOwnStorage opens an account on the server of the package's tests, or the one that LAZULI_TEST_CONNECTION_STRING
// has, whose server may not be Lazuli.
func openOwnStorage(t *testing.T) (storage *Storage, isLazuli bool) {
	t.Helper()
	connection := os.Getenv("LAZULI_TEST_CONNECTION_STRING")
	if isLazuli = connection == ""; isLazuli {
		connection = ownserver.ConnectionString()
	}
	return check.Must(OpenStorage(connection))(t), isLazuli
}
