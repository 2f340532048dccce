package workers

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine of the runtime may outlive the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
