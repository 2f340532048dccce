package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
)

// Archive runs the demonstration of the archive role. The report is complete as far as the run came, also when an error
// is returned.
func Archive(ctx context.Context, c Config) (*Report, error) { return demonstrate(ctx, c, openArchive) }

// Points returns what a run of Archive visits by default.
func Points() []string { return pointsOf(&archivePattern{}) }

// archivePattern moves old records from one table to another.
type archivePattern struct {
	storage                *workers.Storage
	current, target, queue string
	records                map[entityKey][]byte
	loaded                 contents
	old                    map[entityKey]bool
}

func openArchive(storage *workers.Storage, id string) (pattern, error) {
	if storage.Queues == nil || storage.Tables == nil {
		return nil, errors.New("the connection string must name a queue and a table endpoint")
	}
	return &archivePattern{storage: storage, current: "LazuliDemoCurrent" + id, target: "LazuliDemoArchive" + id,
		queue: "lazuli-demo-" + id}, nil
}

func (p *archivePattern) points() []string      { return archive.Points() }
func (p *archivePattern) kind(entityKey) string { return "" }
func (p *archivePattern) holdUp() string        { return "archive/before-copy" }
func (p *archivePattern) concurrency() int      { return 16 }
func (p *archivePattern) settings() WorkerSettings {
	return WorkerSettings{Queue: p.queue, Current: p.current, Archive: p.target}
}
func (p *archivePattern) passes(_ string, n int) int              { return n }
func (p *archivePattern) plan(k kill) string                      { return k.String() }
func (p *archivePattern) converged(context.Context) (bool, error) { return true, nil }

func (p *archivePattern) create(ctx context.Context) error {
	for _, table := range []string{p.current, p.target} {
		if _, err := p.storage.Tables.CreateTable(ctx, table, nil); err != nil {
			return fmt.Errorf("create table %s: %w", table, err)
		}
	}
	return nil
}

// remove deletes the tables. Missing tables are not an error.
func (p *archivePattern) remove(ctx context.Context) (err error) {
	for _, table := range []string{p.current, p.target} {
		if _, e := p.storage.Tables.DeleteTable(ctx, table, nil); e != nil && !notFound(e) {
			err = errors.Join(err, fmt.Errorf("delete table %s: %w", table, e))
		}
	}
	return err
}

func (p *archivePattern) load(ctx context.Context, r *run) (work []entityKey, err error) {
	entities, err := loadRecords(r.Records)
	if err != nil {
		return nil, err
	}
	var n atomic.Int64
	if err := p.insert(ctx, entities, func(more int) {
		r.say.update("loading records into %s: %d of %d", p.current, n.Add(int64(more)), len(entities))
	}); err != nil {
		return nil, err
	}
	// What the service returns is the measure, not what was sent: conclude compares byte for byte, and the service writes
	// numbers and times in its own form.
	if p.loaded, err = p.read(ctx, p.current); err != nil {
		return nil, err
	}
	// A load that lost a record would hide a loss: no census could miss a record that it never saw.
	if len(p.loaded) != len(entities) {
		return nil, fmt.Errorf("%w: %d records were loaded, %d are in the table", ErrInvariant, len(entities), len(p.loaded))
	}
	p.old, p.records = map[entityKey]bool{}, map[entityKey][]byte{}
	for _, e := range entities {
		p.records[e.key] = e.json
		if e.old {
			work = append(work, e.key)
			p.old[e.key] = true
		}
	}
	r.report.Records, r.report.Old = len(entities), len(work)
	r.say.line("loaded %d records; %d are of terms that ended by %s and go to the archive", len(entities), len(work),
		cutoff.Format(time.DateOnly))
	return work, nil
}

// reset brings records back from the archive.
func (p *archivePattern) reset(ctx context.Context, keys []entityKey) error {
	for _, k := range keys {
		if _, err := p.storage.Tables.NewClient(p.current).UpsertEntity(ctx, p.records[k],
			&aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace}); err != nil {
			return err
		}
		if _, err := p.storage.Tables.NewClient(p.target).DeleteEntity(ctx, k.partition, k.row, nil); err != nil &&
			!notFound(err) {
			return err
		}
	}
	return nil
}

func (p *archivePattern) message(k entityKey) ([]byte, error) {
	return json.Marshal(archive.Key{PartitionKey: k.partition, RowKey: k.row})
}

func (p *archivePattern) census(ctx context.Context, keys []entityKey, _ bool) (census, error) {
	share := contents{}
	for _, k := range keys {
		share[k] = p.loaded[k]
	}
	current, err := p.read(ctx, p.current)
	if err != nil {
		return census{}, err
	}
	archived, err := p.read(ctx, p.target)
	if err != nil {
		return census{}, err
	}
	return take(share, current, archived), nil
}

func (p *archivePattern) conclude(ctx context.Context, r *run) (problems []string, summary string, err error) {
	current, err := p.read(ctx, p.current)
	if err != nil {
		return nil, "", err
	}
	archived, err := p.read(ctx, p.target)
	if err != nil {
		return nil, "", err
	}
	// One look at each table after the workers stopped: a record that is in both was copied and not deleted, one in
	// neither was deleted before its copy was stored.
	all := take(p.loaded, current, archived)
	isOld := func(k entityKey) bool { return p.old[k] }
	isNew := func(k entityKey) bool { return !p.old[k] }
	r.report.Current, r.report.Archived = len(current), len(archived)
	return slices.Concat(
			problem("records are lost", all.Lost),
			problem("records are in both tables", all.Both),
			problem("records changed", all.Changed),
			// Kept and Moved hold what is in the right number of tables; here the wrong table of the two counts.
			problem("old records are still in Current", slices.DeleteFunc(slices.Clone(all.Kept), isNew)),
			problem("records in the archive are not old", slices.DeleteFunc(slices.Clone(all.Moved), isOld)),
			problem("entities that were not loaded are in Current", strangers(p.loaded, current)),
			problem("entities that were not loaded are in the archive", strangers(p.loaded, archived)),
		), fmt.Sprintf("%d records: %d in Current, %d in the archive. Every record is in exactly one table, unchanged",
			r.report.Records, len(current), len(archived)), nil
}

func (p *archivePattern) words() words {
	return words{item: "records that are to be moved from the table Current to the table Archive",
		done: "in Archive alone", notYet: "in Current alone", half: "in both tables", lost: "in neither table",
		changed: "with another content than was loaded"}
}
