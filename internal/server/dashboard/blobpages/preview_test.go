package blobpages

import (
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// FuzzPreview: the preview of any content of a blob has about its length.
func FuzzPreview(f *testing.F) {
	f.Add([]byte("a,b\n\"1\n\",2\n"), "text/csv")
	f.Add([]byte(`{"a":[1,{"b":null}]}`), "application/json")
	f.Add([]byte("[[[[[[[["), "application/json")
	f.Fuzz(func(t *testing.T, text []byte, kind string) {
		defer workbudget.Default.Start(t, len(text))()
		// The indentation has at most eight times the length of the text; see display.Indent.
		if p := previewOf(text, kind, ""); len(p.Text) > (8+2)*max(len(text), 1<<10) {
			t.Errorf("%d bytes become %d", len(text), len(p.Text))
		}
	})
}

// A preview whose indentation would be much longer than the text shows the text.
func TestPreviewIsBounded(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nested":            strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"wide below nested": strings.Repeat("[", 5000) + "1" + strings.Repeat(",1", 10_000) + strings.Repeat("]", 5000),
		"objects":           strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		"closed too often":  strings.Repeat("]", 9000) + strings.Repeat("[", 9000),
	} {
		p := previewOf([]byte(text), "application/json", "")
		if p.Text != text {
			t.Errorf("%s: the preview is %.40q", name, p.Text)
		}
	}
}
