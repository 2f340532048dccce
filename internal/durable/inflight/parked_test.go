package inflight

import (
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
)

// The log says once that work of a function is pending, after a while, and again after a longer one.
func TestPendingWorkIsSaid(t *testing.T) {
	t.Parallel()
	p := NewParking(nil)
	at := time.Unix(0, 0)
	r := &Received{id: "m"}
	for _, test := range []struct {
		after time.Duration
		name  string
		say   bool
	}{{0, "a", false}, {10 * time.Second, "a", false}, {30 * time.Second, "a", true}, {time.Minute, "a", false},
		{time.Minute, "b", true}, {11 * time.Minute, "a", true}} {
		now := at.Add(test.after)
		since, say := p.Add(Parked{Message: r, Kind: workkind.Orchestration, Name: test.name, Version: "", Instance: "i",
			Since: now, Until: now.Add(ParkLast)})
		if say != test.say || !since.Equal(at) {
			t.Errorf("after %v, %s: said %v, pending since %v", test.after, test.name, say, since)
		}
	}
}
