package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
)

// Config describes a run.
type Config struct {
	// Command returns a command of lazuli: serve and fsck with their arguments.
	Command func(args ...string) *exec.Cmd
	// Folder receives the data folders; empty is a new temporary folder. It is removed at the end of a run in which
	// nothing is wrong.
	Folder string
	// Rounds and Limit end the run, whichever comes first; 0 means no limit. One of them must be positive.
	Rounds int
	Limit  time.Duration
	// Seed makes the random choices.
	Seed uint64
	// Clients is the number of clients of each service, and of shared keys; at least 1.
	Clients int
	// MaxLoad bounds the random time of load in a round; 0 means 1.5 s.
	MaxLoad time.Duration
	// FsckEvery is the number of rounds between checks of a copy by fsck; 0 means none but that at the end.
	FsckEvery int
	// Damage is the number of damaged copies that are tried in each round.
	Damage int
	// Tier keeps content in an object store, a folder; it does not go together with Damage, whose copies would take it.
	Tier bool
	// Progress receives a line per round; nil means none.
	Progress io.Writer
}

// client sends requests to one service and has the model of what it wrote. One goroutine uses it at a time.
type client interface {
	// connect makes it use a server. It sends nothing.
	connect(p *process) error
	// setup creates what it writes into.
	setup(ctx context.Context) error
	// step does one operation. Its error is a Finding, an answer that the model does not expect, or a broken connection.
	step(ctx context.Context, rnd *rand.Rand) error
	// check compares everything with the model. final may change the data.
	check(ctx context.Context, out *checker, final bool)
}

// run is a Run in progress.
type run struct {
	Config
	rnd     *rand.Rand
	data    string // the data folder
	tier    string // the folder of the tier
	clients []client
	report  Report
}

// Run tests a server. The report is complete as far as the run came, also when an error is returned; the error means
// that the run could not go on, a broken promise is in the report.
func Run(ctx context.Context, c Config) (*Report, error) {
	if c.Rounds <= 0 && c.Limit <= 0 || c.Clients < 1 || c.Damage < 0 || c.FsckEvery < 0 ||
		c.Tier && c.Damage > 0 {
		return nil, errors.New("chaos: a limit of rounds or time, and at least one client are needed")
	}
	if c.MaxLoad == 0 {
		c.MaxLoad = 1500 * time.Millisecond
	}
	folder, err := os.MkdirTemp(c.Folder, "lazuli-chaos-")
	if err != nil {
		return nil, err
	}
	c.Folder = folder
	// The rounds use stream 0; each client has streams of its own, by round.
	r := &run{Config: c, rnd: rand.New(rand.NewPCG(c.Seed, 0)), data: filepath.Join(folder, "data")}
	r.report.Seed = c.Seed
	keys := newShared()
	for i := range c.Clients {
		r.clients = append(r.clients, newTableClient(i), newBlobClient(i), newQueueClient(i),
			&sharedClient{shared: keys, first: i == 0})
		if c.Tier {
			r.clients = append(r.clients, &contentClient{number: i})
		}
	}
	if c.Tier {
		r.tier = filepath.Join(folder, "tier")
		r.Command = withTier(c.Command, r.tier)
	}
	begun := time.Now()
	err = r.rounds(ctx, begun)
	r.report.Took = time.Since(begun)
	// The folder of a failed run is the evidence.
	if err == nil && r.report.OK() {
		err = os.RemoveAll(folder)
	} else {
		r.report.Kept = append(r.report.Kept, folder)
	}
	return &r.report, err
}

func (r *run) rounds(ctx context.Context, begun time.Time) error {
	for round := 1; ; round++ {
		if err := r.round(ctx, round); err != nil || len(r.report.Findings) > 0 {
			return err
		}
		r.report.Rounds = round
		if r.Rounds > 0 && round >= r.Rounds || r.Limit > 0 && time.Since(begun) > r.Limit {
			return r.finish(ctx)
		}
	}
}

// round starts a server, compares, and ends the server under load.
func (r *run) round(ctx context.Context, round int) error {
	copied := ""
	// The copy is taken while no server runs, so it is the state that the server below starts on; damage to it can be
	// told from damage by the kill.
	if r.Damage > 0 && round > 1 {
		copied = filepath.Join(r.Folder, "copy")
		if err := copyFolder(copied, r.data); err != nil {
			return err
		}
		defer os.RemoveAll(copied)
	}
	p, err := r.startOfRound(ctx, round)
	if err != nil {
		return r.startFailed(ctx, round, err)
	}
	defer p.kill()
	if err := r.connect(p); err != nil {
		return err
	}
	if round == 1 {
		for _, c := range r.clients {
			if err := c.setup(ctx); err != nil {
				return err
			}
		}
		// Compared before any load: what is read now was there when the process died.
	} else if found := r.compare(ctx, false); r.failed(round, found.findings) {
		return ctx.Err()
	}
	if copied != "" {
		if err := r.damageAll(ctx, round, copied); err != nil {
			return err
		}
		// The clients were connected to the servers of the copies.
		if err := r.connect(p); err != nil {
			return err
		}
	}
	steps := r.report.Steps
	found, how := r.load(ctx, round, p)
	r.say("round %d: ready, %d answered, %s", round, r.report.Steps-steps, how)
	// fsck reads the whole folder, which grows; each round would spend its time there.
	if r.failed(round, found.findings) || r.FsckEvery == 0 || round%r.FsckEvery != 0 {
		return ctx.Err()
	}
	return r.fsckClean(ctx, round)
}

