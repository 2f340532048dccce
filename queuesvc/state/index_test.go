package state

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// check fails where the index contradicts itself.
func (x *index) check(t interface{ Fatalf(string, ...any) }) {
	for pos, slot := range x.heap {
		if x.entries[slot].pos != int32(pos) {
			t.Fatalf("entry at %d of the heap believes to be at %d", pos, x.entries[slot].pos)
		}
		if pos > 0 && x.less(int32(pos), int32((pos-1)/2)) {
			t.Fatalf("entry at %d of the heap is before its parent", pos)
		}
	}
	for id, slot := range x.byID {
		if x.entries[slot].id != id {
			t.Fatalf("entry of %s is that of %s", id, x.entries[slot].id)
		}
	}
	free := 0
	for slot := x.free; slot != none; slot = x.entries[slot].pos {
		free++
	}
	if free+len(x.byID) != len(x.entries) {
		t.Fatalf("%d entries are in use and %d free, of %d", len(x.byID), free, len(x.entries))
	}
}

// TestIndexModel compares the index with a plain map.
func TestIndexModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newIndex()
		type known struct {
			entry
			claimed bool
		}
		model := make(map[ID]*known)
		var seq uint64
		var now int64 = 1000
		anyID := rapid.Custom(func(t *rapid.T) ID { return ID{byte(rapid.IntRange(0, 12).Draw(t, "id"))} })
		available := func() []known {
			var list []known
			for _, k := range model {
				if !k.claimed && k.visible <= now && (k.expires == Never || k.expires > now) {
					list = append(list, *k)
				}
			}
			slices.SortFunc(list, func(a, b known) int {
				return cmp.Or(cmp.Compare(a.visible, b.visible), cmp.Compare(a.seq, b.seq))
			})
			return list
		}
		t.Repeat(map[string]func(*rapid.T){
			"apply": func(t *rapid.T) {
				id := anyID.Draw(t, "which")
				seq++
				at := seq
				if rapid.Bool().Draw(t, "late") && at > 3 {
					at -= 3
				}
				s := State{NextVisible: now + rapid.Int64Range(-50, 50).Draw(t, "visible"), Expires: Never}
				if rapid.Bool().Draw(t, "expires") {
					s.Expires = now + rapid.Int64Range(-50, 200).Draw(t, "expiry")
				}
				x.apply(id, at, &s)
				if k := model[id]; k == nil || k.seq < at {
					model[id] = &known{entry: entry{id: id, seq: at, visible: s.NextVisible, expires: s.Expires}}
				}
			},
			"remove": func(t *rapid.T) {
				id := anyID.Draw(t, "which")
				x.remove(id, seq)
				delete(model, id)
			},
			"claim": func(t *rapid.T) {
				list := available()
				e, ok := x.claim(now)
				if ok != (len(list) > 0) {
					t.Fatalf("claimed %v, %v; want one of %v", e, ok, list)
				}
				for id, k := range model { // claim drops the expired that it meets: those before what it returns
					if !k.claimed && k.expires != Never && k.expires <= now && x.get(id) == nil {
						delete(model, id)
					}
				}
				if ok {
					if e.id != list[0].id || e.seq != list[0].seq {
						t.Fatalf("claimed %v, want %v", e, list[0])
					}
					model[e.id].claimed = true
				}
			},
			"restore": func(t *rapid.T) {
				id := anyID.Draw(t, "which")
				if k := model[id]; k != nil {
					x.restore(id, k.seq)
					k.claimed = false
				}
			},
			"look": func(t *rapid.T) {
				n := rapid.IntRange(1, 5).Draw(t, "n")
				list := available()
				got := x.look(n, now)
				for i, e := range got {
					if e.id != list[i].id {
						t.Fatalf("sees %v at %d, want %v", e, i, list[i])
					}
				}
				if len(got) != min(n, len(list)) {
					t.Fatalf("sees %d, want %d", len(got), min(n, len(list)))
				}
			},
			"clear": func(t *rapid.T) {
				at := seq - min(seq, rapid.Uint64Range(0, 5).Draw(t, "before"))
				x.clear(at)
				for id, k := range model {
					if k.seq < at {
						delete(model, id)
					}
				}
			},
			"sweep": func(t *rapid.T) {
				x.nextSweep = min(x.nextSweep, now) // as if the pause were over
				x.sweep(now, 0)
				for id, k := range model {
					if k.expires != Never && k.expires <= now {
						delete(model, id)
					}
				}
			},
			"wait": func(t *rapid.T) { now += rapid.Int64Range(0, 60).Draw(t, "time") },
			"": func(t *rapid.T) {
				x.check(t)
				if x.len() != len(model) {
					t.Fatalf("knows %d messages, want %d", x.len(), len(model))
				}
			},
		})
	})
}
