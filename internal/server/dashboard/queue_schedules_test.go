package dashboard_test

import (
	"net/http"
	"strings"
	"testing"
)

// Schedules are created, paused, resumed and deleted by the forms of their page; wrong values are refused with a reason
// and change nothing.
func TestQueueSchedules(t *testing.T) {
	t.Parallel()
	s := open(t)
	const page = base + "schedules"
	create := func(pairs ...string) []string {
		return append([]string{"action", "create", "name", "nightly", "expression", "0 0 6 * * mon-fri", "queue", "reports",
			"zone", "Europe/Berlin", "catchup", "once", "body", `{"a": "<b>"}`}, pairs...)
	}
	if at := s.post(page, create()...); at != page+"?done=created" {
		t.Errorf("leads to %s", at)
	}
	s.shows(page, "nightly", "0 0 6 * * mon-fri", "Europe/Berlin", "reports", "&lt;b&gt;")
	s.hides(page, "<b>")
	for action, done := range map[string]string{"pause": "paused", "resume": "resumed"} {
		if at := s.post(page, "action", action, "chosen", "nightly"); at != page+"?done="+done {
			t.Errorf("%s leads to %s", action, at)
		}
	}
	for _, c := range []struct {
		status int
		says   string
		form   []string
	}{
		{http.StatusConflict, "There is a schedule of that name", create()},
		{http.StatusBadRequest, "is not a value from", []string{"action", "create", "name", "other",
			"expression", "61 * * * * *", "queue", "reports", "catchup", "once"}},
		{http.StatusBadRequest, "the queue name", []string{"action", "create", "name", "other",
			"expression", "0 * * * * *", "queue", "Bad_Name", "catchup", "once"}},
		{http.StatusBadRequest, "Nothing is chosen", []string{"action", "pause"}},
		{http.StatusNotFound, "The schedule does not exist", []string{"action", "delete", "chosen", "absent"}},
		{http.StatusBadRequest, "", []string{"action", "run", "chosen", "nightly"}},
	} {
		status, body, _ := s.send(page, s.token(), c.form...)
		if status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%q: %d %s", c.form, status, body)
		}
	}
	s.hides(page, ">other<")
	s.post(page, "action", "delete", "chosen", "nightly")
	s.hides(page, "nightly")
}
