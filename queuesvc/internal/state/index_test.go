package state

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// check fails where the index contradicts itself.
func (x *index) check(t interface{ Fatalf(string, ...any) }) {
	for pos, h := range x.heap {
		if x.entries.at(h).pos != int32(pos) {
			t.Fatalf("entry at %d of the heap believes to be at %d", pos, x.entries.at(h).pos)
		}
		if pos > 0 && x.less(int32(pos), int32((pos-1)/2)) {
			t.Fatalf("entry at %d of the heap is before its parent", pos)
		}
	}
	live, vacant := 0, 0
	for s, h := range x.slots() {
		e := x.entries.at(h)
		if got := x.bySlot.slot(e.at); got != s {
			t.Fatalf("entry of slot %d is that of %d", s, got)
		}
		if e.holds() {
			live++
		}
		if e.pos == free {
			vacant++
		}
	}
	if live != x.live || vacant != x.free {
		t.Fatalf("counts %d messages and %d free slots, has %d and %d", x.live, x.free, live, vacant)
	}
	unused := 0
	for h := x.unused; h != none; h = x.entries.at(h).pos {
		if x.entries.at(h).seq() != 0 {
			t.Fatalf("an unused entry has a record")
		}
		unused++
	}
	if unused+x.bySlot.count != int(x.entries.count) {
		t.Fatalf("%d entries are in use and %d not, of %d", x.bySlot.count, unused, x.entries.count)
	}
}

// modelSlot is a slot in the model.
type modelSlot struct {
	slot                   slot
	seq                    uint64
	visible, expires       int64
	size                   int
	claimed, taken, vacant bool
	aside                  bool
}

func (k *modelSlot) holds() bool { return !k.vacant && !k.taken && !k.aside }

