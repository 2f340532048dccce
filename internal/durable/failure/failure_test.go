package failure_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/durable/failure"
)

func TestOf(t *testing.T) {
	t.Parallel()
	declined := &failure.Details{Type: "Declined", Message: "no money", Stack: "at Bank", NonRetriable: true}
	for name, test := range map[string]struct {
		err  error
		want *failure.Details
	}{
		"plain": {errors.New("broken"), &failure.Details{Type: "Error", Message: "broken"}},
		"wrapped": {fmt.Errorf("pay: %w", errors.New("broken")),
			&failure.Details{Type: "Error", Message: "pay: broken"}},
		"details":          {declined, declined},
		"without own text": {fmt.Errorf("%w", declined), declined},
		"with own text": {fmt.Errorf("pay: %w", declined), &failure.Details{Type: "Error", Message: "pay: no money",
			Inner: declined, NonRetriable: true}},
	} {
		if got := failure.Of(test.err); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestFromException(t *testing.T) {
	t.Parallel()
	text := `{"errorType":"System.ApplicationException","errorMessage":"fails: deep","stackTrace":"at A","innerFailure":` +
		`{"errorType":"B","errorMessage":"below","stackTrace":null,"innerFailure":null}}`
	want := &failure.Details{Type: "System.ApplicationException", Message: "fails: deep", Stack: "at A",
		Inner: &failure.Details{Type: "B", Message: "below"}}
	if got := failure.FromException("DurableSerializationException", text, "at Worker"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, text := range []string{"", "{", `{"errorType":"A"}`, `{"errorMessage":"a"}`, "[]", "plain"} {
		want := &failure.Details{Type: "T", Message: text, Stack: "S"}
		if got := failure.FromException("T", text, "S"); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestTyped(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ kind, message, wantKind, want string }{
		{"", "ValueError: bad", "ValueError", "bad"},
		{"", "Microsoft.Net.Ex+Inner: bad: worse", "Microsoft.Net.Ex+Inner", "bad: worse"},
		{"System.Ex", "Ex: bad", "System.Ex", "bad"},
		{"System.Ex", "order: bad", "System.Ex", "order: bad"},
		{"", "it is bad: worse", "", "it is bad: worse"},
		{"", "bad", "", "bad"},
	} {
		got := failure.Typed(&failure.Details{Type: test.kind, Message: test.message})
		if got.Type != test.wantKind || got.Message != test.want {
			t.Errorf("%q %q: %+v", test.kind, test.message, got)
		}
	}
}
