package replog

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A snapshot is what a log has produced up to a position, as a stream of bytes that only the caller interprets. It
// stands in a JetStream stream of its own as pieces, compressed, and a manifest after them. Pieces are messages as in
// record.go: parts, whose writer is the snapshot's random number and whose counter is Position.Last. The manifest is a
// mark with JSON.
//
// The newest manifest counts. Pieces before those that it names are removed.

// ErrNoSnapshot means that the log has no snapshot.
var ErrNoSnapshot = errors.New("replog: the log has no snapshot")

// manifest describes a snapshot.
type manifest struct {
	Version     int       `json:"version"`
	Log         string    `json:"log"` // ID of the log
	ID          uint64    `json:"id,string"`
	Position    []byte    `json:"position"`
	Node        string    `json:"node"`
	Time        time.Time `json:"time"`
	Bytes       int64     `json:"bytes"` // compressed
	Pieces      uint32    `json:"pieces"`
	First, Last uint64    // sequences of the pieces
	// Previous is the Position.Resume of the snapshot before: the log is kept from there on, for nodes that are behind.
	Previous uint64 `json:"previous"`

	seq uint64 // of the manifest
}

const manifestVersion = 1

// snapshotInFlight is the number of pieces that are published at a time.
const snapshotInFlight = 16

func (l *Log) snapshotStream() string          { return snapshotStreamOf(l.config.Name) }
func snapshotStreamOf(name string) string      { return "LAZULI_SNAPSHOT_" + name }
func (l *Log) snapshotSubject(s string) string { return "lazuli.snapshot." + l.config.Name + "." + s }

func (l *Log) openSnapshots(ctx context.Context) error {
	info, err := l.servers.stream(ctx, l.snapshotStream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		config := jetstream.StreamConfig{
			Name: l.snapshotStream(), Description: "Lazuli: snapshots of " + l.config.Name,
			Subjects: []string{l.snapshotSubject("piece"), l.snapshotSubject("manifest"), l.snapshotSubject("claim")},
			Replicas: l.config.Replicas, Placement: l.placement(), AllowDirect: true,
		}
		if l.config.InMemory {
			config.Storage = jetstream.MemoryStorage
		}
		_, err = l.servers.create(ctx, config)
	} else if err == nil {
		err = l.addReplicas(ctx, info.Config)
	}
	if err != nil {
		return fmt.Errorf("%w: stream %s: %w", ErrUnavailable, l.snapshotStream(), err)
	}
	return nil
}

// lastManifest returns the newest manifest. Errors: ErrNoSnapshot, ErrDamaged, ErrUnavailable.
func (l *Log) lastManifest(ctx context.Context) (m manifest, err error) {
	most, began := time.Duration(l.timeout.Load()), l.now()
	for limit := min(time.Second, most); ; { // see create
		m, err = l.lastManifestWithin(ctx, limit)
		switch {
		case ctx.Err() != nil:
			return m, err
		case errors.Is(err, context.DeadlineExceeded) && limit < most:
			limit = min(2*limit, most)
		case noLeader(err) && l.now().Sub(began) < most:
			l.pause(retryPause)
		default:
			return m, err
		}
	}
}

// noLeader reports whether a request had no answer or was refused since the servers are electing a leader.
func noLeader(err error) bool {
	var refused *jetstream.APIError
	return errors.Is(err, nats.ErrNoResponders) ||
		errors.As(err, &refused) && refused.Code == http.StatusServiceUnavailable
}

func (l *Log) lastManifestWithin(ctx context.Context, limit time.Duration) (m manifest, err error) {
	ctx, cancel := l.within(ctx, limit)
	defer cancel()
	if err := l.openSnapshots(ctx); err != nil {
		return m, err
	}
	raw, err := l.servers.last(ctx, l.snapshotStream(), l.snapshotSubject("manifest"))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return m, ErrNoSnapshot
	}
	if err != nil {
		return m, fmt.Errorf("%w: reading the last snapshot: %w", ErrUnavailable, err)
	}
	_, text, err := decode(raw.Data)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	m.seq = raw.Sequence
	if err != nil {
		return m, fmt.Errorf("%w: the manifest of the last snapshot: %w", ErrDamaged, err)
	}
	if m.Version != manifestVersion {
		return m, fmt.Errorf("%w: snapshot of version %d", ErrVersion, m.Version)
	}
	if m.Log != l.id {
		return m, fmt.Errorf("%w: the last snapshot is of log %s, and this log is %s", ErrDiverged, m.Log, l.id)
	}
	l.noteSnapshot(&m)
	return m, nil
}

