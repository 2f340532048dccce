package mirror

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/simulate"
)

// The nodes of a simulation run this package as it is, over a network and extents that are models. See
// docs/design/cluster.md.

const simNodes = 3

// The kinds of events.
const (
	goOn  = iota // one step of a task, or one delivery
	write        // a node writes content
	crash        // a node loses its power, with what was not synced
	cut          // a node loses its connections, or gets them back
	pass         // time passes while messages are on their way
	move         // the content moves to another node, or a step of that
)

var weights = []int{goOn: 900, write: 30, crash: 8, cut: 6, pass: 10, move: 10}

// simulation is a run with all that it knows of it.
type simulation struct {
	w       *simulate.World
	nodes   []*simNode
	extents uint64
	// lose, slow and sick say how often a message is lost or late, and a disk refuses.
	lose, slow, sick int
	committed        []extent.Slice

	catchUp time.Duration // see Config

	// Of a seed in which content moves; see sim_hosts_test.go.
	moving  bool
	settled bool // no step of a move is made any more
	asked   int  // questions between nodes
	hosts   *simHosts
	owners  uint64   // the last one
	retired []uint64 // those that will never write again
}

// simNode is a node with its disk, and the network and the extents of its Mirror.
type simNode struct {
	s       *simulation
	name    string
	index   int
	process *simulate.Process
	mirror  *Mirror
	disk    map[uint64]*simExtent
	ways    map[*simNode]*way
	cut     bool
	writing bool

	owner    uint64 // 0 while it does not have the content
	gone     map[uint64]bool
	tending  bool // does a part of a move
	updating bool
	ready    uint64 // the version of the record for which it lacks nothing
	// questions are those that the node has not answered.
	questions map[*nats.Msg]func([]byte)
}

// simExtent is an extent on one node.
type simExtent struct {
	copied   bool
	finished bool
	records  map[int64]*simPut
	void     map[int64]int64
}

// simPut is a record on a disk.
type simPut struct {
	data   []byte
	synced bool
}

// way keeps the order of messages from one node to another, as a connection does.
type way struct{ waiting []func() }

func runSim(seed uint64, script []simulate.Event, recorded bool) *simulate.World {
	w := simulate.New(recorded)
	defer w.Close()
	r := rand.New(rand.NewPCG(seed, 0xfb))
	s := &simulation{w: w}
	for _, one := range []*int{&s.lose, &s.slow, &s.sick} {
		if r.IntN(2) == 0 {
			*one = 5 + r.IntN(60)
		}
	}
	s.moving = r.IntN(2) == 0
	w.Begin(simulate.Event{Random: seed})
	s.open()
	if s.moving {
		s.follow()
	}
	for _, e := range script {
		w.Begin(e)
		s.step(e.Kind)
		if w.Failure() != "" {
			return w
		}
	}
	s.settle()
	return w
}

// open starts the nodes.
func (s *simulation) open() {
	s.hosts, s.owners = &simHosts{group: Group{Version: 1}}, simNodes
	for i := range simNodes {
		n := &simNode{s: s, index: i, name: fmt.Sprintf("n%d", i+1), disk: map[uint64]*simExtent{}, owner: uint64(i + 1)}
		s.nodes, s.hosts.group.Nodes = append(s.nodes, n), append(s.hosts.group.Nodes, n.name)
	}
	if s.moving {
		s.catchUp = 500 * time.Millisecond // so that moves end within the run
		s.nodes = append(s.nodes, &simNode{s: s, index: simNodes, name: "n4", disk: map[uint64]*simExtent{}})
	}
	for _, n := range s.nodes {
		n.start()
	}
}

func (s *simulation) step(kind int) {
	n := s.nodes[s.w.Choose(len(s.nodes))]
	// A move needs all hosts for a while, so most of the faults would keep it from its end.
	if s.moving && (kind == crash || kind == cut && !n.cut) && s.w.Choose(3) > 0 {
		return
	}
	switch kind {
	case move:
		if s.moving {
			s.tend()
		}
	case write:
		n.write()
	case crash:
		n.crash()
	case cut:
		n.cut = !n.cut
		s.w.Logf("%s: is cut off: %t", n.name, n.cut)
		if s.moving {
			s.w.After(s.w.Delay(2*time.Second), "", func() { n.cut = false })
		}
	case pass:
		s.w.Pass(s.w.Delay(4 * time.Second))
	default:
		s.w.GoOn()
	}
}

