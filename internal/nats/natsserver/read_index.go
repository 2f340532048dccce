package natsserver

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// JetStream has no linearizable reads: a server that was cut off answers as the leader of a stream until it learns of
// the next one. ReadIndex finds the end of a stream without writing to it. It asks the leader for its term and the end
// of the stream, and enough members of the Raft group, which make a majority with it, for their terms. All are asked
// after the call began.
//
// If no term is later than the leader's, then no later leader had been elected when the call began: a majority would
// have had to vote in the later term, one of those that were asked would be among them, and a server adopts the term
// before it votes. So everything acknowledged before the call was committed by this leader or an earlier one. It is in
// the leader's log, and the leader waits until it has applied the log up to there. No clock is involved: a server that
// was paused answers with what it knows after the pause, and terms do not go back.

// ErrNoReadIndex means that the end of a stream could not be confirmed: it has no leader, a majority of its servers
// does not answer, or it has one server only.
var ErrNoReadIndex = errors.New("natsserver: no majority confirms the end of the stream")

const (
	// appliedPoll is the interval at which a leader checks whether it has applied its log.
	appliedPoll = 100 * time.Microsecond
	// othersPause is the time that a member may take to answer before others are asked.
	othersPause = 10 * time.Millisecond
	// serveTimeout is the time that a leader waits for that.
	serveTimeout = time.Second
	// maxGroups is the number of streams whose group is remembered.
	maxGroups = 10_000
)

// ReadIndex confirms the ends of streams, and answers for its server what others ask. It is safe for concurrent use.
type ReadIndex struct {
	conn    *nats.Conn
	running func() *server.Server
	sub     *nats.Subscription

	mu     sync.Mutex            // guards the rest
	groups map[string]string     // by stream: its Raft group
	leads  map[string]*leaderEnd // by Raft group
	// answered is the ID of the member that has answered last.
	answered string
}

// leaderEnd holds what a leader knows of its stream.
type leaderEnd struct {
	node *server.Server // the process's server may be replaced
	// term is that in which the rest was found, and floor an index of the log after all entries of earlier terms.
	term, floor uint64
	// applied is an index of the log that had been applied when end was read.
	applied uint64
	end     uint64
}

// memberState is the answer of a member of a Raft group.
type memberState struct {
	Term uint64 `json:"term"`

	// The rest is of a leader: the members of the group besides it, how many make a majority, and the end of the stream.
	Others []string `json:"others,omitempty"`
	Quorum int      `json:"quorum,omitempty"`
	End    *uint64  `json:"end,omitempty"`
	// Of a leader that was asked for messages. Earlier releases do not answer that.
	Heads *Heads `json:"heads,omitempty"`
}

// Heads are the beginnings of some messages of a stream.
type Heads struct {
	// Term is that of the leader, First and Last are the sequences of the first and the last message of the stream.
	Term  uint64 `json:"term"`
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Sums has the first eight bytes of each message as a number, big-endian; 0 for a message that is not there or cannot
	// be read. It is nil if the leader is of a release that does not answer this.
	Sums []uint64 `json:"sums"`
}

// maxHeads is the number of messages that are asked for at a time.
const maxHeads = 1024

// question holds what a member is asked.
type question struct {
	Stream string `json:"stream"`
	Group  string `json:"group"`
	// From and To are the sequences of the messages whose beginnings are wanted, To 0 for none.
	From uint64 `json:"from,omitempty"`
	To   uint64 `json:"to,omitempty"`
}

// NewReadIndex returns a ReadIndex for a server, which may be another one later. conn is a connection to that server.
func NewReadIndex(conn *nats.Conn, running func() *server.Server) (*ReadIndex, error) {
	r := &ReadIndex{conn: conn, running: running, groups: make(map[string]string), leads: make(map[string]*leaderEnd)}
	node := running()
	if node == nil {
		return nil, errNotRunning
	}
	var err error
	r.sub, err = conn.Subscribe(readIndexSubject(node.Node()), func(m *nats.Msg) { go r.answer(m) })
	if err != nil {
		return nil, fmt.Errorf("natsserver: %w", err)
	}
	return r, nil
}

