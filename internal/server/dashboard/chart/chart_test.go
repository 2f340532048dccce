package chart

import "testing"

func TestNiceTop(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]int64{0: 1, 1: 1, 3: 4, 7: 8, 9: 10, 10: 10, 11: 20, 55: 60, 81: 100, 101: 200} {
		if got := niceTop(n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
}
