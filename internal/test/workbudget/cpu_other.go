//go:build !linux

package workbudget

import "time"

// processorTime is 0 where the time of one thread is not known: only memory is checked there.
func processorTime() time.Duration { return 0 }
