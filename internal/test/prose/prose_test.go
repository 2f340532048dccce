package prose

import (
	"slices"
	"strings"
	"testing"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	long := strings.TrimSpace(strings.Repeat("word ", 30)) // 149 characters
	first, second := long[:99], long[100:]
	for _, c := range []struct{ name, text, want string }{
		{"a paragraph", long + "\n", first + "\n" + second + "\n"},
		{"short lines are joined", "one\ntwo\n\nthree\n", "one two\n\nthree\n"},
		{"an item", "- " + long + "\n", "- " + long[:94] + "\n  " + long[95:] + "\n"},
		{"a number", "1. one\n   two\n2. three\n", "1. one two\n2. three\n"},
		{"a paragraph of an item", "- one\n\n  two\n  three\n", "- one\n\n  two three\n"},
		{"code of an item", "- one\n\n      two\n      three\n", "- one\n\n      two\n      three\n"},
		{"a block", "```\n" + long + "\n```\n", "```\n" + long + "\n```\n"},
		{"indented code", "    " + long + "\n    x\n", "    " + long + "\n    x\n"},
		{"a table", "| " + long + " |\n| x |\n", "| " + long + " |\n| x |\n"},
		{"a heading", "# " + long + "\n", "# " + long + "\n"},
		{"a comment", "<!-- x -->\none\ntwo\n", "<!-- x -->\none two\n"},
		{"a span of code", long[:89] + " `a b` x `lazuli fsck --repair`\n",
			long[:89] + " `a b` x\n`lazuli fsck --repair`\n"},
		{"a link", long[:89] + " a [text of a link](page.md).\n", long[:89] + " a\n[text of a link](page.md).\n"},
		{"a dash", first + " - " + second + "\n", long[:94] + "\nword - " + second + "\n"},
	} {
		got := Wrap(c.text)
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if again := Wrap(got); again != got {
			t.Errorf("%s: wrapped again it is %q", c.name, again)
		}
	}
}

func TestLong(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 30)
	page := "x\n\n" + long + "\n\n| " + long + " |\n\n" + strings.Repeat("x", 120) + "\n"
	if got := Long(page); !slices.Equal(got, []int{3}) {
		t.Errorf("%v, want the third line alone", got)
	}
}
