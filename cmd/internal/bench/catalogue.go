package bench

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

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