func (n *simNode) start() {
	n.process = n.s.w.Process(n.name)
	n.ways, n.writing, n.mirror = map[*simNode]*way{}, false, nil
	n.questions, n.gone, n.tending, n.updating = map[*nats.Msg]func([]byte){}, map[uint64]bool{}, false, false
	if n.owner == 0 {
		n.process.Kill()
		return
	}
	n.process.Task("starts", func() {
		names := slices.Clone(n.s.hosts.group.Nodes)
		if !slices.Contains(names, n.name) {
			names = append(names, n.name)
		}
		m, err := Open(Config{Node: n.name, Nodes: names, Owner: n.owner, Log: slog.New(slog.DiscardHandler),
			BytesPerSecond: -1, CatchUpEvery: n.s.catchUp, Gone: func(owner uint64) bool { return n.gone[owner] },
			schedule: n.process, network: n, extents: n})
		if err != nil {
			n.s.w.Failf("%s: %v", n.name, err)
			return
		}
		n.mirror = m
		if n.s.moving {
			n.learn(n.s.hosts)
		}
	})
}

// crash takes away what was not synced. The node starts again later.
func (n *simNode) crash() {
	if n.process.Dead() {
		return
	}
	n.s.w.Logf("%s: loses its power", n.name)
	n.process.Kill()
	for id, e := range n.disk {
		maps.DeleteFunc(e.records, func(_ int64, r *simPut) bool { return !r.synced })
		if e.void = map[int64]int64{}; len(e.records) == 0 {
			delete(n.disk, id)
		}
		e.finished = e.finished || !e.copied
	}
	n.s.w.After(n.s.w.Delay(3*time.Second), "", func() {
		switch {
		case !n.process.Dead(): // it has joined again meanwhile
		case n.owner == 0: // the others have gone on without it
			n.mirror, n.disk = nil, map[uint64]*simExtent{}
		default:
			n.start()
		}
	})
}

// write writes content to a new extent, as an extent.Writer does.
func (n *simNode) write() {
	if n.mirror == nil || n.process.Dead() || n.writing {
		return
	}
	n.writing = true
	s := n.s
	s.extents++
	id, count := n.owner<<40|s.extents, 1+s.w.Choose(3)
	known := s.w.Choose(2) == 0
	n.process.Task("", func() {
		defer func() { n.writing = false }()
		s.w.Logf("%s: writes %d records to extent %x", n.name, count, id)
		e := &simExtent{records: map[int64]*simPut{}, void: map[int64]int64{}}
		n.disk[id] = e
		copies := n.mirror.Begin()
		defer copies.Close()
		var list []extent.Slice
		at := int64(0)
		for i := range count {
			x := extent.Slice{Extent: id, Offset: at + header, Length: int64(1 + s.w.Choose(9))}
			data := recordOf(x)
			e.records[at] = &simPut{data: data}
			list = append(list, x)
			at = x.Offset + x.Length
			if err := copies.Add(x, data, known && i == count-1); err != nil {
				s.w.Logf("%s: extent %x: %v", n.name, id, err)
				return
			}
		}
		if n.SyncPuts(id) != nil {
			return
		}
		err := copies.Commit()
		s.w.Logf("%s: commit of extent %x: %v", n.name, id, err)
		e.finished = true
		refer := func(*simHosts) bool {
			s.committed = append(s.committed, list...)
			s.check(list, s.hosts.group.majorities()...)
			return true
		}
		switch {
		case err != nil:
		case s.moving:
			n.update(refer)
		default:
			refer(nil)
		}
	})
}

// header is the size of the header of a record.
var header = -extent.RecordOf(extent.Slice{})

