package demo

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

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

// LogStorage runs the demonstration of the log-storage role: records from a queue become lines of blobs.
func LogStorage(ctx context.Context, c Config) (*Report, error) {
	return demonstrate(ctx, c, openLogStorage)
}

// LogStoragePoints returns what a run of LogStorage visits by default.
func LogStoragePoints() []string { return pointsOf(&logPattern{}) }

// logService is the service whose log is written.
const logService = "terms"

// logBegin is the time of the first line, and logStep the time between two.
var logBegin = time.Date(2026, 3, 1, 21, 30, 0, 0, time.UTC)

const logStep = 5 * time.Second

// logPattern writes a line for each record.
type logPattern struct {
	storage          *workers.Storage
	container, queue string
	records          map[entityKey]logstore.Record
}

func openLogStorage(storage *workers.Storage, id string) (pattern, error) {
	if storage.Queues == nil || storage.Blobs == nil {
		return nil, errors.New("the connection string must name a queue and a blob endpoint")
	}
	return &logPattern{storage: storage, container: "lazuli-demo-" + id, queue: "lazuli-demo-" + id}, nil
}

func (p *logPattern) points() []string      { return logstore.Points() }
func (p *logPattern) kind(entityKey) string { return "" }
func (p *logPattern) holdUp() string        { return "log-storage/before-write" }
func (p *logPattern) concurrency() int      { return 16 }
func (p *logPattern) settings() WorkerSettings {
	return WorkerSettings{Queue: p.queue, Container: p.container}
}
func (p *logPattern) plan(k kill) string                      { return k.String() }
func (p *logPattern) converged(context.Context) (bool, error) { return true, nil }

// reset leaves the lines where they are: a message that comes again passes all points again.
func (p *logPattern) reset(context.Context, []entityKey) error { return nil }

// passes: a blob is written for several messages, and the first one must come.
func (p *logPattern) passes(point string, n int) int {
	if point == logstore.Points()[0] || point == logstore.Points()[1] {
		return 1
	}
	return n
}

func (p *logPattern) create(ctx context.Context) error {
	if _, err := p.storage.Blobs.CreateContainer(ctx, p.container, nil); err != nil {
		return fmt.Errorf("create container %s: %w", p.container, err)
	}
	return nil
}

func (p *logPattern) remove(ctx context.Context) error {
	if _, err := p.storage.Blobs.DeleteContainer(ctx, p.container, nil); err != nil && !notFound(err) {
		return fmt.Errorf("delete container %s: %w", p.container, err)
	}
	return nil
}

func (p *logPattern) load(_ context.Context, r *run) ([]entityKey, error) {
	entities, err := loadRecords(r.Records)
	if err != nil {
		return nil, err
	}
	p.records = map[entityKey]logstore.Record{}
	var keys []entityKey
	for i, e := range entities {
		level := slog.LevelInfo
		if !e.old {
			level = slog.LevelError
		}
		p.records[e.key] = logstore.Record{
			// Times that grow with the index spread the records over several blobs; all in one second would make one blob.
			Service: logService, Time: logBegin.Add(time.Duration(i) * logStep), Level: level, Message: e.key.String(),
			ID: e.key.String(), Attrs: e.json,
		}
		keys = append(keys, e.key)
	}
	r.report.Records, r.report.Old = len(keys), len(keys)
	r.say.line("%d records are to become lines of a log", len(keys))
	return keys, nil
}

func (p *logPattern) message(k entityKey) ([]byte, error) { return json.Marshal(p.records[k]) }

// seen are the lines that queries show, by what they say, which is their record's: how often, and the line.
type seen struct {
	times  int
	record logstore.Record
}

// read asks for the whole log, and returns also in which blobs lines were found.
func (p *logPattern) read(ctx context.Context) (map[string]seen, map[string][]time.Time, error) {
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

func (p *logPattern) census(ctx context.Context, keys []entityKey, atEnd bool) (census, error) {
	var c census
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

func (p *logPattern) conclude(ctx context.Context, _ *run) (problems []string, summary string, err error) {
	var keys []entityKey
	for k := range p.records {
		keys = append(keys, k)
	}
	c, err := p.census(ctx, keys, true)
	if err != nil {
		return nil, "", err
	}
	problems = slices.Concat(problem("lines are lost", c.Lost), problem("lines are shown twice", c.Both),
		problem("lines changed", c.Changed))
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
func (p *logPattern) misplaced(ctx context.Context, lines map[string][]time.Time) (blobs, wrong int, err error) {
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

func (p *logPattern) words() words {
	return words{item: "records that are to become lines of a log", done: "a query shows the line once",
		notYet: "a query does not show the line", half: "a query shows the line more than once",
		lost: "at the end, no query shows the line", changed: "the line differs from its record"}
}
