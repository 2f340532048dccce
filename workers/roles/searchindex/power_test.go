package searchindex_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/follow"
	"github.com/lazuli-storage/lazuli/workers/roles/searchindex"
)

// A process that changes an index and builds it again is recorded with all that it writes, syncs, renames and removes.
// At these operations the power fails: from what a disk may hold then, the index is opened as the role does. Searches
// must find a state that the index had, no older than what was acknowledged, or say that the index is not complete;
// then the role must begin again.

const (
	// powerVariable has the folder in the recorded process.
	powerVariable = "LAZULI_TEST_POWER_LOAD"
	// powerLongVariable checks all images, in place of a sample.
	powerLongVariable = "LAZULI_TEST_POWER_LONG"

	powerSteps   = 24
	powerRebuild = 14 // the step after which the index is built again
	powerRows    = 8
)

// powerState returns the word that each row has after a step.
func powerState(step int) map[string]string {
	words := map[string]string{}
	for i := 1; i <= step; i++ {
		for _, c := range powerChanges(i) {
			if delete(words, c.RowKey); len(c.Entity) > 0 {
				words[c.RowKey] = powerWord(i)
			}
		}
	}
	return words
}

func powerWord(step int) string { return "word" + strconv.Itoa(step) }

func powerChanges(step int) []workers.TableChange {
	return []workers.TableChange{powerChange(strconv.Itoa(step%powerRows), powerWord(step)),
		{PartitionKey: "p", RowKey: strconv.Itoa((step + 3) % powerRows)}}
}

