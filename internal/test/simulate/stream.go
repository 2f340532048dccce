package simulate

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// Message is a message of a Stream.
type Message struct {
	Seq     uint64
	Subject string
	Data    []byte
	Time    time.Time
}

// Faults says how often a fault happens: once in so many times, never for 0.
type Faults struct {
	// LoseRequest loses a message on its way to a server, LoseAnswer the answer. LoseCopy loses a republished message.
	LoseRequest, LoseAnswer, LoseCopy int
	// Twice delivers a message twice, Late after some seconds: both also to the stream.
	Twice, Late int
	// Accept stores a message although its condition does not hold, Refuse refuses one although it holds.
	Accept, Refuse int
	// Limbo lets a leader store a message that no majority has: it is lost, or becomes part of the stream later, without a
	// look at its condition.
	Limbo int
	// Fenced makes every such message a lost one, as those of a leader that was deposed.
	Fenced bool
	// Damage changes a byte of what is read or republished.
	Damage int
	// Gap leaves a message out of what a replica answers.
	Gap int
	// Slow answers after up to ten seconds.
	Slow int
}

// Stream is a model of a JetStream stream with a copy on each of some servers. What it holds is committed: a majority
// has it. Servers answer by their own state, which may be an old one, also as a leader who does not know of the next.
//
// It does not model Raft itself: what a leader of the model has accepted and the client was told is not lost, unless by
// LoseTail. Each leader has a term, which is later than those before.
type Stream struct {
	Name   string
	Faults Faults

	w        *World
	messages []Message // committed, without those that were purged
	first    uint64    // sequence of the first message
	last     uint64
	bySubj   map[string]uint64
	servers  []copyOf
	leader   int // -1 without one
	term     uint64
	damaged  map[uint64]bool
	// Committed is called with each message of the stream, to republish it.
	Committed func(m Message)
}

// copyOf is what a server has.
type copyOf struct {
	first, last uint64
	// deposed is set while the server does not know of the leader after it: it answers as a leader.
	deposed bool
	bySubj  map[string]uint64 // while deposed: last sequences as it was deposed
	damaged map[uint64]bool
	term    uint64    // the latest that it knows
	before  []Message // what it has while it does not know that the others have lost some of it; nil if it knows
}

// NewStream returns an empty stream.
func (w *World) NewStream(name string, servers int, f Faults) *Stream {
	s := &Stream{Name: name, Faults: f, w: w, first: 1, bySubj: map[string]uint64{}, servers: make([]copyOf, servers),
		damaged: map[uint64]bool{}}
	for i := range s.servers {
		s.servers[i] = copyOf{first: 1, damaged: map[uint64]bool{}}
	}
	return s
}

// Last returns the sequence of the last message, First that of the first one.
func (s *Stream) Last() uint64  { return s.last }
func (s *Stream) First() uint64 { return s.first }

// Leads returns a server that answers as the leader, of those that the caller reaches, and -1 without one.
func (s *Stream) Leads(reached func(server int) bool) int {
	return s.one(func(i int) bool { return reached(i) && (i == s.leader || s.servers[i].deposed) })
}

// Replica returns a server of those that the caller reaches, and -1 without one.
func (s *Stream) Replica(reached func(server int) bool) int { return s.one(reached) }

func (s *Stream) one(may func(server int) bool) int {
	var list []int
	for i := range s.servers {
		if may(i) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return -1
	}
	return list[s.w.Choose(len(list))]
}

// Term returns the latest term that a server knows.
func (s *Stream) Term(server int) uint64 { return s.servers[server].term }

// Leader returns the leader, -1 without one.
func (s *Stream) Leader() int { return s.leader }

// Result is the answer to a publish.
type Result int

// The results of Publish.
const (
	Stored  Result = iota
	Refused        // the condition does not hold
	Nothing        // no answer
)

// Condition is what a message to a stream expects: the sequence of the last message of its subject, and of the stream.
// Nil expects nothing.
type Condition struct{ Subject, Stream *uint64 }