// TestIndexModel compares the index with a plain map.
func TestIndexModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := newIndex()
		model := make(map[slot]*modelSlot)
		var seq uint64
		var now int64 = 1000
		anySlot := rapid.Custom(func(t *rapid.T) slot { return slot(rapid.IntRange(1, 12).Draw(t, "slot") * 21) }) // on several pages
		nextSeq := func(t *rapid.T) uint64 {
			seq += 2
			if rapid.Bool().Draw(t, "late") && seq > 5 {
				return seq - 5 // odd: no two records have the same number
			}
			return seq
		}
		expired := func(k *modelSlot) bool { return k.expires != Never && k.expires <= now }
		available := func() []*modelSlot {
			var list []*modelSlot
			for _, k := range model {
				if k.holds() && !k.claimed && k.visible <= now && !expired(k) {
					list = append(list, k)
				}
			}
			slices.SortFunc(list, func(a, b *modelSlot) int {
				return cmp.Or(cmp.Compare(a.visible, b.visible), cmp.Compare(a.seq, b.seq))
			})
			return list
		}
		t.Repeat(map[string]func(*rapid.T){
			"apply": func(t *rapid.T) {
				s, at := anySlot.Draw(t, "which"), nextSeq(t)
				st := State{NextVisible: now + rapid.Int64Range(-50, 50).Draw(t, "visible"), Expires: Never}
				if rapid.Bool().Draw(t, "expires") {
					st.Expires = now + rapid.Int64Range(-50, 200).Draw(t, "expiry")
				}
				size := rapid.IntRange(0, 70000).Draw(t, "size")
				x.apply(s, at, size, &st)
				if k := model[s]; k == nil || k.seq < at {
					model[s] = &modelSlot{slot: s, seq: at, size: size, visible: st.NextVisible, expires: st.Expires}
				}
			},
			"apply free": func(t *rapid.T) {
				s, at := anySlot.Draw(t, "which"), nextSeq(t)
				x.applyFree(s, at)
				if k := model[s]; k == nil || k.seq < at {
					model[s] = &modelSlot{slot: s, seq: at, vacant: true}
				}
			},
			"forget": func(t *rapid.T) {
				s := anySlot.Draw(t, "which")
				x.forget(s, seq)
				delete(model, s)
			},
			"take": func(t *rapid.T) {
				vacant := 0
				for _, k := range model {
					if k.vacant {
						vacant++
					}
				}
				s, at, ok := x.take()
				if ok != (vacant > 0) {
					t.Fatalf("took %d, %v, of %d free slots", s, ok, vacant)
				}
				if ok {
					k := model[s]
					if k == nil || !k.vacant || k.seq != at {
						t.Fatalf("took %d at %d, which is %+v", s, at, k)
					}
					k.vacant, k.taken = false, true
				}
			},
			"give back": func(t *rapid.T) {
				s := anySlot.Draw(t, "which")
				x.giveBack(s)
				if k := model[s]; k != nil && k.taken {
					k.vacant, k.taken = true, false
				}
			},
			"claim": func(t *rapid.T) {
				list := available()
				e, ok := x.claim(now)
				if ok != (len(list) > 0) {
					t.Fatalf("claimed %v, %v; want one of %v", e, ok, list)
				}
				for s, k := range model { // claim vacates the expired that it meets
					if k.holds() && !k.claimed && expired(k) && x.get(s) == nil {
						k.vacant = true
					}
				}
				if ok {
					if e.slot != list[0].slot || e.seq != list[0].seq {
						t.Fatalf("claimed %v, want %v", e, list[0])
					}
					model[e.slot].claimed = true
				}
			},
			"restore": func(t *rapid.T) {
				s := anySlot.Draw(t, "which")
				if k := model[s]; k != nil {
					x.restore(s, k.seq)
					k.claimed = k.claimed && !k.holds()
				}
			},
			"count the visible": func(t *rapid.T) {
				visible := 0
				for _, k := range model {
					if k.holds() && !k.claimed && k.visible <= now {
						visible++
					}
				}
				limit := rapid.IntRange(1, 12).Draw(t, "limit")
				if got := x.visible(now, limit); got != min(visible, limit) {
					t.Fatalf("counts %d visible messages, want %d", got, min(visible, limit))
				}
			},
			"peek": func(t *rapid.T) {
				n := rapid.IntRange(1, 5).Draw(t, "n")
				list := available()
				got := x.peek(n, now, now)
				if len(got) != min(n, len(list)) {
					t.Fatalf("sees %d, want %d", len(got), min(n, len(list)))
				}
				for i, e := range got {
					if e.slot != list[i].slot {
						t.Fatalf("sees %v at %d, want %v", e, i, list[i])
					}
				}
			},
			"clear": func(t *rapid.T) {
				at := seq - min(seq, rapid.Uint64Range(0, 5).Draw(t, "before"))
				x.clear(at)
				for s, k := range model {
					if k.seq < at {
						delete(model, s)
					}
				}
			},
			"void": func(t *rapid.T) {
				at := seq - min(seq, rapid.Uint64Range(0, 5).Draw(t, "before"))
				x.void(at)
				for _, k := range model {
					if k.seq < at && (k.holds() || k.aside) {
						k.vacant, k.claimed, k.aside = true, false, false
					}
				}
			},
			"shrink": func(*rapid.T) { x.shrink() },
			"set aside": func(t *rapid.T) {
				s, at := anySlot.Draw(t, "which"), nextSeq(t)
				x.setAside(s, at)
				if k := model[s]; k == nil || k.seq < at {
					model[s] = &modelSlot{slot: s, seq: at, aside: true}
				}
			},
			"sweep": func(t *rapid.T) {
				x.nextSweep = min(x.nextSweep, now) // as if the pause were over
				x.sweep(now, 0)
				for _, k := range model {
					if k.holds() && expired(k) {
						k.vacant, k.claimed = true, false
					}
				}
			},
			"wait": func(t *rapid.T) { now += rapid.Int64Range(0, 60).Draw(t, "time") },
			"": func(t *rapid.T) {
				x.check(t)
				var live, apart int
				var bytes int64
				var oldest, newest uint64
				for _, k := range model {
					newest = max(newest, k.seq)
					if k.aside {
						apart++
					}
					if k.holds() {
						live++
						bytes += int64((k.size + sizeUnit - 1) / sizeUnit * sizeUnit)
					}
					if k.holds() || k.aside {
						if oldest == 0 || k.seq < oldest {
							oldest = k.seq
						}
					}
				}
				if x.bytes != bytes || x.aside != apart {
					t.Fatalf("knows %d bytes and %d messages set aside, want %d and %d", x.bytes, x.aside, bytes, apart)
				}
				if gotOldest, gotNewest := x.lowest(); x.live != live || gotOldest != oldest || gotNewest != newest {
					t.Fatalf("knows %d messages in records %d to %d, want %d in %d to %d", x.live, gotOldest, gotNewest, live, oldest, newest)
				}
			},
		})
	})
}

// slots is all slots with their handles.
func (x *index) slots() map[slot]int32 {
	all := make(map[slot]int32)
	for high, n := range x.bySlot.numbers {
		page := x.bySlot.pages[n]
		used := int32(0)
		for low, h := range page.handles {
			if h != 0 {
				all[high*slotsPerPage+slot(low)] = h - 1
				used++
			}
		}
		if used != page.used || used == 0 || page.slots != high {
			panic("a page of slots is counted wrongly")
		}
	}
	if len(all) != x.bySlot.count || len(x.bySlot.numbers)+len(x.bySlot.unused) != len(x.bySlot.pages) {
		panic("the slots are counted wrongly")
	}
	return all
}