// recordOf returns the record of a slice: every byte of it is known.
func recordOf(x extent.Slice) []byte {
	b := fmt.Appendf(nil, "%d/%d.", x.Extent, x.Offset)
	return append(b, make([]byte, int(header+x.Length))...)[:header+x.Length]
}

// check wants content on the disks of a majority of each list of nodes.
func (s *simulation) check(list []extent.Slice, majorities ...[]string) {
	for _, x := range list {
		for _, names := range majorities {
			have := 0
			for _, n := range s.nodes {
				if e := n.disk[x.Extent]; e != nil && slices.Contains(names, n.name) {
					if r := e.records[extent.RecordOf(x)]; r != nil && r.synced && bytes.Equal(r.data, recordOf(x)) {
						have++
					}
				}
			}
			if have <= len(names)/2 {
				s.w.Failf("extent %x, offset %d: is committed, and %d of %v have it on disk", x.Extent, x.Offset, have,
					names)
				return
			}
		}
	}
}

// settle ends all faults, and wants all content on all nodes.
func (s *simulation) settle() {
	s.lose, s.slow, s.sick, s.settled = 0, 0, 0, true
	for _, n := range s.nodes {
		n.cut = false
	}
	s.w.Logf("all faults end")
	everywhere := func() bool {
		for _, n := range s.nodes {
			if !slices.Contains(s.hosts.group.Nodes, n.name) {
				continue
			}
			for _, x := range s.committed {
				if e := n.disk[x.Extent]; e == nil || e.records[extent.RecordOf(x)] == nil {
					return false
				}
			}
		}
		return true
	}
	for i := 0; i < 6000 && s.w.Failure() == ""; i++ {
		s.w.Begin(simulate.Event{Random: uint64(i)})
		if s.w.GoOn(); i%50 == 0 && i > 500 && everywhere() {
			break
		}
	}
	s.check(s.committed, s.hosts.group.Nodes)
	if !everywhere() {
		s.w.Failf("a node does not get all content, although all faults have ended")
	}
}

// The network.

func (n *simNode) publish(m *nats.Msg) error {
	s := n.s
	name := strings.Split(m.Subject, ".")[2]
	to := s.nodes[slices.IndexFunc(s.nodes, func(o *simNode) bool { return o.name == name })]
	c := &nats.Msg{Subject: m.Subject, Reply: m.Reply, Data: bytes.Clone(m.Data), Header: m.Header}
	from := n.process
	n.send(to, func() {
		switch {
		case to.process.Dead() || to.mirror == nil:
			if m.Reply != "" && !from.Dead() { // no node of that name is connected
				r := nats.NewMsg(m.Reply)
				r.Header.Set("Status", "503")
				s.w.After(s.w.Delay(2*time.Millisecond), "", func() {
					if !from.Dead() && n.mirror != nil {
						n.mirror.acknowledged(r)
					}
				})
			}
		case strings.HasSuffix(c.Subject, ".put"):
			to.mirror.servePut(c)
		case strings.Contains(c.Subject, ".ack."):
			to.mirror.acknowledged(c)
		}
	})
	return nil
}

// send lets a message arrive after those that were sent before it, or not at all.
func (n *simNode) send(to *simNode, arrive func()) {
	s := n.s
	w := n.ways[to]
	if w == nil {
		w = &way{}
		n.ways[to] = w
	}
	w.waiting = append(w.waiting, func() {
		if !n.cut && !to.cut && !s.w.Chance(s.lose) {
			arrive()
		}
	})
	if len(w.waiting) == 1 {
		s.pump(w)
	}
}

func (s *simulation) pump(w *way) {
	limit := 2 * time.Millisecond
	if s.w.Chance(s.slow) {
		limit = 8 * time.Second
	}
	s.w.After(s.w.Delay(limit), "", func() {
		f := w.waiting[0]
		f()
		if w.waiting = w.waiting[1:]; len(w.waiting) > 0 {
			s.pump(w)
		}
	})
}

