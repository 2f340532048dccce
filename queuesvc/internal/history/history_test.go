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
	return []Held{{Body: "a", Handed: time.Now(), Until: time.Now().Add(Visibility)}}, nil
}

func (b broken) Delete(context.Context, Held) error {
	if b.defect == "dead" {
		return ErrDead
	}
	return nil
}

// Each broken promise is noticed.
func TestCheckNoticesDefects(t *testing.T) {
	for defect, want := range map[string]string{"lost": "lost", "double": "twice", "ghost": "after it was deleted", "dead": "twice", "idle": "nothing"} {
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
