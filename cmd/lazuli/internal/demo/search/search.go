// Package search is the demonstration of the search-index role: a full-text index has a document for each record.
package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/internal/searchproc"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/index"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/searchapi"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// What feeds the index of the demonstration of the search-index role.
const (
	byChanges = "changes"
	ByKeys    = "keys"
)

// fields are the fields of the index of the demonstration.
const fields = "Name:text,Party:keyword,PartitionKey:keyword"

// Run runs the demonstration of a full-text index. A story is fed by messages: how far the index has followed the
// table's changes by the time of a kill is chance.
func Run(ctx context.Context, c rig.Config) (*rig.Report, error) {
	feed := ""
	if c.Story > 0 {
		feed = ByKeys
	}
	return rig.Demonstrate(ctx, c, Open(c.ConnectionString, feed))
}

// Points returns what a run visits by default.
func Points() []string { return rig.PointsOf(&Pattern{}) }

// Pattern changes records as Pattern does, and keeps an index in a folder in step with them.
type Pattern struct {
	index.Pattern
	account string // its connection string
	feed    string // byChanges or ByKeys; empty chooses by what the service has
	folder  string
}

func Open(account, feed string) func(*workers.Storage, string) (rig.Pattern, error) {
	return func(storage *workers.Storage, id string) (rig.Pattern, error) {
		if storage.Queues == nil || storage.Tables == nil {
			return nil, errors.New("the connection string must name a queue and a table endpoint")
		}
		p := &Pattern{account: account, feed: feed, Pattern: index.Pattern{Storage: storage,
			From: "LazuliDemoTerms" + id, Queue: "lazuli-demo-" + id}}
		var err error
		p.Source, err = tables.New[tables.Entity](storage.Tables, p.From)
		return p, err
	}
}

func (p *Pattern) Points() []string {
	return append(searchapi.Points(), "workers/before-delete-message", "workers/after-delete-message")
}

// OneProcess means that no round freezes a worker: a second worker cannot run at the same time, since the folder of the
// index is locked.
func (p *Pattern) OneProcess() {}

func (p *Pattern) Passes(point string, n int) int {
	if strings.HasPrefix(point, "search-index/") {
		return 1 // Batches have many changes.
	}
	return n
}

func (p *Pattern) Settings() rig.WorkerSettings {
	return rig.WorkerSettings{Queue: p.Queue, Current: p.From, Folder: p.folder, Kind: p.feed}
}

func (p *Pattern) Create(ctx context.Context) (err error) {
	if p.folder, err = os.MkdirTemp("", "lazuli-demo-search-"); err != nil {
		return err
	}
	if _, err := p.Storage.Tables.CreateTable(ctx, p.From, nil); err != nil {
		return fmt.Errorf("create table %s: %w", p.From, err)
	}
	if p.feed != "" {
		return nil
	}
	changes, err := p.Storage.HasTableChanges(ctx, p.From)
	p.feed = ByKeys
	if changes {
		p.feed = byChanges
	}
	return err
}

func (p *Pattern) Remove(ctx context.Context) error {
	err := os.RemoveAll(p.folder)
	if _, e := p.Storage.Tables.DeleteTable(ctx, p.From, nil); e != nil && !rig.NotFound(e) {
		err = errors.Join(err, fmt.Errorf("delete table %s: %w", p.From, e))
	}
	return err
}

func (p *Pattern) Load(ctx context.Context, r *rig.Run) ([]rig.Key, error) {
	return p.LoadStates(ctx, r)
}

// Reset makes items as they were loaded. The index learns of it from the next worker: by the changes, or with the
// messages that are put again.
func (p *Pattern) Reset(ctx context.Context, keys []rig.Key) error {
	for _, k := range keys {
		if err := index.ApplyState(ctx, p.Source, k, p.Before[k]); err != nil {
			return err
		}
	}
	return nil
}

