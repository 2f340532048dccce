package store

import (
	"fmt"
	"testing"
)

// A filter knows every key that was added, and few others.
func TestKeyFilter(t *testing.T) {
	t.Parallel()
	var f keyFilter
	key := func(i int) []byte { return fmt.Append(nil, "partition\x00row", i) }
	if f.mayHave(0, key(0)) {
		t.Error("an empty filter has a key")
	}
	const n = 10_000
	for i := range n {
		f.add(i%3, key(i))
	}
	others := 0
	for i := range n {
		if !f.mayHave(i%3, key(i)) {
			t.Fatalf("key %d of bucket %d is missing", i, i%3)
		}
		if f.mayHave(i%3, key(n+i)) {
			others++
		}
		if f.mayHave(3, key(i)) {
			others++
		}
	}
	if others > n/10 {
		t.Errorf("%d of %d other keys count as its own", others, 2*n)
	}
}
