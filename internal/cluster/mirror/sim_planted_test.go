package mirror

import (
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/simulate"
)

// TestPlantedFaults proves that the simulation finds faults of the kinds that it looks for, each within 1,000 seeds.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	simulate.PlantedFaults(t, plantedFaults, func(file string) bool { return strings.HasPrefix(file, "sim_") },
		"-test.run=^TestSimulation$", "-sim.seeds=1000", "-sim.minimise=false")
}

var plantedFaults = []simulate.Planted{
	{Name: "the epoch is ignored", File: "put.go",
		Old: `if err != nil || at.epoch != 0 && at.epoch != epoch {`,
		New: `if err != nil || at.epoch != 0 && at.epoch != epoch && !planted("the epoch is ignored") {`},
	{Name: "content is acknowledged before a majority has it", File: "mirror.go",
		Old: `return m.config.Voters() / 2 }`,
		New: `
	if planted("content is acknowledged before a majority has it") {
		return 0
	}
	return m.config.Voters() / 2
}`},
	{Name: "an earlier attempt counts", File: "put.go",
		Old: `if at := &w.peers[s.peer]; at.attempt == s.attempt {`,
		New: `if at := &w.peers[s.peer]; at.attempt == s.attempt || planted("an earlier attempt counts") {`},
	{Name: "the answer does not wait for the sync", File: "put.go",
		Old: `if err != nil || len(p.syncs) == 0 {`,
		New: `if err != nil || len(p.syncs) == 0 || planted("the answer does not wait for the sync") {`},
	{Name: "an error of a node is ignored", File: "put.go",
		Old: `	if s != nil {
		s.to.release`,
		New: `	if planted("an error of a node is ignored") {
		err = nil
	}
	if s != nil {
		s.to.release`},
	{Name: "a node is complete before it lacks nothing", File: "group.go",
		Old: `		if n = count(); n == 0 ||`,
		New: `		if planted("a node is complete before it lacks nothing") {
			return 0
		}
		if n = count(); n == 0 ||`},
	{Name: "a host leaves before the new one is complete", File: "sim_hosts_test.go",
		Old: `{ return len(h.group.Next) > 0 }`,
		New: `{
	return len(h.group.Next) > 0 || planted("a host leaves before the new one is complete")
}`},
	{Name: "a host leaves before the new one has copied the rest", File: "sim_hosts_test.go",
		Old: `{ return n.ready == h.group.Version }`,
		New: `{
	return n.ready == h.group.Version || planted("a host leaves before the new one is complete") ||
		planted("a host leaves before the new one has copied the rest")
}`},
	{Name: "content of an older group counts", File: "group.go",
		Old: `for m.held.stale.Load() {`,
		New: `for m.held.stale.Load() && !planted("content of an older group counts") {`},
	{Name: "no majority of the nodes after the move is needed", File: "group.go",
		Old: `if len(g.Next) == 0 {`,
		New: `if len(g.Next) == 0 || planted("no majority of the nodes after the move is needed") {`},
	{Name: "answers to an earlier process count", File: "mirror.go",
		Old: `	m.token = m.random()`,
		New: `	if !planted("answers to an earlier process count") {
		m.token = m.random()
	}`},
}