// holds reports whether the last messages are those that are expected.
func (c Condition) holds(subject, stream uint64) bool {
	return (c.Subject == nil || *c.Subject == subject) && (c.Stream == nil || *c.Stream == stream)
}

// Publish lets a server that is the leader, or takes itself for it, store a message.
func (s *Stream) Publish(server int, subject string, data []byte, expect Condition) (uint64, Result) {
	c := &s.servers[server]
	if server != s.leader {
		// It cannot commit. What it proposes is lost, or reaches the other leader later.
		if !expect.holds(c.bySubj[subject], c.last) && !s.w.Chance(s.Faults.Accept) {
			return 0, Refused
		}
		s.limbo(subject, data)
		return 0, Nothing
	}
	if !expect.holds(s.bySubj[subject], s.last) && !s.w.Chance(s.Faults.Accept) {
		return 0, Refused
	}
	switch {
	case expect != (Condition{}) && s.w.Chance(s.Faults.Refuse):
		return 0, Refused
	case s.w.Chance(s.Faults.Limbo):
		s.limbo(subject, data)
		return 0, Nothing
	}
	return s.commit(subject, data), Stored
}

// limbo keeps a message that no majority has.
func (s *Stream) limbo(subject string, data []byte) {
	if s.Faults.Fenced || s.w.Choose(2) == 0 {
		s.w.Logf("%s: a message is lost with its leader", s.Name)
		return
	}
	s.w.After(s.w.Delay(15*time.Second), s.Name+": a message of a leader that was deposed is stored late", func() {
		s.commit(subject, data)
	})
}

func (s *Stream) commit(subject string, data []byte) uint64 {
	s.last++
	m := Message{Seq: s.last, Subject: subject, Data: data, Time: s.w.Now()}
	s.messages = append(s.messages, m)
	s.bySubj[subject] = s.last
	if s.leader >= 0 {
		s.catchUp(s.leader)
	}
	// The other servers learn of it later.
	for i := range s.servers {
		if i != s.leader && !s.servers[i].deposed {
			s.w.After(s.w.Delay(20*time.Millisecond), "", func() { s.reach(i, m.Seq) })
		}
	}
	if s.Committed != nil {
		s.Committed(m)
	}
	return m.Seq
}

// reach lets a copy have everything up to a message.
func (s *Stream) reach(i int, seq uint64) {
	if c := &s.servers[i]; !c.deposed && c.before == nil && c.last < seq && seq <= s.last {
		c.first, c.last = s.first, seq
	}
}

func (s *Stream) catchUp(i int) {
	c := &s.servers[i]
	c.first, c.last, c.deposed, c.bySubj, c.term, c.before = s.first, s.last, false, nil, s.term, nil
}

// Learn lets a server know the leader, and have what the stream has.
func (s *Stream) Learn(server int) { s.catchUp(server) }

// Elect makes a server the leader, which has all that is committed. The one before knows of that at once, or only after
// Heal.
func (s *Stream) Elect(server int, knows bool) {
	old := s.leader
	if s.leader = server; old == server {
		return
	}
	if server >= 0 {
		s.term++
		s.catchUp(server)
	}
	for i := range s.servers {
		if c := &s.servers[i]; c.before == nil && !c.deposed && (i != old || knows) {
			c.term = s.term
		}
	}
	if old < 0 || knows {
		return
	}
	c := &s.servers[old]
	c.deposed, c.bySubj = true, map[string]uint64{}
	for k, v := range s.bySubj {
		c.bySubj[k] = v
	}
}

// Heal lets all servers know the leader, and have all messages.
func (s *Stream) Heal() {
	for i := range s.servers {
		s.catchUp(i)
	}
	if s.leader < 0 {
		s.leader = 0
	}
}

// Damage changes a message of a server's copy, until Repair.
func (s *Stream) Damage(server int, seq uint64) {
	s.servers[server].damaged[seq] = true
	s.damaged[seq] = true
}

// Repair ends all damages.
func (s *Stream) Repair() {
	for i := range s.servers {
		clear(s.servers[i].damaged)
	}
}

