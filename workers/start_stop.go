package workers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// run is the state from Start to the end of Stop.
type run struct {
	listeners []trigger.Listener // one per function, in order; behind them the engine of an app without durable functions
	engine    *durableListener   // nil without an engine
	// soft is done when no new calls may start, hard when running calls are to be cancelled.
	soft, hard         context.Context
	stopSoft, stopHard context.CancelFunc
	done               chan struct{} // closed when every listener has returned; errs is then final

	mu   sync.Mutex // guards errs
	errs []error
}

// Start creates the clients and the listeners. It returns when all functions listen and the beginnings of table
// triggers are stored: whatever changes after that triggers its function. It returns an error if nothing was started.
// With Config.Durable, functions listen once the task hub is open, so that their handlers have its client.
// When ctx is done, the app stops as by Stop with Config.DrainTimeout. The contexts of handlers have the values of ctx.
//
// Queues, containers and tables may be missing at the time of the call: a table trigger then begins with the creation
// of its table. The storage account may be unavailable: after ten seconds Start logs that, and the app tries again and
// begins when the account answers.
func (a *App) Start(ctx context.Context) error { return a.start(ctx, a.config.Heartbeat) }

// start is Start with the interval of the heartbeats; without a positive one it writes none.
func (a *App) start(ctx context.Context, beat time.Duration) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil {
		return errStarted
	}
	if err := errors.Join(a.errs...); err != nil {
		return err
	}
	if len(a.functions) == 0 {
		return errNoFunctions
	}
	if p := a.config.LockPeriod; p < 15*time.Second || p > time.Minute {
		return fmt.Errorf("workers: Config.LockPeriod %v is not within 15 s to 60 s", p)
	}
	if !hostIDs().MatchString(a.config.HostID) {
		return fmt.Errorf("workers: Config.HostID %q is not 1 to 100 letters, digits, '-', '_' and '.'", a.config.HostID)
	}
	listeners, err := a.buildListeners()
	if err != nil {
		return err
	}
	engine, listeners, err := a.engineOf(listeners)
	if err != nil {
		return err
	}
	reporter, err := a.reporter(beat)
	if err != nil {
		return err
	}
	a.applyPauses(nil) // of an earlier run
	if reporter != nil {
		reporter.Begin(ctx)
	}
	a.begin(ctx, listeners)
	r := &run{listeners: listeners, engine: engine, done: make(chan struct{})}
	base := context.WithoutCancel(ctx)
	r.soft, r.stopSoft = context.WithCancel(base)
	r.hard, r.stopHard = context.WithCancel(base)

	var wg sync.WaitGroup
	for _, l := range listeners {
		wg.Go(func() {
			if l != trigger.Listener(engine) && !engine.admit(r.soft) {
				return
			}
			if err := l.Listen(r.soft, r.hard); err != nil {
				r.mu.Lock()
				r.errs = append(r.errs, err)
				r.mu.Unlock()
			}
		})
	}
	if engine != nil && !engine.waitReady(ctx) {
		r.stopSoft()
		r.stopHard()
		wg.Wait()
		return errors.Join(r.errs...)
	}
	a.current = r
	for _, f := range a.functions {
		a.config.Logger.Info("listening",
			append([]any{"function", f.core.Name, "trigger", f.core.Trigger, "host", a.config.HostID}, f.source()...)...)
	}
	endReport := a.report(reporter, r)
	unwatch := context.AfterFunc(ctx, func() {
		stop, cancel := a.drainContext()
		defer cancel()
		_ = a.stop(stop, r) // Stop and Run return the error.
	})
	go func() {
		wg.Wait()
		unwatch()
		r.stopSoft()
		r.stopHard()
		endReport()
		close(r.done)
	}()
	return nil
}

// beginTimeout bounds how long Start waits for the beginnings of functions.
const beginTimeout = 10 * time.Second

// begin stores the beginnings of functions. Those that cannot be stored now are stored by their listeners.
func (a *App) begin(ctx context.Context, listeners []trigger.Listener) {
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for i, l := range listeners {
		// At the same time: each waits for the account, and all together have one limit.
		b, ok := l.(trigger.Beginner)
		if !ok {
			continue
		}
		wg.Go(func() {
			if err := calls.Contain(func() error { return b.Begin(ctx) }); err != nil {
				a.config.Logger.Warn("a function cannot begin yet; trying again", "function", a.functions[i].core.Name, "err",
					sdkerr.Short(err))
			}
		})
	}
	wg.Wait()
}

// engineOf returns the listener among those of the functions that is the app's engine. If no function needs the engine,
// it adds one, which gives handlers the client of the hub. It returns nil without Config.Durable.
func (a *App) engineOf(listeners []trigger.Listener) (*durableListener, []trigger.Listener, error) {
	if a.config.Durable == nil {
		return nil, listeners, nil
	}
	for _, l := range listeners {
		if engine, ok := l.(*durableListener); ok {
			return engine, listeners, nil
		}
	}
	engine, err := a.clientListener()
	return engine, append(listeners, engine), err
}

// waitReady waits until the hub is open, within beginTimeout: the engine goes on trying after that. It returns false if
// the engine refuses what it was given.
func (l *durableListener) waitReady(ctx context.Context) bool {
	limit := time.NewTimer(beginTimeout)
	defer limit.Stop()
	select {
	case <-l.failed:
		return false
	case <-l.ready:
	case <-ctx.Done():
	case <-limit.C:
	}
	return true
}

func (a *App) buildListeners() ([]trigger.Listener, error) {
	open := map[string]*Storage{}
	var listeners []trigger.Listener
	for _, f := range a.functions {
		// Functions of one connection share its clients, and with them the connections to the account.
		name := f.core.Settings.Connection
		if open[name] == nil {
			s, err := a.config.connect(name)
			if err != nil {
				return nil, err
			}
			open[name] = s
		}
		l, err := f.listen(a, f, open[name])
		if err != nil {
			return nil, fmt.Errorf("workers: function %q: %w", f.core.Name, err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// Stop stops the app: no new calls start, messages that were received but not handled are released, and Stop waits for
// running handlers, whose leases are renewed. When ctx is done, it cancels the contexts of the handlers with the cause
// ErrStopping, and releases their messages. It returns when all goroutines of the app have ended, with an error if a
// stuck handler was abandoned.
//
// Stop can be called several times and concurrently; all calls wait for the end. It does nothing if the app was not
// started.
func (a *App) Stop(ctx context.Context) error {
	a.mu.Lock()
	r := a.current
	a.mu.Unlock()
	if r == nil {
		return nil
	}
	return a.stop(ctx, r)
}

func (a *App) stop(ctx context.Context, r *run) error {
	r.stopSoft()
	select {
	case <-r.done:
	case <-ctx.Done():
		r.stopHard()
		<-r.done
	}
	a.mu.Lock()
	if a.current == r {
		a.current = nil
	}
	a.mu.Unlock()
	return errors.Join(r.errs...)
}
