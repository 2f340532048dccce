package replog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/simulate"
)

// The nodes of a simulation run this package as it is. Only the servers, the clock and the order of what happens are
// those of package simulate. docs/design/cluster.md says how to run it and how to read a trace.

const simNodes = 3

// The kinds of events.
const (
	goOn       = iota // one step of a task, or one delivery
	add               // a node appends a record
	several           // a node appends records without waiting for the one before
	read              // a node asks for everything that was appended
	checkpoint        // a node makes what it has applied durable
	snapshot          // a node writes a snapshot
	crash             // a node ends, and starts again
	elect             // another server leads, or none
	heal              // all servers know their leader
	cut               // a node with its server has no connection to the others, or has it again
	full              // a node cannot apply for lack of room, or can again
	damage            // a copy of a message changes, or all are repaired
	pass              // time passes while messages are on their way
	wipe              // a node loses its folder
	lose              // the stream loses its end, which JetStream promises not to do
)

var weights = []int{goOn: 850, add: 45, several: 15, read: 30, checkpoint: 8,
	snapshot: 6, crash: 5, elect: 5, heal: 5, cut: 4,
	full: 3, damage: 3, pass: 6, wipe: 1, lose: 1}

// simulation is a run with all that it knows of it, and the nodes do not.
type simulation struct {
	w              *simulate.World
	log, snapshots *simulate.Stream
	configs        map[*simulate.Stream]jetstream.StreamConfig
	nodes          []*simNode
	writers        map[uint64]string // names for the trace

	records   map[string]*simRecord
	truth     []entry // the valid records, in order
	oracle    oracle
	gone      []entry // those that were valid before the stream lost its end
	confirmed int     // number of records that every reader must see
	made      []Position
	lossy     bool // the seed may lose the end of the stream
	lost      bool // and has
}

// entry is a valid record.
type entry struct {
	seq uint64
	id  string
}

// simRecord is a record that a node appends or has appended.
type simRecord struct {
	prev    uint64
	chain   uint64 // of the record before it, as its writer knew it
	base    string // the last record of the state that it was made from
	size    int
	applied bool
	refused error // it must have no effect
	done    bool  // acknowledged
}

// simNode is a node with its folder.
type simNode struct {
	s       *simulation
	name    string
	index   int
	process *simulate.Process
	servers *simServers
	log     *Log
	starts  int
	view    []entry
	pos     Position
	disk    struct {
		pos  Position
		view []entry
	}
	seen              error // of the log, by the last step
	writing, snapping bool
	reading           int
	cut, knows, full  bool
	appended, ended   int
}

func (n *simNode) trace(format string, args ...any) {
	n.s.w.Logf("%s: %s", n.name, fmt.Sprintf(format, args...))
}

// runSim runs a script.
func runSim(seed uint64, script []simulate.Event, recorded bool) *simulate.World {
	w := simulate.New(recorded)
	defer w.Close()
	s := &simulation{w: w, configs: map[*simulate.Stream]jetstream.StreamConfig{}, writers: map[uint64]string{},
		records: map[string]*simRecord{}, oracle: oracle{parts: map[uint64]map[[2]uint64][]byte{}}}
	profile := rand.New(rand.NewPCG(seed, 0xfa))
	s.log = w.NewStream("log", simNodes, someFaults(profile))
	s.snapshots = w.NewStream("snapshots", simNodes, someFaults(profile))
	// A manifest that stands where its condition does not hold names pieces that are gone: a node that joins then waits
	// for the next snapshot, which is not what this looks for.
	s.snapshots.Faults.Limbo, s.snapshots.Faults.Accept, s.snapshots.Faults.Fenced = 0, 0, true
	if s.lossy = profile.IntN(3) == 0 && *simLose; s.lossy {
		// Two broken promises at a time are too many: a node that does not know of the loss yet would append, and what the
		// leader cannot read cannot be compared.
		s.log.Faults.Accept, s.log.Faults.Damage = 0, 0
	}
	s.log.Committed, s.snapshots.Committed = s.stored, s.noteManifest
	w.Begin(simulate.Event{Random: seed})
	s.log.Elect(0, true)
	s.snapshots.Elect(0, true)
	for i := range simNodes {
		s.nodes = append(s.nodes, &simNode{s: s, index: i, name: fmt.Sprintf("n%d", i+1)})
	}
	for _, n := range s.nodes {
		n.start()
	}
	for _, e := range script {
		w.Begin(e)
		s.step(e.Kind)
		s.check()
		if w.Failure() != "" {
			return w
		}
	}
	s.settle()
	return w
}

