package recent

import (
	"slices"
	"testing"
)

// What succeeds does not push out what failed, and no call is listed twice.
func TestCalls(t *testing.T) {
	t.Parallel()
	var c Calls[int]
	if all := c.All(); len(all) != 0 {
		t.Errorf("none: %v", all)
	}
	for n := 1; n <= 100; n++ {
		number := c.Add(n)
		if n%30 == 0 || n == 95 {
			c.Fail(number, n)
		}
	}
	want := []int{}
	for n := 100; n > 100-Kept; n-- {
		want = append(want, n)
	}
	want = append(want, 60, 30) // 95 and 90 are among the last
	if all := c.All(); !slices.Equal(all, want) {
		t.Errorf("%v, want %v", all, want)
	}
	for n := 101; n <= 200; n++ {
		c.Fail(c.Add(n), n)
	}
	if all := c.All(); len(all) != Kept || all[0] != 200 {
		t.Errorf("all failed: %v", all)
	}
	for n := 201; n <= 300; n++ {
		c.Add(n)
	}
	if all := c.All(); len(all) != 2*Kept || all[Kept-1] != 281 || all[Kept] != 200 || all[2*Kept-1] != 181 {
		t.Errorf("then all succeeded: %v", all)
	}
}