// Close ends answering.
func (r *ReadIndex) Close() { _ = r.sub.Unsubscribe() }

// readIndexSubject is the subject at which a server is asked. Its ID is the same in all Raft groups.
func readIndexSubject(id string) string { return "lazuli.readindex." + id }

var errNotRunning = errors.New("natsserver: the embedded server is not running")

// End returns the sequence of a last message of the stream, 0 if it never had one, that includes every message that was
// acknowledged, or read from the stream, before the call, and the term of the leader that has it.
//
// Errors: [ErrNoReadIndex], and those of the connection and of ctx.
func (r *ReadIndex) End(ctx context.Context, stream string) (seq, term uint64, err error) {
	leader, err := r.leader(ctx, stream, 0, 0)
	if err != nil {
		return 0, 0, err
	}
	return *leader.End, leader.Term, nil
}

// Heads returns the beginnings of messages, from one sequence to another, as the leader has them. A majority has
// confirmed that it led when they were read. Errors: as of End.
func (r *ReadIndex) Heads(ctx context.Context, stream string, from, to uint64) (h Heads, err error) {
	if from > to || to-from >= maxHeads {
		return h, fmt.Errorf("natsserver: the messages %d to %d of %s are not %d at most", from, to, stream, maxHeads)
	}
	leader, err := r.leader(ctx, stream, from, to)
	if err != nil {
		return h, err
	}
	if leader.Heads != nil {
		h = *leader.Heads
	}
	h.Term = leader.Term
	return h, nil
}

// Term returns the latest term of the stream's group that this server knows. member is false if it has no copy of the
// stream.
func (r *ReadIndex) Term(stream string) (term uint64, member bool) {
	r.mu.Lock()
	group := r.groups[stream]
	r.mu.Unlock()
	if group == "" { // no question was asked yet
		return 0, false
	}
	own, member := r.place(group)
	return own.term, member && own.term > 0
}

// leader returns what the leader says, after a majority has confirmed its term.
func (r *ReadIndex) leader(ctx context.Context, stream string, from, to uint64) (leader memberState, err error) {
	q, own, other, err := r.ask(ctx, stream)
	if err != nil {
		return leader, err
	}
	q.From, q.To = from, to
	switch {
	case own.id == "":
		leader, err = r.request(ctx, PeerID(other), q)
	case own.leads:
		leader, err = r.lead(ctx, q)
	case own.leader == "":
		err = fmt.Errorf("%w: %s has no leader", ErrNoReadIndex, stream)
	default:
		leader, err = r.request(ctx, own.leader, q)
	}
	if err != nil {
		return leader, err
	}
	if leader.End == nil || own.term > leader.Term {
		return leader, fmt.Errorf("%w: %s has another leader", ErrNoReadIndex, stream)
	}
	others, confirmed := leader.Others, 1
	if at := slices.Index(others, own.id); at >= 0 {
		others, confirmed = slices.Delete(others, at, at+1), 2 // this server and the leader
	}
	return leader, r.confirm(ctx, q, others, leader.Term, leader.Quorum-confirmed)
}

// Leader returns the ID ([PeerID]) of the server that leads a stream, as far as this server knows; "" while it has no
// leader.
func (r *ReadIndex) Leader(ctx context.Context, stream string) (id string, err error) {
	_, own, other, err := r.ask(ctx, stream)
	switch {
	case err != nil:
		return "", err
	case own.id == "" && other == "":
		return "", nil
	case own.id == "":
		return PeerID(other), nil
	case own.leads:
		return own.id, nil
	}
	return own.leader, nil
}