// someFaults chooses which faults happen, and how often: with all of them in each run, a run would not get far.
func someFaults(r *rand.Rand) (f simulate.Faults) {
	for _, one := range []*int{&f.LoseRequest, &f.LoseAnswer, &f.LoseCopy, &f.Twice, &f.Late, &f.Accept, &f.Refuse,
		&f.Limbo, &f.Damage, &f.Gap, &f.Slow} {
		if r.IntN(2) == 0 {
			*one = 4 + r.IntN(60)
		}
	}
	return f
}

// step makes what an event says.
func (s *simulation) step(kind int) {
	w := s.w
	n := s.nodes[w.Choose(len(s.nodes))]
	switch kind {
	case add:
		n.add(1+w.Choose(3), 0)
	case several:
		n.several(2+w.Choose(4), 1+w.Choose(3))
	case read:
		n.read()
	case checkpoint:
		n.checkpoint()
	case snapshot:
		n.snapshot()
	case crash:
		n.crash("loses its power", w.Delay(5*time.Second))
	case elect:
		s.elect(w.Choose(simNodes+1)-1, w.Choose(2) == 0)
	case heal:
		s.log.Heal()
		s.snapshots.Heal()
		w.Logf("all servers know their leader: %v", s.log)
	case cut:
		s.cut(n)
	case full:
		n.full = !n.full
		n.trace("its disk is full: %t", n.full)
	case damage:
		s.damage()
	case pass:
		w.Pass(w.Delay(4 * time.Second))
	case wipe:
		n.disk.pos, n.disk.view = Position{}, nil
		n.crash("loses its folder", w.Delay(5*time.Second))
	case lose:
		s.loseTail()
	default:
		w.GoOn()
	}
}

func (s *simulation) elect(server int, knows bool) {
	if server >= 0 && s.nodes[server].cut {
		return
	}
	s.w.Logf("server %d leads; the one before knows: %t", server, knows)
	s.log.Elect(server, knows)
	s.snapshots.Elect(max(server, 0), knows)
}

func (s *simulation) cut(n *simNode) {
	if n.cut {
		n.cut = false
		n.trace("is connected again")
		if s.lost { // the next message of the leader says so
			s.log.Learn(n.index)
		}
		return
	}
	for _, other := range s.nodes {
		if other.cut { // a majority stays
			return
		}
	}
	n.cut, n.knows = true, s.w.Choose(2) == 0
	n.trace("is cut off, and knows: %t", n.knows)
	if s.log.Leader() == n.index {
		s.elect((n.index+1)%simNodes, false)
	}
}

func (s *simulation) damage() {
	if s.w.Choose(2) == 0 || s.log.Last() == 0 || s.lossy {
		s.log.Repair()
		return
	}
	first := s.log.First()
	server, seq := s.w.Choose(simNodes), first+uint64(s.w.Choose(int(s.log.Last()-first)+1))
	s.w.Logf("server %d: message %d is damaged there", server, seq)
	s.log.Damage(server, seq)
}

func (s *simulation) loseTail() {
	if !s.lossy || s.lost || len(s.truth) == 0 {
		return
	}
	n := 1 + s.w.Choose(6)
	// The log was cut at the snapshot before the last one. What that one has must stay, or no node could begin any more.
	if k := len(s.made); k >= 2 {
		n = min(n, int(s.log.Last()-min(s.log.Last(), s.made[k-2].Seq)))
	}
	if n <= 0 {
		return
	}
	s.lost = true
	unaware := slices.IndexFunc(s.nodes, func(n *simNode) bool { return n.cut })
	s.log.LoseTail(n, unaware)
	s.gone = slices.Clone(s.truth)
	messages := s.oracle.messages
	s.oracle, s.truth, s.confirmed = oracle{parts: map[uint64]map[[2]uint64][]byte{}}, nil, 0
	for _, r := range s.records {
		r.applied, r.done, r.refused = false, false, nil
	}
	for _, m := range messages {
		if m.Seq <= s.log.Last() {
			s.decide(m)
		}
	}
}

// oracle decides which records are valid by reading all messages in order, whatever nodes do.
type oracle struct {
	messages []simulate.Message
	chain    uint64                          // of the last valid record
	parts    map[uint64]map[[2]uint64][]byte // by writer: those of its last record, by counter and number
}

