package mirror

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/schedule"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

const (
	// keepUpWait is the time that a writer waits for a peer that answers, but not fast enough.
	keepUpWait = 250 * time.Millisecond
	// expireAfter is the time after which a message counts as lost.
	expireAfter = 5 * time.Second
)

// writer copies the records of one extent.Writer. Its exported methods are for one goroutine.
type writer struct {
	m       *Mirror
	records []extent.Slice
	ids     []uint64 // of the extents, each once
	asked   bool     // the last message had the syncs

	changed chan struct{} // receives after the state of a peer has changed
	turn    sync.Mutex    // held by commit

	under  *Group // under which the content was acknowledged; guarded by Mirror.mu
	closed bool   // guarded by Mirror.mu

	mu    sync.Mutex // guards the rest
	peers []progress // by index of Mirror.peers
}

// progress holds what a peer has of the records.
type progress struct {
	pending int    // messages that it has not acknowledged
	failed  bool   // it lacks a record
	epoch   uint64 // of the process that acknowledged; 0 before that
	attempt int    // increases when everything is sent again
}

// sent is a message that was not acknowledged.
type sent struct {
	w       *writer
	to      *peer
	peer    int // its index
	attempt int
	size    int
	at      time.Time
}

// Begin implements extent.Mirror.
func (m *Mirror) Begin() extent.MirrorWriter {
	return &writer{m: m, peers: make([]progress, len(m.all())), changed: make(chan struct{}, 1)}
}

// Add implements extent.MirrorWriter.
func (w *writer) Add(x extent.Slice, records []byte, last bool) error {
	if err := w.m.checkMajority(); err != nil {
		return err
	}
	peers := w.grow()
	w.records = append(w.records, x)
	if !slices.Contains(w.ids, x.Extent) {
		w.ids = append(w.ids, x.Extent)
	}
	p := put{id: x.Extent, offset: extent.RecordOf(x), records: records}
	// The request to sync travels with the last record, which saves a round for content of one message.
	if last && len(w.ids) <= maxSyncs {
		p.syncs, w.asked = w.ids, true
	}
	message := p.appendTo(takeMessage())
	defer freeMessage(message)
	for i := range peers {
		w.send(i, message, keepUpWait)
	}
	return nil
}

// grow makes room for peers that have come since. They lack the records so far.
func (w *writer) grow() []*peer {
	peers := w.m.all()
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.peers) < len(peers) {
		w.peers = append(w.peers, progress{failed: len(w.records) > 0})
	}
	return peers
}

// send sends a message to a peer that has all records so far. Otherwise, or if the peer has no room for it, the peer is
// left out.
func (w *writer) send(i int, message []byte, wait time.Duration) {
	w.mu.Lock()
	at := &w.peers[i]
	failed, attempt := at.failed, at.attempt
	w.mu.Unlock()
	// A peer that lacks a record cannot complete this attempt. What it lacks is sent by again, or fetched when it
	// catches up.
	if failed {
		return
	}
	p := w.m.all()[i]
	if p.out.Load() || !w.m.reserve(p, len(message), wait) {
		w.fail(i, attempt)
		return
	}
	w.mu.Lock()
	// Counted before the publish, since the answer may come before PublishMsg returns.
	at.pending++
	w.mu.Unlock()
	token := w.m.expect(&sent{w: w, to: p, peer: i, attempt: attempt, size: len(message), at: w.m.now()})
	err := w.m.publish(&nats.Msg{Subject: w.m.putSubject(p.name),
		Reply: w.m.ackSubject(w.m.config.Node, strconv.FormatUint(token, 36)), Data: message})
	if err != nil {
		w.m.settle(token, 0, fmt.Errorf("mirror: %w", err), false)
	}
}

func (w *writer) fail(i, attempt int) {
	w.mu.Lock()
	if at := &w.peers[i]; at.attempt == attempt {
		at.failed = true
	}
	w.mu.Unlock()
	w.wake()
}