// Damaged reports whether a copy of a message was ever damaged.
func (s *Stream) Damaged(seq uint64) bool { return s.damaged[seq] }

// Read returns up to n messages from a sequence on, as a server has them.
func (s *Stream) Read(server int, from uint64, n int) (list []Message) {
	c := s.servers[server]
	messages := s.messages
	if c.before != nil {
		messages = c.before
	}
	for _, m := range messages {
		if m.Seq < max(from, c.first) || m.Seq > c.last {
			continue
		}
		if len(list) == n {
			break
		}
		if s.w.Chance(s.Faults.Gap) && server != s.leader && !c.deposed {
			continue
		}
		list = append(list, s.asRead(m, c.damaged[m.Seq]))
	}
	return list
}

// asRead returns a message as it is read.
func (s *Stream) asRead(m Message, damaged bool) Message {
	if damaged && len(m.Data) > 0 {
		m.Data = bytes.Clone(m.Data)
		m.Data[s.w.Choose(len(m.Data))] ^= 1 << s.w.Choose(8)
	}
	return m
}

// Republished returns a message as the leader republishes it.
func (s *Stream) Republished(m Message) Message { return s.asRead(m, s.w.Chance(s.Faults.Damage)) }

// LastOf returns the last message of a subject, as a server has it.
func (s *Stream) LastOf(server int, subject string) (m Message, ok bool) {
	c := s.servers[server]
	for _, m := range slices.Backward(s.messages) {
		if m.Subject == subject && m.Seq >= c.first && m.Seq <= c.last {
			return s.asRead(m, c.damaged[m.Seq]), true
		}
	}
	return m, false
}

// State returns the first and the last sequence, as a server has them.
func (s *Stream) State(server int) (first, last uint64) {
	c := s.servers[server]
	return c.first, c.last
}

// Purge removes the messages before a sequence.
func (s *Stream) Purge(keep uint64) {
	if keep <= s.first {
		return
	}
	s.first = min(keep, s.last+1)
	s.messages = slices.DeleteFunc(s.messages, func(m Message) bool { return m.Seq < s.first })
	if s.leader >= 0 {
		s.servers[s.leader].first = s.first
	}
	s.w.Logf("%s: begins with message %d now", s.Name, s.first)
}

// LoseTail takes the last messages away, as damage on a majority does: others will have their sequences, and another
// leader has another term. One server, -1 for none, does not know of it until Learn or Heal, and has everything.
func (s *Stream) LoseTail(n, unaware int) {
	n = min(n, len(s.messages)-1)
	if n <= 0 {
		return
	}
	before := slices.Clone(s.messages)
	s.messages = s.messages[:len(s.messages)-n]
	s.last = s.messages[len(s.messages)-1].Seq
	clear(s.bySubj)
	for _, m := range s.messages {
		s.bySubj[m.Subject] = m.Seq
	}
	s.term++
	if s.leader == unaware {
		s.leader = (unaware + 1) % len(s.servers)
	}
	for i := range s.servers {
		if i == unaware {
			s.servers[i].before = before
			continue
		}
		s.catchUp(i)
	}
	s.w.Logf("%s: lost its last %d messages; it ends with %d now", s.Name, n, s.last)
}

// Has reports whether a message is in the stream, or was before it was cut: it was not lost.
func (s *Stream) Has(m Message) bool {
	i := slices.IndexFunc(s.messages, func(found Message) bool { return found.Seq == m.Seq })
	return m.Seq < s.first || i >= 0 && bytes.Equal(s.messages[i].Data, m.Data)
}

// String describes the state of the servers.
func (s *Stream) String() string {
	text := fmt.Sprintf("%s: messages %d to %d, leader %d;", s.Name, s.first, s.last, s.leader)
	for i, c := range s.servers {
		text += fmt.Sprintf(" %d has %d to %d", i, c.first, c.last)
		if c.deposed {
			text += " and was deposed"
		}
	}
	return text
}
