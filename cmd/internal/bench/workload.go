package bench

// Workload is one kind of load.
type Workload struct {
	Name  string
	About string
	// MaxConns caps the number of connections where more would only measure memory bandwidth; 0 is no cap.
	MaxConns int
	// Items says how many Unit one operation handles, 0 when an operation is the only unit of interest.
	Items int
	Unit  string
	// Bytes is the payload that one operation moves, 0 when throughput in MiB/s says nothing.
	Bytes int64
	// Extra workloads run only when asked for by their full name.
	Extra bool

	// prepare creates and loads the data that the workload needs on a target. It is not called for the floor.
	prepare func(*env) error
	// worker makes the i-th worker, which keeps its state from slice to slice.
	worker func(e *env, i int) worker
	// between, when set, restores the starting conditions before each slice, outside the measured time.
	between func(*env) error
}

// worker does one operation at a time.
type worker interface {
	// do performs one operation. errDone ends the slice for this worker without counting an operation.
	do(*Conn) error
}
