package longpoll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBoard()
		var value atomic.Bool
		looks := 0
		look := func() (bool, error) { looks++; return value.Load(), nil }
		wait := func(ctx context.Context, next func() time.Duration) (bool, time.Duration) {
			began := time.Now()
			ok, err := b.Wait(ctx, "k", 10*time.Second, next, look)
			if err != nil {
				t.Fatal(err)
			}
			return ok, time.Since(began)
		}
		if ok, took := wait(t.Context(), nil); ok || took != 10*time.Second || looks != 1 {
			t.Errorf("nothing changed: %v after %v and %d looks", ok, took, looks)
		}
		go func() {
			time.Sleep(time.Second)
			b.Touch("other")
			time.Sleep(time.Second)
			b.Touch("k") // without an effect
			time.Sleep(time.Second)
			value.Store(true)
			b.Touch("k")
		}()
		looks = 0
		if ok, took := wait(t.Context(), nil); !ok || took != 3*time.Second || looks != 3 {
			t.Errorf("touched: %v after %v and %d looks", ok, took, looks)
		}
		if ok, took := wait(t.Context(), nil); !ok || took != 0 {
			t.Errorf("true from the start: %v after %v", ok, took)
		}
		value.Store(false)
		go func() { time.Sleep(time.Second); value.Store(true) }()
		if ok, took := wait(t.Context(), func() time.Duration { return 1500 * time.Millisecond }); !ok ||
			took != 1500*time.Millisecond {
			t.Errorf("by itself: %v after %v", ok, took)
		}
		value.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if ok, took := wait(ctx, nil); ok || took != time.Second {
			t.Errorf("cancelled: %v after %v", ok, took)
		}
		go func() { time.Sleep(time.Second); b.Close(); b.Close() }()
		if ok, took := wait(t.Context(), nil); ok || took != time.Second {
			t.Errorf("closed: %v after %v", ok, took)
		}
		if len(b.waiting) != 0 {
			t.Error("keys are left behind")
		}
		boom := errors.New("boom")
		if _, err := b.Wait(t.Context(), "k", time.Second, nil, func() (bool, error) { return false, boom }); err != boom {
			t.Error(err)
		}
	})
	var none *Board
	none.Touch("k")
	none.Close()
}

func TestFeed(t *testing.T) {
	t.Parallel()
	f := NewFeed(NewBoard())
	f.Add("c", "before anybody asked")
	all := func(string) bool { return true }
	start := f.Position()
	for _, name := range []string{"a", "b", "a", "c"} {
		f.Add("c", name)
		f.Add("other", name)
	}
	names, at, known := f.After(start, "c", 2, all)
	if !known || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("%v, %v", names, known)
	}
	if names, at, known = f.After(at, "c", 2, all); !known || !slices.Equal(names, []string{"c"}) {
		t.Errorf("%v, %v", names, known)
	}
	if names, _, known = f.After(at, "c", 2, all); !known || len(names) != 0 {
		t.Errorf("%v, %v", names, known)
	}
	if names, _, _ = f.After(start, "c", 9, func(name string) bool { return name > "a" }); !slices.Equal(names,
		[]string{"b", "c"}) {
		t.Error(names)
	}
	for _, position := range []string{"", "x", "x-1", start + "zzz", NewFeed(nil).Position()} {
		if _, at, known := f.After(position, "c", 9, all); known || at != f.Position() {
			t.Errorf("position %q is known", position)
		}
	}
	for i := range feedSize - 8 {
		f.Add("c", fmt.Sprint(i))
	}
	if names, _, known := f.After(start, "c", 3, all); !known || names[0] != "a" {
		t.Errorf("a full feed has forgotten its oldest: %v, %v", names, known)
	}
	f.Add("c", "one too many")
	if _, _, known := f.After(start, "c", 3, all); known {
		t.Error("what was forgotten is known")
	}
}

func TestParseWait(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"": 0, "0": 0, "-1": 0, "x": 0, "1": time.Second, "50": MaxWait,
		"51": MaxWait, "99999999999999999999": 0} {
		if got, ok := ParseWait(text); got != want || ok != (want > 0) {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
}