func hasCounter(parts map[[2]uint64][]byte, counter uint64) bool {
	for key := range parts {
		return key[0] == counter
	}
	return false
}

// stored is called with each message that becomes part of the log.
func (s *simulation) stored(m simulate.Message) {
	s.decide(m)
	s.republish(m)
}

func (s *simulation) decide(m simulate.Message) {
	o := &s.oracle
	o.messages = append(o.messages, m)
	h, payload, err := decode(m.Data)
	if err != nil || h.kind == kindMark {
		return
	}
	parts := o.parts[h.writer]
	if h.kind == kindPart {
		// A writer has one record with parts at a time.
		if !hasCounter(parts, h.counter) {
			parts = map[[2]uint64][]byte{}
			o.parts[h.writer] = parts
		}
		parts[[2]uint64{h.counter, uint64(h.parts)}] = payload
		return
	}
	delete(o.parts, h.writer)
	last := uint64(0)
	if n := len(s.truth); n > 0 {
		last = s.truth[n-1].seq
	}
	var whole []byte
	complete := true
	for i := range uint64(h.parts) {
		part, there := parts[[2]uint64{h.counter, i}]
		whole, complete = append(whole, part...), complete && there
	}
	id, _, _ := strings.Cut(string(append(whole, payload...)), " ")
	r := s.records[id]
	// A record with another chain stops the nodes that follow the log: see ErrDiverged.
	if r == nil || !complete || h.prev != last || h.chain != o.chain {
		return
	}
	o.chain = sumOf(m.Data)
	switch {
	case r.applied:
		s.w.Failf("%s is valid twice", id)
	case r.refused != nil:
		s.w.Failf("%s is valid, and its caller was told %q", id, r.refused)
	}
	if n := len(s.truth); r.base != "" && (n == 0 || s.truth[n-1].id != r.base) {
		s.w.Failf("%s is valid after %d records, and was made from a state that ends with %s", id, n, r.base)
	}
	r.applied = true
	s.truth = append(s.truth, entry{m.Seq, id})
}

// republish sends a stored message to all nodes.
func (s *simulation) republish(m simulate.Message) {
	f := s.log.Faults
	for _, n := range s.nodes {
		copies := 1
		if s.w.Chance(f.Twice) {
			copies = 2
		}
		for range copies {
			if s.w.Chance(f.LoseCopy) {
				continue
			}
			delay := 3 * time.Millisecond
			if s.w.Chance(f.Late) {
				delay = 3 * time.Second
			}
			got := s.log.Republished(m)
			s.w.After(s.w.Delay(delay), fmt.Sprintf("%s: receives message %d", n.name, m.Seq), func() {
				if s.lost && !s.log.Has(m) { // the connections of the servers that have lost it were closed
					return
				}
				r := nats.NewMsg("lazuli.follow.sim.record")
				r.Header.Set(headerSequence, strconv.FormatUint(got.Seq, 10))
				r.Data = got.Data
				n.receive(nil, r)
			})
		}
	}
}

// receive passes a message to the handler of its subject.
func (n *simNode) receive(from *simNode, m *nats.Msg) {
	if n.process.Dead() || n.cut || from != nil && from.cut {
		return
	}
	for prefix, handle := range n.servers.handlers {
		if strings.HasPrefix(m.Subject, prefix) {
			handle(m)
		}
	}
}

// start begins a node with what its folder has, as package store does.
func (n *simNode) start() {
	n.process = n.s.w.Process(n.name)
	n.servers = &simServers{s: n.s, n: n, process: n.process, handlers: map[string]nats.MsgHandler{},
		receives: map[string]chan *nats.Msg{}}
	n.starts++
	n.log, n.seen = nil, nil
	n.writing, n.reading, n.snapping = false, 0, false
	n.process.Task("starts", func() {
		if err := n.open(); err != nil {
			n.trace("cannot start: %v", err)
			n.s.w.After(time.Second, "", func() { n.crash("tries again", 0) })
		}
	})
}

