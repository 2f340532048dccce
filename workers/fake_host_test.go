package workers

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/workers/internal/locks"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
)

// fakeHost is a Store in memory on the time package's clock.
type fakeHost struct {
	mu      sync.Mutex
	records map[string][]byte
	locks   map[string]fakeLock
	serial  int

	// down, while true, makes every request fail.
	down bool
}

type fakeLock struct {
	id      string
	expires time.Time
	period  time.Duration
}

func newFakeHost() *fakeHost {
	return &fakeHost{records: map[string][]byte{}, locks: map[string]fakeLock{}}
}

func (h *fakeHost) setDown(down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = down
}

// use locks the store for one request, unless it is down.
func (h *fakeHost) use(do func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down {
		return errBoom
	}
	return do()
}

func (h *fakeHost) Read(_ context.Context, name string) (content []byte, err error) {
	err = h.use(func() error { content = bytes.Clone(h.records[name]); return nil })
	return content, err
}

func (h *fakeHost) Write(_ context.Context, name string, content []byte) error {
	return h.use(func() error { h.records[name] = bytes.Clone(content); return nil })
}

func (h *fakeHost) Create(_ context.Context, name string, content []byte) error {
	return h.use(func() error {
		if h.records[name] == nil {
			h.records[name] = bytes.Clone(content)
		}
		return nil
	})
}

func (h *fakeHost) Acquire(_ context.Context, name, owner string, period time.Duration) (id string, err error) {
	err = h.use(func() error {
		if h.locks[name].expires.After(time.Now()) {
			return locks.ErrHeldByOther
		}
		h.serial++
		id = fmt.Sprint("lease-", h.serial)
		h.locks[name] = fakeLock{id, time.Now().Add(period), period}
		return nil
	})
	return id, err
}

func (h *fakeHost) Renew(_ context.Context, name, id string) error {
	return h.use(func() error {
		l := h.locks[name]
		if l.id != id {
			return queues.ErrNotHeld
		}
		l.expires = time.Now().Add(l.period)
		h.locks[name] = l
		return nil
	})
}

func (h *fakeHost) Release(_ context.Context, name, id string) error {
	return h.use(func() error {
		if h.locks[name].id != id {
			return queues.ErrNotHeld
		}
		delete(h.locks, name)
		return nil
	})
}

// steal breaks all locks and takes them for d.
func (h *fakeHost) steal(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.locks {
		h.locks[name] = fakeLock{"thief", time.Now().Add(d), d}
	}
}
