package bench

// Target is one stack under measurement, or the floor.
type Target struct {
	Name  string
	Stack *Stack
	// PID is the server's process id on this machine, 0 when unknown: its memory is then not reported.
	PID int
	// samples maps classes of requests to the answers the floor holds for them; nil for a real server. It is replaced
	// between workloads, never while workers run.
	samples map[string]string
}

// sample returns the floor's answer for a class of requests, empty for a real server.
func (t *Target) sample(class string) string { return t.samples[class] }
