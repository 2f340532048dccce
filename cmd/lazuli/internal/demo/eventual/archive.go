// Package eventual is the demonstration of eventually consistent transactions: the archive role moves records from one
// table to another, and each is in exactly one of them at the end.
package eventual

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/records"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
)

// Run runs the demonstration of the archive role. The report is complete as far as the run came, also when an error
// is returned.
func Run(ctx context.Context, c rig.Config) (*rig.Report, error) {
	return rig.Demonstrate(ctx, c, openArchive)
}

// Points returns what a run of Archive visits by default.
func Points() []string { return rig.PointsOf(&Pattern{}) }

// Pattern moves old records from one table to another.
type Pattern struct {
	storage                *workers.Storage
	current, target, queue string
	records                map[rig.Key][]byte
	loaded                 rig.Contents
	old                    map[rig.Key]bool
}

func openArchive(storage *workers.Storage, id string) (rig.Pattern, error) {
	if storage.Queues == nil || storage.Tables == nil {
		return nil, errors.New("the connection string must name a queue and a table endpoint")
	}
	return &Pattern{storage: storage, current: "LazuliDemoCurrent" + id, target: "LazuliDemoArchive" + id,
		queue: "lazuli-demo-" + id}, nil
}

func (p *Pattern) Points() []string    { return archive.Points() }
func (p *Pattern) Kind(rig.Key) string { return "" }
func (p *Pattern) HoldUp() string      { return "archive/before-copy" }
func (p *Pattern) Concurrency() int    { return 16 }
func (p *Pattern) Settings() rig.WorkerSettings {
	return rig.WorkerSettings{Queue: p.queue, Current: p.current, Archive: p.target}
}
func (p *Pattern) Passes(_ string, n int) int              { return n }
func (p *Pattern) Plan(k rig.Kill) string                  { return k.String() }
func (p *Pattern) Converged(context.Context) (bool, error) { return true, nil }

func (p *Pattern) Create(ctx context.Context) error {
	for _, table := range []string{p.current, p.target} {
		if _, err := p.storage.Tables.CreateTable(ctx, table, nil); err != nil {
			return fmt.Errorf("create table %s: %w", table, err)
		}
	}
	return nil
}

// Remove deletes the tables. Missing tables are not an error.
func (p *Pattern) Remove(ctx context.Context) (err error) {
	for _, table := range []string{p.current, p.target} {
		if _, e := p.storage.Tables.DeleteTable(ctx, table, nil); e != nil && !rig.NotFound(e) {
			err = errors.Join(err, fmt.Errorf("delete table %s: %w", table, e))
		}
	}
	return err
}

func (p *Pattern) Load(ctx context.Context, r *rig.Run) (work []rig.Key, err error) {
	entities, err := records.Entities(r.Records)
	if err != nil {
		return nil, err
	}
	var n atomic.Int64
	if err := p.insert(ctx, entities, func(more int) {
		r.Say.Update("loading records into %s: %d of %d", p.current, n.Add(int64(more)), len(entities))
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
		return nil, fmt.Errorf("%w: %d records were loaded, %d are in the table", rig.ErrInvariant, len(entities),
			len(p.loaded))
	}
	p.old, p.records = map[rig.Key]bool{}, map[rig.Key][]byte{}
	for _, e := range entities {
		p.records[e.Key] = e.JSON
		if e.Old {
			work = append(work, e.Key)
			p.old[e.Key] = true
		}
	}
	r.Report.Records, r.Report.Old = len(entities), len(work)
	r.Say.Line("loaded %d records; %d are of terms that ended by %s and go to the archive", len(entities), len(work),
		records.Cutoff.Format(time.DateOnly))
	return work, nil
}

// Reset brings records back from the archive.
func (p *Pattern) Reset(ctx context.Context, keys []rig.Key) error {
	for _, k := range keys {
		if _, err := p.storage.Tables.NewClient(p.current).UpsertEntity(ctx, p.records[k],
			&aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace}); err != nil {
			return err
		}
		if _, err := p.storage.Tables.NewClient(p.target).DeleteEntity(ctx, k.Partition, k.Row, nil); err != nil &&
			!rig.NotFound(err) {
			return err
		}
	}
	return nil
}

func (p *Pattern) Message(k rig.Key) ([]byte, error) {
	return json.Marshal(archive.Key{PartitionKey: k.Partition, RowKey: k.Row})
}

func (p *Pattern) Census(ctx context.Context, keys []rig.Key, _ bool) (rig.Census, error) {
	share := rig.Contents{}
	for _, k := range keys {
		share[k] = p.loaded[k]
	}
	current, err := p.read(ctx, p.current)
	if err != nil {
		return rig.Census{}, err
	}
	archived, err := p.read(ctx, p.target)
	if err != nil {
		return rig.Census{}, err
	}
	return rig.Take(share, current, archived), nil
}

func (p *Pattern) Conclude(ctx context.Context, r *rig.Run) (problems []string, summary string, err error) {
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
	all := rig.Take(p.loaded, current, archived)
	isOld := func(k rig.Key) bool { return p.old[k] }
	isNew := func(k rig.Key) bool { return !p.old[k] }
	r.Report.Current, r.Report.Archived = len(current), len(archived)
	return slices.Concat(
			rig.Problem("records are lost", all.Lost),
			rig.Problem("records are in both tables", all.Both),
			rig.Problem("records changed", all.Changed),
			// Kept and Moved hold what is in the right number of tables; here the wrong table of the two counts.
			rig.Problem("old records are still in Current", slices.DeleteFunc(slices.Clone(all.Kept), isNew)),
			rig.Problem("records in the archive are not old", slices.DeleteFunc(slices.Clone(all.Moved), isOld)),
			rig.Problem("entities that were not loaded are in Current", rig.Strangers(p.loaded, current)),
			rig.Problem("entities that were not loaded are in the archive", rig.Strangers(p.loaded, archived)),
		), fmt.Sprintf("%d records: %d in Current, %d in the archive. Every record is in exactly one table, unchanged",
			r.Report.Records, len(current), len(archived)), nil
}

func (p *Pattern) Words() rig.Words {
	return rig.Words{Item: "records that are to be moved from the table Current to the table Archive",
		Done: "in Archive alone", NotYet: "in Current alone", Half: "in both tables", Lost: "in neither table",
		Changed: "with another content than was loaded"}
}
