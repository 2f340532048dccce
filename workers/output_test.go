package workers

import (
	"context"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

func TestWithTraceParent(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for body, want := range map[string]string{
		`{"a":1}`:                `{"traceparent":"` + parent + `","a":1}`,
		` { "a" : 1 } `:          `{"traceparent":"` + parent + `","a" : 1 }`,
		`{}`:                     `{"traceparent":"` + parent + `"}`,
		`{"traceparent":"mine"}`: `{"traceparent":"mine"}`,
		`[1]`:                    `[1]`,
		`{"broken"`:              `{"broken"`,
		`text`:                   `text`,
		``:                       ``,
	} {
		got := withTraceParent([]byte(body), parent)
		if string(got) != want {
			t.Errorf("%q becomes %q, want %q", body, got, want)
		}
		if strings.Contains(want, parent) != (trigger.TraceIn(got) == parent) {
			t.Errorf("from %q the trace %q is read", got, trigger.TraceIn(got))
		}
		if string(withTraceParent([]byte(body), "")) != body {
			t.Errorf("%q changes without a trace", body)
		}
	}
	for _, wrong := range []string{"x", "01" + parent[2:], strings.ToUpper(parent), parent + "-x", `00-"`} {
		if ctx := WithTraceParent(context.Background(), wrong); TraceParent(ctx) != "" {
			t.Errorf("%q is taken for a trace", wrong)
		}
		if got := trigger.TraceIn([]byte(`{"traceparent":"` + wrong + `"}`)); got != "" {
			t.Errorf("%q is read", got)
		}
	}
}

func TestEnqueueMistakes(t *testing.T) {
	t.Parallel()
	if err := Enqueue(t.Context(), "q", "m"); err == nil || !strings.Contains(err.Error(), "not one of a handler") {
		t.Error(err)
	}
	s := &Storage{}
	for says, err := range map[string]error{
		"no queue endpoint": s.Enqueue(t.Context(), "q", "m"),
		"not within 0 to 7": s.Enqueue(t.Context(), "q", "m", After(-1)),
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
