package display

import (
	"strings"
	"testing"
)

// The indentation of nested values is not longer than a multiple of the text.
func TestIndentIsBounded(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nested":            strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"wide below nested": strings.Repeat("[", 5000) + "1" + strings.Repeat(",1", 10_000) + strings.Repeat("]", 5000),
		"objects":           strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		"closed too often":  strings.Repeat("]", 9000) + strings.Repeat("[", 9000),
	} {
		if out, ok := Indent([]byte(text)); ok {
			t.Errorf("%s: %d bytes become %d", name, len(text), len(out))
		}
	}
	if out, ok := Indent([]byte(`{"a":[1,"[[\"[["]}`)); !ok || out != "{\n  \"a\": [\n    1,\n    \"[[\\\"[[\"\n  ]\n}" {
		t.Errorf("%q, %v", out, ok)
	}
}
