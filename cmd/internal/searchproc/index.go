package searchproc

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/searchapi"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/follow"
)

// Config describes an index.
type Config struct {
	// Folder has the index. Table and Fields say what it indexes, in the form of searchindex.ParseFields; without them
	// the stored index is opened as it is.
	Folder, Table, Fields string
	// InProcess carries requests to the account's tables at TablesURL; or ConnectionString names the account. Without
	// either, the index answers searches alone.
	InProcess                   http.RoundTripper
	TablesURL, ConnectionString string
	// Wait limits the wait for a folder that is in use, as that of a process that was just killed.
	Wait time.Duration
	// Faults is a plan in the form of package fault. The program gets the rules for its own points.
	Faults string
	// Log receives what the program logs. Nil discards it.
	Log *slog.Logger
	// Ended, if set, is called when the program has first ended without being asked to, or with an error.
	Ended func()
}

// Index is an index in a process of its own. Its methods are safe for concurrent use.
type Index struct {
	config Config
	token  string
	gate   *gate // nil with a connection string
	closed chan struct{}
	close  sync.Once
	ended  func() // Config.Ended, once

	mu       sync.Mutex // guards what follows
	process  *process
	failure  error // of the last start, which failed at failedAt
	failedAt time.Time
}

// errClosed means that the index was closed.
var errClosed = errors.New("the index is closed")

// retryAfter is the shortest time between a failed start of the program and the next one.
const retryAfter = time.Second

// Open starts the program. The errors [ErrProgram] and [ErrSettings] are mistakes of the user.
func Open(c Config) (*Index, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Ended == nil {
		c.Ended = func() {}
	}
	x := &Index{config: c, token: rand.Text(), closed: make(chan struct{}), ended: sync.OnceFunc(c.Ended)}
	if c.InProcess != nil {
		var err error
		if x.gate, err = openGate(c.InProcess, c.TablesURL, x.token); err != nil {
			return nil, err
		}
	}
	if _, err := x.running(); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// Close ends the program, once its index is closed. The functions that were registered must have stopped.
func (x *Index) Close() error {
	x.close.Do(func() { close(x.closed) })
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.process.stop()
	if x.process != nil && x.process.err != nil {
		x.ended()
	}
	return errors.Join(err, x.gate.close())
}

// running returns the program, which it starts if it does not run.
func (x *Index) running() (*process, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case <-x.closed:
		return nil, errClosed
	default:
	}
	if x.process.alive() {
		return x.process, nil
	}
	if time.Since(x.failedAt) < retryAfter {
		return nil, x.failure
	}
	p, err := x.start()
	if err != nil {
		x.failure, x.failedAt = err, time.Now()
		return nil, err
	}
	x.process = p
	go x.watch(p)
	return p, nil
}

// watch reports an end of the program before Close.
func (x *Index) watch(p *process) {
	<-p.exited
	select {
	case <-x.closed:
	default:
		x.config.Log.Error("the program of the search index has ended; the next step starts it again", "err", p.err,
			"table", x.config.Table)
		x.ended()
	}
}

// Ask sends a request to the program and reads its answer into the value that into points to.
func (x *Index) Ask(ctx context.Context, method, path string, body, into any) error {
	p, err := x.running()
	if err != nil {
		return err
	}
	var content []byte
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, p.url.String()+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+x.token)
	resp, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", Program, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var f Failure
		if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&f); err != nil {
			return fmt.Errorf("%s answers %s", Program, resp.Status)
		}
		if f.Restarted {
			return follow.ErrRestarted // the follower compares the error, and then reads the table again
		}
		return errors.New(f.Error)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// ServeHTTP answers searches, as searchindex.NewHandler does.
func (x *Index) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	unavailable := func(w http.ResponseWriter, _ *http.Request, err error) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(Failure{Error: err.Error()}) // The client has gone.
	}
	p, err := x.running()
	if err != nil {
		unavailable(w, r, err)
		return
	}
	forward(p.url, x.token, p.client.Transport, unavailable).ServeHTTP(w, r)
}

// forward passes requests on to a URL, with a token if it is not empty.
func forward(to *url.URL, token string, transport http.RoundTripper,
	failed func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return &httputil.ReverseProxy{Transport: transport, ErrorHandler: failed, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Del("Authorization")
		if token != "" {
			r.Out.Header.Set("Authorization", "Bearer "+token)
		}
	}}
}

// Register keeps the index in step with the changes of its table; see [workers.App.FollowTable].
func (x *Index) Register(app *workers.App, name string) *workers.Function {
	return app.FollowTable(name, x.config.Table, x)
}

// RegisterQueue keeps the index in step by messages; see [searchapi.RegisterQueue].
func (x *Index) RegisterQueue(app *workers.App, name string, options ...workers.QueueOption) *workers.Function {
	return searchapi.RegisterQueue(app, name, x, options...)
}

// Progress implements follow.Copy.
func (x *Index) Progress(ctx context.Context) (p follow.Progress, err error) {
	err = x.Ask(ctx, http.MethodGet, "/progress", nil, &p)
	return p, err
}

// Restart implements follow.Copy.
func (x *Index) Restart(ctx context.Context, p follow.Progress) error {
	return x.Ask(ctx, http.MethodPost, "/restart", p, nil)
}

// Apply implements follow.Copy.
func (x *Index) Apply(ctx context.Context, changes []workers.TableChange, p follow.Progress) error {
	step := Step{Progress: p, Changes: make([]Change, len(changes))}
	for i, c := range changes {
		step.Changes[i] = Change{c.PartitionKey, c.RowKey, c.Entity}
	}
	return x.Ask(ctx, http.MethodPost, "/apply", step, nil)
}

// Build implements searchapi.Keeper.
func (x *Index) Build(ctx context.Context) error {
	return x.Ask(ctx, http.MethodPost, "/build", nil, nil)
}

// Update implements searchapi.Keeper.
func (x *Index) Update(ctx context.Context, key tables.Key) error {
	return x.Ask(ctx, http.MethodPost, "/update", key, nil)
}

// Repair implements searchapi.Keeper.
func (x *Index) Repair(ctx context.Context) (corrected int, err error) {
	var r Repaired
	err = x.Ask(ctx, http.MethodPost, "/repair", nil, &r)
	return r.Documents, err
}

// Rebuild makes the role read the whole table again, into a new index that then replaces the current one.
func (x *Index) Rebuild(ctx context.Context) error {
	return x.Ask(ctx, http.MethodPost, "/search/rebuild", nil, nil)
}
