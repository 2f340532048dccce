package natsserver

import (
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// When a Raft group loses its leader, two of its members may ask for votes at nearly the same time. Each has voted for
// itself then, and none gets a majority. JetStream's members wait for a whole election timeout before they ask again,
// which doubles the time without a leader. An Elections lets a member ask again soon.
//
// A different election timeout for each node would avoid such rounds, and was rejected: the node with the shortest one
// would win all elections, so it would be the home of all logs.
//
// The groups of a server are a private field of nats-server, found by reflection. TestSecondRoundOfAnElection fails if
// an update of nats-server moves it.

const (
	// roundEvery is the time between two calls of [Elections.Look].
	roundEvery = 100 * time.Millisecond
	// voteTime is the time that a round may take before it counts as failed. Votes are synced; on a busy machine most
	// elections took 10 to 210 ms.
	voteTime = 300 * time.Millisecond
	// turnTime is the time between the turns of two members. JetStream begins a round 100 to 800 ms after it was told to.
	turnTime = 900 * time.Millisecond
	// maxHurries is the number of rounds that a member begins early until its group has had a leader again. Without a
	// majority, or on disks that take longer for a vote, more of them would only be in the way.
	maxHurries = 3
)

// Elections watches the elections of a server's Raft groups. Its methods are for one goroutine.
type Elections struct {
	// Log gets a line for each round that had no result.
	Log *slog.Logger
	// Majority reports whether this server is connected to a majority. No server can answer one that is not; and when it
	// is again, what it asks for next ends the terms of the others, so that it is better soon.
	Majority func() bool

	groups map[string]*election
	failed bool // nats-server has other fields than expected
}

// election has the last leader of a group, and the state of the election while the group has no leader.
type election struct {
	node    server.RaftNode
	leader  string    // the last one
	term    uint64    // in which this member asks for votes
	since   time.Time // when that was first seen
	hurries int
	hurried bool // in this term
}

// Watch calls Look with the running server, if there is one, until done is closed.
func (e *Elections) Watch(running func() *server.Server, done <-chan struct{}) {
	tick := time.NewTicker(roundEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case now := <-tick.C:
			if s := running(); s != nil {
				e.Look(s, now)
			}
		}
	}
}

// Look begins the next round of each election in which this server asks for votes and has not got them in time. Of two
// members that have failed together, the one with the lower ID is first.
func (e *Elections) Look(s *server.Server, now time.Time) {
	if e.failed {
		return
	}
	nodes, err := raftNodes(s)
	if err != nil {
		e.failed = true
		e.Log.Warn("elections may take longer", "err", err)
		return
	}
	e.look(nodes, now)
}

func (e *Elections) look(nodes map[string]server.RaftNode, now time.Time) {
	if e.groups == nil {
		e.groups = map[string]*election{}
	}
	majority := e.Majority()
	for group, node := range nodes {
		g := e.groups[group]
		if g == nil || g.node != node {
			g = &election{node: node}
			e.groups[group] = g
		}
		if node.State() == server.Candidate {
			if !majority {
				g.term, g.since, g.hurries, g.hurried = node.Term(), now, 0, false
				continue
			}
			e.candidate(g, group, now)
		} else if leader := node.GroupLeader(); leader != "" {
			g.leader, g.hurries = leader, 0
		}
	}
	if len(e.groups) > len(nodes) {
		for group := range e.groups {
			if nodes[group] == nil {
				delete(e.groups, group)
			}
		}
	}
}

// candidate looks at a group in which this server asks for votes.
func (e *Elections) candidate(g *election, group string, now time.Time) {
	if term := g.node.Term(); term != g.term {
		g.term, g.since, g.hurried = term, now, false
	}
	// The pauses double, so that members on slow disks do not interrupt each other without a limit.
	wait := voteTime<<g.hurries + turnTime*time.Duration(turnOf(g.node.ID(), g.leader, g.node.PeerNames()))
	if g.hurried || g.hurries >= maxHurries || now.Sub(g.since) < wait {
		return
	}
	g.hurried = true
	g.hurries++
	// It has become leader or follower in this moment if this fails.
	if g.node.Campaign() == nil {
		e.Log.Info("an election had no result; the next round begins", "group", group, "term", g.term, "after",
			now.Sub(g.since).Round(time.Millisecond))
	}
}

// turnOf returns the turn of a member, from 0 on, among those that may ask for votes: all but the leader that was lost.
func turnOf(id, lost string, members []string) (turn int) {
	for _, other := range members {
		if other < id && other != lost {
			turn++
		}
	}
	return turn
}

// raftNodes returns the members of Raft groups that a server has, by group.
func raftNodes(s *server.Server) (nodes map[string]server.RaftNode, err error) {
	return nodes, withRaftNodes(s, func(all map[string]server.RaftNode) { nodes = maps.Clone(all) })
}

// raftNode returns the member of a Raft group that a server has, nil if it has none.
func raftNode(s *server.Server, group string) (node server.RaftNode, err error) {
	return node, withRaftNodes(s, func(all map[string]server.RaftNode) { node = all[group] })
}

// withRaftNodes calls use with the server's own map of members, by group, which use must not keep.
func withRaftNodes(s *server.Server, use func(all map[string]server.RaftNode)) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("natsserver: this version of nats-server has other fields than expected: %v", v)
		}
	}()
	v := reflect.ValueOf(s).Elem()
	lock := fieldOf[sync.RWMutex](v.FieldByName("rnMu"))
	all := fieldOf[map[string]server.RaftNode](v.FieldByName("raftNodes"))
	lock.RLock()
	defer lock.RUnlock()
	use(*all)
	return nil
}
