package auth

import (
	"fmt"
	"testing"
	"time"
)

// Any number of unknown key IDs takes bounded memory.
func TestUnknownKeysAreForgotten(t *testing.T) {
	t.Parallel()
	k := &RemoteKeys{keys: KeySet{}, fetching: make(chan struct{})}
	for i := range 3 * maxUnknown {
		if _, done, _ := k.lookUp(t.Context(), fmt.Sprint(i), time.Unix(1e9, 0)); done == nil {
			t.Fatal("no fetch was shared")
		}
	}
	if n := len(k.unknown); n > maxUnknown {
		t.Errorf("%d key IDs are kept", n)
	}
}