func (l *Log) noteSnapshot(m *manifest) {
	var p Position
	_ = p.UnmarshalBinary(m.Position)
	l.stats.mu.Lock()
	defer l.stats.mu.Unlock()
	l.stats.snapshot = SnapshotInfo{Seq: p.Last, Time: m.Time, Bytes: m.Bytes, Node: m.Node}
}

// Snapshot returns the newest snapshot of the log. Errors: ErrNoSnapshot, ErrDamaged, ErrVersion, ErrUnavailable.
func (l *Log) Snapshot(ctx context.Context) (SnapshotInfo, error) {
	if _, err := l.lastManifest(ctx); err != nil {
		return SnapshotInfo{}, err
	}
	return l.Status().Snapshot, nil
}

// ErrClaimed means that another node makes a snapshot at the moment.
var ErrClaimed = errors.New("replog: another node makes a snapshot")

// Claim reserves the making of a snapshot for this node until the term ends. Errors: ErrClaimed, ErrUnavailable. A
// claim only saves work: two snapshots at a time do no harm.
func (l *Log) Claim(ctx context.Context, term time.Duration) error {
	ctx, cancel := l.within(ctx, time.Duration(l.timeout.Load()))
	defer cancel()
	if err := l.openSnapshots(ctx); err != nil {
		return err
	}
	m := nats.NewMsg(l.snapshotSubject("claim"))
	m.Data = []byte(l.config.Node)
	last := uint64(0)
	switch raw, err := l.servers.last(ctx, l.snapshotStream(), m.Subject); {
	case errors.Is(err, jetstream.ErrMsgNotFound):
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	// The time is that of a server, whose clock may differ. A claim from far in the future must not block all others.
	case l.now().Sub(raw.Time) < term && l.now().Sub(raw.Time) > -term:
		return ErrClaimed
	default:
		last = raw.Sequence
	}
	// Of two nodes that have seen the same last claim, the stream accepts only one.
	_, err := l.servers.publish(ctx, m, last)
	var refused *jetstream.APIError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode == codeWrongSequence:
		return ErrClaimed
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// WriteSnapshot publishes a snapshot: what write writes, which must be the result of all valid records up to p.
// Afterwards it removes older snapshots, and the part of the log before the previous snapshot.
func (l *Log) WriteSnapshot(ctx context.Context, p Position, write func(io.Writer) error) error {
	if err := l.openSnapshots(ctx); err != nil {
		return err
	}
	before, err := l.lastManifest(ctx)
	// A damaged snapshot is one more reason to write another. Its position is unknown, so the log is not cut this time.
	if err != nil && !errors.Is(err, ErrNoSnapshot) && !errors.Is(err, ErrDamaged) {
		return err
	}
	var old Position
	if err == nil {
		_ = old.UnmarshalBinary(before.Position)
		// One of records that the stream has lost is replaced, and says nothing of where the log can be cut.
		if has, err := l.has(old); err != nil {
			return err
		} else if !has {
			old = Position{}
		}
		if old.Seq > p.Seq {
			return nil // another node has made a newer one
		}
	}
	w := &pieceWriter{l: l, ctx: ctx, id: l.random(), last: p.Last}
	if w.send, err = l.servers.series(snapshotInFlight); err != nil {
		return fmt.Errorf("replog: %w", err)
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("replog: %w", err)
	}
	if err := write(z); err != nil {
		return errors.Join(err, z.Close())
	}
	if err := errors.Join(z.Close(), w.finish()); err != nil {
		return err
	}
	m := manifest{
		Version: manifestVersion, Log: l.id, ID: w.id, Node: l.config.Node, Time: l.now().UTC(), Bytes: w.bytes,
		Pieces: w.pieces, First: w.first,
		Last: w.seq, Previous: old.Resume,
	}
	m.Position, _ = p.AppendBinary(nil)
	// Other nodes would join with what only this one has.
	if err := l.assure(l.now().Add(time.Duration(l.timeout.Load()))); err != nil {
		return err
	}
	// The manifest comes last: until then the pieces belong to no snapshot, and an interruption leaves the older one.
	// And only in place of the one that was read above, since the log is cut by that: an older snapshot that took long
	// would come after a newer one, and its pieces or the messages that it needs may be gone.
	err = l.publishManifest(ctx, &m, before.seq)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == codeWrongSequence {
		return nil // another node has made one meanwhile
	}
	if err != nil {
		return err
	}
	l.noteSnapshot(&m)
	// Only after the manifest, which no longer names what is removed.
	if err := l.servers.purge(ctx, l.snapshotStream(), m.First); err != nil {
		return fmt.Errorf("%w: removing older snapshots: %w", ErrUnavailable, err)
	}
	// Up to the previous snapshot and not to this one: a node that has just loaded the previous one, or is a little
	// behind, still finds the records that it needs.
	return l.Purge(ctx, old)
}

// publishManifest publishes a manifest if last is the sequence of the last one, 0 for none.
func (l *Log) publishManifest(ctx context.Context, m *manifest, last uint64) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("replog: %w", err)
	}
	h := header{kind: kindMark, writer: m.ID, at: m.Time.UnixNano()}
	message := &nats.Msg{Subject: l.snapshotSubject("manifest"), Data: encode(h, text)}
	if m.seq, err = l.servers.publish(ctx, message, last); err != nil {
		return fmt.Errorf("%w: publishing a snapshot: %w", ErrUnavailable, err)
	}
	return nil
}

