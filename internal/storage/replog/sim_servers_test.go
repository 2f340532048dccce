package replog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/test/simulate"
)

// simServers implements servers for one start of a node: what it sends reaches the model of a stream, or does not.
type simServers struct {
	s        *simulation
	n        *simNode
	process  *simulate.Process
	handlers map[string]nats.MsgHandler // by the beginning of the subject
	receives map[string]chan *nats.Msg
}

// answered is what a server has said to a publish.
type answered struct {
	seq       uint64
	result    simulate.Result
	noServers bool
}

// message returns the answer on the wire.
func (a answered) message(subject string) *nats.Msg {
	m := nats.NewMsg(subject)
	switch {
	case a.noServers:
		m.Header.Set(headerStatus, "503")
	case a.result == simulate.Refused:
		m.Data = fmt.Appendf(nil, `{"error":{"code":400,"err_code":%d}}`, codeWrongSequence)
	default:
		m.Data = fmt.Appendf(nil, `{"stream":"s","seq":%d}`, a.seq)
	}
	return m
}

// deliver lets a message to a stream arrive, maybe late, twice or never, and passes the answer on if that comes back.
func (v *simServers) deliver(st *simulate.Stream, m *nats.Msg, answer func(answered)) {
	w, f := v.s.w, st.Faults
	subject, data, expect := m.Subject, m.Data, expected(m)
	text, twice := v.s.describe(subject, data), w.Chance(f.Twice)
	arrive := func() {
		server := st.Leads(v.reaches)
		a := answered{noServers: server < 0}
		if a.noServers && twice { // it would say that the other copy has found none either
			return
		}
		if server >= 0 {
			a.seq, a.result = st.Publish(server, subject, data, expect)
			switch a.result {
			case simulate.Stored:
				w.Logf("server %d: stores %s as %d", server, text, a.seq)
			case simulate.Refused:
				w.Logf("server %d: refuses %s", server, text)
			case simulate.Nothing:
				w.Logf("server %d: takes %s and does not answer", server, text)
				return
			}
		}
		if w.Chance(f.LoseAnswer) {
			return
		}
		lost := v.s.lost
		w.After(w.Delay(3*time.Millisecond), "", func() {
			if v.connected() && lost == v.s.lost { // the servers that have lost the message were started again
				answer(a)
			}
		})
	}
	copies := 1
	if twice {
		copies = 2
	}
	for range copies {
		limit := 3 * time.Millisecond
		if w.Chance(f.Late) {
			limit = 15 * time.Second
		}
		if w.Chance(f.LoseRequest) {
			w.Logf("%s: %s is lost on its way", v.n.name, text)
			continue
		}
		w.After(w.Delay(limit), "", arrive)
	}
}

// expected returns the condition of a publish.
func expected(m *nats.Msg) simulate.Condition {
	number := func(name string) *uint64 {
		list := m.Header[name]
		if len(list) == 0 {
			return nil
		}
		var n uint64
		_, _ = fmt.Sscan(list[0], &n)
		return &n
	}
	return simulate.Condition{Subject: number(headerExpectRecord), Stream: number(headerExpectLast)}
}

// reaches reports whether the node has a connection to a server; its own one is in its process.
func (v *simServers) reaches(server int) bool {
	return server == v.n.index || !v.n.cut && !v.s.nodes[server].cut
}

// connected reports whether the node is still the same one.
func (v *simServers) connected() bool { return !v.process.Dead() }

// ask waits for an answer, and returns false if none comes in time. serve gets it.
func (v *simServers) ask(f simulate.Faults, limit time.Duration, serve func() bool) bool {
	w, done := v.s.w, false
	delay := 3 * time.Millisecond
	if w.Chance(f.Slow) {
		delay = 10 * time.Second
	}
	if !w.Chance(f.LoseRequest) {
		w.After(w.Delay(delay), "", func() {
			if serve() && !w.Chance(f.LoseAnswer) {
				w.After(w.Delay(3*time.Millisecond), "", func() { done = true })
			}
		})
	}
	v.process.Park(limit, func() bool { return done })
	return done
}

func (v *simServers) of(subject string) *simulate.Stream {
	if strings.HasPrefix(subject, "lazuli.snapshot.") {
		return v.s.snapshots
	}
	return v.s.log
}

func (v *simServers) named(stream string) *simulate.Stream {
	if strings.HasPrefix(stream, "LAZULI_SNAPSHOT_") {
		return v.s.snapshots
	}
	return v.s.log
}

