package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// docs/releases.md has the formats that the newest release writes.
func TestReleasesPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/releases.md")
	check.OK(t, err)
	f := currentFormats
	want := fmt.Sprintf("| %d | %d to %d | %d | %d |", f.DataFolder, f.ClusterOldest, f.Cluster, f.Archive, f.Backup)
	newest := ""
	for line := range strings.Lines(string(page)) {
		if newest == "" && strings.HasPrefix(line, "| 0.") {
			newest = line
		}
	}
	if !strings.Contains(newest, want) {
		t.Errorf("the newest release in docs/releases.md has %q, want %q", newest, want)
	}
}
