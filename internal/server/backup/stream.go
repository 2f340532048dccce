package backup

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// A stream carries a Source from a server. It is a sequence of items: a line of JSON (item), and as many bytes as it
// says. The last item says that the source is complete.
const (
	itemInfo     = "info"
	itemPart     = "part"
	itemKeys     = "keys"
	itemContent  = "content"
	itemComplete = "complete"
	itemError    = "error"

	// maxItem is the size of the largest item's content: one entry of a database can be longer than a part.
	maxItem = 128 << 20
)

type item struct {
	Kind     string `json:"kind"`
	Database string `json:"database,omitempty"`
	Shard    int    `json:"shard,omitempty"`
	Info     *Info  `json:"info,omitempty"`
	// Window and Ranges are those of content. Held means that the ranges are those that the caller has.
	Window *extent.Window `json:"window,omitempty"`
	Ranges []extent.Range `json:"ranges,omitempty"`
	Held   bool           `json:"held,omitempty"`
	Size   int64          `json:"size"`
	Error  string         `json:"error,omitempty"`
}

// Held is what a caller of [Send] has of the content of blobs, by the origin.
type Held struct {
	Origin  string       `json:"origin"`
	Windows []HeldWindow `json:"windows"`
}

// HeldWindow holds the ranges of a window that a caller has.
type HeldWindow struct {
	extent.Window
	Ranges []extent.Range `json:"ranges"`
	Shard  int            `json:"shard,omitempty"`
}

// Send writes a source as a stream. After an error of the source, the stream ends with it.
func Send(ctx context.Context, w io.Writer, s Source, held Held) error {
	out := bufio.NewWriterSize(w, 1<<20)
	send := func(i item, content []byte) error {
		i.Size = int64(len(content))
		line, err := json.Marshal(i)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
		_, err = out.Write(content)
		return errors.Join(err, ctx.Err())
	}
	last := item{Kind: itemComplete}
	if err := sendAll(ctx, s, held, send); err != nil {
		last = item{Kind: itemError, Error: err.Error()}
	}
	return errors.Join(send(last, nil), out.Flush())
}

func sendAll(ctx context.Context, s Source, held Held, send func(item, []byte) error) error {
	info := s.Info()
	if err := send(item{Kind: itemInfo, Info: &info}, nil); err != nil {
		return err
	}
	have := map[shardWindow][]extent.Range{}
	if held.Origin != "" && held.Origin == info.Origin {
		for _, w := range held.Windows {
			have[shardWindow{w.Shard, w.Window}] = w.Ranges
		}
	}
	for n := range info.shards() {
		of, err := shardOf(s, n)
		if err != nil {
			return err
		}
		toShard := func(i item, content []byte) error {
			i.Shard = n
			return send(i, content)
		}
		held := func(w extent.Window) []extent.Range { return have[shardWindow{n, w}] }
		if err := sendShard(ctx, of, held, toShard); err != nil {
			return err
		}
	}
	return nil
}

// sendShard sends one shard.
func sendShard(ctx context.Context, s Source, held func(extent.Window) []extent.Range,
	send func(item, []byte) error) error {
	for _, name := range Databases {
		if err := s.Database(ctx, name, func(part []byte) error {
			return send(item{Kind: itemPart, Database: name}, part)
		}); err != nil {
			return err
		}
	}
	keys, err := s.Keys(ctx)
	if err == nil && keys != nil {
		err = send(item{Kind: itemKeys}, keys)
	}
	if err != nil {
		return err
	}
	return s.Contents(ctx, held, func(c extent.Content) error {
		return send(item{Kind: itemContent, Window: &c.Window, Ranges: c.Ranges, Held: c.Records == nil}, c.Records)
	})
}

// received is a stream as a Source.
type received struct {
	io.Closer
	r    *bufio.Reader
	info Info
	next item // its content has not been read
}

var _ Sharded = (*received)(nil)

// receivedShard is a shard of a stream.
type receivedShard struct {
	*received
	number int
}

// ErrBroken means that a stream ended before it was complete.
var ErrBroken = errors.New("the connection to the server ended before the backup was complete")

// Receive returns the source that a stream carries, whose Close closes r. It reads the beginning.
func Receive(r io.ReadCloser) (Source, error) {
	s := &received{Closer: r, r: bufio.NewReaderSize(r, 1<<20)}
	err := s.advance()
	if err == nil && (s.next.Kind != itemInfo || s.next.Info == nil) {
		err = fmt.Errorf("%w: it has no beginning", ErrBroken)
	}
	if err == nil {
		s.info = *s.next.Info
		err = s.advance()
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return s, nil
}

// advance reads the next item without its content.
func (s *received) advance() error {
	s.next = item{}
	line, err := s.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("%w: a line is too long", ErrBroken)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if err := json.Unmarshal(line, &s.next); err != nil {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if s.next.Kind == itemError {
		return errors.New("the server cannot go on with the backup: " + s.next.Error)
	}
	if s.next.Size < 0 || s.next.Size > maxItem {
		return fmt.Errorf("%w: an item of %d bytes", ErrBroken, s.next.Size)
	}
	return nil
}

// content reads the content of the current item, and the next item.
func (s *received) content() ([]byte, error) {
	p := make([]byte, s.next.Size)
	if _, err := io.ReadFull(s.r, p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return p, s.advance()
}

func (s *received) Info() Info { return s.info }

// Shard implements [Sharded].
func (s *received) Shard(number int) Source { return receivedShard{s, number} }

func (s *received) Database(ctx context.Context, name string, emit func([]byte) error) error {
	return receivedShard{s, 0}.Database(ctx, name, emit)
}

func (s *received) Keys(ctx context.Context) ([]byte, error) { return receivedShard{s, 0}.Keys(ctx) }

func (s *received) Contents(ctx context.Context, held func(extent.Window) []extent.Range,
	emit func(extent.Content) error) error {
	return receivedShard{s, 0}.Contents(ctx, held, emit)
}

func (s receivedShard) Database(_ context.Context, name string, emit func([]byte) error) error {
	for s.next.Kind == itemPart && s.next.Database == name && s.next.Shard == s.number {
		part, err := s.content()
		if err == nil {
			err = emit(part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s receivedShard) Keys(context.Context) ([]byte, error) {
	if s.next.Kind != itemKeys || s.next.Shard != s.number {
		return nil, nil
	}
	return s.content()
}

func (s receivedShard) Contents(_ context.Context, _ func(extent.Window) []extent.Range,
	emit func(extent.Content) error) error {
	for s.next.Kind == itemContent && s.next.Window != nil && s.next.Shard == s.number {
		i := s.next
		records, err := s.content()
		if err != nil {
			return err
		}
		if i.Held {
			records = nil
		}
		if err := emit(extent.Content{Window: *i.Window, Ranges: i.Ranges, Records: records}); err != nil {
			return err
		}
	}
	// What follows the last shard is the end, and what follows another one is the next shard.
	last := s.number == s.info.shards()-1
	if last && s.next.Kind != itemComplete || !last && s.next.Kind != itemComplete && s.next.Shard != s.number+1 {
		return fmt.Errorf("%w: %q follows", ErrBroken, s.next.Kind)
	}
	return nil
}
