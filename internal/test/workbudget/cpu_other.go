//go:build !linux

package workbudget

import "time"

// processorTime returns 0 because the time of one thread is not available: only memory is checked on this system.
func processorTime() time.Duration { return 0 }
