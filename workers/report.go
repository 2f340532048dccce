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
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
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
		if f.core.Trigger == trigger.OrchestrationTrigger {
			continue
		}
		if f.core.Gate.Set(trigger.PausedByRows, paused[f.core.Name]) {
			a.config.Logger.Info("function "+map[bool]string{true: "paused", false: "resumed"}[paused[f.core.Name]]+
				" by a row of the account", "function", f.core.Name)
			if paused[f.core.Name] {
				ends.Go(func() { f.core.Gate.EndPoll(a.config.Clock, maxPause) })
			}
		}
	}
	ends.Wait()
}

// hostFunctions is what the app's row says of its functions.
func (a *App) hostFunctions() (list []hostrow.Function) {
	for _, f := range a.functions {
		by := f.core.Gate.Pausers()
		h := hostrow.Function{Name: f.core.Name, Trigger: f.core.Trigger,
			Fixed: f.core.Trigger == trigger.OrchestrationTrigger, Paused: by != 0,
			ByAccount: by&trigger.PausedByRows != 0, InFlight: f.core.Stats.InFlight.Load(),
			Succeeded: f.core.Stats.Succeeded.Load(),
			Failed:    f.core.Stats.Failed.Load(), Poisoned: f.core.Stats.Poisoned.Load()}
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
