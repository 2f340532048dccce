package printable

import "testing"

// Names in a text may come from damaged keys. A terminal must not take them for commands.
func TestPrintable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"plain text, Größe": {"plain text, Größe", "plain text, Größe"},
		"\x1b[31mred\x00":   {`\x1b[31mred\x00`, `\x1b[31mred\x00`},
		"\u009b31m":         {`\u009b31m`, `\u009b31m`}, // the same command in one character
		"\xff\xfe":          {`\xff\xfe`, `\xff\xfe`},
		"one\n\ttwo\r":      {`one; \x09two\x0d`, "one\n\ttwo\\x0d"},
		"\u202egnp":         {`\u202egnp`, `\u202egnp`},
		"\uFFFD":            {"\uFFFD", "\uFFFD"},
	} {
		if line, all := Line(text), Text(text); line != want[0] || all != want[1] {
			t.Errorf("%q: the line %q, the text %q, want %q", text, line, all, want)
		}
	}
}
