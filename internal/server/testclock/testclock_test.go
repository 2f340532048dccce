package testclock

import (
	"errors"
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	t.Parallel()
	var c Clock
	for _, tc := range []struct {
		text   string
		err    error
		offset time.Duration
	}{
		{"1h30m", nil, 90 * time.Minute},
		{"-1h", ErrRange, 90 * time.Minute},
		{"0s", ErrRange, 90 * time.Minute},
		{"876001h", ErrRange, 90 * time.Minute},
		{"876000h", ErrRange, 90 * time.Minute}, // with what it is ahead already
		{"2000-01-01T00:00:00Z", ErrRange, 90 * time.Minute},
		{"30m", nil, 2 * time.Hour},
	} {
		if err := c.Change(tc.text); !errors.Is(err, tc.err) {
			t.Errorf("%s: %v, want %v", tc.text, err, tc.err)
		}
		if got := c.Offset(); got != tc.offset {
			t.Errorf("after %s the clock is ahead by %v, want %v", tc.text, got, tc.offset)
		}
	}
	if err := c.Change("tomorrow"); err == nil {
		t.Error("tomorrow is a time")
	}
	to := time.Now().Add(5 * time.Hour).Truncate(time.Second).Add(time.Second)
	if err := c.Change(to.Format(time.RFC3339)); err != nil || c.Now().Before(to) || c.Now().After(to.Add(time.Minute)) {
		t.Errorf("set to %v: %v, %v", to, c.Now(), err)
	}
}