func (n *simNode) open() error {
	ctx := testContext()
	l, err := Open(ctx, Config{Name: "sim", Node: n.name, Replicas: simNodes, Log: slog.New(slog.DiscardHandler),
		servers: n.servers, schedule: n.process, chunk: 64, End: n.servers.end, Heads: n.servers.heads, Term: n.servers.term,
		Copied: n.servers.copied, Majority: func() bool { return !n.cut || !n.knows }})
	if err != nil {
		return err
	}
	n.s.writers[l.writer] = fmt.Sprintf("%s.%d", n.name, n.starts)
	held, err := l.Holds(ctx, n.disk.pos)
	if errors.Is(err, ErrDiverged) {
		n.trace("sets its folder aside: %v", err)
		n.disk.pos, n.disk.view = Position{}, nil
		held, err = l.Holds(ctx, n.disk.pos)
	}
	if err != nil {
		return err
	}
	if !held {
		if n.disk.pos.Last > 0 {
			n.checkPurge(n.disk.pos)
		}
		if err := l.ReadSnapshot(ctx, n.load); err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
	}
	n.view, n.pos = slices.Clone(n.disk.view), n.disk.pos
	n.trace("follows the log after message %d, record %d", n.pos.Seq, n.pos.Last)
	if err := l.Follow(n.pos, n.apply); err != nil {
		return err
	}
	n.log = l
	return nil
}

// load takes a snapshot for the content of the folder.
func (n *simNode) load(p Position, r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	var view []entry
	for line := range strings.Lines(string(text)) {
		var e entry
		if _, err := fmt.Sscanf(line, "%d %s\n", &e.seq, &e.id); err != nil {
			return err
		}
		view = append(view, e)
	}
	if !n.s.lost && (len(view) > len(n.s.truth) || !slices.Equal(view, n.s.truth[:len(view)])) {
		n.s.w.Failf("%s: a snapshot has other records than the log", n.name)
	}
	if len(view) > 0 && view[len(view)-1].seq != p.Last {
		n.s.w.Failf("%s: a snapshot ends with record %d, and says %d", n.name, view[len(view)-1].seq, p.Last)
	}
	n.trace("loads a snapshot of %d records", len(view))
	n.disk.pos, n.disk.view = p, view
	return nil
}

// apply is called by the log.
func (n *simNode) apply(payload []byte, p Position) error {
	s := n.s
	if n.full {
		return fmt.Errorf("%w: full", ErrLater)
	}
	id, _, _ := strings.Cut(string(payload), " ")
	n.trace("applies %s as record %d", id, p.Last)
	r := s.records[id]
	if r == nil || !bytes.Equal(payload, payloadOf(id, r.size)) {
		s.w.Failf("%s: a record has other bytes than were appended", n.name)
		return nil
	}
	k := len(n.view)
	e := entry{p.Last, id}
	if r.prev != n.pos.Last || r.chain != n.pos.Chain {
		s.w.Failf("%s: applies %s after another record %d than it was appended after", n.name, id, n.pos.Last)
	}
	n.view, n.pos = append(n.view, e), p
	switch {
	case k < len(s.truth) && s.truth[k] == e && (k == 0 || s.truth[k-1] == n.view[k-1]):
	case k < len(s.gone) && s.gone[k] == e && (k == 0 || s.gone[k-1] == n.view[k-1]):
		n.trace("does not know yet that this record is lost")
	case s.lost && !slices.Contains(s.truth, e):
		// A node that has not noticed the loss goes on alone until a record that follows another history than its own
		// stops it.
		n.trace("does not know yet that the stream has lost messages")
	default:
		s.w.Failf("%s: applies %s as record %d, which the log does not have after the %d before it", n.name, id, p.Last, k)
	}
	return nil
}

// alone reports whether the node has another history than the log.
func (n *simNode) alone() bool {
	return len(n.view) > len(n.s.truth) || !slices.Equal(n.view, n.s.truth[:len(n.view)])
}

// payloadOf returns the payload of a record: which one it is can be read, and every byte of it is known.
func payloadOf(id string, size int) []byte {
	p := append([]byte(id), ' ')
	for i := range size {
		p = append(p, byte('a'+i%26))
	}
	return p
}

func (n *simNode) up() bool { return n.log != nil && n.seen == nil && !n.process.Dead() }

// add appends, and again up to some times if another node was first, as a group of package store does.
func (n *simNode) add(tries int, after time.Duration) {
	if !n.up() || n.writing {
		return
	}
	n.writing = true
	n.process.Task("", func() {
		defer func() { n.writing = false }()
		n.process.Park(after, func() bool { return false })
		for range tries {
			n.log.AwaitTurn()
			if err := n.appendOne(); !errors.Is(err, ErrConflict) {
				break
			}
		}
		n.log.EndTurn()
	})
}