func (w *writer) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// acknowledge notes the answer to a message.
func (w *writer) acknowledge(s *sent, epoch uint64, err error) {
	w.mu.Lock()
	// An answer to an earlier attempt says nothing about what was sent again.
	if at := &w.peers[s.peer]; at.attempt == s.attempt {
		at.pending--
		if err != nil || at.epoch != 0 && at.epoch != epoch {
			at.failed = true // a process that began since may have lost what the one before has not synced
		}
		at.epoch = epoch
	}
	w.mu.Unlock()
	w.wake()
}

// count returns how many peers have everything, whether they are enough for a group, and whether they may become so.
func (w *writer) count(g *Group) (complete int, enough, possible bool) {
	peers := w.grow()
	w.mu.Lock()
	defer w.mu.Unlock()
	has := func(i int) bool { return !w.peers[i].failed && w.peers[i].pending == 0 && !peers[i].out.Load() }
	for i := range peers {
		if has(i) {
			complete++
		}
	}
	return complete, w.m.enough(g, peers, has), w.m.enough(g, peers, func(i int) bool {
		return !w.peers[i].failed && !peers[i].out.Load()
	})
}

// Commit implements extent.MirrorWriter.
func (w *writer) Commit() error {
	if len(w.records) == 0 {
		return nil
	}
	return w.commit()
}

// commit is Commit; [Mirror.Renew] calls it again when the group has changed.
func (w *writer) commit() error {
	w.turn.Lock()
	defer w.turn.Unlock()
	// The last message could not carry the syncs, or no record was known to be the last.
	if !w.asked {
		w.asked = true
		w.sync(-1)
	}
	deadline := w.m.now().Add(w.m.config.Timeout)
	for {
		if w.await(deadline.Sub(w.m.now())) {
			return nil
		}
		if err := w.m.checkMajority(); err != nil {
			return err
		}
		if w.m.now().After(deadline) || w.m.life.Err() != nil {
			complete, _, _ := w.count(w.m.groupNow())
			return fmt.Errorf("%w: %d of %d other nodes have acknowledged content, which is no majority",
				extent.ErrUnavailable, complete, len(w.m.active()))
		}
		if !w.m.sleep(retryPause) {
			return extent.ErrClosed
		}
		// Writing a record twice at its offset does no harm, so everything is sent again to a peer that lacks anything.
		w.again()
	}
}

// majorityPoll is the interval at which a writer that waits checks that this node has a majority.
const majorityPoll = 100 * time.Millisecond

// await waits until enough peers have everything. It returns false if that does not happen in time, or cannot.
func (w *writer) await(limit time.Duration) bool {
	end := w.m.now().Add(limit)
	for {
		g := w.m.groupNow()
		_, enough, possible := w.count(g)
		switch {
		case enough && w.m.hold(w, g):
			return true
		case enough: // the group has just changed
			continue
		// Those that have failed cannot come back within this attempt, so waiting for the others is of no use.
		case !possible:
			return false
		}
		if w.m.await(min(end.Sub(w.m.now()), majorityPoll), w.changed) {
			continue
		}
		if w.m.life.Err() != nil || !w.m.now().Before(end) || w.m.checkMajority() != nil {
			return false
		}
	}
}

// retryPause is the pause before records are sent again.
const retryPause = 50 * time.Millisecond

// sync asks a peer, or all of them for -1, to sync the extents, in messages of maxSyncs.
func (w *writer) sync(peer int) {
	for ids := range slices.Chunk(w.ids, maxSyncs) {
		message := (&put{syncs: ids}).appendTo(takeMessage())
		for i := range w.grow() {
			if peer < 0 || i == peer {
				w.send(i, message, keepUpWait)
			}
		}
		freeMessage(message)
	}
}

// again sends everything again to the peers that lack something, from the extents of this node.
func (w *writer) again() {
	for i, p := range w.grow() {
		w.mu.Lock()
		at := &w.peers[i]
		behind := (at.failed || at.pending > 0) && !p.out.Load()
		if behind {
			*at = progress{attempt: at.attempt + 1}
		}
		w.mu.Unlock()
		if behind {
			w.sendAll(i)
		}
	}
}

