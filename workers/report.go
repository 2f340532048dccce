package workers

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
)

// reporter returns what writes the heartbeats of the app, or nil without them. The table is that of the default
// connection: an account without tables has no heartbeats.
func (a *App) reporter(beat time.Duration) (*hostrow.Reporter, error) {
	switch {
	case beat <= 0:
		return nil, nil
	case beat < time.Second:
		return nil, fmt.Errorf("workers: Config.Heartbeat %v is shorter than a second", beat)
	}
	storage, err := a.config.connect(connstr.DefaultConnection)
	if err != nil || storage.Tables == nil {
		return nil, nil // Functions with other connections do not need the default one.
	}
	about := a.config.About
	if about == "" {
		about = buildName()
	}
	machine, _ := os.Hostname() // "" is not known
	r := &hostrow.Reporter{Store: hostrow.Open(storage.Tables), Log: a.config.Logger, Apply: a.applyPauses,
		Process: hostrow.Process{App: a.config.HostID, ID: strings.ToLower(rand.Text()), About: about, Machine: machine,
			PID: os.Getpid(), Started: a.config.Clock.Now().UTC(), Every: beat},
		Timer: func(d time.Duration) (<-chan time.Time, func()) {
			timer := a.config.Clock.NewTimer(d)
			return timer.C(), timer.Stop
		}}
	return r, nil
}

// report writes heartbeats for a run until the returned function is called, which removes the row.
func (a *App) report(reporter *hostrow.Reporter, r *run) (end func()) {
	if reporter == nil {
		return func() {}
	}
	reporter.Snapshot = func() ([]hostrow.Function, bool) { return a.hostFunctions(), r.soft.Err() != nil }
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.hard))
	var done sync.WaitGroup
	done.Go(func() { reporter.Run(ctx) })
	return func() {
		cancel()
		done.Wait()
	}
}

// applyPauses pauses the functions that rows of the account pause, and resumes the others. It returns when they take no
// more messages, or a service does not answer.
func (a *App) applyPauses(paused map[string]bool) {
	var ends sync.WaitGroup
	for _, f := range a.functions {
		if f.trigger == orchestrationTrigger {
			continue
		}
		if f.gate.set(pausedByRows, paused[f.name]) {
			a.config.Logger.Info("function "+map[bool]string{true: "paused", false: "resumed"}[paused[f.name]]+
				" by a row of the account", "function", f.name)
			if paused[f.name] {
				ends.Go(func() { f.gate.endPoll(a.config.Clock, maxPause) })
			}
		}
	}
	ends.Wait()
}

// hostFunctions is what the app's row says of its functions.
func (a *App) hostFunctions() (list []hostrow.Function) {
	for _, f := range a.functions {
		by := f.gate.pausers()
		h := hostrow.Function{Name: f.name, Trigger: f.trigger, Fixed: f.trigger == orchestrationTrigger, Paused: by != 0,
			ByAccount: by&pausedByRows != 0, InFlight: f.stats.inFlight.Load(), Succeeded: f.stats.succeeded.Load(),
			Failed: f.stats.failed.Load(), Poisoned: f.stats.poisoned.Load()}
		if source := f.source(); len(source) == 2 {
			h.Source = fmt.Sprint(source[1])
		}
		list = append(list, h)
	}
	return list
}

// buildName names the program, its version and that of Go: "orders v1.2.0, go1.26.1".
func buildName() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return runtime.Version()
	}
	name, version := path.Base(info.Path), info.Main.Version
	if version == "(devel)" {
		version = ""
	}
	return strings.TrimSpace(name+" "+version) + ", " + runtime.Version()
}