// several appends in flight: each is made from a state that has those before it, as the groups of package store are.
// When one fails, what was built on it is given up, and made again later.
func (n *simNode) several(count, rounds int) {
	if !n.up() || n.writing {
		return
	}
	n.writing = true
	n.process.Task("", func() {
		flying := 0
		defer func() { n.writing = false }()
		for range rounds {
			n.log.AwaitTurn()
			var last *Pending
			base := ""
			if len(n.view) > 0 {
				base = n.view[len(n.view)-1].id
			}
			for range count {
				lost := n.s.lost
				id, r := n.record(base)
				a, err := n.log.Begin(last, r.prev, payloadOf(id, r.size), nil)
				if err != nil {
					n.outcome(id, r, lost, err)
					break
				}
				r.prev, r.chain = a.header.prev, a.header.chain
				n.trace("begins %s after record %d; a guess: %t", id, r.prev, a.header.guessed)
				last, base = a, id
				flying++
				n.process.Task("", func() {
					defer func() { flying-- }()
					n.outcome(id, r, lost, a.Wait())
				})
				if n.s.w.Choose(2) == 0 {
					n.process.Park(n.s.w.Delay(4*time.Millisecond), func() bool { return false })
				}
				if !a.Extends() {
					break
				}
			}
			n.process.Park(forever, func() bool { return flying == 0 })
		}
		n.log.EndTurn()
	})
}

// record makes a record from the state that ends with base.
func (n *simNode) record(base string) (id string, r *simRecord) {
	n.appended++
	id = fmt.Sprintf("%s-%d", n.name, n.appended)
	r = &simRecord{prev: n.pos.Last, chain: n.pos.Chain, base: base, size: []int{5, 20, 90, 250}[n.s.w.Choose(4)]}
	n.s.records[id] = r
	return id, r
}

func (n *simNode) appendOne() error {
	id, r := n.record("")
	n.trace("appends %s after record %d", id, r.prev)
	lost := n.s.lost
	return n.outcome(id, r, lost, n.log.Append(r.prev, payloadOf(id, r.size), nil))
}

// outcome compares what an append has returned with what is known. lost is whether the stream had lost its end before.
func (n *simNode) outcome(id string, r *simRecord, lost bool, err error) error {
	n.trace("append of %s: %v", id, err)
	switch {
	case err == nil && lost && n.alone():
		n.s.w.Failf("%s: %s is acknowledged, and the others have another history", n.name, id)
	case err == nil:
		i := slices.IndexFunc(n.view, func(e entry) bool { return e.id == id })
		if i < 0 {
			n.s.w.Failf("%s: %s is acknowledged, and this node has not applied it", n.name, id)
			return nil
		}
		if n.ended++; lost == n.s.lost {
			r.done = true
			n.s.confirmed = max(n.s.confirmed, i+1)
		}
	case n.s.lost != lost: // what was refused before may be valid now
	case errors.Is(err, ErrConflict), errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown):
		if r.applied {
			n.s.w.Failf("%s: %s is valid, and its caller is told %q", n.name, id, err)
		}
		r.refused = err
	}
	return err
}

// read asks for everything that was appended before.
func (n *simNode) read() {
	if !n.up() || n.reading > 2 {
		return
	}
	n.reading++
	n.process.Task("", func() {
		defer func() { n.reading-- }()
		need, lost := n.s.confirmed, n.s.lost
		n.trace("reads, and must see %d records", need)
		err := n.log.Barrier()
		n.trace("read: %v, %d records", err, len(n.view))
		switch {
		case err != nil || lost != n.s.lost:
		case n.alone():
			n.s.w.Failf("%s: a read sees records that the log has lost", n.name)
		case len(n.view) < need:
			n.s.w.Failf("%s: a read sees %d records, and %d had been acknowledged before it", n.name, len(n.view), need)
		}
	})
}

func (n *simNode) checkpoint() {
	if !n.up() {
		return
	}
	p, view := n.log.Position(), slices.Clone(n.view)
	n.process.Task("", func() {
		if err := n.log.Sync(); err != nil {
			n.trace("no checkpoint: %v", err)
		} else if p.Last >= n.disk.pos.Last {
			n.disk.pos, n.disk.view = p, view
			n.trace("checkpoint at message %d, record %d", p.Seq, p.Last)
		}
	})
}

