package timertrigger

import (
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/ncrontab"
)

func TestFirstRun(t *testing.T) {
	t.Parallel()
	schedule, err := ncrontab.Parse("0 0 * * * *")
	if err != nil {
		t.Fatal(err)
	}
	at := func(clock string) time.Time {
		v, err := time.Parse(time.DateTime, "2026-11-21 "+clock)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	// The clock of another process was a little ahead: what it has just run is not run again.
	status := lastRun{Last: at("05:00:00"), Next: at("06:00:00"), Expression: "0 0 * * * *"}
	if next, _ := firstRun(schedule, "0 0 * * * *", status, at("04:59:30")); !next.Equal(at("06:00:00")) {
		t.Errorf("after a run a little ahead of the clock: %v", next)
	}
	now := at("05:30:00")
	for name, c := range map[string]struct {
		status  lastRun
		want    time.Time
		pastDue bool
	}{
		"nothing known": {lastRun{}, at("06:00:00"), false},
		"up to date": {lastRun{Last: at("05:00:00"), Next: at("06:00:00"), Expression: "0 0 * * * *"},
			at("06:00:00"), false},
		"missed": {lastRun{Last: at("02:00:00"), Next: at("03:00:00"), Expression: "0 0 * * * *"},
			now, true},
		"missed, other schedule": {lastRun{Last: at("02:00:00"), Next: at("03:00:00"), Expression: "0 0 3 * * *"},
			at("06:00:00"), false},
		"missed, Azure's record":  {lastRun{Last: at("02:00:00"), Next: at("03:00:00")}, now, true},
		"other schedule, Azure's": {lastRun{Last: at("02:00:00"), Next: at("03:30:00")}, at("06:00:00"), false},
		"next is far, same schedule": {lastRun{Last: at("02:00:00"), Next: at("09:00:00"), Expression: "0 0 * * * *"},
			at("06:00:00"), false},
		"the clock was ahead": {lastRun{Last: at("22:00:00"), Next: at("23:00:00"), Expression: "0 0 * * * *"},
			at("06:00:00"), false},
	} {
		next, pastDue := firstRun(schedule, "0 0 * * * *", c.status, now)
		if !next.Equal(c.want) || pastDue != c.pastDue {
			t.Errorf("%s: %v, past due %v; want %v, %v", name, next, pastDue, c.want, c.pastDue)
		}
	}
}
