package natsserver

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// member is a member of a Raft group as far as an Elections asks it.
type member struct {
	server.RaftNode

	id, leader string
	state      server.RaftState
	term       uint64
	campaigns  int
}

func (m *member) ID() string              { return m.id }
func (m *member) State() server.RaftState { return m.state }
func (m *member) Term() uint64            { return m.term }
func (m *member) GroupLeader() string     { return m.leader }
func (m *member) PeerNames() []string     { return []string{"a", "b", "c"} }
func (m *member) Campaign() error         { m.campaigns++; return nil }

// A member that gets no votes asks again: once in a term, after pauses that double, in its turn, and some times only
// until there was a leader.
func TestElectionsBeginTheNextRound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id, lost string
		first    time.Duration
	}{
		{"a", "c", voteTime}, {"b", "c", voteTime + turnTime},
		{"b", "a", voteTime}, {"c", "a", voteTime + turnTime},
		{"c", "d", voteTime + 2*turnTime}, // it has left the group
	} {
		m := &member{id: c.id, leader: c.lost, term: 1, state: server.Follower}
		majority := true
		e := &Elections{Log: slog.New(slog.DiscardHandler), Majority: func() bool { return majority }}
		now := time.Unix(1, 0)
		look := func(after time.Duration, campaigns int) {
			t.Helper()
			now = now.Add(after)
			if e.look(map[string]server.RaftNode{"g": m}, now); m.campaigns != campaigns {
				t.Errorf("%s without %s, in term %d: asked again %d times, want %d", c.id, c.lost, m.term, m.campaigns, campaigns)
			}
		}
		look(0, 0)
		turn := c.first - voteTime
		for hurry := range maxHurries {
			m.state, m.leader = server.Candidate, ""
			m.term++
			look(0, hurry)
			look(voteTime<<hurry+turn-1, hurry)
			look(1, hurry+1)
			look(time.Hour, hurry+1) // JetStream begins it
		}
		m.term++
		look(0, maxHurries)
		look(time.Hour, maxHurries)
		m.state, m.leader = server.Follower, c.lost
		look(0, maxHurries)
		m.state, m.leader = server.Candidate, ""
		m.term++
		look(0, maxHurries)
		look(c.first, maxHurries+1)
		// A server that is alone asks no other, and in its turn when it is not.
		majority = false
		m.term++
		look(time.Hour, maxHurries+1)
		look(time.Hour, maxHurries+1)
		majority = true
		look(c.first-1, maxHurries+1)
		look(1, maxHurries+2)
	}
}

// text returns the log.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

// count returns how often a text was logged.
func (x *text) count(part string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Count(x.b.String(), part)
}

// Two members that ask for votes at the same time elect a leader before either would have asked again by itself. Of
// some rounds one is enough: a leader may be elected in the first one, and the machine may be busy.
func TestSecondRoundOfAnElection(t *testing.T) {
	t.Parallel()
	r := startReaders(t)
	log := &text{}
	done := make(chan struct{})
	var watches sync.WaitGroup
	defer watches.Wait()
	defer close(done)
	for i := range 3 {
		e := &Elections{Log: slog.New(slog.NewTextHandler(log, nil)), Majority: func() bool { return true }}
		watches.Go(func() { e.Watch(r.c.Running(i), done) })
	}
	var waits []time.Duration
	for range 10 {
		r.publish(0)
		r.c.WaitCurrent(readStream)
		leader := r.c.Leads(readStream)
		if leader < 0 {
			continue
		}
		q, _, _, err := r.index[leader].ask(t.Context(), readStream)
		check.OK(t, err)
		group := q.Group
		r.c.Cut(leader, true)
		others := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == leader })
		before, began := log.count(group), time.Now()
		for _, i := range others {
			// One that leads already has just been elected, and the server that was cut off had led before.
			_ = check.Must(raftNodes(r.c.Running(i)()))(t)[group].CampaignImmediately()
		}
		check.Eventually(t, func() bool {
			return slices.ContainsFunc(others, func(i int) bool {
				return r.c.Running(i)().JetStreamIsStreamLeader("$G", readStream)
			})
		}, "one of two servers leads")
		took, hurried := time.Since(began), log.count(group) > before
		waits = append(waits, took)
		r.c.Cut(leader, false)
		if hurried && took < minElection {
			return
		}
	}
	t.Errorf("no election with a second round took less than %v: %v", minElection, waits)
}
