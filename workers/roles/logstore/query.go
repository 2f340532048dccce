package logstore

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/lazuli-storage/lazuli/workers"
)

// Query selects lines.
type Query struct {
	// Service is the service whose log is read. Required.
	Service string
	// From and To bound the lines' times: from From to before To. Required.
	From, To time.Time
	// Level is the minimum level; nil means all.
	Level slog.Leveler
}

// Entry is a matching line.
type Entry struct {
	Record
	// Line is the stored line without the newline, Blob the name of its blob.
	Line string
	Blob string

	number int // of the line in its blob
}

// Stats counts the cost of a query.
type Stats struct {
	// Lists are requests that list, Listed the blobs that they named.
	Lists, Listed int
	// Read are the blobs that were read, Bytes their sizes.
	Read  int
	Bytes int64
	// Lines were looked at, Malformed ones left out since they cannot be read.
	Lines, Malformed int
}

// Reader finds lines in a container.
type Reader struct {
	blobs     *azblob.Client
	container string
	// late is the time by which a slot may be later than a line's time.
	late time.Duration
}

// NewReader returns a reader of a container that Writers write to, or of AnalyticsContainer.
func NewReader(storage *workers.Storage, container string) (*Reader, error) {
	if storage == nil || storage.Blobs == nil {
		return nil, errors.New("logstore: the connection string has no blob endpoint")
	}
	r := &Reader{blobs: storage.Blobs, container: container}
	if container == AnalyticsContainer {
		// A request is logged in the hour in which it ends, under the time at which it began.
		r.late = time.Hour
	}
	return r, nil
}

// Query returns the matching lines in the order of time, each once. It reads blobs as the caller consumes lines. An
// error ends the sequence. The counts in stats, which may be nil, are complete at the end.
//
// Query lists only the prefixes of the hours and whole days of the range, and reads only the blobs whose metadata
// allows matching lines.
func (r *Reader) Query(ctx context.Context, q Query, stats *Stats) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		switch {
		case !serviceName().MatchString(q.Service):
			yield(Entry{}, fmt.Errorf("logstore: %.80q is not the name of a service", q.Service))
			return
		case q.From.IsZero() || !q.From.Before(q.To):
			yield(Entry{}, fmt.Errorf("logstore: the time range from %v to %v is empty", q.From, q.To))
			return
		}
		if stats == nil {
			stats = new(Stats)
		}
		s := scan{reader: r, query: q, stats: stats, prefixes: cover(q.Service, q.From, q.To.Add(r.late)),
			seen: map[string]bool{}}
		for {
			e, ok, err := s.next(ctx)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !ok || !yield(e, nil) {
				return
			}
		}
	}
}

// scan is a query at work. Blobs are read in the order of their first lines, each when the lines of all before it
// have been returned up to its beginning. Only the matching lines of overlapping blobs are in memory.
type scan struct {
	reader   *Reader
	query    Query
	stats    *Stats
	prefixes []string
	blobs    []candidate // listed and not read, in the order of start
	lines    entries     // read and not handed out
	at       time.Time
	seen     map[string]bool // ids of the lines at that time
}

// candidate is a blob that may have wanted lines.
type candidate struct {
	name  string
	start time.Time
	old   bool // in the format of Storage Analytics
}

func (s *scan) next(ctx context.Context) (e Entry, ok bool, err error) {
	for {
		switch {
		case len(s.blobs) == 0 && len(s.prefixes) > 0:
			prefix := s.prefixes[0]
			s.prefixes = s.prefixes[1:]
			err = s.list(ctx, prefix)
		case len(s.blobs) > 0 && (len(s.lines) == 0 || !s.lines[0].Time.Before(s.blobs[0].start)):
			b := s.blobs[0]
			s.blobs = s.blobs[1:]
			err = s.read(ctx, b)
		case len(s.lines) == 0:
			return e, false, nil
		default:
			e = heap.Pop(&s.lines).(Entry)
			if !e.Time.Equal(s.at) {
				s.at = e.Time
				clear(s.seen)
			}
			if e.ID == "" || !s.seen[e.ID] {
				s.seen[e.ID] = true
				return e, true, nil
			}
		}
		if err != nil {
			return e, false, err
		}
	}
}

