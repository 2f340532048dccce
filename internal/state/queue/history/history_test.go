package history

import (
	"context"
	"strings"
	"testing"
	"time"
)

// recorder is a test that notes failures.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Error(args ...any)   { r.errors = append(r.errors, args[0].(string)) }
func (r *recorder) Errorf(f string, args ...any) {
	r.errors = append(r.errors, f)
}

// broken is a queue that breaks one promise.
type broken struct{ defect string }

func (b broken) Put(context.Context, string) error { return nil }

func (b broken) Get(context.Context, int) ([]Held, error) {
	asked := time.Now().Add(time.Millisecond) // later than anything before, whatever the clock's steps
	return []Held{{Body: "a", Asked: asked, Handed: asked, Until: asked.Add(time.Hour)}}, nil
}

func (b broken) Delete(context.Context, Held) error {
	if b.defect == "dead" {
		return ErrDead
	}
	return nil
}

// Each broken promise is noticed.
func TestCheckNoticesDefects(t *testing.T) {
	t.Parallel()
	for defect, want := range map[string]string{"lost": "lost", "double": "twice", "ghost": "after it was deleted",
		"dead": "twice", "idle": "no requests"} {
		h := New()
		q := broken{defect}
		ctx := t.Context()
		switch defect {
		case "lost":
			h.put(ctx, q, "b")
		case "double":
			h.consume(ctx, q, 1, 1)
			h.consume(ctx, q, 1, 1)
		case "ghost", "dead":
			h.put(ctx, q, "a")
			h.consume(ctx, q, 1, 0)
			h.consume(ctx, q, 1, 0)
		}
		r := &recorder{}
		h.Check(r)
		if !strings.Contains(strings.Join(r.errors, "\n"), want) {
			t.Errorf("%s: found %q", defect, r.errors)
		}
	}
}

// An answer that was on its way for longer than its message is hidden proves nothing.
func TestCheckForgivesLateAnswers(t *testing.T) {
	t.Parallel()
	h := New()
	asked := time.Now()
	h.put(t.Context(), broken{}, "a")
	h.consume(t.Context(), broken{}, 1, 0) // by another, who deletes it
	h.handedOut(Held{Body: "a", Asked: asked, Handed: time.Now().Add(time.Hour), Until: asked.Add(Visibility)})
	r := &recorder{}
	h.Check(r)
	if len(r.errors) > 0 {
		t.Errorf("found %q", r.errors)
	}
}
