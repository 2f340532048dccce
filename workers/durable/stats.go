package durable

import "sync/atomic"

// stats count what a backend has done in this process.
type stats struct {
	checkpoints, conflicts, dropped, loads, activities, poisoned, received atomic.Int64
}