// sendAll sends all records to a peer.
func (w *writer) sendAll(i int) {
	for _, x := range w.records {
		offset, record, err := w.m.extents.Record(x)
		if err != nil {
			w.m.config.Log.Error("cannot read content that was just written", "err", err)
			w.fail(i, w.attempt(i))
			return
		}
		message := (&put{id: x.Extent, offset: offset, records: record}).appendTo(takeMessage())
		w.send(i, message, expireAfter)
		freeMessage(message)
	}
	w.sync(i)
}

func (w *writer) attempt(i int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.peers[i].attempt
}

// Close implements extent.MirrorWriter.
func (w *writer) Close() {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.closed = true
	delete(w.m.held.writers, w)
}

// checkMajority returns an error if it is known that no majority can be reached.
func (m *Mirror) checkMajority() error {
	if m.config.Majority == nil || m.config.Majority() {
		return nil
	}
	return fmt.Errorf("%w: this node is not connected to a majority", extent.ErrUnavailable)
}

// expect returns the token of a message that is about to be sent.
func (m *Mirror) expect(s *sent) (token uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.token++
	m.tokens[m.token] = s
	return m.token
}

// settle notes the answer to a message. answered is false if the peer did not answer.
func (m *Mirror) settle(token, epoch uint64, err error, answered bool) {
	m.mu.Lock()
	s := m.tokens[token]
	delete(m.tokens, token)
	m.mu.Unlock()
	if s != nil {
		s.to.release(s.size, answered)
		s.w.acknowledge(s, epoch, err)
	}
}

// acknowledged receives an acknowledgement.
func (m *Mirror) acknowledged(msg *nats.Msg) {
	token, err := strconv.ParseUint(msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:], 36, 64)
	if err != nil {
		return
	}
	if msg.Header.Get("Status") != "" { // no node of that name is connected
		m.settle(token, 0, nats.ErrNoResponders, false)
		return
	}
	epoch, _, err := parseAnswer(msg.Data)
	m.settle(token, epoch, err, true)
}

// expire gives up waiting for acknowledgements that do not come.
func (m *Mirror) expire() {
	for {
		now := m.now()
		if !m.sleep(schedule.NextBeat(m.config.schedule, now, time.Second).Sub(now)) {
			return
		}
		var lost []uint64
		now = m.now()
		m.mu.Lock()
		for token, s := range m.tokens {
			if now.Sub(s.at) > expireAfter {
				lost = append(lost, token)
			}
		}
		m.mu.Unlock()
		slices.Sort(lost) // a simulation repeats the order
		for _, token := range lost {
			m.settle(token, 0, nats.ErrTimeout, false)
		}
	}
}

var messages = sync.Pool{New: func() any { return new([]byte) }}

// takeMessage returns an empty buffer.
func takeMessage() []byte { return (*messages.Get().(*[]byte))[:0] }

func freeMessage(b []byte) { messages.Put(&b) }

// servePut writes a record of another node, and syncs.
func (m *Mirror) servePut(msg *nats.Msg) {
	if !m.enter() {
		return
	}
	defer m.done.Done()
	p, err := parsePut(msg.Data)
	if err == nil && len(p.records) > 0 {
		err = m.extents.PutRecords(p.id, p.offset, p.records)
	}
	// Without a sync the answer only says that the record arrived, so it need not wait.
	if err != nil || len(p.syncs) == 0 {
		m.reply(msg, answer(err, m.epoch, nil))
		return
	}
	// A sync takes long, and this handler receives all records of all peers in turn.
	m.start(func() {
		for _, id := range p.syncs {
			if err = m.extents.SyncPuts(id); err != nil {
				break
			}
		}
		m.reply(msg, answer(err, m.epoch, nil))
	})
}

func (m *Mirror) reply(msg *nats.Msg, data []byte) {
	_ = m.respond(msg, data) // without an answer, the other node asks again
}
