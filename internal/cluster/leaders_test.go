package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Whichever nodes lead the logs, a log after the other gets another leader until the numbers of the nodes are equal
// within one, and then none does.
func TestNextLeader(t *testing.T) {
	for _, nodes := range []int{3, 4, 6, 9} {
		for place := range shardmap.Copies {
			list := leds(t, nodes, place)
			steps := 0
			for ; ; steps++ {
				stream, to := nextLeader(list)
				if stream == "" {
					break
				}
				i := slices.IndexFunc(list, func(at led) bool { return at.stream == stream })
				at := list[i]
				j := slices.Index(at.others, to)
				if j < 0 || steps > len(list) {
					t.Fatalf("%d nodes: %s is to lead %+v after %d steps", nodes, to, at, steps)
				}
				others := slices.Clone(at.others)
				others[j] = at.leader
				list[i] = led{stream, to, others}
			}
			leads := map[string]int{}
			for _, at := range list {
				leads[at.leader]++
				for _, name := range at.others {
					leads[name] += 0
				}
			}
			least, most := len(list), 0
			for _, n := range leads {
				least, most = min(least, n), max(most, n)
			}
			if most-least > 1 || steps == 0 {
				t.Errorf("%d nodes: %v after %d steps", nodes, leads, steps)
			}
		}
	}
	if stream, to := nextLeader(nil); stream != "" || to != "" {
		t.Errorf("without logs %s is to lead %q", to, stream)
	}
}

// leds are the logs of a table of hosts, each led by the node at a place of its list: the first of three nodes would
// lead all.
func leds(t *testing.T, nodes, place int) (list []led) {
	t.Helper()
	var places []shardmap.Place
	for i := range nodes {
		places = append(places, shardmap.Place{Node: fmt.Sprint("n", i)})
	}
	hosts := check.Must(shardmap.NewHosts(places, 4*nodes))(t)
	for n, names := range hosts.Shards {
		for log := range 3 {
			others := slices.Clone(names)
			at := place
			if n%2 == 0 {
				at = 0 // or the table's own turns would make the numbers equal
			}
			list = append(list, led{fmt.Sprintf("%d of shard %d", log, n), names[at], slices.Delete(others, at, at+1)})
		}
	}
	return list
}
