package extent

import (
	"container/list"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// maxIdleHandles is the maximum number of files that are kept open for later reads.
var maxIdleHandles = min(128, disk.OpenFiles()/16)

// handle is a file open for reading with its own position, so that the kernel can copy from it.
type handle struct {
	e    *extent
	file *os.File      // nil if the content is only in the tier
	src  io.ReaderAt   // what to read from: file, or the tier
	idle *list.Element // in handles.lru

	sequential bool // the kernel was asked to read ahead
}

// readAhead asks the kernel to read far ahead of sequential reads: large content that was written directly is not in
// the page cache.
func (x *handle) readAhead() {
	if !x.sequential && x.file != nil {
		x.sequential = true
		adviseSequential(x.file)
	}
}

// handles keeps recently read files open.
type handles struct {
	mu     sync.Mutex
	idle   map[*extent][]*handle
	lru    list.List // idle handles, least recently used first
	closed bool
}

// acquire returns a handle for the exclusive use of the caller.
func (h *handles) acquire(e *extent) (*handle, error) {
	h.mu.Lock()
	if free := h.idle[e]; len(free) > 0 {
		x := free[len(free)-1]
		h.unlink(x)
		h.mu.Unlock()
		return x, nil
	}
	h.mu.Unlock()
	f, err := e.open()
	if err != nil {
		return nil, err
	}
	if f == nil {
		return &handle{e: e, src: e.s.opts.Tier.Open(e.id, e.size, e.sum)}, nil
	}
	return &handle{e: e, file: f, src: f}, nil
}

// release keeps x for the next reader and closes the least recently used handle if there are too many.
func (h *handles) release(x *handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x.file == nil {
		return
	}
	// An open file whose name is gone would keep its space: Drop forgets the handles after it has set remote.
	if h.closed || x.e.remote.Load() {
		_ = x.file.Close() // read-only
		return
	}
	if h.idle == nil {
		h.idle = map[*extent][]*handle{}
	}
	h.idle[x.e] = append(h.idle[x.e], x)
	x.idle = h.lru.PushBack(x)
	if h.lru.Len() > maxIdleHandles {
		h.drop(h.lru.Front().Value.(*handle))
	}
}

// forget closes the idle handles of an extent that is being deleted.
func (h *handles) forget(e *extent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.idle[e]) > 0 {
		h.drop(h.idle[e][0])
	}
}

func (h *handles) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for h.lru.Len() > 0 {
		h.drop(h.lru.Front().Value.(*handle))
	}
}

func (h *handles) drop(x *handle) {
	h.unlink(x)
	_ = x.file.Close() // read-only
}

func (h *handles) unlink(x *handle) {
	h.lru.Remove(x.idle)
	x.idle = nil
	free := h.idle[x.e]
	for i := range free {
		if free[i] == x {
			free[i] = free[len(free)-1]
			free = free[:len(free)-1]
			break
		}
	}
	if len(free) == 0 {
		delete(h.idle, x.e)
	} else {
		h.idle[x.e] = free
	}
}

// open opens the extent under its current name. The file is nil if the content is only in the tier.
func (e *extent) open() (*os.File, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.remote.Load() {
		if e.s.opts.Tier == nil {
			return nil, fmt.Errorf("%w: extent %016x: %w", ErrAway, e.id, errNoTier)
		}
		return nil, nil
	}
	if e.s.opts.Ephemeral {
		if e.file == nil {
			return nil, ErrClosed
		}
		if !e.named {
			return reopen(e.file.OS())
		}
	}
	return os.Open(e.path())
}
