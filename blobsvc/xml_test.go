package blobsvc

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// What a page remembers of the item before does not change what it writes.
func TestItemsThatAreAlike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"A", "B", "Cache-Control"})
		values := rapid.SampledFrom([]string{"", "x", "y", "a<b",
			"a value that is longer than what is remembered: 0123456789 0123456789 0123456789"})
		var want page
		got := newPage()
		defer got.free()
		got.b = got.b[:0]
		for range rapid.IntRange(1, 300).Draw(t, "items") {
			got.item()
			for range rapid.IntRange(0, 4).Draw(t, "elements") {
				name := names.Draw(t, "name")
				if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
					at := ticks.Ticks(rapid.Int64Range(0, 3*ticks.Second).Draw(t, "time"))
					got.time("T"+name, at)
					want.b = append(want.b, "<T"+name+">"+at.RFC1123()+"</T"+name+">"...)
					continue
				}
				value := values.Draw(t, "value")
				got.text(name, value)
				want.once(name, value)
			}
		}
		if string(got.b) != string(want.b) {
			t.Fatalf("wrote %s, want %s", got.b, want.b)
		}
	})
}

// The prefix of a text that is copied whole has nothing to escape, and ends at most seven characters before what has.
func TestPlainPrefix(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOfN(rapid.OneOf(rapid.ByteRange('a', 'c'), rapid.Byte()), 0, 40).Draw(t, "s"))
		if rapid.Bool().Draw(t, "names") {
			s = rapid.StringMatching(`[a-z/0-9 ]{0,40}[<>&"\x00-\x1fé]?[a-z]{0,9}`).Draw(t, "name")
		}
		first := 0
		for first < len(s) && s[first] >= ' ' && s[first] < 0x80 && s[first] != '<' && s[first] != '>' && s[first] != '&' &&
			s[first] != '"' {
			first++
		}
		if n := plainPrefix(s); n > first || n < first/8*8 {
			t.Fatalf("%d of %q, whose first special character is %d", n, s, first)
		}
	})
}
