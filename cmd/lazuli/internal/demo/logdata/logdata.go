// Package logdata is the demonstration of the log-storage role: each record of a queue is in the log once, unchanged.
package logdata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/records"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

// Run runs the demonstration of the log-storage role: records from a queue become lines of blobs.
func Run(ctx context.Context, c rig.Config) (*rig.Report, error) {
	return rig.Demonstrate(ctx, c, openLogStorage)
}

// Points returns what a run of Run visits by default.
func Points() []string { return rig.PointsOf(&Pattern{}) }

// logService is the service whose log is written.
const logService = "terms"

// logBegin is the time of the first line, and logStep the time between two.
var logBegin = time.Date(2026, 3, 1, 21, 30, 0, 0, time.UTC)

const logStep = 5 * time.Second

// Pattern writes a line for each record.
type Pattern struct {
	storage          *workers.Storage
	container, queue string
	records          map[rig.Key]logstore.Record
}

func openLogStorage(storage *workers.Storage, id string) (rig.Pattern, error) {
	if storage.Queues == nil || storage.Blobs == nil {
		return nil, errors.New("the connection string must name a queue and a blob endpoint")
	}
	return &Pattern{storage: storage, container: "lazuli-demo-" + id, queue: "lazuli-demo-" + id}, nil
}

func (p *Pattern) Points() []string    { return logstore.Points() }
func (p *Pattern) Kind(rig.Key) string { return "" }
func (p *Pattern) HoldUp() string      { return "log-storage/before-write" }
func (p *Pattern) Concurrency() int    { return 16 }
func (p *Pattern) Settings() rig.WorkerSettings {
	return rig.WorkerSettings{Queue: p.queue, Container: p.container}
}
func (p *Pattern) Plan(k rig.Kill) string                  { return k.String() }
func (p *Pattern) Converged(context.Context) (bool, error) { return true, nil }

// Reset leaves the lines where they are: a message that comes again passes all points again.
func (p *Pattern) Reset(context.Context, []rig.Key) error { return nil }

// passes: a blob is written for several messages, and the first one must come.
func (p *Pattern) Passes(point string, n int) int {
	if point == logstore.Points()[0] || point == logstore.Points()[1] {
		return 1
	}
	return n
}

func (p *Pattern) Create(ctx context.Context) error {
	if _, err := p.storage.Blobs.CreateContainer(ctx, p.container, nil); err != nil {
		return fmt.Errorf("create container %s: %w", p.container, err)
	}
	return nil
}

func (p *Pattern) Remove(ctx context.Context) error {
	if _, err := p.storage.Blobs.DeleteContainer(ctx, p.container, nil); err != nil && !rig.NotFound(err) {
		return fmt.Errorf("delete container %s: %w", p.container, err)
	}
	return nil
}

func (p *Pattern) Load(_ context.Context, r *rig.Run) ([]rig.Key, error) {
	entities, err := records.Entities(r.Records)
	if err != nil {
		return nil, err
	}
	p.records = map[rig.Key]logstore.Record{}
	var keys []rig.Key
	for i, e := range entities {
		level := slog.LevelInfo
		if !e.Old {
			level = slog.LevelError
		}
		p.records[e.Key] = logstore.Record{
			// Times that grow with the index spread the records over several blobs; all in one second would make one blob.
			Service: logService, Time: logBegin.Add(time.Duration(i) * logStep), Level: level, Message: e.Key.String(),
			ID: e.Key.String(), Attrs: e.JSON,
		}
		keys = append(keys, e.Key)
	}
	r.Report.Records, r.Report.Old = len(keys), len(keys)
	r.Say.Line("%d records are to become lines of a log", len(keys))
	return keys, nil
}

func (p *Pattern) Message(k rig.Key) ([]byte, error) { return json.Marshal(p.records[k]) }

// seen are the lines that queries show, by what they say, which is their record's: how often, and the line.
type seen struct {
	times  int
	record logstore.Record
}

