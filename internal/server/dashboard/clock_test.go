package dashboard_test

import (
	"net/http"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard"
	"github.com/lazuli-storage/lazuli/internal/server/testclock"
)

// The page of the control shows the test clock and sets it forward; other values are refused. Without a test clock it
// says how to get one.
func TestTestClock(t *testing.T) {
	t.Parallel()
	clock := new(testclock.Clock)
	s := open(t, func(o *dashboard.Options) { o.Clock, o.Now = clock, clock.Now })
	s.shows("/ui/control", "The services have the time")
	s.hides("/ui/control", "ahead of the system")
	if to := s.post("/ui/control", "action", "clock", "forward", "26h"); to != "/ui/control?done=clock" {
		t.Errorf("answer leads to %s", to)
	}
	s.shows("/ui/control", "26 h 0 min ahead of the system")
	for _, text := range []string{"", "-1h", "soon", "1999-01-01T00:00:00Z"} {
		if status, _, _ := s.send("/ui/control", s.token(), "action", "clock", "forward",
			text); status != http.StatusBadRequest {
			t.Errorf("forward %q: %d, want 400", text, status)
		}
	}
	without := open(t)
	without.shows("/ui/control", "--test-clock")
	if status, _, _ := without.send("/ui/control", without.token(), "action", "clock", "forward",
		"1h"); status != http.StatusForbidden {
		t.Errorf("without a test clock: %d, want 403", status)
	}
}
