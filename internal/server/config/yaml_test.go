package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

type panics struct{}

func (*panics) UnmarshalYAML([]byte) error { panic("nil pointer") }

func TestPanicsAreErrors(t *testing.T) {
	t.Parallel()
	if err := UnmarshalYAML([]byte("a: 1"), new(struct {
		A panics `yaml:"a"`
	})); !errors.Is(err, ErrUnreadableYAML) {
		t.Errorf("got %v", err)
	}
}

func TestUnmarshalYAML(t *testing.T) {
	t.Parallel()
	var v struct {
		A int `yaml:"a"`
	}
	if err := UnmarshalYAML([]byte("a: 5\n"), &v); err != nil || v.A != 5 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := UnmarshalYAML([]byte("b: 5\n"), &v); err == nil {
		t.Error("an unknown field was accepted")
	}
}

// Texts that are nested deeply, for which the time of the parser grows with the square of their depth, are refused in a
// time that grows with their length. Flat texts of any length are not.
func TestNestingIsLimited(t *testing.T) {
	t.Parallel()
	const n = 20_000
	for name, text := range map[string]string{
		"lists": strings.Repeat("[", n), "mappings": strings.Repeat("{a: ", n), "lines": strings.Repeat("[\n", n),
		"entries": strings.Repeat("- ", n) + "a", "keys": strings.Repeat("? ", n) + "a",
		"anchors": strings.Repeat("&a ", n) + "a", "tags": strings.Repeat("!!str ", n) + "a",
		"in a list": "[" + strings.Repeat("? ", n) + "a]",
	} {
		workbudget.Default.Check(t, len(text), func() {
			var v any
			if err := UnmarshalYAML([]byte(text), &v); !errors.Is(err, ErrUnreadableYAML) ||
				!strings.Contains(err.Error(), "within each other") {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := parseYAML([]byte(text)); !errors.Is(err, ErrUnreadableYAML) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	for name, text := range map[string]string{
		"lists": strings.Repeat("- [[1, 2], {a: b}]\n", 1000), "one line": "[" + strings.Repeat("!!str a, &b c, ", 1000) +
			"d]",
		"text":  "a: |\n " + strings.Repeat("[{- ? &a ", 1000),
		"depth": strings.Repeat("[", maxNesting) + strings.Repeat("]", maxNesting),
	} {
		var v any
		if err := UnmarshalYAML([]byte(text), &v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