func powerChange(row, word string) workers.TableChange {
	return workers.TableChange{PartitionKey: "p", RowKey: row,
		Entity: fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":%q,"Name":%q}`, row, word)}
}

// openPower opens the index of a folder. No request is sent to the account.
func openPower(folder string) (*searchindex.Index, error) {
	storage, err := workers.OpenStorage(
		"DefaultEndpointsProtocol=http;AccountName=a;AccountKey=YQ==;TableEndpoint=http://127.0.0.1:1/a")
	if err != nil {
		return nil, err
	}
	return searchindex.Open(searchindex.Config{Storage: storage, Table: "People", Folder: folder,
		Fields: []searchindex.Field{{Name: "Name", Type: searchindex.Text}}})
}

// powerMark is a line that the recorded process prints before a step and when it was acknowledged.
type powerMark struct {
	Step int  `json:"step"`
	Done bool `json:"done"`
}

// TestPowerLoad is the recorded process.
func TestPowerLoad(t *testing.T) {
	folder := os.Getenv(powerVariable)
	if folder == "" {
		t.Skip("is run by TestPowerFailure")
	}
	x, err := openPower(folder)
	ok(t, err)
	f, ctx := x.Follower(), t.Context()
	mark := func(m powerMark) {
		line, err := json.Marshal(m)
		ok(t, err)
		_, err = os.Stdout.Write(append(line, '\n'))
		ok(t, err)
	}
	ok(t, f.Restart(ctx, follow.Progress{Reading: true, Position: "0"}))
	ok(t, f.Apply(ctx, nil, follow.Progress{Position: "0"}))
	mark(powerMark{Step: 0, Done: true})
	for step := 1; step <= powerSteps; step++ {
		mark(powerMark{Step: step})
		ok(t, f.Apply(ctx, powerChanges(step), follow.Progress{Position: strconv.Itoa(step)}))
		mark(powerMark{Step: step, Done: true})
		if step == powerRebuild {
			ok(t, x.Rebuild())
			ok(t, buildPower(ctx, f, step))
		}
	}
	ok(t, x.Close())
}

// buildPower reads the table as it is after a step, as the role does, in two pages.
func buildPower(ctx context.Context, f follow.Copy, step int) error {
	at := follow.Progress{Reading: true, Position: strconv.Itoa(step)}
	if err := f.Restart(ctx, at); err != nil {
		return err
	}
	for row, word := range powerState(step) {
		at.Next = row
		if err := f.Apply(ctx, []workers.TableChange{powerChange(row, word)}, at); err != nil {
			return err
		}
	}
	return f.Apply(ctx, nil, follow.Progress{Position: at.Position})
}

func TestPowerFailure(t *testing.T) {
	t.Parallel()
	if err := crashimage.Available(); err != nil {
		t.Skip(err)
	}
	folder := filepath.Join(t.TempDir(), "index")
	ok(t, os.Mkdir(folder, 0o700))
	cmd := exec.Command(os.Args[0], "-test.run=^TestPowerLoad$", "-test.v=false")
	cmd.Env = append(os.Environ(), powerVariable+"="+folder)
	recording, err := crashimage.Record(folder, filepath.Join(t.TempDir(), "trace"), cmd)
	ok(t, err)
	p := &powerTest{t: t, long: os.Getenv(powerLongVariable) != "", acknowledged: -1,
		seen: [crashimage.Variants]int{-1, -1, -1, -1, -1}}
	ok(t, recording.Replay(p.step))
	t.Logf("%d operations, %d images of the disk: %d with the complete index, %d without it, %d of those after it had "+
		"been complete",
		len(recording.Events), p.images, p.complete, p.images-p.complete, p.lost)
	if p.acknowledged != powerSteps || p.complete < 20 || p.removed == 0 {
		t.Errorf("the last acknowledged step is %d, %d images were complete, %d files removed: the load does not show "+
			"what it should", p.acknowledged, p.complete, p.removed)
	}
}

// powerTest checks images.
type powerTest struct {
	t    *testing.T
	long bool
	// begun and acknowledged are steps; -1 stands for no step.
	begun, acknowledged             int
	seen                            [crashimage.Variants]int
	images, complete, lost, removed int
}

func (p *powerTest) step(n int, e crashimage.Event, d *crashimage.Disk) error {
	if e.Kind == crashimage.Remove {
		p.removed++
	}
	if e.Kind == crashimage.Print {
		for line := range strings.Lines(string(e.Data)) {
			var m powerMark
			if json.Unmarshal([]byte(line), &m) != nil {
				continue
			}
			if p.begun = m.Step; m.Done {
				p.acknowledged = m.Step
			}
		}
	}
	for v := range crashimage.Variants {
		if d.Changed[v] == p.seen[v] && e.Kind != crashimage.Print || !p.wanted(n, e, v) {
			continue
		}
		p.seen[v] = d.Changed[v]
		p.images++
		if err := p.check(n, d, v); err != nil {
			return fmt.Errorf("after %d operations, the last of which was %.200v, an image of %v: %w", n, e, v, err)
		}
	}
	return nil
}

// wanted selects a sample, in which acknowledgements and synced images occur more often.
func (p *powerTest) wanted(n int, e crashimage.Event, v crashimage.Variant) bool {
	every := 40
	if e.Kind == crashimage.Print || e.Kind == crashimage.Remove || e.Kind == crashimage.Rename ||
		e.Kind == crashimage.Sync && v == crashimage.Synced {
		every = 6
	}
	return p.long || rand.New(rand.NewPCG(uint64(n), uint64(v))).IntN(every) == 0
}

// check opens an image, and searches in it.
func (p *powerTest) check(n int, d *crashimage.Disk, v crashimage.Variant) (err error) {
	folder, err := os.MkdirTemp(p.t.TempDir(), "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := d.Write(folder, v, uint64(n)); err != nil {
		return err
	}
	x, err := openPower(folder)
	if err != nil {
		return err
	}
	defer x.Close()
	ctx := p.t.Context()
	r, err := x.Search(ctx, searchindex.Query{Size: 2 * powerRows})
	if err != nil {
		return err
	}
	at, err := x.Follower().Progress(ctx)
	if err != nil {
		return err
	}
	if r.Complete {
		p.complete++
		if err := p.contentIs(x, r); err != nil {
			return err
		}
		if position, _ := strconv.Atoi(at.Position); at.Position != "" && position < p.acknowledged {
			return fmt.Errorf("the position is %q, step %d was acknowledged", at.Position, p.acknowledged)
		}
		return nil
	}
	if p.acknowledged >= 0 {
		p.lost++
	}
	if at.Position != "" && !at.Reading {
		return fmt.Errorf("the index is not complete, and the role would continue at %+v", at)
	}
	if err := buildPower(ctx, x.Follower(), powerSteps); err != nil {
		return err
	}
	if r, err = x.Search(ctx, searchindex.Query{Size: 2 * powerRows}); err != nil || !r.Complete ||
		!maps.Equal(wordsOf(r), powerState(powerSteps)) {
		return fmt.Errorf("built again, the index has %v, %w", wordsOf(r), err)
	}
	return nil
}

// contentIs checks that the documents are those of one step, which was begun and not before the last acknowledged one,
// and that their words find them.
func (p *powerTest) contentIs(x *searchindex.Index, r *searchindex.Result) error {
	got := wordsOf(r)
	for step := max(p.acknowledged, 0); step <= p.begun; step++ {
		want := powerState(step)
		if !maps.Equal(got, want) {
			continue
		}
		for row, word := range want {
			r, err := x.Search(p.t.Context(), searchindex.Query{Text: word})
			if err != nil || len(r.Hits) != 1 || r.Hits[0].RowKey != row {
				return fmt.Errorf("a search for %s finds %+v, %w; want row %s", word, r, err, row)
			}
		}
		return nil
	}
	return fmt.Errorf("the index says that it is complete and has %v; step %d was acknowledged, %d begun", got,
		p.acknowledged, p.begun)
}

func wordsOf(r *searchindex.Result) map[string]string {
	words := map[string]string{}
	for _, h := range r.Hits {
		words[h.RowKey], _ = h.Fields["Name"].(string)
	}
	return words
}