// The parts of a worker's folder.
const (
	indexFolder = "index"
	addressFile = "address"
)

// verify compares the index with the table: through the worker that has it open, or in a copy of the folder, which
// leaves what the next worker has to recover.
func (p *Pattern) verify(ctx context.Context) (r searchapi.Report, err error) {
	// A worker that runs holds the lock of the folder, so only it can answer. Without one the folder is read from a copy:
	// opening it would do the recovery that the next worker is to be tested with.
	if r, err = p.ask(ctx); err == nil {
		return r, nil
	}
	folder, err := os.MkdirTemp("", "lazuli-demo-search-copy-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := os.CopyFS(folder, os.DirFS(p.folder)); err != nil {
		return r, err
	}
	x, err := searchproc.Open(searchproc.Config{Folder: filepath.Join(folder, indexFolder),
		ConnectionString: p.account})
	// Killed before the first commit; the empty report means that everything differs.
	if errors.Is(err, searchproc.ErrNoIndex) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	err = errors.Join(x.Ask(ctx, http.MethodGet, "/search/verify", nil, &r), x.Close())
	return r, err
}

// ask asks the running worker.
func (p *Pattern) ask(ctx context.Context) (r searchapi.Report, err error) {
	address, err := os.ReadFile(filepath.Join(p.folder, addressFile))
	if err != nil {
		return r, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(address)+"/search/verify", nil)
	if err != nil {
		return r, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return r, fmt.Errorf("the worker answers %s: %s", resp.Status, text)
	}
	return r, json.NewDecoder(resp.Body).Decode(&r)
}

// Converged reports whether the index equals the table. While a worker starts, neither it nor its folder can be asked.
func (p *Pattern) Converged(ctx context.Context) (bool, error) {
	r, err := p.verify(ctx)
	return err == nil && r.Complete && r.Different == 0, ctx.Err()
}

func (p *Pattern) Census(ctx context.Context, keys []rig.Key, atEnd bool) (rig.Census, error) {
	var c rig.Census
	r, err := p.verify(ctx)
	if err != nil {
		return c, err
	}
	wrong := map[rig.Key]bool{}
	for _, d := range r.Differences {
		wrong[rig.Key{Partition: d.PartitionKey, Row: d.RowKey}] = true
	}
	stored, err := p.Stored(ctx)
	if err != nil {
		return c, err
	}
	mine := map[rig.Key]bool{}
	for _, k := range keys {
		mine[k] = true
		now := stored[k]
		// Compared with the state after the change first: some changes leave a record that equals the one before.
		done := index.SameState(now, p.After[k])
		switch {
		// Three steps: what the table has, then whether the index agrees with it, then how far the change is. A table that
		// is wrong is damage whatever the index says.
		case !done && !index.SameState(now, p.Before[k]) && now != nil:
			c.Changed = append(c.Changed, k)
		case !done && now == nil && p.Before[k] != nil:
			c.Lost = append(c.Lost, k)
		case wrong[k]:
			c.Both = append(c.Both, k)
		case done:
			c.Moved = append(c.Moved, k)
		default:
			c.Kept = append(c.Kept, k)
		}
	}
	if atEnd {
		for k := range wrong {
			if !mine[k] {
				c.Orphans = append(c.Orphans, k.String())
			}
		}
		// The report lists some differences and counts all. Those beyond the list may be orphans; counting them as such
		// makes the run fail, which is the safe side.
		for range r.Different - len(r.Differences) {
			c.Orphans = append(c.Orphans, "a document beyond those listed")
		}
	}
	return c, nil
}