func (n *simNode) snapshot() {
	if !n.up() || n.snapping {
		return
	}
	n.snapping = true
	n.process.Task("", func() {
		defer func() { n.snapping = false }()
		p, view := n.log.Position(), slices.Clone(n.view)
		n.trace("writes a snapshot up to record %d", p.Last)
		err := n.log.WriteSnapshot(testContext(), p, func(w io.Writer) error {
			for _, e := range view {
				if _, err := fmt.Fprintf(w, "%d %s\n", e.seq, e.id); err != nil {
					return err
				}
			}
			return nil
		})
		n.trace("snapshot up to record %d: %v", p.Last, err)
	})
}

// crash ends a node, which starts again later.
func (n *simNode) crash(why string, after time.Duration) {
	if n.process.Dead() {
		return
	}
	n.trace("%s", why)
	n.process.Kill()
	n.s.w.After(after, "", func() {
		if n.process.Dead() {
			n.start()
		}
	})
}

// check looks for logs that have stopped.
func (s *simulation) check() {
	for _, n := range s.nodes {
		if !n.up() {
			continue
		}
		if n.seen = n.log.Err(); n.seen != nil {
			n.trace("stops: %v", n.seen)
			n.checkStop(n.seen)
			if errors.Is(n.seen, ErrDiverged) {
				n.disk.pos, n.disk.view = Position{}, nil // it is set aside
			}
			n.crash("joins again", time.Second)
		}
	}
}

// checkStop decides whether a log had a reason to stop.
func (n *simNode) checkStop(err error) {
	s, next := n.s, n.log.next
	switch {
	// A server that was deposed may have told where the log begins: then what was cut off counts as damaged. The node
	// does the same in both cases.
	case errors.Is(err, ErrPurged), errors.Is(err, ErrDamaged) && next < s.log.First():
		n.checkPurge(n.log.pos)
	case errors.Is(err, ErrDamaged) && s.log.Damaged(next), errors.Is(err, ErrDiverged) && s.lost:
	default:
		s.w.Failf("%s: stops without a reason: %v", n.name, err)
	}
}

// checkPurge checks that the log has what a node needs that has the snapshot before the last one.
func (n *simNode) checkPurge(p Position) {
	made := n.s.manifests()
	if n.s.lost {
		return
	}
	back := func(p Position) uint64 { return min(p.Resume+1, p.Last) }
	if len(made) < 2 || back(p) >= back(made[len(made)-2]) {
		n.s.w.Failf("%s: needs message %d, which was removed, although it is no further back than the snapshot before the "+
			"last one", n.name, back(p))
	}
}

// manifests returns the positions of all snapshots.
func (s *simulation) manifests() []Position { return s.made }

// settle ends all faults, and wants every node to go on.
func (s *simulation) settle() {
	w := s.w
	w.Begin(simulate.Event{Random: 1})
	w.Logf("all faults end")
	s.log.Faults, s.snapshots.Faults = simulate.Faults{}, simulate.Faults{}
	s.log.Heal()
	s.snapshots.Heal()
	s.log.Repair()
	for _, n := range s.nodes {
		n.cut, n.full = false, false
	}
	if s.lost && !s.recoverable() {
		return
	}
	const limit = 6000
	phase := make([]int, simNodes)
	for i := range limit {
		w.Begin(simulate.Event{Random: uint64(i)})
		w.GoOn()
		s.check()
		if w.Failure() != "" {
			return
		}
		ready := 0
		for i, n := range s.nodes {
			switch {
			case !n.up() || n.writing || n.reading > 0:
			case phase[i] == 0:
				n.ended = 0
				n.add(1, 300*time.Millisecond)
				phase[i] = 1
			case phase[i] == 1 && n.ended == 0: // again
				n.add(1, 300*time.Millisecond)
			case phase[i] == 1:
				phase[i] = 2
			default:
				ready++
			}
		}
		if ready == simNodes {
			break
		}
		if n := s.nodes[i%simNodes]; s.lost && i%500 < simNodes { // as when the log has become long
			n.snapshot()
		}
	}
	for _, n := range s.nodes {
		if phase[n.index] < 2 {
			// A snapshot that was under way when the stream lost its end may have cut the log since.
			if s.lost && !s.recoverable() {
				return
			}
			w.Failf("%s: does not append, although all faults have ended", n.name)
		}
	}
	s.finish()
}