func (n *simNode) request(_ context.Context, subject string, data []byte) (*nats.Msg, error) {
	s := n.s
	name := strings.Split(subject, ".")[2]
	to := s.nodes[slices.IndexFunc(s.nodes, func(o *simNode) bool { return o.name == name })]
	var answer *nats.Msg
	s.asked++
	n.send(to, func() {
		if to.process.Dead() || to.mirror == nil {
			return
		}
		m := &nats.Msg{Subject: subject, Data: data}
		to.asked(m, func(reply []byte) {
			to.send(n, func() { answer = &nats.Msg{Data: reply} })
		})
	})
	n.process.Park(askTimeout, func() bool { return answer != nil })
	if answer == nil {
		return nil, nats.ErrTimeout
	}
	return answer, nil
}

// asked lets a node answer a question.
func (n *simNode) asked(m *nats.Msg, reply func([]byte)) {
	n.questions[m] = reply
	n.mirror.serveAsk(m)
}

func (n *simNode) respond(m *nats.Msg, data []byte) error {
	if reply := n.questions[m]; reply != nil {
		delete(n.questions, m)
		reply(bytes.Clone(data))
		return nil
	}
	return n.publish(&nats.Msg{Subject: m.Reply, Data: data})
}

// The extents.

func (n *simNode) of(id uint64) *simExtent {
	e := n.disk[id]
	if e == nil {
		e = &simExtent{copied: true, records: map[int64]*simPut{}, void: map[int64]int64{}}
		n.disk[id] = e
	}
	return e
}

