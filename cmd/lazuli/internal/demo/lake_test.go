package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// lakeVariants are writers of tables. All but the first are wrong, each in its own way.
func init() {
	maps.Copy(otherVariants, map[string]variantRun{
		"lake": RunLakeWorker,
		"lake: file by file": wrongLake(func(ctx context.Context, t lakeTable, b lakeBatch) error {
			if done, err := t.exists(ctx, b.folder()); done || err != nil {
				return errors.Join(err, t.drop(ctx, b.temporary()))
			}
			if err := t.tasks(ctx, b); err != nil {
				return err
			}
			for task := range lakeTasks {
				name := fmt.Sprintf("task-%d", task)
				files, err := b.files(task)
				if err != nil {
					return err
				}
				for path := range files {
					party, file, _ := strings.Cut(path, "/")
					to := b.folder() + "/" + name + "/" + party
					if _, err := t.fs.NewDirectoryClient(to).Create(ctx, nil); err != nil {
						return err
					}
					if _, err := t.rename(ctx, b.temporary()+"/tasks/"+name+"/"+path, to+"/"+file); err != nil {
						return err
					}
					if err := fault.Point(pointLakeCommit); err != nil {
						return err
					}
				}
			}
			return t.drop(ctx, b.temporary())
		}),
		"lake: in place": wrongLake(func(ctx context.Context, t lakeTable, b lakeBatch) error {
			for task := range lakeTasks {
				files, err := b.files(task)
				if err != nil {
					return err
				}
				for path, content := range files {
					if err := t.write(ctx, fmt.Sprintf("%s/task-%d/%s", b.folder(), task, path), content); err != nil {
						return err
					}
					if err := fault.Point(pointLakeWritten); err != nil {
						return err
					}
				}
			}
			return nil
		}),
		"lake: without cleaning": wrongLake(func(ctx context.Context, t lakeTable, b lakeBatch) error {
			if done, err := t.exists(ctx, b.folder()); done || err != nil {
				return err
			}
			if err := t.tasks(ctx, b); err != nil {
				return err
			}
			if err := fault.Point(pointLakeCommit); err != nil {
				return err
			}
			_, err := t.rename(ctx, b.temporary()+"/tasks", b.folder())
			return err
		}),
	})
}

func wrongLake(do func(context.Context, lakeTable, lakeBatch) error) variantRun {
	return func(ctx context.Context, _ *workers.Storage, app *workers.App, s WorkerSettings) error {
		t, err := openLakeTable(s.ConnectionString, s.Container)
		if err != nil {
			return err
		}
		workers.Queue(app, "lake", func(ctx context.Context, m *workers.Message[lakeBatch]) error {
			return do(ctx, t, m.Body)
		}, s.Options()...)
		return app.Run(ctx)
	}
}

func TestLake(t *testing.T) {
	t.Parallel()
	c := Config{ConnectionString: lazulitest.Start(t, lazulitest.WithHierarchicalNamespace()).ConnectionString(),
		Worker: variantWorker("lake"), Records: 80, Seed: seed(t), Patience: patience}
	report, err := Lake(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != len(LakePoints()) || report.Records != 80 {
		t.Errorf("%d rounds, %d batches", len(report.Rows), report.Records)
	}
}

// Writers whose batches are visible by half, or that leave something, are caught.
func TestWrongLakeWritersAreCaught(t *testing.T) {
	t.Parallel()
	connection := lazulitest.Start(t, lazulitest.WithHierarchicalNamespace()).ConnectionString()
	for variant, c := range map[string]struct{ point, says string }{
		"lake: file by file":     {"lake-commit/before-job", "lost at that moment"},
		"lake: in place":         {"lake-commit/after-file", "lost at that moment"},
		"lake: without cleaning": {"lake-commit/before-job", "orphans are left"},
	} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			config := Config{ConnectionString: connection, Worker: variantWorker(variant), Points: []string{c.point},
				Records: 12, Seed: 1, Patience: patience, plain: true}
			if c.says == "orphans are left" { // For good: however long one waits.
				config.stuckAfter = stuckAfter
			}
			if _, err := Lake(t.Context(), config); !errors.Is(err, ErrInvariant) ||
				!strings.Contains(fmt.Sprint(err), c.says) {
				t.Fatalf("got %v, want %v saying %q", err, ErrInvariant, c.says)
			}
		})
	}
}

// An account without a hierarchical namespace is refused with the reason.
func TestLakeNeedsHierarchicalNamespace(t *testing.T) {
	t.Parallel()
	_, err := Lake(t.Context(), Config{ConnectionString: lazulitest.Start(t).ConnectionString(),
		Worker: variantWorker("lake")})
	if err == nil || !strings.Contains(err.Error(), "hierarchical namespace") {
		t.Errorf("got %v", err)
	}
}
