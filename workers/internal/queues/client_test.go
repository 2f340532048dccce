package queues

import (
	"testing"
	"time"
)

// A copy lives as long as the message would have, at least a second, or without a limit.
func TestTimeToLive(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for left, want := range map[time.Duration]time.Duration{
		time.Hour: time.Hour, time.Millisecond: time.Second, -time.Hour: time.Second,
		365 * 24 * time.Hour: 365 * 24 * time.Hour, 365*24*time.Hour + 1: -1,
	} {
		if got := (Message{Expires: now.Add(left)}).TimeToLive(now); got != want {
			t.Errorf("a message with %v left: %v, want %v", left, got, want)
		}
	}
}