func (p *Pattern) Conclude(ctx context.Context, _ *rig.Run) (problems []string, summary string, err error) {
	r, err := p.verify(ctx)
	if err != nil {
		return nil, "", err
	}
	if !r.Complete {
		problems = append(problems, "the index is not complete")
	}
	for _, d := range r.Differences {
		problems = append(problems, fmt.Sprintf("the document of (%q, %q) is %s", d.PartitionKey, d.RowKey, d.What))
	}
	stored, err := p.Stored(ctx)
	if err != nil {
		return nil, "", err
	}
	// The index agreeing with the table is not enough: a worker that changes nothing would pass.
	var wrong []rig.Key
	for k := range p.After {
		if !index.SameState(stored[k], p.After[k]) {
			wrong = append(wrong, k)
		}
	}
	return append(problems, rig.Problem("records are not as they should be", wrong)...),
		fmt.Sprintf("%d records, %d documents in the index, which agree (fed by %s)", len(stored), r.Documents, p.feed), nil
}

// lockPatience is the time that a worker waits for the folder of the index, which a killed one may still have for a
// moment.
const lockPatience = 10 * time.Second

// RunWorker works on the messages of the demonstration of the search-index role until ctx is done: it makes the
// change that a message asks for, and keeps the index in step. If it is to be killed around the start or the switch of
// an index, it builds the index again.
func RunWorker(ctx context.Context, storage *workers.Storage, app *workers.App,
	s rig.WorkerSettings) (err error) {
	w, err := index.OpenStates(storage, s)
	if err != nil {
		return err
	}
	x, err := OpenIndex(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	// The points around start and switch are passed only when an index is built again.
	if strings.HasPrefix(s.Fault, "search-index/") && !strings.Contains(s.Fault, "-commit=") {
		if err := x.Rebuild(ctx); err != nil {
			return err
		}
	}
	if s.Kind == byChanges {
		x.Register(app, "search-index")
	}
	workers.Queue(app, "records", func(ctx context.Context, m *workers.Message[rig.KeyMessage]) error {
		k := rig.Key{Partition: m.Body.PartitionKey, Row: m.Body.RowKey}
		// The table's log brings the change to the index; the message has only to change the record.
		if err := w.Change(ctx, k); err != nil || s.Kind == byChanges {
			return err
		}
		// Build before Update: the first message finds no index, and Update needs one. An index that exists is left as it
		// is.
		if err := x.Build(ctx); err != nil {
			return err
		}
		return x.Update(ctx, tables.Key{PartitionKey: k.Partition, RowKey: k.Row})
	}, s.Options()...)
	return runWithSearch(ctx, app, x, s.Folder)
}

// OpenIndex opens the index of a worker. The worker dies as the program does that has the index.
func OpenIndex(s rig.WorkerSettings) (*searchproc.Index, error) {
	die := func() { _ = fault.Kill("") }
	x, err := searchproc.Open(searchproc.Config{ConnectionString: s.ConnectionString, Table: s.Current,
		Folder: filepath.Join(s.Folder, indexFolder), Fields: fields, Wait: lockPatience, Faults: s.Fault,
		Log: slog.Default(), Ended: die})
	if errors.Is(err, searchproc.ErrEnded) {
		die()
	}
	return x, err
}

// Serve answers searches at an address that it writes to the folder.
func Serve(x http.Handler, folder string) (stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: x, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }()
	path := filepath.Join(folder, addressFile)
	err = os.WriteFile(path+".new", []byte(l.Addr().String()), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return func() { _ = server.Close() }, nil
}

func (p *Pattern) Words() rig.Words {
	return rig.Words{Item: "records that are to be inserted, changed or deleted",
		Done:   "the record and the index have the change",
		NotYet: "neither the record nor the index has the change", Half: "the record and its document in the index disagree",
		Lost: "the record is gone, and should not be", Orphaned: "documents that fit no record",
		Changed: "the record is neither as before nor as after its change"}
}

// runWithSearch runs a worker until ctx is done, and answers searches in its index meanwhile.
func runWithSearch(ctx context.Context, app *workers.App, x *searchproc.Index, folder string) error {
	stop, err := Serve(x, folder)
	if err != nil {
		return err
	}
	defer stop()
	return app.Run(ctx)
}
