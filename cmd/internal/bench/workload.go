package bench

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

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

// workloads is the catalogue, in the order of the report.
func workloads() []*Workload {
	return slices.Concat(tableWorkloads(), queueWorkloads(), blobWorkloads())
}

// Catalogue returns every workload with its description.
func Catalogue() []*Workload { return workloads() }

// selectWorkloads resolves names and globs; none selects all workloads. Neither selects Extra ones, only names do.
func selectWorkloads(patterns []string) ([]*Workload, error) {
	all := workloads()
	if len(patterns) == 0 {
		return slices.DeleteFunc(all, func(w *Workload) bool { return w.Extra }), nil
	}
	wanted := map[string]bool{}
	for _, p := range patterns {
		hit := false
		for _, w := range all {
			ok, err := path.Match(p, w.Name)
			if err != nil {
				return nil, fmt.Errorf("workload %q: %w", p, err)
			}
			if ok && (!w.Extra || p == w.Name) {
				wanted[w.Name], hit = true, true
			}
		}
		if !hit {
			return nil, fmt.Errorf("no workload matches %q; there are %s", p, strings.Join(names(all), ", "))
		}
	}
	return slices.DeleteFunc(all, func(w *Workload) bool { return !wanted[w.Name] }), nil
}

func names(ws []*Workload) []string {
	out := make([]string, len(ws))
	for i, w := range ws {
		out[i] = w.Name
	}
	return out
}