// ask returns the question about a stream, and the place of this server in its group; if it is not a member, a place
// without an ID, and the name of the server that leads the stream. Then it asks that server, each time: a node without
// a copy hears of a new leader by no other way.
func (r *ReadIndex) ask(ctx context.Context, stream string) (q question, own place, other string, err error) {
	r.mu.Lock()
	group := r.groups[stream]
	r.mu.Unlock()
	if group != "" {
		if own, member := r.place(group); member {
			return question{Stream: stream, Group: group}, own, "", nil
		}
	}
	// It may have another group now.
	info, err := streamInfo(ctx, r.conn, stream)
	if err != nil {
		return q, own, "", err
	}
	group = info.Cluster.RaftGroup
	if group == "" {
		return q, own, "", fmt.Errorf("%w: %s has one server only", ErrNoReadIndex, stream)
	}
	r.mu.Lock()
	if len(r.groups) >= maxGroups {
		clear(r.groups)
	}
	r.groups[stream] = group
	r.mu.Unlock()
	q = question{Stream: stream, Group: group}
	own, member := r.place(group)
	if !member {
		return q, place{}, info.Cluster.Leader, nil
	}
	return q, own, "", nil
}

// confirm returns nil once n members have said that they know of no later term. It asks n of them, and the others only
// if one of these does not answer soon.
func (r *ReadIndex) confirm(ctx context.Context, q question, members []string, term uint64, n int) error {
	if n <= 0 {
		return nil
	}
	if n > len(members) {
		return fmt.Errorf("%w: %s has too few members", ErrNoReadIndex, q.Stream)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		id  string
		err error
	}
	answers := make(chan answer, len(members))
	asked := 0
	ask := func(members []string) {
		asked += len(members)
		for _, id := range members {
			go func() {
				m, err := r.request(ctx, id, q)
				if err == nil && (m.Term == 0 || m.Term > term) {
					err = fmt.Errorf("%w: %s has another leader", ErrNoReadIndex, q.Stream)
				}
				answers <- answer{id, err}
			}()
		}
	}
	members = r.preferred(members)
	ask(members[:n])
	soon := time.NewTimer(othersPause)
	defer soon.Stop()
	var last error
	for received := 0; ; {
		select {
		case a := <-answers:
			received++
			if a.err == nil {
				r.prefer(a.id)
				if n--; n == 0 {
					return nil
				}
				continue
			}
			if !errors.Is(last, ErrNoReadIndex) { // a later term is the reason to report
				last = a.err
			}
		case <-soon.C:
		}
		switch {
		case asked < len(members):
			ask(members[asked:])
		case received == asked:
			return fmt.Errorf("%w: %s: %w", ErrNoReadIndex, q.Stream, last)
		}
	}
}

// preferred returns the members, the one first that has answered last.
func (r *ReadIndex) preferred(members []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(members, r.answered); i > 0 {
		members = slices.Clone(members)
		members[0], members[i] = members[i], members[0]
	}
	return members
}

func (r *ReadIndex) prefer(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered = id
}

// request asks another member.
func (r *ReadIndex) request(ctx context.Context, id string, q question) (memberState, error) {
	return AskJSON[memberState](ctx, r.conn, readIndexSubject(id), q)
}

// answer answers a member. An answer without a term means that this server knows nothing of the group.
func (r *ReadIndex) answer(m *nats.Msg) {
	var q question
	if json.Unmarshal(m.Data, &q) != nil {
		return
	}
	g, ok := r.group(q.Group)
	state := memberState{}
	if ok {
		state.Term = g.Term
	}
	if ok && g.State == server.Leader.String() {
		ctx, cancel := context.WithTimeout(context.Background(), serveTimeout)
		defer cancel()
		led, err := r.lead(ctx, q)
		if err != nil || q.To-q.From >= maxHeads {
			return // the other one asks again, or finds another way
		}
		state = led
	}
	AnswerJSON(m, state)
}

