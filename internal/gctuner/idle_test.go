package gctuner

import (
	"slices"
	"testing"
)

// Memory goes back only where nothing happens for a while, and where there is some.
func TestIdler(t *testing.T) {
	const mib = 1 << 20
	burst := usage{allocated: 1000 * mib, live: 200 * mib, objects: 220 * mib, free: 10 * mib} // 30 MiB to gain
	for _, tt := range []struct {
		name  string
		work  []uint64 // MiB allocated before each look
		usage usage
		want  bool // at the last look
	}{
		{"idle for three samples", []uint64{500, 0, 0, 0}, burst, true},
		{"idle for two", []uint64{500, 0, 0}, burst, false},
		{"work in between", []uint64{0, 0, 1, 0}, burst, false},
		{"working", []uint64{5, 5, 5, 5}, burst, false},
		{"little to gain", []uint64{500, 0, 0, 0}, usage{live: 20 * mib, objects: 25 * mib, free: 10 * mib}, false},
		{"little for its size", []uint64{500, 0, 0, 0}, usage{live: 400 * mib, objects: 420 * mib, free: 10 * mib}, false},
		{"all free", []uint64{500, 0, 0, 0}, usage{live: 20 * mib, objects: 20 * mib, free: 16 * mib}, true},
		{"more found than there is", []uint64{500, 0, 0, 0}, usage{live: 20 * mib, objects: 10 * mib}, false},
	} {
		var i idler
		u, got := tt.usage, false
		for _, w := range tt.work {
			u.allocated += w * mib
			got, _ = i.sample(u)
		}
		if got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Pages of files go once each time that the process has become idle, whether memory is free or not.
func TestIdlerReleasesFilesOnce(t *testing.T) {
	for _, u := range []usage{{}, {live: 20 << 20, objects: 20 << 20, free: 16 << 20}} {
		var i idler
		for n, step := range []struct {
			work uint64
			want bool
		}{{500, false}, {0, false}, {0, false}, {0, true}, {0, false}, {0, false}, {0, false}, {0, false}, {2, false},
			{0, false}, {0, false}, {0, true}, {0, false}} {
			u.allocated += step.work << 20
			free, files := i.sample(u)
			if free {
				i.idle = 0
			}
			if files != step.want {
				t.Errorf("sample %d: %v", n, files)
			}
		}
	}
}

// What is registered is called until it is removed, and memory is returned if any of it has made some free.
func TestWhenIdle(t *testing.T) {
	var calls []string
	add := func(name string, freed bool) (remove func()) {
		return WhenIdle(func() bool { calls = append(calls, name); return freed })
	}
	removeA, removeB := add("a", true), add("b", false)
	if freed := runIdleWork(); !freed {
		t.Error("a has freed memory, which is not reported")
	}
	removeA()
	if freed := runIdleWork(); freed {
		t.Error("b has freed no memory, and some is reported")
	}
	removeB()
	runIdleWork()
	if want := []string{"a", "b", "b"}; !slices.Equal(calls, want) {
		t.Errorf("called %v, want %v", calls, want)
	}
}
