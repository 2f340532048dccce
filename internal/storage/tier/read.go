package tier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// object is an extent in the store.
type object struct {
	t    *Tier
	id   uint64
	name string
	size int64 // of the extent, in bytes
	sum  string
	seal *sealer // nil without a key
}

func (t *Tier) object(id uint64, size int64, sum string) *object {
	o := &object{t: t, id: id, name: t.folder() + "/" + idText(id), size: size, sum: sum}
	if t.o.Key != nil {
		o.seal = newSealer(t.o.Key, o.name, sum)
	}
	return o
}

// Open implements [extent.Tier].
func (t *Tier) Open(id uint64, size int64, sum string) io.ReaderAt { return t.object(id, size, sum) }

// read fetches plain bytes from an offset that is a multiple of ChunkSize, up to the end of a chunk or of the extent.
func (o *object) read(ctx context.Context, off int64, p []byte) error {
	if o.seal == nil {
		return o.t.o.Objects.Range(ctx, o.name, off, p)
	}
	return o.seal.read(off, p, func(off int64, p []byte) error { return o.t.o.Objects.Range(ctx, o.name, off, p) })
}

// ReadAt implements io.ReaderAt.
func (o *object) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := off + int64(n)
		if at >= o.size {
			return n, io.EOF
		}
		c := chunk{o.id, at / ChunkSize}
		from := at % ChunkSize
		to := p[n:min(int64(len(p)), int64(n)+min(ChunkSize-from, o.size-at))]
		// A chunk that is kept needs no more trust than one that is fetched: the caller compares checksums of both.
		if o.t.cache.read(c, o.lengthOf(c), from, to, o.t.o.Now()) {
			o.t.hits.Add(1)
			n += len(to)
			continue
		}
		data, err := o.fetch(c)
		if err != nil {
			return n, err
		}
		n += copy(to, data[from:])
	}
	return n, nil
}

// lengthOf returns the length of a chunk: the last one of an extent is shorter.
func (o *object) lengthOf(c chunk) int64 { return min(ChunkSize, o.size-c.number*ChunkSize) }

// chunk is a part of an extent: the bytes from number * ChunkSize on.
type chunk struct {
	id     uint64
	number int64
}

// flight is a call that fetches chunks. Readers of the same chunk wait for it.
type flight struct {
	first int64
	data  []byte
	err   error
	done  chan struct{}
}

// of returns the bytes of a chunk.
func (f *flight) of(c chunk) ([]byte, error) {
	if f.err != nil {
		return nil, f.err
	}
	data := f.data[(c.number-f.first)*ChunkSize:]
	return data[:min(ChunkSize, len(data))], nil
}

// fetch returns the bytes of a chunk from the store, once for all who want it at the same time.
func (o *object) fetch(c chunk) ([]byte, error) {
	t := o.t
	// One call that has failed speaks for those that follow: each would wait as long.
	if t.down.Load() > t.o.Now().UnixNano() {
		return nil, fmt.Errorf("%w: %s: it has not answered a moment ago", extent.ErrAway, t.o.Objects)
	}
	t.mu.Lock()
	if f := t.flights[c]; f != nil {
		t.mu.Unlock()
		<-f.done
		return f.of(c)
	}
	chunks := []chunk{c}
	before := chunk{c.id, c.number - 1}
	if t.flights[before] != nil || t.cache.has(before) {
		for next := c.number + 1; next < c.number+readAhead && next*ChunkSize < o.size; next++ {
			n := chunk{c.id, next}
			if t.flights[n] != nil || t.cache.has(n) {
				break
			}
			chunks = append(chunks, n)
		}
	}
	// The flight is known for each of its chunks before it begins, so that no other one fetches them meanwhile.
	f := &flight{first: c.number, done: make(chan struct{})}
	for _, c := range chunks {
		t.flights[c] = f
	}
	t.mu.Unlock()

	// Not the request's context: others may wait for the same bytes.
	f.data, f.err = o.fetchAll(chunks)
	if f.err == nil {
		o.keep(chunks, f)
	}
	t.mu.Lock()
	for _, c := range chunks {
		delete(t.flights, c)
	}
	t.mu.Unlock()
	close(f.done)
	return f.of(c)
}

// keep puts chunks into the cache, as far as there is room.
func (o *object) keep(chunks []chunk, f *flight) {
	if o.t.o.ReadOnly {
		return
	}
	for _, c := range chunks {
		if data, _ := f.of(c); o.t.evict(int64(len(data))) {
			o.t.cache.write(c, data, o.t.o.Now())
		}
	}
}

// downFor is the time for which readers do not ask a store again that has not answered.
const downFor = time.Second

// fetchAll fetches chunks that follow each other.
func (o *object) fetchAll(chunks []chunk) ([]byte, error) {
	t := o.t
	ctx, cancel := context.WithTimeout(context.Background(), t.o.Timeout)
	defer cancel()
	select {
	case t.room <- struct{}{}:
		defer func() { <-t.room }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %s: too many calls wait for it", extent.ErrAway, t.o.Objects)
	}
	off := chunks[0].number * ChunkSize
	p := make([]byte, min(int64(len(chunks))*ChunkSize, o.size-off))
	err := o.read(ctx, off, p)
	// Bytes that are not there are damage, which no later call would find. All other errors may pass.
	switch {
	case err == nil:
		t.fetched.Add(1)
		t.fetchedBytes.Add(int64(len(p)))
		return p, nil
	case errors.Is(err, ErrAbsent), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errSealed):
		t.failures.Add(1)
		return nil, fmt.Errorf("%w: %s of %s: %w", extent.ErrCorrupt, o.name, t.o.Objects, err)
	default:
		t.failures.Add(1)
		t.down.Store(t.o.Now().Add(downFor).UnixNano())
		return nil, fmt.Errorf("%w: %s: %w", extent.ErrAway, t.o.Objects, err)
	}
}