// lead returns the state of this server as the leader of a group: its term at the time of the call or later, and the
// end of the stream after it has applied everything that had been committed before the call.
func (r *ReadIndex) lead(ctx context.Context, q question) (memberState, error) {
	g, ok := r.group(q.Group)
	if !ok || g.State != server.Leader.String() {
		return memberState{}, fmt.Errorf("%w: this server does not lead %s", ErrNoReadIndex, q.Stream)
	}
	node := r.running()
	state := memberState{Term: g.Term, Quorum: g.QuorumNeeded}
	for id, p := range g.Peers {
		if p.Known {
			state.Others = append(state.Others, id)
		}
	}
	// What the group had committed at this moment. An answer that was read before it is too old for the question.
	need, cached := r.needed(node, q.Group, &g)
	if cached != nil {
		state.End = cached
		return state, r.readHeads(node, q, &state)
	}
	// The invariant: the end is read after the group has applied what was committed when the question came. Committed by
	// the group is not yet visible in the stream.
	for g.Applied < need {
		select {
		case <-ctx.Done():
			return memberState{}, context.Cause(ctx)
		case <-time.After(appliedPoll):
		}
		// The embedded server may have been started again meanwhile: its groups count from the beginning.
		if g, ok = r.group(q.Group); !ok || r.running() != node {
			return memberState{}, fmt.Errorf("%w: this server is no member of the group of %s", ErrNoReadIndex, q.Stream)
		}
	}
	info, err := streamInfo(ctx, r.conn, q.Stream)
	if err != nil {
		return memberState{}, err
	}
	// The leader is asked for after the end was read: if it changed in between, the end may be that of a follower.
	if info.Cluster.Leader != node.Name() {
		return memberState{}, fmt.Errorf("%w: another server leads %s", ErrNoReadIndex, q.Stream)
	}
	end := info.State.LastSeq
	state.End = &end
	r.mu.Lock()
	defer r.mu.Unlock()
	// Kept only for the same server and term, and never backwards: another question may have stored a later end.
	if l := r.leads[q.Group]; l != nil && l.node == node && l.term == state.Term && l.applied <= g.Applied {
		l.applied, l.end = g.Applied, end
	}
	return state, r.readHeads(node, q, &state)
}

// readHeads reads the messages that a question asks for from the copy of this server, if it asks for any. A message
// that JetStream finds damaged counts as one that is not there.
func (r *ReadIndex) readHeads(node *server.Server, q question, state *memberState) error {
	if q.To == 0 || q.To-q.From >= maxHeads {
		return nil
	}
	store, err := storeIn(node, q.Stream)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoReadIndex, err)
	}
	var found server.StreamState
	store.FastState(&found)
	state.Heads = &Heads{First: found.FirstSeq, Last: max(found.LastSeq, *state.End), Sums: make([]uint64, q.To-q.From+1)}
	for i := range state.Heads.Sums {
		m, err := store.LoadMsg(q.From+uint64(i), nil)
		if err != nil {
			continue
		}
		content, err := contentOf(m)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoReadIndex, err)
		}
		if len(content) >= 8 {
			state.Heads.Sums[i] = binary.BigEndian.Uint64(content)
		}
	}
	return nil
}

// contentOf returns the content of a message, which is in a private field of nats-server; TestHeads fails if an update
// of nats-server moves it.
func contentOf(m *server.StoreMsg) (content []byte, err error) {
	defer func() { // reflect panics if a field is missing or has another type
		if v := recover(); v != nil {
			err = fmt.Errorf("natsserver: this version of nats-server has other messages than expected: %v", v)
		}
	}()
	return *fieldOf[[]byte](reflect.ValueOf(m).Elem().FieldByName("msg")), nil
}