func (v *simServers) stream(_ context.Context, name string) (info *jetstream.StreamInfo, err error) {
	st, server := v.named(name), -1
	ok := v.ask(st.Faults, 2*time.Second, func() bool {
		if server = st.Leads(v.reaches); server < 0 {
			return false
		}
		config, there := v.s.configs[st]
		if !there {
			err = jetstream.ErrStreamNotFound
			return true
		}
		info = &jetstream.StreamInfo{Config: config}
		info.State.FirstSeq, info.State.LastSeq = st.State(server)
		return true
	})
	if !ok {
		return nil, context.DeadlineExceeded
	}
	return info, err
}

func (v *simServers) create(_ context.Context, config jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	st := v.named(config.Name)
	if _, there := v.s.configs[st]; !there {
		v.s.configs[st] = config
	}
	return &jetstream.StreamInfo{Config: v.s.configs[st]}, nil
}

func (v *simServers) update(context.Context, jetstream.StreamConfig) error { return nil }

func (v *simServers) purge(_ context.Context, stream string, keep uint64) error {
	st := v.named(stream)
	ok := v.ask(st.Faults, 5*time.Second, func() bool {
		if server := st.Leads(v.reaches); server < 0 || server != st.Leader() {
			return false
		}
		st.Purge(keep)
		return true
	})
	if !ok {
		return context.DeadlineExceeded
	}
	return nil
}

func (v *simServers) send(m *nats.Msg) error {
	if m.Reply == "" { // a turn, which is not stored
		for _, n := range v.s.nodes {
			v.s.w.After(v.s.w.Delay(3*time.Millisecond), "", func() { n.receive(v.n, m) })
		}
		return nil
	}
	v.deliver(v.of(m.Subject), m, func(a answered) { v.put(a.message(m.Reply)) })
	return nil
}

// put passes a message to a channel that was passed to receive.
func (v *simServers) put(m *nats.Msg) {
	for prefix, in := range v.receives {
		if strings.HasPrefix(m.Subject, prefix) && len(in) < cap(in) {
			in <- m
		}
	}
}

func (v *simServers) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	var answer *answered
	v.deliver(v.of(m.Subject), m, func(a answered) { answer = &a })
	v.process.Park(tryTimeout, func() bool { return answer != nil || ctx.Err() != nil })
	switch {
	case answer == nil:
		return nil, context.DeadlineExceeded
	case answer.noServers:
		return nil, nats.ErrNoResponders
	}
	return answer.message(""), nil
}

func (v *simServers) publish(_ context.Context, m *nats.Msg, last uint64) (seq uint64, err error) {
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	m.Header[headerExpectRecord] = []string{fmt.Sprint(last)}
	var answer *answered
	v.deliver(v.of(m.Subject), m, func(a answered) { answer = &a })
	v.process.Park(5*time.Second, func() bool { return answer != nil })
	return answer.result1()
}

func (a *answered) result1() (seq uint64, err error) {
	switch {
	case a == nil:
		return 0, context.DeadlineExceeded
	case a.noServers:
		return 0, nats.ErrNoResponders
	case a.result == simulate.Refused:
		return 0, &jetstream.APIError{Code: 400, ErrorCode: codeWrongSequence}
	}
	return a.seq, nil
}

// series keeps the order of the messages, as one connection does.
func (v *simServers) series(int) (func(m *nats.Msg) (acknowledged, error), error) {
	var waiting []func()
	var next func()
	next = func() {
		if len(waiting) == 0 {
			return
		}
		v.s.w.After(v.s.w.Delay(2*time.Millisecond), "", func() {
			f := waiting[0]
			waiting = waiting[1:]
			f()
			next()
		})
	}
	return func(m *nats.Msg) (acknowledged, error) {
		m = &nats.Msg{Subject: m.Subject, Data: append([]byte(nil), m.Data...)}
		var answer *answered
		st := v.of(m.Subject)
		waiting = append(waiting, func() {
			server := st.Leads(v.reaches)
			if server < 0 || v.s.w.Chance(st.Faults.LoseRequest) {
				return
			}
			seq, result := st.Publish(server, m.Subject, m.Data, simulate.Condition{})
			if result != simulate.Nothing && !v.s.w.Chance(st.Faults.LoseAnswer) {
				answer = &answered{seq: seq, result: result}
			}
		})
		if len(waiting) == 1 {
			next()
		}
		return func(context.Context, context.Context) (uint64, error) {
			v.process.Park(5*time.Second, func() bool { return answer != nil })
			seq, err := answer.result1()
			if err != nil {
				err = fmt.Errorf("%w: %w", ErrUnavailable, err)
			}
			return seq, err
		}, nil
	}, nil
}

