package logstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/workers"
)

// Option changes a Writer.
type Option func(*Writer)

// WithFlushBytes sets how many bytes of lines are written without waiting for their time, at least 1. Default 4 MiB.
func WithFlushBytes(n int) Option { return func(w *Writer) { w.flushBytes = n } }

// WithFlushEvery sets how long a line waits for others before it is written. Default 2 s.
func WithFlushEvery(d time.Duration) Option { return func(w *Writer) { w.flushEvery = d } }

// WithSlot sets which stretch of time shares a folder of blobs: a divisor of an hour, in whole minutes. Default 1 h.
func WithSlot(d time.Duration) Option { return func(w *Writer) { w.slot = d } }

// WithMaxBuffered bounds the lines that wait to be written, in bytes: beyond, records are refused with ErrFull. Default
// 64 MiB.
func WithMaxBuffered(n int) Option { return func(w *Writer) { w.maxBuffered = n } }

// WithLogger sets the logger for the writer's errors, such as unreachable storage. Nil means slog.Default(). The logger
// must not write to the same Writer.
func WithLogger(l *slog.Logger) Option { return func(w *Writer) { w.log = l } }

var (
	// ErrFull is returned for a record while the buffer is full, because storage is too slow or unreachable.
	ErrFull = errors.New("logstore: too many lines wait to be written")
	// ErrClosed is returned for a record after Close.
	ErrClosed = errors.New("logstore: the writer is closed")
)

// Writer gathers lines and writes them as blobs. It may be used by many goroutines at once, and any number of Writers,
// in any number of processes, may write to one container.
type Writer struct {
	blobs       *azblob.Client
	container   string
	flushBytes  int
	flushEvery  time.Duration
	slot        time.Duration
	maxBuffered int
	log         *slog.Logger
	identity    string // begins the ids of records that have none

	mu       sync.Mutex // guards the next fields
	open     map[string]*page
	buffered int // bytes of all pages that are not written
	records  uint64
	closed   bool

	due      chan struct{} // has a token when something must be written before its time
	closing  chan struct{} // closed by Close
	finished chan struct{} // closed when the flusher has returned
	start    sync.Once

	writing sync.Mutex // held by a flush; guards the next fields
	failed  []*page    // could not be written, and are tried again
	next    map[string]int
	failing string // the last failure, so that a lasting one is logged once
}

// page is lines of one service and slot that become one blob.
type page struct {
	prefix string
	lines  []timedLine
	bytes  int
	levels map[slog.Level]bool
	done   chan struct{} // closed once it is written
}

type timedLine struct {
	at time.Time
	// order is that of lines with the same time.
	order uint64
	text  []byte
}

// NewWriter returns a writer to a container, which it creates when it first needs it.
func NewWriter(storage *workers.Storage, container string, options ...Option) (*Writer, error) {
	if storage == nil || storage.Blobs == nil {
		return nil, errors.New("logstore: the connection string has no blob endpoint")
	}
	w := &Writer{
		blobs: storage.Blobs, container: container, flushBytes: 4 << 20, flushEvery: 2 * time.Second, slot: time.Hour,
		maxBuffered: 64 << 20,
		log:         slog.Default(), identity: uuid.NewString()[:13],
		open: map[string]*page{}, next: map[string]int{},
		due: make(chan struct{}, 1), closing: make(chan struct{}), finished: make(chan struct{}),
	}
	for _, o := range options {
		o(w)
	}
	switch {
	case container == "":
		return nil, errors.New("logstore: the name of the container is missing")
	case w.flushBytes < 1 || w.flushBytes > 256<<20:
		return nil, fmt.Errorf("logstore: WithFlushBytes: %d bytes is not within 1 byte to 256 MiB", w.flushBytes)
	case w.flushEvery <= 0:
		return nil, fmt.Errorf("logstore: WithFlushEvery: %v is not positive", w.flushEvery)
	case w.slot < time.Minute || w.slot > time.Hour || w.slot%time.Minute != 0 || time.Hour%w.slot != 0:
		return nil, fmt.Errorf("logstore: a slot of %v does not divide an hour into whole minutes", w.slot)
	case w.maxBuffered < w.flushBytes:
		return nil, fmt.Errorf("logstore: WithMaxBuffered: %d is less than the flush size of %d bytes", w.maxBuffered,
			w.flushBytes)
	}
	if w.log == nil {
		w.log = slog.Default()
	}
	return w, nil
}