// list adds the blobs under a prefix that may have wanted lines.
func (s *scan) list(ctx context.Context, prefix string) error {
	pager := s.reader.blobs.NewListBlobsFlatPager(s.reader.container, &container.ListBlobsFlatOptions{
		Prefix: &prefix, Include: container.ListBlobsInclude{Metadata: true},
	})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		s.stats.Lists++
		if bloberror.HasCode(err, bloberror.ContainerNotFound) && s.reader.container == AnalyticsContainer {
			return nil // It appears with the first line.
		}
		if err != nil {
			return fmt.Errorf("logstore: list %s/%s: %w", s.reader.container, prefix, err)
		}
		for _, b := range page.Segment.BlobItems {
			s.stats.Listed++
			if c, ok := s.candidate(*b.Name, b.Metadata); ok {
				s.blobs = append(s.blobs, c)
			}
		}
	}
	slices.SortStableFunc(s.blobs, func(a, b candidate) int { return a.start.Compare(b.start) })
	return nil
}

// candidate decides from a blob's listing entry whether it may have matching lines.
func (s *scan) candidate(name string, m map[string]*string) (candidate, bool) {
	slot, ok := slotOf(s.query.Service, name)
	if !ok {
		return candidate{}, false
	}
	c := candidate{name: name, start: slot.Add(-s.reader.late)}
	if start, err := time.Parse(time.RFC3339Nano, metadata(m, metaStart)); err == nil {
		c.start = start
		if !start.Before(s.query.To) {
			return c, false
		}
	} else if !slot.Before(s.query.To.Add(s.reader.late)) {
		return c, false
	}
	if text := metadata(m, metaEnd); text != "" {
		end, err := time.Parse(time.RFC3339Nano, text)
		if !strings.Contains(text, ".") { // whole seconds: anything within
			end = end.Add(time.Second - 1)
		}
		if err == nil && end.Before(s.query.From) {
			return c, false
		}
	}
	c.old = metadata(m, metaVersion) != version
	if !c.old && s.query.Level != nil && !anyLevel(metadata(m, metaType), s.query.Level.Level()) {
		return c, false
	}
	return c, true
}

// anyLevel reports whether a LogType names a level of at least least, or one that cannot be read.
func anyLevel(list string, least slog.Level) bool {
	for name := range strings.SplitSeq(list, ",") {
		if l, ok := ParseLevel(name); !ok || l >= least {
			return true
		}
	}
	return false
}

// read adds a blob's wanted lines.
func (s *scan) read(ctx context.Context, c candidate) error {
	got, err := s.reader.blobs.DownloadStream(ctx, s.reader.container, c.name, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		return nil // Its retention ended since it was listed.
	}
	if err != nil {
		return fmt.Errorf("logstore: read %s/%s: %w", s.reader.container, c.name, err)
	}
	body := got.NewRetryReader(ctx, nil)
	defer body.Close()
	s.stats.Read++
	if got.ContentLength != nil {
		s.stats.Bytes += *got.ContentLength
	}
	parse := parseRecord
	if c.old {
		parse = parseAnalytics
	}
	lines := bufio.NewReaderSize(body, 64<<10)
	for number := 0; ; number++ {
		text, long, err := readLine(lines)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("logstore: read %s/%s: %w", s.reader.container, c.name, err)
		}
		s.stats.Lines++
		r, err := parse(text)
		if long || err != nil {
			s.stats.Malformed++
			continue
		}
		if r.Time.Before(s.query.From) || !r.Time.Before(s.query.To) || s.query.Level != nil &&
			r.Level < s.query.Level.Level() {
			continue
		}
		r.Service = s.query.Service
		heap.Push(&s.lines, Entry{Record: r, Line: string(text), Blob: c.name, number: number})
	}
}

// readLine returns the next line without its newline. long: it has more than MaxLine bytes, and only some are returned.
func readLine(r *bufio.Reader) (text []byte, long bool, err error) {
	for {
		piece, err := r.ReadSlice('\n')
		if len(text) <= MaxLine {
			text = append(text, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(text) > 0, err == nil:
			return bytes.TrimRight(text, "\r\n"), len(text) > MaxLine, nil
		default:
			return nil, false, err
		}
	}
}

// entries is a heap, the earliest first; lines of one time in the order of their blobs, and of the lines in a blob.
type entries []Entry

func (h entries) Len() int { return len(h) }
func (h entries) Less(i, j int) bool {
	if c := h[i].Time.Compare(h[j].Time); c != 0 {
		return c < 0
	}
	return cmp.Or(cmp.Compare(h[i].Blob, h[j].Blob), cmp.Compare(h[i].number, h[j].number)) < 0
}
func (h entries) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *entries) Push(x any) { *h = append(*h, x.(Entry)) }

// Pop implements heap.Interface.
func (h *entries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = Entry{}
	*h = (*h)[:last]
	return e
}
