package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

// TestMemtableSnapshots inserts many versions of a few keys while readers look at old snapshots.
func TestMemtableSnapshots(t *testing.T) {
	t.Parallel()
	const keys, groups = 20, 500
	m := newMemtable(1)
	value := func(key, group int) string { return fmt.Sprint(key, "/", group) }
	// Group g writes key k if g is a multiple of k+1; every third time it deletes it.
	wantAt := func(key, group int) (string, bool) {
		group -= group % (key + 1)
		if group == 0 || group/(key+1)%3 == 0 {
			return "", false
		}
		return value(key, group), true
	}
	check := func(snapshot int) {
		l := &m.lists[0]
		e := l.seek(nil, uint64(snapshot))
		for k := range keys {
			key := fmt.Appendf(nil, "%02d", k)
			v, ok := wantAt(k, snapshot)
			got := m.get(0, key, uint64(snapshot))
			if (got != nil && !got.Deleted()) != ok || ok && string(got.Value) != v {
				t.Errorf("key %d at %d: %+v, want %q", k, snapshot, got, v)
				return
			}
			if snapshot < k+1 {
				continue
			}
			if e == nil || string(e.Key) != string(key) || e != got {
				t.Errorf("walk at %d: %+v, want %+v", snapshot, e, got)
				return
			}
			e = l.after(e, uint64(snapshot))
		}
		if e != nil {
			t.Errorf("walk at %d ends with %+v", snapshot, e)
		}
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				newest := int(m.visible.Load())
				if newest > 0 {
					check(1 + rand.IntN(newest))
					check(newest)
				}
				if newest == groups || t.Failed() {
					return
				}
			}
		})
	}
	for g := 1; g <= groups; g++ {
		for k := range keys {
			if g%(k+1) != 0 {
				continue
			}
			w := Write{Key: fmt.Appendf(nil, "%02d", k)}
			if g/(k+1)%3 != 0 {
				w.Value = []byte(value(k, g))
			}
			m.insert(0, w, uint64(g))
		}
		m.publish(uint64(g))
	}
	wg.Wait()
	if e := m.lists[0].seek([]byte("05"), math.MaxUint64); string(e.Key) != "05" || e.group != 498 {
		t.Errorf("the newest of key 5 is %+v", e)
	}
}