// recoverable reports whether a node can start with what is left: the log from its beginning on, or a snapshot.
func (s *simulation) recoverable() bool {
	has := func(p Position) bool {
		return min(p.Resume+1, p.Last) >= s.log.First() &&
			slices.ContainsFunc(s.truth, func(e entry) bool { return e.seq == p.Last })
	}
	return s.log.First() == 1 || len(s.made) > 0 && has(s.made[len(s.made)-1])
}

// finish waits until all nodes see the same, and compares it.
func (s *simulation) finish() {
	w := s.w
	for _, n := range s.nodes {
		n.read()
	}
	for i := range 5000 {
		w.Begin(simulate.Event{Random: uint64(i)})
		if w.GoOn(); s.nodes[0].reading+s.nodes[1].reading+s.nodes[2].reading == 0 {
			break
		}
	}
	for _, n := range s.nodes {
		if !slices.Equal(n.view, s.truth) {
			w.Failf("%s: has %d records in the end, the log has %d", n.name, len(n.view), len(s.truth))
		}
	}
	for id, r := range s.records {
		if r.done && !slices.ContainsFunc(s.truth, func(e entry) bool { return e.id == id }) {
			w.Failf("%s was acknowledged, and is lost", id)
		}
	}
}

// noteManifest notes the position of a snapshot that was written.
func (s *simulation) noteManifest(m simulate.Message) {
	_, text, err := decode(m.Data)
	var found manifest
	var p Position
	if !strings.HasSuffix(m.Subject, ".manifest") || err != nil || json.Unmarshal(text, &found) != nil ||
		p.UnmarshalBinary(found.Position) != nil {
		return
	}
	s.made = append(s.made, p)
	s.w.Logf("snapshots: the manifest of the snapshot up to record %d is message %d", p.Last, m.Seq)
}

// describe names a message in the trace.
func (s *simulation) describe(subject string, data []byte) string {
	h, payload, err := decode(data)
	if err != nil {
		return subject
	}
	switch {
	case strings.HasPrefix(subject, "lazuli.snapshot."):
		return fmt.Sprintf("%s of a snapshot", subject[strings.LastIndexByte(subject, '.')+1:])
	case h.kind == kindRecord:
		id, _, _ := strings.Cut(string(payload), " ")
		if h.parts > 0 {
			id = fmt.Sprintf("with %d parts", h.parts)
		}
		return fmt.Sprintf("record %d of %s (%s) after %d", h.counter, s.writers[h.writer], id, h.prev)
	case h.kind == kindPart:
		return fmt.Sprintf("part %d of record %d of %s", h.parts, h.counter, s.writers[h.writer])
	}
	return fmt.Sprintf("mark %d of %s", h.counter, s.writers[h.writer])
}

func testContext() context.Context { return context.Background() }

var (
	simSeeds = flag.Int("sim.seeds", check.Size(200, 500), "number of seeds of a simulation")
	simSteps = flag.Int("sim.steps", 1000, "number of steps of a seed")
	simLose  = flag.Bool("sim.lose", true, "let the stream lose its end in a third of the seeds")
	simFirst = flag.Uint64("sim.first", 1, "first seed of a simulation")
	simShort = flag.Bool("sim.minimise", true, "look for a short script of a seed that fails")
)

// TestSimulation runs seeds, and prints a short trace of one that fails.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for seed := *simFirst; seed < *simFirst+uint64(*simSeeds); seed++ {
		script := simulate.Script(seed, *simSteps, weights)
		if w := runSim(seed, script, false); w.Failure() != "" {
			report(t, seed, script)
			return
		}
	}
}

// report fails the test with the trace of the shortest script that was found.
func report(t *testing.T, seed uint64, script []simulate.Event) {
	t.Helper()
	fails := func(part []simulate.Event) bool { return runSim(seed, part, false).Failure() != "" }
	short := script
	if *simShort {
		short = simulate.Minimise(script, 3000, fails)
	}
	w := runSim(seed, short, true)
	t.Errorf("seed %d: %s\n%d of %d events:\n%s", seed, w.Failure(), len(short), len(script), w.Trace())
}

// TestSimulationIsRepeatable runs seeds twice.
func TestSimulationIsRepeatable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		script := simulate.Script(seed, 1000, weights)
		if a, b := runSim(seed, script, false).Hash(), runSim(seed, script, true).Hash(); a != b {
			t.Errorf("seed %d: traces %x and %x", seed, a, b)
		}
	}
}
