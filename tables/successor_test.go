package tables

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// The range of StartsWith has the texts that begin with the prefix, and no others, in the order of UTF-16 code units,
// also at the edges of surrogates.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	edges := rapid.SampledFrom([]rune{'a', 'b', 0, 0xD7FE, 0xD7FF, 0xE000, 0xE001, 0xFFFE, 0xFFFF, 0x10000, 0x10001,
		0x103FF, 0x10400, 0x10FFFE, 0x10FFFF})
	text := rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(edges, 0, 3).Draw(t, "runes")) })
	less := func(a, b string) bool {
		return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b))) < 0
	}
	rapid.Check(t, func(t *rapid.T) {
		prefix, s := text.Draw(t, "prefix"), text.Draw(t, "text")
		if rapid.Bool().Draw(t, "begins") {
			s = prefix + s
		}
		end, ok := successor(prefix)
		inRange := !less(s, prefix) && (!ok || less(s, end))
		if !ok && strings.Trim(prefix, "\uFFFF") != "" {
			t.Fatalf("%+q has no successor", prefix)
		}
		if inRange != strings.HasPrefix(s, prefix) {
			t.Fatalf("%+q in the range from %+q to %+q: %v", s, prefix, end, inRange)
		}
	})
}