// pieceWriter publishes what is written to it.
type pieceWriter struct {
	l      *Log
	ctx    context.Context // of WriteSnapshot
	send   func(m *nats.Msg) (acknowledged, error)
	id     uint64
	last   uint64
	buffer []byte

	pending []acknowledged
	pieces  uint32
	bytes   int64
	first   uint64
	seq     uint64 // of the last acknowledged piece
}

func (w *pieceWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		k := min(len(p), w.l.chunk-len(w.buffer))
		w.buffer = append(w.buffer, p[:k]...)
		p = p[k:]
		if len(w.buffer) == w.l.chunk {
			if err := w.publish(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (w *pieceWriter) publish() error {
	h := header{kind: kindPart, parts: w.pieces, writer: w.id, counter: w.last, at: w.l.now().UnixNano()}
	f, err := w.send(&nats.Msg{Subject: w.l.snapshotSubject("piece"), Data: encode(h, w.buffer)})
	if err != nil {
		return fmt.Errorf("%w: publishing a snapshot: %w", ErrUnavailable, err)
	}
	w.pieces++
	w.bytes += int64(len(w.buffer))
	w.buffer = w.buffer[:0]
	w.pending = append(w.pending, f)
	if len(w.pending) >= snapshotInFlight {
		return w.await()
	}
	return nil
}

// await waits for the oldest acknowledgement. The pieces must be in order, since a reader reads them as they stand.
func (w *pieceWriter) await() error {
	acknowledged := w.pending[0]
	w.pending = w.pending[1:]
	seq, err := acknowledged(w.ctx, w.l.life)
	if err != nil {
		return err
	}
	if seq <= w.seq {
		return errors.New("replog: the pieces of a snapshot are out of order")
	}
	if w.first == 0 {
		w.first = seq
	}
	w.seq = seq
	return nil
}

func (w *pieceWriter) finish() error {
	if len(w.buffer) > 0 {
		if err := w.publish(); err != nil {
			return err
		}
	}
	for len(w.pending) > 0 {
		if err := w.await(); err != nil {
			return err
		}
	}
	return nil
}

// ReadSnapshot calls read with the newest snapshot and its position. read must read to the end; only then has the
// snapshot been verified.
//
// Errors: ErrNoSnapshot, ErrDamaged, ErrVersion, ErrUnavailable, and those of read.
func (l *Log) ReadSnapshot(ctx context.Context, read func(Position, io.Reader) error) error {
	m, err := l.lastManifest(ctx)
	if err != nil {
		return err
	}
	var p Position
	if err := p.UnmarshalBinary(m.Position); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if has, err := l.has(p); err != nil {
		return err
	} else if !has {
		return fmt.Errorf("%w: the last snapshot is one of records that the log has lost", ErrDamaged)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	r := &pieceReader{l: l, ctx: ctx, m: m, next: m.First}
	z, err := zstd.NewReader(bufio.NewReader(r), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("replog: %w", err)
	}
	defer z.Close()
	if err := read(p, z); err != nil {
		return err
	}
	// read may stop at what it takes for the end. Only the number of pieces shows that nothing is missing behind it.
	n, err := io.Copy(io.Discard, z)
	switch {
	case err != nil:
		return fmt.Errorf("%w: the end of the snapshot: %w", ErrDamaged, err)
	case n > 0 || r.pieces != m.Pieces:
		return fmt.Errorf("%w: the snapshot has %d of %d pieces, and %d bytes too many", ErrDamaged, r.pieces, m.Pieces, n)
	}
	return nil
}

// pieceReader reads the pieces of a snapshot.
type pieceReader struct {
	l      *Log
	ctx    context.Context // of ReadSnapshot
	m      manifest
	next   uint64
	queue  [][]byte
	pieces uint32
}

func (r *pieceReader) Read(p []byte) (int, error) {
	for len(r.queue) == 0 {
		if r.next > r.m.Last {
			return 0, io.EOF
		}
		if err := r.fetch(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.queue[0])
	if r.queue[0] = r.queue[0][n:]; len(r.queue[0]) == 0 {
		r.queue = r.queue[1:]
	}
	return n, nil
}

// fetchTries is the number of attempts to read a piece before it is missing.
const fetchTries = 50

// fetch reads the next pieces from a replica, or the next one from the leader.
func (r *pieceReader) fetch() error {
	var last error
	for try := range fetchTries {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		before := r.next
		// A replica may lag behind the manifest. Every fourth attempt asks the leader, which has all pieces.
		if try%4 < 3 {
			last = r.l.servers.read(r.l.snapshotStream(), r.next, snapshotInFlight, r.take)
		} else {
			var seq uint64
			var data []byte
			seq, data, last = r.l.servers.message(r.l.snapshotStream(), r.next)
			switch {
			case last == nil && seq == r.next:
				_, last = r.take(seq, data)
			case last == nil:
				last = errNoMessage
			}
		}
		// One replica may have a damaged copy of a piece, so damage counts only after several attempts, two at the leader.
		if errors.Is(last, ErrDamaged) && try > 8 || r.next > before {
			break
		}
		r.l.sleep(r.ctx, retryPause)
		if try == fetchTries-1 {
			return fmt.Errorf("%w: piece %d of the snapshot cannot be read: %w", ErrDamaged, r.next,
				cmp.Or(last, errNoMessage))
		}
	}
	// Pieces before the damaged one are delivered first; the next call meets the damage again.
	if errors.Is(last, ErrDamaged) && len(r.queue) == 0 {
		return last
	}
	return nil
}

// take keeps a message if it is the next one.
func (r *pieceReader) take(seq uint64, data []byte) (more bool, err error) {
	if seq != r.next || seq > r.m.Last {
		return false, nil
	}
	h, payload, err := decode(data)
	if err != nil && seq <= r.m.Last {
		return false, fmt.Errorf("%w: message %d of the snapshots: %w", ErrDamaged, seq, err)
	}
	// Pieces of another snapshot that was written at the same time may stand between, and are passed over.
	r.next++
	if h.writer == r.m.ID && h.kind == kindPart {
		if h.parts != r.pieces {
			return false, fmt.Errorf("%w: piece %d of the snapshot follows piece %d", ErrDamaged, h.parts, r.pieces)
		}
		r.pieces++
		r.queue = append(r.queue, payload)
	}
	return true, nil
}

// Holds reports whether the log has all messages after the last valid record of a position. It is false for the zero
// Position if the log begins with a snapshot. Errors: ErrUnavailable, and ErrDiverged if the log does not have that
// record.
func (l *Log) Holds(ctx context.Context, p Position) (bool, error) {
	if l.seeded && p.Last == 0 {
		return false, nil
	}
	info, err := l.servers.stream(ctx, l.stream)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	// With the record itself, or nothing would show that the stream has lost it.
	from := min(p.Resume, p.Last) + 1
	if l.compares() && p.Last > 0 {
		from = min(from, p.Last)
	}
	if info.State.FirstSeq > from {
		return false, nil
	}
	if has, err := l.has(p); err != nil {
		return false, err
	} else if !has {
		return false, fmt.Errorf("%w: it has another record %d: the stream has lost its end", ErrDiverged, p.Last)
	}
	return true, nil
}

// Empty reports whether this node has processed no record, and is not behind.
func (l *Log) Empty() bool {
	ctx, cancel := l.within(l.life, time.Duration(l.timeout.Load()))
	defer cancel()
	info, err := l.servers.stream(ctx, l.stream)
	return err == nil && info.State.LastSeq == 0 && !l.seeded
}

// Size returns the size of the log in bytes, on this node if it has a copy.
func (l *Log) Size(ctx context.Context) (int64, error) {
	if l.config.Copied != nil {
		if copied, known := l.config.Copied(l.stream); known {
			return copied.Bytes, nil
		}
	}
	info, err := l.servers.stream(ctx, l.stream)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return int64(info.State.Bytes), nil
}
