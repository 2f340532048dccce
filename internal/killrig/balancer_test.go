package killrig

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/freeport"
)

// A request that does not reach a node goes to another one with its body, also when no node is avoided yet.
func TestABodyReachesAnotherNode(t *testing.T) {
	t.Parallel()
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer node.Close()
	gone, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBalancer([]*Node{{Table: gone}, {Table: node.Listener.Addr().String()}},
		func(n *Node) string { return n.Table })
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	for range 4 {
		for _, target := range b.targets {
			target.down.Store(0)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+b.address(),
			strings.NewReader("content"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil || string(text) != "content" {
			t.Errorf("%s: %q, %v; %s", answer.Status, text, err, answer.Header.Get("x-ms-error-code"))
		}
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
