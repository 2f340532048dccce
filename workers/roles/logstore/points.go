package logstore

import "github.com/lazuli-storage/lazuli/internal/fault"

// The moments before and after the effect of the role. The message's deletion is the runtime's, and has points there.
var (
	pointBeforeWrite = fault.Declare("log-storage/before-write")
	pointAfterWrite  = fault.Declare("log-storage/after-write")
)

// Points returns the role's fault points in the order in which a message passes them, those of its runtime included.
func Points() []string {
	return []string{string(pointBeforeWrite), string(pointAfterWrite), "workers/before-delete-message",
		"workers/after-delete-message"}
}