// Log writes a record, and returns once it is in a blob, or with an error. After ctx is done the record may still be
// written.
func (w *Writer) Log(ctx context.Context, r Record) error {
	return w.logInOrder(ctx, r, 0)
}

// logInOrder is Log for a record with a place among the records with the same time; 0 is the place after all that were
// logged before.
func (w *Writer) logInOrder(ctx context.Context, r Record, order uint64) error {
	p, err := w.add(r, order)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Enqueue buffers a record. Buffered records are lost if the process crashes.
func (w *Writer) Enqueue(r Record) error {
	_, err := w.add(r, 0)
	return err
}

func (w *Writer) add(r Record, order uint64) (*page, error) {
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	r.Time = r.Time.UTC()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	w.records++
	if order == 0 {
		order = w.records
	}
	if r.ID == "" {
		r.ID = fmt.Sprintf("%s-%d", w.identity, w.records)
	}
	text, err := r.line()
	if err != nil {
		return nil, err
	}
	if w.buffered+len(text) > w.maxBuffered {
		return nil, ErrFull
	}
	// A writer that gets no record has no goroutine.
	w.start.Do(func() { go w.flushForever() })
	prefix := prefixOf(r.Service, r.Time, w.slot)
	p := w.open[prefix]
	if p == nil {
		p = &page{prefix: prefix, levels: map[slog.Level]bool{}, done: make(chan struct{})}
		w.open[prefix] = p
	}
	p.lines = append(p.lines, timedLine{r.Time, order, text})
	p.levels[r.Level] = true
	p.bytes += len(text)
	w.buffered += len(text)
	if p.bytes >= w.flushBytes {
		select {
		case w.due <- struct{}{}:
		default:
		}
	}
	return p, nil
}

func (w *Writer) flushForever() {
	defer close(w.finished)
	tick := time.NewTicker(w.flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.due:
		case <-w.closing:
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		stop := make(chan struct{})
		go func() {
			select {
			case <-w.closing: // Close uses its own context.
				cancel()
			case <-stop:
			}
		}()
		_ = w.flush(ctx) // Logged; tried again at the next tick.
		close(stop)
		cancel()
	}
}

// Flush writes the buffered lines. It returns when they are in blobs, or with the first error; later flushes retry the
// other lines.
func (w *Writer) Flush(ctx context.Context) error { return w.flush(ctx) }

// Close writes the buffered lines, until ctx is done, and stops the writer. Its error has the number of lines that
// could not be written and are lost. Further calls have no effect.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	w.mu.Unlock()
	// If no record has come, there is no goroutine that closes this.
	w.start.Do(func() { close(w.finished) })
	close(w.closing)
	<-w.finished
	err := w.flush(ctx)
	w.writing.Lock()
	defer w.writing.Unlock()
	lost := 0
	for _, p := range w.failed {
		lost += len(p.lines)
	}
	if lost > 0 {
		return fmt.Errorf("logstore: %d lines are lost: %w", lost, err)
	}
	return nil
}