func (v *simServers) read(stream string, from uint64, n int, take func(uint64, []byte) (bool, error)) error {
	st := v.named(stream)
	var list []simulate.Message
	ok := v.ask(st.Faults, fetchTimeout, func() bool {
		server := st.Replica(v.reaches)
		list = st.Read(server, from, n)
		return true
	})
	if !ok {
		return nats.ErrTimeout
	}
	v.n.trace("reads %d messages of %s from %d on", len(list), st.Name, from)
	for _, m := range list {
		if more, err := take(m.Seq, m.Data); !more || err != nil {
			return err
		}
	}
	return nil
}

// copied returns what the server beside the node has, which is in its process.
func (v *simServers) copied(stream string) (c Copied, known bool) {
	_, c.Last = v.named(stream).State(v.n.index)
	return c, true
}

func (v *simServers) message(stream string, from uint64) (seq uint64, data []byte, err error) {
	st := v.named(stream)
	ok := v.ask(st.Faults, fetchTimeout, func() bool {
		server := st.Leads(v.reaches)
		if server < 0 {
			return false
		}
		err = errNoMessage
		if list := st.Read(server, from, 1); len(list) > 0 {
			seq, data, err = list[0].Seq, list[0].Data, nil
		}
		return true
	})
	if !ok {
		return 0, nil, nats.ErrTimeout
	}
	v.n.trace("asks a leader for message %d of %s: %d, %v", from, st.Name, seq, err)
	return seq, data, err
}

func (v *simServers) last(_ context.Context, stream, subject string) (raw *jetstream.RawStreamMsg, err error) {
	st := v.named(stream)
	ok := v.ask(st.Faults, 2*time.Second, func() bool {
		m, there := st.LastOf(st.Replica(v.reaches), subject)
		if !there {
			err = jetstream.ErrMsgNotFound
			return true
		}
		raw = &jetstream.RawStreamMsg{Subject: m.Subject, Sequence: m.Seq, Data: m.Data, Time: m.Time}
		return true
	})
	if !ok {
		return nil, context.DeadlineExceeded
	}
	return raw, err
}

// end is the answer of the servers' read index: the end of the stream at a moment after the question.
func (v *simServers) end(context.Context, string) (seq, term uint64, err error) {
	ok := v.ask(v.s.log.Faults, endTimeout, func() bool {
		if v.n.cut || v.s.log.Leader() < 0 || v.s.nodes[v.s.log.Leader()].cut {
			return false
		}
		seq, term = v.s.log.Last(), v.s.log.Term(v.s.log.Leader())
		return true
	})
	if !ok {
		return 0, 0, errors.New("no majority has confirmed the end")
	}
	return seq, term, nil
}

// heads is the answer of the leader that a majority confirms.
func (v *simServers) heads(_ context.Context, _ string, from, to uint64) (h Heads, err error) {
	st := v.s.log
	ok := v.ask(st.Faults, endTimeout, func() bool {
		leader := st.Leader()
		if v.n.cut || leader < 0 || v.s.nodes[leader].cut {
			return false
		}
		h.Term, h.Sums = st.Term(leader), make([]uint64, to+1-from)
		h.First, h.Last = st.State(leader)
		for _, m := range st.Read(leader, from, len(h.Sums)) {
			if _, _, err := decode(m.Data); m.Seq <= to && !errors.Is(err, errSum) { // JetStream's own checksums
				h.Sums[m.Seq-from] = sumOf(m.Data)
			}
		}
		return true
	})
	if !ok {
		return h, errUnverified
	}
	return h, nil
}

func (v *simServers) term(string) (uint64, bool) { return v.s.log.Term(v.n.index), true }

func (v *simServers) subscribe(subject string, handle nats.MsgHandler) error {
	v.handlers[strings.TrimSuffix(subject, ">")] = handle
	return nil
}

func (v *simServers) receive(subject string, in chan *nats.Msg) error {
	v.receives[strings.TrimSuffix(subject, "*")] = in
	return nil
}

func (v *simServers) unsubscribe() error { return nil }
