// Package lake is the demonstration of commits by rename: writers move batches of files into a table of files, and a
// reader sees each batch whole or not at all.
package lake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/directory"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/filesystem"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/records"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/workers"
)

// Run runs the demonstration of writers that commit batches to a table of files by renames, as Spark's do: each task
// of a job writes to a directory of its own below _temporary, commits by a rename, and the job commits by another one.
// Readers must see each batch whole or not at all, at every moment.
func Run(ctx context.Context, c rig.Config) (*rig.Report, error) {
	return rig.Demonstrate(ctx, c, func(storage *workers.Storage, id string) (rig.Pattern, error) {
		if storage.Queues == nil || storage.Blobs == nil {
			return nil, errors.New("the connection string must name a queue and a blob endpoint")
		}
		name := "lazuli-demo-" + id
		t, err := openTable(c.ConnectionString, name)
		return &Pattern{table: t, storage: storage, name: name}, err
	})
}

// Points returns what a run of Lake visits by default.
func Points() []string { return rig.PointsOf(&Pattern{}) }

var (
	pointLakeWrite     = fault.Declare("lake-commit/before-file")
	pointWritten       = fault.Declare("lake-commit/after-file")
	pointLakeTask      = fault.Declare("lake-commit/before-task")
	pointLakeTaskDone  = fault.Declare("lake-commit/after-task")
	pointCommit        = fault.Declare("lake-commit/before-job")
	pointLakeCommitted = fault.Declare("lake-commit/after-job")
	pointLakeCleaned   = fault.Declare("lake-commit/after-cleaning")
	lakePoints         = []fault.Name{pointLakeWrite, pointWritten, pointLakeTask, pointLakeTaskDone, pointCommit,
		pointLakeCommitted, pointLakeCleaned}
)

const (
	lakeBatches  = 240 // of a run with all records
	tasksOfBatch = 3   // of a job
	tableFolder  = "table"
	temporary    = tableFolder + "/_temporary"
)

// batch is a batch of the table, the body of a message.
type batch struct{ Number, Of int }

func (b batch) name() string      { return fmt.Sprintf("batch=%05d", b.Number) }
func (b batch) folder() string    { return tableFolder + "/" + b.name() }
func (b batch) temporary() string { return temporary + "/" + b.name() }

// lakeRecords are the records of all batches.
var lakeRecords = sync.OnceValues(func() ([]records.Entity, error) { return records.Entities(0) })

// files returns the contents of the files that a task writes, by path in the batch: records as lines, partitioned by
// party.
func (b batch) files(task int) (map[string]string, error) {
	entities, err := lakeRecords()
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for i, e := range entities {
		if i%b.Of != b.Number || i/b.Of%tasksOfBatch != task {
			continue
		}
		var record struct{ Party string }
		if err := json.Unmarshal(e.JSON, &record); err != nil {
			return nil, err
		}
		files[fmt.Sprintf("party=%s/part-%d.json", record.Party, task)] += string(e.JSON) + "\n"
	}
	return files, nil
}

// all returns the contents of the files of the batch.
func (b batch) all() (map[string]string, error) {
	all := map[string]string{}
	for task := range tasksOfBatch {
		files, err := b.files(task)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, files)
	}
	return all, nil
}

// table is a table of files in a filesystem.
type table struct{ fs *filesystem.Client }

func openTable(connection, name string) (table, error) {
	s, err := connstr.Parse(connection)
	if err != nil {
		return table{}, err
	}
	c, err := s.Lake(connstr.Options{})
	if err != nil {
		return table{}, err
	}
	return table{c.NewFileSystemClient(name)}, nil
}

