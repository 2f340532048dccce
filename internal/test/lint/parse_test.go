package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Requests are parsed with the options of their front-end. A call of wire.Parse elsewhere could parse an inner request,
// such as a part of a batch, with other options, and so as a request to another account. [wire.Request.Inner] is for
// inner requests.
func TestRequestsAreParsedInOnePlace(t *testing.T) {
	callers := []string{"internal/azure/frontend/frontend.go", "blobsvc/internal/website/website.go"}
	found := 0
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "wire.Parse(") {
			return err
		}
		name, _ := filepath.Rel(top, path)
		if found++; !slices.Contains(callers, filepath.ToSlash(name)) {
			t.Errorf("%s calls wire.Parse: a request inside another one is read with Request.Inner", name)
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Fatalf("%d files call wire.Parse, %v", found, err)
	}
}
