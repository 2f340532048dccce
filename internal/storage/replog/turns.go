package replog

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Nodes append on condition of the last record. The node that is next to the stream's leader learns of a record first,
// and would win nearly always: others would append again and again without a result. So a node that was overtaken asks
// for its turn, in a message that is not stored, and the others wait until it has appended, or for turnLimit. Turns are
// a courtesy: which record is valid never depends on them.

const (
	// turnLimit is the time that a node waits for another's turn.
	turnLimit = 100 * time.Millisecond
	// maxWriters is the number of other writers of which turns remembers the last record.
	maxWriters = 64
	// noTurn in place of the last record means that a writer needs its turn no more.
	noTurn = math.MaxUint64
)

// turn is a writer's request. Turns come in the order of at, and then of writer, which is the same on all nodes.
type turn struct {
	at     uint64 // last valid record when the writer was overtaken
	writer uint64
	until  time.Time // when it ends; zero until this node waits for it
}

func (t turn) compare(u turn) int {
	return cmp.Or(cmp.Compare(t.at, u.at), cmp.Compare(t.writer, u.writer))
}

// turns are the requests that this node knows of.
type turns struct {
	mu      sync.Mutex
	waiting []turn            // in order, one for each writer
	last    map[uint64]uint64 // by writer: its last valid record
	changed chan struct{}     // closed when waiting gets shorter
}

// request adds a request, unless the writer has one, or has appended since.
func (t *turns) request(at, writer uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last[writer] > at || t.find(writer) >= 0 || len(t.waiting) >= maxWriters {
		return
	}
	t.waiting = append(t.waiting, turn{at: at, writer: writer})
	slices.SortFunc(t.waiting, turn.compare)
}

// end ends the turn of a writer. It reports whether it had one.
func (t *turns) end(writer uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.find(writer)
	if i >= 0 {
		t.remove(i)
	}
	return i >= 0
}

func (t *turns) find(writer uint64) int {
	return slices.IndexFunc(t.waiting, func(u turn) bool { return u.writer == writer })
}

// appended ends the turn of the writer of a valid record.
func (t *turns) appended(seq, writer uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil || len(t.last) > maxWriters {
		t.last = map[uint64]uint64{}
	}
	t.last[writer] = seq
	if i := t.find(writer); i >= 0 {
		t.remove(i)
	}
}

func (t *turns) remove(i int) {
	t.waiting = slices.Delete(t.waiting, i, i+1)
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// first returns how long another writer has the first turn, and the channel that is closed earlier if it ends earlier.
// The channel is nil if no other writer has it.
func (t *turns) first(writer uint64, now time.Time) (time.Duration, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.waiting) > 0 && t.waiting[0].writer != writer {
		first := &t.waiting[0]
		if first.until.IsZero() {
			first.until = now.Add(turnLimit)
		}
		if limit := first.until.Sub(now); limit > 0 {
			if t.changed == nil {
				t.changed = make(chan struct{})
			}
			return limit, t.changed
		}
		t.remove(0)
	}
	return 0, nil
}

func (l *Log) turnSubject() string { return "lazuli.turn." + l.config.Name }

// AwaitTurn waits while another node has the turn to append, for a tenth of a second at most for each. It is called
// before the state is read that an Append depends on. Append does not need it.
func (l *Log) AwaitTurn() {
	for {
		limit, changed := l.turns.first(l.writer, l.now())
		if changed == nil {
			return
		}
		if _, why := waitFor[struct{}](l, limit, nil, changed); why == byClose {
			return
		}
	}
}

// EndTurn ends the turn of a node that was overtaken, and that needs to append nothing any more.
func (l *Log) EndTurn() {
	if l.turns.end(l.writer) {
		l.publishTurn(noTurn)
	}
}

// overtaken counts an append that was overtaken by another node's, and asks for the turn.
func (l *Log) overtaken() {
	l.stats.conflicts.Add(1)
	l.mu.Lock()
	at := l.pos.Last
	l.mu.Unlock()
	l.turns.request(at, l.writer)
	l.publishTurn(at)
}

// publishTurn tells the other nodes. An error is not one of the append: the next conflict asks again.
func (l *Log) publishTurn(at uint64) {
	message := binary.BigEndian.AppendUint64(nil, at)
	m := &nats.Msg{Subject: l.turnSubject(), Data: binary.BigEndian.AppendUint64(message, l.writer)}
	_ = l.servers.send(m)
}

// turnRequested receives what another node has published.
func (l *Log) turnRequested(m *nats.Msg) {
	if len(m.Data) != 16 {
		return
	}
	at, writer := binary.BigEndian.Uint64(m.Data), binary.BigEndian.Uint64(m.Data[8:])
	switch {
	case writer == l.writer: // known already
	case at == noTurn:
		l.turns.end(writer)
	default:
		l.turns.request(at, writer)
	}
}