// flush writes all pages in sequence: usually there is only one.
func (w *Writer) flush(ctx context.Context) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	w.mu.Lock()
	pages := w.failed
	for _, prefix := range slices.Sorted(maps.Keys(w.open)) {
		pages = append(pages, w.open[prefix])
	}
	// From here on new lines go into new pages: the requests below hold no lock that Log needs.
	w.open = map[string]*page{}
	w.mu.Unlock()
	w.failed = nil
	var first error
	for _, p := range pages {
		err := first
		if err == nil { // If one cannot be written, the others wait too.
			err = w.write(ctx, p)
		}
		if err != nil {
			first = err
			w.failed = append(w.failed, p)
			continue
		}
		w.mu.Lock()
		w.buffered -= p.bytes
		w.mu.Unlock()
		close(p.done)
	}
	w.report(ctx, first)
	return first
}

func (w *Writer) report(ctx context.Context, err error) {
	switch {
	case err == nil && w.failing != "":
		w.failing = ""
		w.log.Info("log storage is available again", "container", w.container)
	case err != nil && ctx.Err() == nil && err.Error() != w.failing:
		w.failing = err.Error()
		w.log.Error("cannot write log lines; retrying", "container", w.container, "err", err)
	}
}

// write writes a page as a blob with the next free number of its slot.
func (w *Writer) write(ctx context.Context, p *page) error {
	slices.SortStableFunc(p.lines,
		func(a, b timedLine) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order)) })
	var content bytes.Buffer
	for _, l := range p.lines {
		content.Write(l.text)
	}
	options := &blockblob.UploadBufferOptions{
		HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("application/x-ndjson")},
		Metadata: map[string]*string{
			metaStart:   to.Ptr(p.lines[0].at.Format(timeLayout)),
			metaEnd:     to.Ptr(p.lines[len(p.lines)-1].at.Format(timeLayout)),
			metaType:    to.Ptr(levelList(p.levels)),
			metaVersion: to.Ptr(version),
		},
		// Two writers can choose the same number. The one that writes second takes another number.
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(
			azcore.ETagAny)}},
	}
	if err := fault.Point(pointBeforeWrite); err != nil {
		return err
	}
	var err error
	for range attempts {
		var n int
		n, err = w.number(ctx, p.prefix)
		if err == nil {
			_, err = w.blobs.UploadBuffer(ctx, w.container, nameOf(p.prefix, n), content.Bytes(), options)
		}
		switch {
		case err == nil:
			w.next[p.prefix] = n + 1
			return fault.Point(pointAfterWrite)
		case bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet):
			delete(w.next, p.prefix) // look how far the other is
		case bloberror.HasCode(err, bloberror.ContainerNotFound):
			if _, err := w.blobs.CreateContainer(ctx, w.container, nil); err != nil &&
				!bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
				return fmt.Errorf("logstore: create the container %s: %w", w.container, err)
			}
		default:
			return fmt.Errorf("logstore: write to %s/%s: %w", w.container, p.prefix, err)
		}
	}
	return fmt.Errorf("logstore: write to %s/%s: %w", w.container, p.prefix, err)
}

// attempts is the maximum number of blob numbers that are tried when other writers take them first.
const attempts = 64

// maxSlots bounds the slots whose numbers are remembered.
const maxSlots = 4096

// number is the next number of a slot that is not known to be taken.
func (w *Writer) number(ctx context.Context, prefix string) (int, error) {
	if n, ok := w.next[prefix]; ok {
		return n, nil
	}
	n := 0
	pager := w.blobs.NewListBlobsFlatPager(w.container, &azblob.ListBlobsFlatOptions{Prefix: &prefix})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return 0, err
		}
		for _, b := range page.Segment.BlobItems {
			if taken, ok := numberOf(*b.Name); ok && taken >= n {
				n = taken + 1
			}
		}
	}
	if len(w.next) >= maxSlots {
		clear(w.next)
	}
	w.next[prefix] = n
	return n, nil
}

// levelList is the LogType of a blob: "error,info".
func levelList(levels map[slog.Level]bool) string {
	var names []string
	for _, l := range slices.SortedFunc(maps.Keys(levels), func(a, b slog.Level) int { return cmp.Compare(b, a) }) {
		names = append(names, strings.ToLower(LevelName(l)))
	}
	return strings.Join(names, ",")
}