// exists reports whether there is a directory.
func (t table) exists(ctx context.Context, path string) (bool, error) {
	_, err := t.fs.NewDirectoryClient(path).GetProperties(ctx, nil)
	if rig.NotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// rename moves a directory to a path at which nothing is. It reports false if something is there, or if the directory
// or that of the target is gone: another worker has been there.
func (t table) rename(ctx context.Context, from, target string) (bool, error) {
	_, err := t.fs.NewDirectoryClient(from).Rename(ctx, target, &directory.RenameOptions{
		AccessConditions: &directory.AccessConditions{ModifiedAccessConditions: &directory.ModifiedAccessConditions{
			IfNoneMatch: to.Ptr(azcore.ETagAny)}}})
	if s := rig.StatusOf(err); s == http.StatusNotFound || s == http.StatusConflict || s == http.StatusPreconditionFailed {
		return false, nil
	}
	return err == nil, err
}

func (t table) write(ctx context.Context, path, content string) error {
	f := t.fs.NewFileClient(path)
	if _, err := f.Create(ctx, nil); err != nil {
		return err
	}
	if _, err := f.AppendData(ctx, 0, readSeekCloser{bytes.NewReader([]byte(content))}, nil); err != nil {
		return err
	}
	_, err := f.FlushData(ctx, int64(len(content)), nil)
	return err
}

type readSeekCloser struct{ io.ReadSeeker }

// Close implements io.Closer.
func (readSeekCloser) Close() error { return nil }

// commit writes a batch and makes it part of the table. Any number of workers may do so at a time, and any of them may
// stop at any step.
func (t table) commit(ctx context.Context, b batch) error {
	done, err := t.exists(ctx, b.folder())
	if err != nil {
		return err
	}
	if !done {
		if err := t.tasks(ctx, b); err != nil {
			return err
		}
		if err := fault.Point(pointCommit); err != nil {
			return err
		}
		if done, err = t.rename(ctx, b.temporary()+"/tasks", b.folder()); err != nil {
			return err
		}
		if !done { // another worker may have
			if done, err = t.exists(ctx, b.folder()); err == nil && !done {
				err = workers.RetryAfter(errors.New("the tasks of the batch are gone"), 0)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := fault.Point(pointLakeCommitted); err != nil {
		return err
	}
	if err := t.drop(ctx, b.temporary()); err != nil {
		return err
	}
	return fault.Point(pointLakeCleaned)
}

// drop deletes a directory with everything in it, if it exists.
func (t table) drop(ctx context.Context, path string) error {
	_, err := t.fs.NewDirectoryClient(path).Delete(ctx, nil)
	if rig.NotFound(err) {
		return nil
	}
	return err
}

// tasks does the tasks of a batch that are not committed yet. A task is a directory in that of the tasks, which gets
// there by one rename; a batch's directory is that of its tasks.
func (t table) tasks(ctx context.Context, b batch) error {
	// 409: an earlier attempt, or another worker now, made the directory.
	if _, err := t.fs.NewDirectoryClient(b.temporary()+"/tasks").Create(ctx, nil); err != nil &&
		rig.StatusOf(err) != http.StatusConflict {
		return err
	}
	for task := range tasksOfBatch {
		target := fmt.Sprintf("%s/tasks/task-%d", b.temporary(), task)
		// The rename is the commit of a task: if the target is there, it is complete, and doing it again would replace
		// files that a reader may have open.
		if done, err := t.exists(ctx, target); done || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		files, err := b.files(task)
		if err != nil {
			return err
		}
		// Each attempt writes to a directory of its own. A shared one could hold files of a worker that is thought to be
		// dead, and the rename would publish them.
		attempt := b.temporary() + "/attempts/" + uuid.NewString()
		if _, err := t.fs.NewDirectoryClient(attempt).Create(ctx, nil); err != nil {
			return err
		}
		// In order of names, so that a point's n-th hit is the same file in each run.
		for _, path := range slices.Sorted(maps.Keys(files)) {
			if err := fault.Point(pointLakeWrite); err != nil {
				return err
			}
			if err := t.write(ctx, attempt+"/"+path, files[path]); err != nil {
				return err
			}
			if err := fault.Point(pointWritten); err != nil {
				return err
			}
		}
		if err := fault.Point(pointLakeTask); err != nil {
			return err
		}
		// One rename moves the whole directory. If two workers come here together, the second finds the target and its
		// attempt stays, until drop removes the temporary directory.
		if _, err := t.rename(ctx, attempt, target); err != nil {
			return err
		}
		if err := fault.Point(pointLakeTaskDone); err != nil {
			return err
		}
	}
	return nil
}

// batches returns the sizes of the files of all batches that a reader sees, by batch and path in it, and the
// directories of batches that are still temporary.
func (t table) batches(ctx context.Context) (seen map[string]map[string]int64, left []string, err error) {
	seen = map[string]map[string]int64{}
	pages := t.fs.NewListPathsPager(true, &filesystem.ListPathsOptions{Prefix: to.Ptr(tableFolder)})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if rig.NotFound(err) {
			return seen, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		for _, p := range page.Paths {
			path := ptr.Value(p.Name)
			if rest, ok := strings.CutPrefix(path, temporary+"/"); ok {
				if strings.Count(rest, "/") == 0 {
					left = append(left, path)
				}
				continue
			}
			batch, rest, _ := strings.Cut(strings.TrimPrefix(path, tableFolder+"/"), "/")
			if !strings.HasPrefix(batch, "batch=") {
				continue
			}
			if seen[batch] == nil {
				seen[batch] = map[string]int64{}
			}
			if _, file, ok := strings.Cut(rest, "/"); ok && p.IsDirectory == nil {
				seen[batch][file] = ptr.Value(p.ContentLength) // without its task
			}
		}
	}
	return seen, left, nil
}

// Pattern commits batches to a table while a reader looks.
type Pattern struct {
	table
	storage *workers.Storage
	name    string // of the filesystem and of the queue
	want    map[rig.Key]map[string]string

	stop func() // stops the reader, whose the rest is until then
	// half has the batches that were there by half, in words; looks counts the readings, visible is the largest number of
	// batches that one of them found.
	half           map[string]bool
	looks, visible int
}

func (p *Pattern) Points() (list []string) {
	for _, n := range lakePoints {
		list = append(list, string(n))
	}
	return list
}
func (p *Pattern) Kind(rig.Key) string        { return "" }
func (p *Pattern) HoldUp() string             { return string(pointCommit) }
func (p *Pattern) Concurrency() int           { return 4 }
func (p *Pattern) Passes(_ string, n int) int { return n }
func (p *Pattern) Plan(k rig.Kill) string     { return k.String() }
func (p *Pattern) Settings() rig.WorkerSettings {
	return rig.WorkerSettings{Queue: p.name, Container: p.name}
}

func (p *Pattern) Create(ctx context.Context) error {
	if _, err := p.fs.Create(ctx, nil); err != nil {
		return fmt.Errorf("create filesystem %s: %w", p.name, err)
	}
	if _, err := p.fs.NewDirectoryClient("/").GetAccessControl(ctx, nil); err != nil {
		return fmt.Errorf("the account must have a hierarchical namespace (lazuli --hierarchical-namespace): %w", err)
	}
	return nil
}

func (p *Pattern) Remove(ctx context.Context) error {
	if p.stop != nil {
		p.stop()
	}
	if _, err := p.fs.Delete(ctx, nil); err != nil && !rig.NotFound(err) {
		return fmt.Errorf("delete filesystem %s: %w", p.name, err)
	}
	return nil
}

func batchOf(k rig.Key, of int) batch {
	var n int
	_, _ = fmt.Sscan(strings.TrimLeft(k.Row, "0"), &n) // "" is 0
	return batch{n, of}
}

func (p *Pattern) Load(ctx context.Context, r *rig.Run) (keys []rig.Key, err error) {
	n := lakeBatches
	if r.Records > 0 {
		n = min(n, r.Records)
	}
	p.want = map[rig.Key]map[string]string{}
	for i := range n {
		k := rig.Key{Partition: "batch", Row: fmt.Sprintf("%05d", i)}
		if p.want[k], err = (batch{i, n}).all(); err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	r.Report.Records, r.Report.Old = n, n
	r.Say.Line("%d batches are to be committed, each of %d tasks", n, tasksOfBatch)
	p.look(ctx, n)
	return keys, nil
}

// look reads the table again and again until stop is called, and notes the batches that are there by half.
func (p *Pattern) look(ctx context.Context, of int) {
	p.half = map[string]bool{}
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	p.stop = func() { cancel(); ended.Wait() }
	ended.Go(func() {
		pause := time.NewTicker(20 * time.Millisecond)
		defer pause.Stop()
		for ; ctx.Err() == nil; <-pause.C {
			seen, _, err := p.batches(ctx)
			if err != nil {
				continue // the census reports it
			}
			p.looks++
			p.visible = max(p.visible, len(seen))
			for k, want := range p.want {
				name := batchOf(k, of).name()
				if files, ok := seen[name]; ok && !whole(files, want) {
					p.half[fmt.Sprintf("%s with %d of %d files", name, len(files), len(want))] = true
				}
			}
		}
	})
}

// whole reports whether a reader sees all files of a batch with their lengths.
func whole(files map[string]int64, want map[string]string) bool {
	if len(files) != len(want) {
		return false
	}
	for path, content := range want {
		if n, ok := files[path]; !ok || n != int64(len(content)) {
			return false
		}
	}
	return true
}

func (p *Pattern) Message(k rig.Key) ([]byte, error) {
	return json.Marshal(batchOf(k, len(p.want)))
}

// Reset takes batches out of the table.
func (p *Pattern) Reset(ctx context.Context, keys []rig.Key) error {
	for _, k := range keys {
		b := batchOf(k, len(p.want))
		for _, path := range []string{b.folder(), b.temporary()} {
			if err := p.drop(ctx, path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Pattern) Census(ctx context.Context, keys []rig.Key, _ bool) (rig.Census, error) {
	var c rig.Census
	seen, left, err := p.batches(ctx)
	if err != nil {
		return c, err
	}
	for _, k := range keys {
		switch files, ok := seen[batchOf(k, len(p.want)).name()]; {
		case !ok:
			c.Kept = append(c.Kept, k)
		case whole(files, p.want[k]):
			c.Moved = append(c.Moved, k)
		default:
			c.Lost = append(c.Lost, k)
		}
	}
	c.Orphans = left
	return c, nil
}

// Converged reports whether nothing temporary is left.
func (p *Pattern) Converged(ctx context.Context) (bool, error) {
	_, left, err := p.batches(ctx)
	return len(left) == 0, err
}

// Conclude reads all files, and counts what the reader saw meanwhile.
func (p *Pattern) Conclude(ctx context.Context, _ *rig.Run) (problems []string, summary string, err error) {
	// The reader ends first: it must not count what it sees of the files below.
	p.stop()
	for _, text := range slices.Sorted(maps.Keys(p.half)) {
		problems = append(problems, "a reader saw "+text)
	}
	files := 0
	for k, want := range p.want {
		b := batchOf(k, len(p.want))
		found := map[string]string{}
		client := p.fs
		pages := client.NewListPathsPager(true, &filesystem.ListPathsOptions{Prefix: to.Ptr(b.folder())})
		for pages.More() {
			page, err := pages.NextPage(ctx)
			// A batch that was never committed has no directory; it is reported as a wrong number of files below.
			if rig.NotFound(err) {
				break
			}
			if err != nil {
				return nil, "", err
			}
			for _, e := range page.Paths {
				if e.IsDirectory != nil {
					continue
				}
				answer, err := client.NewFileClient(ptr.Value(e.Name)).DownloadStream(ctx, nil)
				if err != nil {
					return nil, "", err
				}
				text, err := io.ReadAll(answer.Body)
				if err = errors.Join(err, answer.Body.Close()); err != nil {
					return nil, "", err
				}
				// The first element names the task. p.want has the paths below it: a file is the same whichever task wrote it.
				_, path, _ := strings.Cut(strings.TrimPrefix(ptr.Value(e.Name), b.folder()+"/"), "/")
				found[path] = string(text)
			}
		}
		if files += len(found); !maps.Equal(found, want) {
			problems = append(problems, fmt.Sprintf("%s has %d files, want %d, or other contents", b.name(), len(found),
				len(want)))
		}
	}
	// A reader that never looked while something was visible cannot have seen half a batch.
	if len(p.want) > 0 && (p.looks == 0 || p.visible == 0) {
		problems = append(problems, "the reader saw nothing: the run shows nothing")
	}
	return problems, fmt.Sprintf("%d batches of %d files are in the table, whole and unchanged. A reader looked %d times "+
		"and saw none by half", len(p.want), files, p.looks), nil
}

// RunWorker is the body of a worker's process.
func RunWorker(ctx context.Context, _ *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
	t, err := openTable(s.ConnectionString, s.Container)
	if err != nil {
		return err
	}
	workers.Queue(app, "lake", func(ctx context.Context, m *workers.Message[batch]) error {
		return t.commit(ctx, m.Body)
	}, s.Options()...)
	return app.Run(ctx)
}

func (p *Pattern) Words() rig.Words {
	return rig.Words{Item: "batches that are to be committed, each of several files",
		Done:   "readers see all files of the batch",
		NotYet: "readers see nothing of the batch", Lost: "readers see a part of the batch",
		Orphaned: "directories that stay below _temporary"}
}
