package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/killrig"
)

// plan resolves what cfg names: the workloads and the two targets' endpoints, nil for a target that is not named.
func (c *Config) plan() (chosen []*Workload, stacks [2]*Stack, err error) {
	if err := c.validate(); err != nil {
		return nil, stacks, err
	}
	if chosen, err = selectWorkloads(c.Workloads); err != nil {
		return nil, stacks, err
	}
	for i, s := range []string{c.Connection, c.Versus} {
		if s == "" {
			continue
		}
		if stacks[i], err = ParseConnectionString(s); err != nil {
			return nil, stacks, err
		}
	}
	return chosen, stacks, nil
}

// Run measures. The report holds whatever was measured before an error or the end of ctx. A Config that makes no sense
// is a SettingsError.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	chosen, stacks, err := cfg.plan()
	if err != nil {
		return nil, SettingsError{Cause: err}
	}
	r := &run{cfg: &cfg, id: runID(), stacks: stacks}
	defer r.close()
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	r.report = newReport(&cfg, r.envs, r.server)
	for i, w := range chosen {
		if err := ctx.Err(); err != nil {
			return r.report, err
		}
		r.report.add(w, r.workload(ctx, w, i, len(chosen)))
	}
	return r.report, r.finish(ctx)
}

// run is one execution of Run.
type run struct {
	cfg    *Config
	id     string
	stacks [2]*Stack // of the connection strings
	envs   []*env    // the measured targets, without the floor
	floor  *Target
	server *stackServer
	report *Report

	floorChild  *killrig.Process
	stopCluster func()
}

func runID() string {
	var b [4]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// open starts what has to be started and connects to the targets.
func (r *run) open(ctx context.Context) error {
	first := &Target{Name: "target", Stack: r.stacks[0], PID: r.cfg.ServerPID}
	var err error
	if first.Stack == nil {
		if r.server, err = startStack(ctx, r.cfg.Command, r.cfg.ServeArgs, r.cfg.TempDir); err != nil {
			return err
		}
		first.Stack, first.PID = r.server.stack, r.server.Pid()
	}
	targets := []*Target{first}
	if r.stacks[1] != nil {
		targets = append(targets, &Target{Name: "versus", Stack: r.stacks[1], PID: r.cfg.VersusPID})
	}
	for _, t := range targets {
		// Before the cluster is started, whose target has a name already.
		identify(t)
	}
	if r.cfg.cluster != nil {
		var second *Target
		if second, r.stopCluster, err = r.cfg.cluster(ctx); err != nil {
			return err
		}
		targets = append(targets, second)
	}
	// Two servers of one kind: results are kept by name.
	if len(targets) == 2 && targets[0].Name == targets[1].Name {
		targets[1].Name += "-2"
	}
	for _, t := range targets {
		// The same id for all targets: tables and containers have the same names, and names of the same length.
		r.envs = append(r.envs, newEnv(ctx, t, r.cfg, r.id))
	}
	// Last, so that a failure above leaves no process.
	if r.cfg.floor != nil {
		if r.floorChild, r.floor, err = r.cfg.floor(); err != nil {
			return err
		}
	}
	return nil
}

// identify names a target after the Server header of its answers.
func identify(t *Target) {
	c := newConn(t)
	defer c.Close()
	req := NewRequest(Blob, "GET", "identify", 200)
	req.Path = []byte("/")
	req.Query = []Param{{"comp", []byte("list")}}
	if _, err := c.Do(req); c.res.Status == 0 && err != nil {
		return
	}
	server := strings.ToLower(string(c.res.Header("Server")))
	for _, name := range []string{"lazuli", "azurite", "windows-azure"} {
		if strings.Contains(server, name) {
			t.Name = strings.TrimPrefix(name, "windows-")
		}
	}
}

// workload measures one workload, the i-th of n, on all targets in turns.
func (r *run) workload(ctx context.Context, w *Workload, i, n int) []*measurement {
	r.cfg.progress("%s: %s", w.Name, w.About)
	var ms []*measurement
	for _, e := range r.envs {
		// A target that cannot do a workload does not end the run for the other: Azurite lacks some.
		if err := w.prepare(e); err != nil {
			r.cfg.progress("%s: %v", e.target.Name, err)
			ms = append(ms, &measurement{env: e, workload: w, failed: err})
			continue
		}
		ms = append(ms, newMeasurement(e, w, r.cfg.MaxErrors))
	}
	// After the targets were prepared: the floor answers with what they answered.
	if f := r.floorMeasurement(w, ms); f != nil {
		defer func() { f.env.close(false) }()
		ms = append(ms, f)
	}
	for _, m := range ms {
		// All targets are warm before the first slice of any: caches of the machine are shared.
		if m.failed == nil && r.cfg.Warmup > 0 {
			m.slice(ctx, r.cfg.Warmup, false)
		}
	}
	// Slices of the targets take turns. A machine that becomes slow for a while is slow for all of them.
	for round := 0; ctx.Err() == nil; round++ {
		worked := false
		for turn := range ms {
			// The order rotates, so that no target always follows the same one.
			m := ms[(round+turn)%len(ms)]
			if m.failed != nil || m.spent >= r.cfg.Duration {
				continue
			}
			m.slice(ctx, min(r.cfg.Slice, r.cfg.Duration), true)
			worked = true
		}
		r.measured(ms, i, n)
		if !worked {
			break
		}
	}
	return ms
}

// measured shows how much of the run is done in the i-th of n workloads.
func (r *run) measured(ms []*measurement, i, n int) {
	if r.cfg.Measured == nil {
		return
	}
	each := r.cfg.Duration * time.Duration(len(ms))
	done := each * time.Duration(i)
	for _, m := range ms {
		if m.failed != nil {
			done += r.cfg.Duration
		} else {
			done += min(m.spent, r.cfg.Duration)
		}
	}
	r.cfg.Measured(done, each*time.Duration(n))
}

// floorMeasurement teaches the floor the answers of the first target that is able to give them; nil without a floor.
func (r *run) floorMeasurement(w *Workload, ms []*measurement) *measurement {
	if r.floor == nil {
		return nil
	}
	for _, m := range ms {
		if m.failed != nil {
			continue
		}
		if err := recordSamples(m.env, w, r.floor); err != nil {
			r.cfg.progress("%v", err)
			continue
		}
		return newMeasurement(m.env.onFloor(r.floor), w, r.cfg.MaxErrors)
	}
	return nil
}

// finish takes the last readings.
func (r *run) finish(ctx context.Context) error {
	for i, e := range r.envs {
		r.report.Targets[i].After = ReadMemory(e.target.PID)
	}
	if !r.cfg.Restart || ctx.Err() != nil {
		return ctx.Err()
	}
	r.cfg.progress("restarting the server on its data")
	d, err := r.server.restart(ctx)
	if err != nil {
		return err
	}
	t := r.report.Targets[0]
	t.RestartMS = milliseconds(d)
	t.Restarted = ReadMemory(r.server.Pid())
	return nil
}

func (r *run) close() {
	for i, e := range r.envs {
		own := i == 0 && r.server != nil
		e.close(!own)
	}
	if r.server != nil {
		r.server.close()
	}
	if r.floorChild != nil {
		stop(r.floorChild)
	}
	if r.stopCluster != nil {
		r.stopCluster()
	}
}
