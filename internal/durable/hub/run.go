package hub

import (
	"context"
	"time"

	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// loaders is the number of instances that are loaded at once.
const loaders = 16

// Start implements backend.Backend: the process takes part in the work of the hub, which must exist, until Stop.
func (b *Backend) Start(ctx context.Context) error {
	if !b.opened.Load() {
		if err := b.open(ctx); err != nil {
			return err
		}
		b.opened.Store(true)
	}
	if b.apps != nil {
		// The names are there before any work is received: other apps go by them.
		if err := b.apps.write(ctx); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run != nil {
		return backend.ErrBackendAlreadyStarted
	}
	r := &run{work: make(chan *work), activities: make(chan *activity), partitions: map[int]context.CancelFunc{}}
	// ctx is that of the start. The run ends with Stop alone.
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	b.run, b.stopped = r, false
	b.late.Set(true)
	b.sessions.Set(true)
	b.leases.Gained = func(i int) { b.gained(r, i) }
	b.leases.Lost = func(i int) { r.leave(i) }
	r.all.Go(func() { b.leases.Run(r.ctx) })
	r.all.Go(func() { b.activities.fetch(r.ctx, r.activities) })
	if b.apps != nil {
		r.all.Go(func() { b.apps.receiveShared(r) })
	}
	for range loaders {
		r.all.Go(func() { b.loadAll(r) })
	}
	for range b.maxEntities {
		r.all.Go(func() { b.runEntities(r.ctx) })
	}
	// Stop does not wait for this: it renews the messages of work that the engine still completes after it.
	b.background.Go(func() { b.keep(r.ctx) })
	return nil
}

// Stop implements backend.Backend. It returns when this process accepts no new work; work that the engine has begun can
// still be completed.
func (b *Backend) Stop(context.Context) error {
	r := b.running()
	if r == nil {
		return nil
	}
	// The rows are written by the sessions, and so before the run ends.
	b.endLate()
	b.mu.Lock()
	b.run, b.stopped = nil, true
	b.mu.Unlock()
	r.cancel()
	r.all.Wait()
	b.sessions.Set(false)
	for i := range b.control { // what came into the sessions after the partitions were given up
		b.giveBack(b.sessions.Forget(i))
	}
	// This process takes no parked work any more: others may have it at once.
	b.Offer()
	b.cache.Clear()
	return nil
}

func (b *Backend) gained(r *run, i int) {
	ctx, cancel := context.WithCancel(r.ctx)
	r.mu.Lock()
	r.partitions[i] = cancel
	r.mu.Unlock()
	r.all.Go(func() { b.runPartition(ctx, r, i) })
}

func (r *run) leave(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.partitions[i]; cancel != nil {
		cancel()
		delete(r.partitions, i)
	}
}

// loadAll prepares sessions and hands them to the engine.
func (b *Backend) loadAll(r *run) {
	for {
		s := b.sessions.Wait(r.ctx)
		if s == nil {
			return
		}
		w := b.prepare(r.ctx, s)
		if w == nil {
			continue
		}
		select {
		case r.work <- w:
		case <-r.ctx.Done():
			b.retry(w.session, w.messages)
			return
		}
	}
}

// keep renews the messages that this process has until it has none and ctx is done.
func (b *Backend) keep(ctx context.Context) {
	for {
		if !sleep(ctx, b.clock, b.options.Visibility/4) {
			if len(b.holder.Due(b.clock.Now().Add(b.options.Visibility))) == 0 {
				return
			}
			sleep(context.Background(), systemClock{}, min(b.options.Visibility/4, time.Second))
		}
		for _, r := range b.holder.Due(b.clock.Now()) {
			call, cancel := context.WithTimeout(context.Background(), b.options.Visibility)
			if err := r.Hide(call, b.options.Visibility, true); err != nil {
				b.log.Warn("cannot renew a message; others may get it", "instance", r.Instance, "err", sdkerr.Short(err))
				r.Expire(b.clock.Now())
			}
			cancel()
		}
	}
}