// startOfRound starts the server, in one of five cases after it was killed while it started.
func (r *run) startOfRound(ctx context.Context, round int) (*process, error) {
	if round > 1 && r.rnd.IntN(5) == 0 {
		p, err := r.launch(r.data)
		if err != nil {
			return nil, err
		}
		pause(ctx, time.Duration(r.rnd.IntN(300))*time.Millisecond)
		p.kill()
		r.report.StartKills++
	}
	begun := time.Now()
	p, err := r.start(ctx, r.data)
	r.report.SlowestStart = max(r.report.SlowestStart, time.Since(begun))
	return p, err
}

// startFailed makes a finding of a server that did not start.
func (r *run) startFailed(ctx context.Context, round int, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.failed(round, []*Finding{{Kind: Refused, What: err.Error()}})
	return nil
}

// failed records findings and reports whether there are any.
func (r *run) failed(round int, findings []*Finding) bool {
	for _, f := range findings {
		f.Round = round
		r.say("round %d: %v", round, f)
	}
	r.report.Findings = append(r.report.Findings, findings...)
	return len(findings) > 0
}

func (r *run) say(format string, args ...any) {
	if r.Progress != nil {
		fmt.Fprintf(r.Progress, format+"\n", args...)
	}
}

func (r *run) connect(p *process) error {
	for _, c := range r.clients {
		if err := c.connect(p); err != nil {
			return err
		}
	}
	return nil
}

// compare lets all clients compare what the server has with their models.
func (r *run) compare(ctx context.Context, final bool) *checker {
	out := &checker{}
	r.checkAll(ctx, out, final)
	r.report.Checks++
	return out
}

func (r *run) checkAll(ctx context.Context, out *checker, final bool) {
	var all sync.WaitGroup
	for _, c := range r.clients {
		all.Go(func() { c.check(ctx, out, final) })
	}
	all.Wait()
}

// load lets all clients work until the process is ended, and says how it was.
func (r *run) load(ctx context.Context, round int, p *process) (*checker, string) {
	var (
		ending        atomic.Bool
		steps, doubts atomic.Int64
		all           sync.WaitGroup
		out           = &checker{}
		before        = p.writes.n.Load()
	)
	for i, c := range r.clients {
		rnd := rand.New(rand.NewPCG(r.Seed, uint64(round)<<16|uint64(i+1)))
		all.Go(func() {
			// A client stops at its first error: its model is exact only if it knows the outcome of every request but the
			// last.
			for !ending.Load() {
				err := c.step(ctx, rnd)
				if err == nil {
					steps.Add(1)
					continue
				}
				// An error without an answer, or a 5xx, is doubt only while the server is being ended. Before that it is a
				// finding: the server was to answer.
				if s := status(err); ending.Load() && !errors.As(err, new(*Finding)) && (s == 0 || s >= 500) {
					doubts.Add(1)
				} else {
					out.add(err)
				}
				return
			}
		})
	}
	pause(ctx, 20*time.Millisecond+time.Duration(r.rnd.Int64N(int64(r.MaxLoad))))
	// Asked before the end is begun, or a crash would be taken for the kill.
	if !p.Running() {
		out.found(Refused, "the server ended by itself: %v\n%s", p.Err(), p.Output())
	}
	ending.Store(true)
	how, err := r.end(ctx, p)
	out.add(err)
	all.Wait()
	r.report.Steps += steps.Load()
	r.report.Doubts += doubts.Load()
	r.report.Writes += p.writes.n.Load() - before
	return out, how
}

// end ends a server in one of the ways.
func (r *run) end(ctx context.Context, p *process) (how string, err error) {
	switch n := r.rnd.IntN(10); {
	case n < 2 && killrig.HasSignals:
		r.report.Stops++
		return "stopped", p.terminate()
	case n < 4:
		r.report.Pauses++
		p.Pause()
		pause(ctx, time.Duration(r.rnd.IntN(400))*time.Millisecond)
		p.kill()
		return "paused and killed", nil
	default:
		r.report.Kills++
		p.kill()
		return "killed", nil
	}
}

// finish compares for the last time, stops the server in order, and checks the folder.
func (r *run) finish(ctx context.Context) error {
	p, err := r.start(ctx, r.data)
	if err != nil {
		return r.startFailed(ctx, r.report.Rounds, err)
	}
	defer p.kill()
	if err := r.connect(p); err != nil {
		return err
	}
	found := r.compare(ctx, true)
	if killrig.HasSignals {
		found.add(p.terminate())
	} else {
		p.kill()
	}
	if r.failed(r.report.Rounds, found.findings) || ctx.Err() != nil {
		return ctx.Err()
	}
	if err := r.fsckClean(ctx, r.report.Rounds); err != nil || !r.Tier {
		return err
	}
	return r.sweep(ctx)
}

// fsckClean checks a copy of the data folder.
func (r *run) fsckClean(ctx context.Context, round int) error {
	copied := filepath.Join(r.Folder, "fsck")
	if err := copyFolder(copied, r.data); err != nil {
		return err
	}
	defer os.RemoveAll(copied)
	report, err := r.fsck(ctx, copied)
	if err != nil {
		return err
	}
	r.report.Fscks++
	for _, f := range report.Findings {
		if f.Severity == fsck.Error {
			r.failed(round, []*Finding{{Kind: Unclean, What: f.String()}})
		}
	}
	return nil
}

// fsck runs `lazuli fsck`.
func (r *run) fsck(ctx context.Context, folder string) (*fsck.Report, error) {
	cmd := r.Command("fsck", folder, "--json")
	errs := &killrig.Tail{}
	cmd.Stderr = errs
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var report fsck.Report
	if e := json.Unmarshal(out, &report); e != nil {
		return nil, fmt.Errorf("fsck of %s: %w\n%s", folder, err, errs)
	}
	return &report, nil
}

// copyFolder makes to a copy of from.
func copyFolder(to, from string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}

// pause waits for a time, the one thing here that is to happen at a random moment.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