// ranges returns the ranges that a node has or knows to be void, in order.
func (e *simExtent) ranges() (list [][2]int64) {
	for at, r := range e.records {
		list = append(list, [2]int64{at, at + int64(len(r.data))})
	}
	for from, to := range e.void {
		list = append(list, [2]int64{from, to})
	}
	slices.SortFunc(list, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	return list
}

// Stats and the following methods are those of extent.Store.
func (n *simNode) Stats() (list []extent.Stat) {
	for id, e := range n.disk {
		size := int64(0)
		for at, r := range e.records {
			size = max(size, at+int64(len(r.data)))
		}
		list = append(list, extent.Stat{ID: id, Size: size, Copied: e.copied, Finished: e.finished})
	}
	slices.SortFunc(list, func(a, b extent.Stat) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func (n *simNode) Record(x extent.Slice) (offset int64, record []byte, err error) {
	if e := n.disk[x.Extent]; e != nil && e.records[extent.RecordOf(x)] != nil {
		return extent.RecordOf(x), e.records[extent.RecordOf(x)].data, nil
	}
	return 0, nil, extent.ErrNotFound
}

func (n *simNode) Records(id uint64, offset int64, _ int) (at int64, data []byte, err error) {
	e := n.disk[id]
	if e == nil {
		return 0, nil, extent.ErrNotFound
	}
	for _, at := range slices.Sorted(maps.Keys(e.records)) {
		if at >= offset {
			return at, e.records[at].data, nil
		}
	}
	return offset, nil, nil
}

func (n *simNode) PutRecords(id uint64, at int64, data []byte) error {
	if n.s.w.Chance(n.s.sick) {
		n.s.w.Logf("%s: its disk refuses a record of extent %x", n.name, id)
		return fmt.Errorf("the disk refuses")
	}
	if e := n.of(id); len(data) > 0 && e.records[at] == nil {
		n.s.w.Logf("%s: puts the record at %d of extent %x", n.name, at, id)
		e.records[at] = &simPut{data: bytes.Clone(data)}
	}
	return nil
}

func (n *simNode) SyncPuts(id uint64) error {
	e := n.disk[id]
	if e == nil {
		return extent.ErrNotFound
	}
	var list []*simPut
	for _, r := range e.records {
		list = append(list, r)
	}
	n.process.Park(n.s.w.Delay(20*time.Millisecond), func() bool { return false })
	if n.s.w.Chance(n.s.sick) {
		return fmt.Errorf("the disk does not sync")
	}
	for _, r := range list {
		r.synced = true
	}
	n.s.w.Logf("%s: has synced extent %x", n.name, id)
	return nil
}

func (n *simNode) SyncAllPuts() error {
	for _, id := range slices.Sorted(maps.Keys(n.disk)) {
		if err := n.SyncPuts(id); err != nil {
			return err
		}
	}
	return nil
}

func (n *simNode) Missing(id uint64, from, size int64) (at, length int64, err error) {
	e := n.disk[id]
	if e == nil {
		return from, size - from, nil
	}
	for _, r := range e.ranges() {
		if r[0] > from {
			return from, min(r[0], size) - from, nil
		}
		if from = max(from, r[1]); from >= size {
			return 0, 0, nil
		}
	}
	return from, max(size-from, 0), nil
}

func (n *simNode) Lacking(id uint64, size int64) (missing int64) {
	for from := int64(0); from < size; {
		at, length, _ := n.Missing(id, from, size)
		if length == 0 {
			break
		}
		missing, from = missing+length, at+length
	}
	return missing
}

func (n *simNode) Void(id uint64, at, length int64) {
	for _, x := range n.s.committed {
		if o := extent.RecordOf(x); x.Extent == id && o >= at && o < at+length {
			n.s.w.Failf("%s: takes offset %d of extent %x for empty, and it was committed", n.name, o, id)
		}
	}
	if e := n.disk[id]; e != nil {
		e.void[at] = max(e.void[at], at+length)
	}
}

func (n *simNode) Complete(id uint64, size int64) (bool, error) {
	if _, length, _ := n.Missing(id, 0, size); length > 0 {
		return false, nil
	}
	return true, n.SyncPuts(id)
}

func (n *simNode) Release(id uint64) bool {
	for _, x := range n.s.committed {
		if x.Extent == id && !n.gone[extent.OwnerOf(id)] {
			n.s.w.Failf("%s: releases extent %x, whose content was committed", n.name, id)
		}
	}
	return true
}

func (n *simNode) Reconsider() {}

var (
	simSeeds = flag.Int("sim.seeds", check.Size(200, 500), "number of seeds of a simulation")
	simSteps = flag.Int("sim.steps", 1000, "number of steps of a seed")
	simFirst = flag.Uint64("sim.first", 1, "first seed of a simulation")
	simShort = flag.Bool("sim.minimise", true, "look for a short script of a seed that fails")
)

// TestSimulation runs seeds, and prints a short trace of one that fails.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for seed := *simFirst; seed < *simFirst+uint64(*simSeeds); seed++ {
		script := simulate.Script(seed, *simSteps, weights)
		if runSim(seed, script, false).Failure() == "" {
			continue
		}
		short := script
		if *simShort {
			short = simulate.Minimise(script, 3000,
				func(part []simulate.Event) bool { return runSim(seed, part, false).Failure() != "" })
		}
		w := runSim(seed, short, true)
		t.Fatalf("seed %d: %s\n%d of %d events:\n%s", seed, w.Failure(), len(short), len(script), w.Trace())
	}
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

// A node has a mirror for each of its shards. Where nothing is written, they ask each other every [idleBeats] intervals
// only; where something is, as often as before.
func TestIdleMirrorsAskSeldom(t *testing.T) {
	t.Parallel()
	w := simulate.New(false)
	defer w.Close()
	s := &simulation{w: w}
	w.Begin(simulate.Event{Random: 1})
	s.open()
	ask := func(minutes int, meanwhile func()) float64 {
		end, before := w.Now().Add(time.Duration(minutes)*time.Minute), s.asked
		for next := w.Now(); w.Now().Before(end); {
			if now := w.Now(); !now.Before(next) {
				next = now.Add(time.Second)
				meanwhile()
			}
			w.GoOn()
		}
		return float64(s.asked-before) / float64(minutes) / simNodes / (simNodes - 1)
	}
	nothing := func() {}
	ask(1, nothing)
	if n := ask(8, nothing); n < 3 || n > 5 {
		t.Errorf("without content, %.1f questions a minute to each other node, want one in 16 s", n)
	}
	if n := ask(1, s.nodes[0].write); n < 20 {
		t.Errorf("beside writes, %.1f questions a minute to each other node, want one in 2 s", n)
	}
	if w.Failure() != "" {
		t.Error(w.Failure())
	}
}
