package gctuner

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	p := Pace{Least: 40 << 20, Share: .5}
	for _, tt := range []struct {
		name string
		live uint64
		want int
	}{
		{"nothing live", 0, 1000},
		{"4 MiB may grow by 40", 4 << 20, 1000},
		{"20 MiB may grow by 40", 20 << 20, 200},
		{"40 MiB may grow by 40", 40 << 20, 100},
		{"80 MiB may grow by 40, the share", 80 << 20, 50},
		{"1 GiB may grow by its share", 1 << 30, 50},
	} {
		if got := p.percent(tt.live); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

var held [][]byte

// The percentage follows the live heap, and the former one returns with stop.
func TestStartFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	former := debug.SetGCPercent(123)
	defer debug.SetGCPercent(former)
	stop := Pace{Least: 8 << 20, Share: .25}.Start()
	held = append(held, make([]byte, 64<<20))
	defer func() { held = nil }()
	percent := func() int { // without setting anything: the runner may do that at any moment
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	deadline := time.Now().Add(2 * time.Minute)
	for percent() != 25 && time.Now().Before(deadline) {
		runtime.GC()
	}
	if got := percent(); got != 25 {
		t.Errorf("with 64 MiB live: %d %%, want 25", got)
	}
	second := Pace{Least: 8 << 20, Share: 5}.Start()
	stop()
	stop()
	runtime.GC()
	if got := percent(); got != 25 {
		t.Errorf("with one of two users stopped: %d %%, want 25", got)
	}
	second()
	runtime.GC()
	if got := percent(); got != 123 {
		t.Errorf("after stop: %d %%, want 123", got)
	}
}

func TestOperatorDecides(t *testing.T) {
	t.Setenv("GOGC", "77")
	former := debug.SetGCPercent(77)
	defer debug.SetGCPercent(former)
	stop := Default.Start()
	defer stop()
	if got := debug.SetGCPercent(77); got != 77 {
		t.Errorf("GOGC=77 became %d", got)
	}
}