// read asks for the whole log, and returns also in which blobs lines were found.
func (p *Pattern) read(ctx context.Context) (map[string]seen, map[string][]time.Time, error) {
	reader, err := logstore.NewReader(p.storage, p.container)
	if err != nil {
		return nil, nil, err
	}
	all, blobs := map[string]seen{}, map[string][]time.Time{}
	end := logBegin.Add(time.Duration(len(p.records)) * logStep)
	for e, err := range reader.Query(ctx, logstore.Query{Service: logService, From: logBegin, To: end}, nil) {
		if err != nil {
			return nil, nil, err
		}
		all[e.Message] = seen{all[e.Message].times + 1, e.Record}
		blobs[e.Blob] = append(blobs[e.Blob], e.Time)
	}
	return all, blobs, nil
}

func (p *Pattern) Census(ctx context.Context, keys []rig.Key, atEnd bool) (rig.Census, error) {
	var c rig.Census
	all, _, err := p.read(ctx)
	if err != nil {
		return c, err
	}
	for _, k := range keys {
		// A line in two blobs counts once if the reader shows it once: the ID in the record lets it drop the second copy.
		// times counts what the reader shows.
		got := all[k.String()]
		switch {
		// Before the end a missing line may still be in its message; at the end no message is left that could bring it.
		case got.times == 0 && atEnd:
			c.Lost = append(c.Lost, k)
		case got.times == 0:
			c.Kept = append(c.Kept, k)
		case got.times > 1:
			c.Both = append(c.Both, k)
		default:
			c.Moved = append(c.Moved, k)
		}
		if got.times > 0 && !sameRecord(got.record, p.records[k]) {
			c.Changed = append(c.Changed, k)
		}
	}
	return c, nil
}

func sameRecord(a, b logstore.Record) bool {
	left, err1 := json.Marshal(a)
	right, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && a.Time.Equal(b.Time) && string(left) == string(right)
}

func (p *Pattern) Conclude(ctx context.Context, _ *rig.Run) (problems []string, summary string, err error) {
	var keys []rig.Key
	for k := range p.records {
		keys = append(keys, k)
	}
	c, err := p.Census(ctx, keys, true)
	if err != nil {
		return nil, "", err
	}
	problems = slices.Concat(rig.Problem("lines are lost", c.Lost), rig.Problem("lines are shown twice", c.Both),
		rig.Problem("lines changed", c.Changed))
	all, lines, err := p.read(ctx)
	if err != nil {
		return nil, "", err
	}
	// Each line of ours is counted above. More lines than records means that a line has an ID that was never logged.
	if len(all) > len(p.records) {
		problems = append(problems, fmt.Sprintf("%d lines that were not logged are shown", len(all)-len(p.records)))
	}
	blobs, wrong, err := p.misplaced(ctx, lines)
	if err != nil {
		return nil, "", err
	}
	if wrong > 0 {
		problems = append(problems, fmt.Sprintf("%d blobs have wrong metadata", wrong))
	}
	return problems, fmt.Sprintf("%d records are lines in %d blobs. Each is shown once, unchanged", len(p.records), blobs),
		nil
}

// misplaced counts the blobs, and those whose metadata does not cover the times of their lines.
func (p *Pattern) misplaced(ctx context.Context, lines map[string][]time.Time) (blobs, wrong int, err error) {
	for pager := p.storage.Blobs.NewListBlobsFlatPager(p.container,
		&azblob.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Metadata: true}}); pager.More(); {
		answer, err := pager.NextPage(ctx)
		if err != nil {
			return 0, 0, fmt.Errorf("list container %s: %w", p.container, err)
		}
		for _, b := range answer.Segment.BlobItems {
			blobs++
			times := map[string]time.Time{}
			// Names of metadata come back in the case in which the service or a proxy sent them.
			for name, v := range b.Metadata {
				if t, err := time.Parse(time.RFC3339Nano, ptr.Value(v)); err == nil {
					times[strings.ToLower(name)] = t
				}
			}
			// A reader skips blobs by these times without opening them: one line outside means that a query may miss it.
			for _, at := range lines[*b.Name] {
				if at.Before(times["starttime"]) || at.After(times["endtime"]) {
					wrong++
					break
				}
			}
		}
	}
	return blobs, wrong, nil
}

func (p *Pattern) Words() rig.Words {
	return rig.Words{Item: "records that are to become lines of a log", Done: "a query shows the line once",
		NotYet: "a query does not show the line", Half: "a query shows the line more than once",
		Lost: "at the end, no query shows the line", Changed: "the line differs from its record"}
}
