package workflowpages

import (
	"strings"
	"testing"
)

// A payload whose indentation would be much longer than the text is the text.
func TestPayloadIsBounded(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nested":            strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"wide below nested": strings.Repeat("[", 5000) + "1" + strings.Repeat(",1", 10_000) + strings.Repeat("]", 5000),
		"objects":           strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		"closed too often":  strings.Repeat("]", 9000) + strings.Repeat("[", 9000),
	} {
		if got := (workflowState{}).Text([]byte(text)); got != text {
			t.Errorf("%s: a workflow's payload is %.40q", name, got)
		}
	}
}
