package server

import (
	"errors"
	"net/http"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// A call whose answer is cut has an unknown outcome if it was to change something, and none at all if not.
func TestCallWhoseAnswerIsCut(t *testing.T) {
	t.Parallel()
	for part, text := range map[string]string{"nothing": "", "a part": `{"a`, "a part that is a document": "1"} {
		o := &services{operations: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if text != "" {
				_, _ = w.Write([]byte(text))
			}
			panic(http.ErrAbortHandler)
		})}
		o.having.Store(newHaving([]*shard{{}}))
		for method, want := range map[string]error{http.MethodGet: store.ErrUnavailable, http.MethodPut: store.ErrUnknown,
			http.MethodPost: store.ErrUnknown, http.MethodDelete: store.ErrUnknown} {
			var answer any
			err := o.call(t.Context(), 0, method, "anything", nil, nil, &answer)
			if !errors.Is(err, want) || errors.Is(err, store.ErrUnknown) != (want == store.ErrUnknown) {
				t.Errorf("%s of an answer: %s: error %v, want %v", part, method, err, want)
			}
		}
	}
}