// needed returns the index up to which the leader must have applied its log, or the end of the stream if that is known.
//
// What earlier terms have committed is in the log of a leader from its election on, but its own index of commits may be
// before it. So the first call in a term notes where the log ends then.
func (r *ReadIndex) needed(node *server.Server, group string, g *server.RaftzGroup) (need uint64, known *uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.leads[group]
	if l == nil || l.node != node || l.term != g.Term {
		if len(r.leads) >= maxGroups {
			clear(r.leads)
		}
		l = &leaderEnd{node: node, term: g.Term, floor: g.PIndex}
		r.leads[group] = l
	}
	need = max(g.Committed, l.floor)
	if l.applied > 0 && need <= l.applied && g.Applied == l.applied {
		end := l.end
		return need, &end
	}
	return need, nil
}

// place is the place of this server in a Raft group: its ID, its latest term, and the ID of the leader that it knows.
type place struct {
	id, leader string
	term       uint64
	leads      bool
}

// place returns the place of this server in a Raft group, and false if it is not a member. The nodes of a cluster with
// many shards ask for that hundreds of times a second while no client does anything, so it does not build the whole
// state of the group.
func (r *ReadIndex) place(name string) (own place, member bool) {
	node := r.running()
	if node == nil {
		return own, false
	}
	group, err := raftNode(node, name)
	if err != nil || group == nil {
		return own, false
	}
	return place{id: group.ID(), leader: group.GroupLeader(), term: group.Term(),
		leads: group.State() == server.Leader}, true
}

// group returns the state of a Raft group on this server.
func (r *ReadIndex) group(name string) (g server.RaftzGroup, ok bool) {
	node := r.running()
	if node == nil {
		return g, false
	}
	account := node.GlobalAccount().GetName()
	groups := node.Raftz(&server.RaftzOptions{AccountFilter: account, GroupFilter: name})
	if groups == nil {
		return g, false
	}
	g, ok = (*groups)[account][name]
	return g, ok
}

// streamInfo asks the leader of a stream for its state.
func streamInfo(ctx context.Context, conn *nats.Conn, stream string) (info server.JSApiStreamInfoResponse, err error) {
	info, err = AskJSON[server.JSApiStreamInfoResponse](ctx, conn, fmt.Sprintf(server.JSApiStreamInfoT, stream), nil)
	if err != nil {
		return info, err
	}
	switch {
	case info.Error != nil:
		return info, info.Error
	case info.StreamInfo == nil || info.Cluster == nil:
		return info, fmt.Errorf("%w: %s has one server only", ErrNoReadIndex, stream)
	}
	return info, nil
}

// StreamEnd returns an end of a stream that includes every message that was acknowledged before the call. See
// [ReadIndex.End].
func (s *Server) StreamEnd(ctx context.Context, stream string) (seq, term uint64, err error) {
	switch {
	case s.Alone() && s.Shared():
		info, err := streamInfo(ctx, s.conn, stream)
		if info.StreamInfo == nil {
			return 0, 0, err
		}
		return info.State.LastSeq, 0, nil
	case s.member == nil:
		return 0, 0, fmt.Errorf("%w: the servers are not part of this process", ErrNoReadIndex)
	}
	index, err := s.member.Index()
	if err != nil {
		return 0, 0, err
	}
	return index.End(ctx, stream)
}

// StreamTerm returns a number that changes when a stream could have another leader, for a server that is a node of a
// cluster or in another process. See [ReadIndex.Term]. Of a server in another process nothing else is known than how
// often the connection to it was lost.
func (s *Server) StreamTerm(stream string) (term uint64, known bool) {
	if s.member == nil {
		return 1 + s.conn.Stats().Reconnects, true
	}
	index, err := s.member.Index()
	if err != nil {
		return 0, false
	}
	return index.Term(stream)
}

// StreamHeads returns the beginnings of messages of a stream. See [ReadIndex.Heads].
func (s *Server) StreamHeads(ctx context.Context, stream string, from, to uint64) (Heads, error) {
	index, err := s.member.Index()
	if err != nil {
		return Heads{}, err
	}
	return index.Heads(ctx, stream, from, to)
}
