package lake

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/workers"
)

// Mistakes are those that a worker without the pattern makes. A step that the pattern has too is where it is killed.
var Mistakes = []rig.Mistake{
	{Demonstration: "lake", Name: "in-place",
		Does:  "writes the files of a batch where readers look",
		Point: "lake-commit/after-file", Shows: rig.DamageLost, Run: naive(inPlace),
		Why: "readers see the files that are there so far, and compute with a part of the batch"},
	{Demonstration: "lake", Name: "file-by-file",
		Does:  "writes all files below _temporary, then moves them one after the other",
		Point: "lake-commit/before-job", Shows: rig.DamageLost, Run: naive(fileByFile),
		Why: "the next attempt finds the directory, and takes the batch for committed: the rest is never seen"},
	{Demonstration: "lake", Name: "no-cleaning",
		Does:  "commits by a rename, and does not delete what attempts have left",
		Point: "lake-commit/after-file", Shows: rig.DamageOrphaned, Always: true, Run: naive(noCleaning),
		Why: "the files of the killed attempt stay below _temporary, and are paid for"},
}

// naive makes a worker that commits batches by do.
func naive(do func(context.Context, table, batch) error) rig.VariantRun {
	return func(ctx context.Context, _ *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
		t, err := openTable(s.ConnectionString, s.Container)
		if err != nil {
			return err
		}
		workers.Queue(app, "lake", func(ctx context.Context, m *workers.Message[batch]) error {
			return do(ctx, t, m.Body)
		}, s.Options()...)
		return app.Run(ctx)
	}
}

// fileByFile moves the files of a batch to where readers look, one after the other.
func fileByFile(ctx context.Context, t table, b batch) error {
	// A batch that is there already, even in part, counts as done, as this program cannot tell: after a kill it stays
	// half moved.
	if done, err := t.exists(ctx, b.folder()); done || err != nil {
		return errors.Join(err, t.drop(ctx, b.temporary()))
	}
	if err := t.tasks(ctx, b); err != nil {
		return err
	}
	for task := range tasksOfBatch {
		name := fmt.Sprintf("task-%d", task)
		files, err := b.files(task)
		if err != nil {
			return err
		}
		for path := range files {
			party, file, _ := strings.Cut(path, "/")
			// The mistake: each file becomes visible by a rename of its own, so a reader between two of them sees half a
			// batch.
			to := b.folder() + "/" + name + "/" + party
			if _, err := t.fs.NewDirectoryClient(to).Create(ctx, nil); err != nil {
				return err
			}
			if _, err := t.rename(ctx, b.temporary()+"/tasks/"+name+"/"+path, to+"/"+file); err != nil {
				return err
			}
			if err := fault.Point(pointCommit); err != nil {
				return err
			}
		}
	}
	return t.drop(ctx, b.temporary())
}

// inPlace writes the files of a batch where readers look.
func inPlace(ctx context.Context, t table, b batch) error {
	for task := range tasksOfBatch {
		files, err := b.files(task)
		if err != nil {
			return err
		}
		for path, content := range files {
			if err := t.write(ctx, fmt.Sprintf("%s/task-%d/%s", b.folder(), task, path), content); err != nil {
				return err
			}
			if err := fault.Point(pointWritten); err != nil {
				return err
			}
		}
	}
	return nil
}

// noCleaning commits as it should, and leaves what attempts before it have written.
func noCleaning(ctx context.Context, t table, b batch) error {
	if done, err := t.exists(ctx, b.folder()); done || err != nil {
		return err
	}
	if err := t.tasks(ctx, b); err != nil {
		return err
	}
	if err := fault.Point(pointCommit); err != nil {
		return err
	}
	_, err := t.rename(ctx, b.temporary()+"/tasks", b.folder())
	return err
}
