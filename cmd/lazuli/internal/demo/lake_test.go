package demo

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lake"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// lakeVariants are writers of tables. All but the first are wrong, each in its own way.
func init() {
	maps.Copy(otherVariants, map[string]rig.VariantRun{
		"lake": lake.RunWorker,
	})
}

func TestLake(t *testing.T) {
	t.Parallel()
	records := check.Size(40, 80)
	c := rig.Config{ConnectionString: lazulitest.Start(t, lazulitest.WithHierarchicalNamespace()).ConnectionString(),
		Worker: variantWorker("lake"), Records: records, Seed: seed(t), Patience: patience}
	report, err := lake.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != len(lake.Points()) || report.Records != records {
		t.Errorf("%d rounds, %d batches", len(report.Rows), report.Records)
	}
}

// Writers whose batches are visible by half, or that leave something, are caught.
func TestWrongLakeWritersAreCaught(t *testing.T) {
	t.Parallel()
	connection := lazulitest.Start(t, lazulitest.WithHierarchicalNamespace()).ConnectionString()
	for variant, c := range map[string]struct{ point, says string }{
		"lake/file-by-file": {"lake-commit/before-job", "lost at that moment"},
		"lake/in-place":     {"lake-commit/after-file", "lost at that moment"},
		"lake/no-cleaning":  {"lake-commit/before-job", "orphans are left"},
	} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			config := rig.Config{ConnectionString: connection, Worker: variantWorker(variant), Points: []string{c.point},
				Records: 12, Seed: 1, Patience: patience, Plain: true}
			if c.says == "orphans are left" { // For good: however long one waits.
				config.StuckAfter = stuckAfter
			}
			if _, err := lake.Run(t.Context(), config); !errors.Is(err, rig.ErrInvariant) ||
				!strings.Contains(fmt.Sprint(err), c.says) {
				t.Fatalf("got %v, want %v saying %q", err, rig.ErrInvariant, c.says)
			}
		})
	}
}

// An account without a hierarchical namespace is refused with the reason.
func TestLakeNeedsHierarchicalNamespace(t *testing.T) {
	t.Parallel()
	_, err := lake.Run(t.Context(), rig.Config{ConnectionString: lazulitest.Start(t).ConnectionString(),
		Worker: variantWorker("lake")})
	if err == nil || !strings.Contains(err.Error(), "hierarchical namespace") {
		t.Errorf("got %v", err)
	}
}
