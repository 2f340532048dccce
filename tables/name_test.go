package tables

import (
	"strings"
	"testing"
)

func TestPropertyNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "_": true, "Größe2": true, "名前": true, strings.Repeat("é", 255): true,
		"": false, "2a": false, "a-b": false, "a b": false, "a\xff": false, strings.Repeat("a", 256): false,
	} {
		if got := validPropertyName(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
