package peering

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// Step names the next thing to do in a [Move].
type Step string

// The steps of a move, in their order. Until StepStreams it can be cancelled, which leads to StepCancel and StepClean.
const (
	// StepJoin: a node that has the shard records in its log that the new one joins.
	StepJoin Step = "join"
	// StepCopy: the new node opens the shard, copies everything, and records that it is complete.
	StepCopy Step = "copy"
	// StepStreams: JetStream moves the streams of the shard.
	StepStreams Step = "streams"
	// StepLeave: a node that keeps the shard records that the old one has left.
	StepLeave Step = "leave"
	// StepDelete: the table has the new node, and the old one deletes its copy.
	StepDelete Step = "delete"
	// StepReturn: the new node is lost while the streams move to it, and JetStream moves them back.
	StepReturn Step = "return"
	// StepCancel: a node that has the shard records that the new one has left.
	StepCancel Step = "cancel"
	// StepClean: the new node deletes what it has copied.
	StepClean Step = "clean"
)

// Move is the move of one copy of a shard to another node.
type Move struct {
	// Number identifies the move: it is the version of the layout that began it, so a later move has a higher one.
	Number uint64 `json:"number"`
	Shard  int    `json:"shard"`
	// From and To are names of nodes.
	From string `json:"from"`
	To   string `json:"to"`
	Step Step   `json:"step"`
	// Lost is set if From is lost: nothing of the move needs it.
	Lost bool `json:"lost,omitempty"`
}

// Decided reports that the table of hosts is what it will be: the rest is done by one node, for which nothing waits.
func (m *Move) Decided() bool { return m.Step == StepDelete || m.Step == StepClean }

// Cancelled reports that the copy stays where it was.
func (m *Move) Cancelled() bool {
	return m.Step == StepReturn || m.Step == StepCancel || m.Step == StepClean
}

// String describes the move.
func (m *Move) String() string { return fmt.Sprintf("shard %d from %s to %s", m.Shard, m.From, m.To) }

// Layout is what the nodes of a cluster with a table of hosts agree on: the table, and the move that changes it. Each
// node keeps the newest one that it has seen.
type Layout struct {
	// Version rises with each change; 0 is the layout with which the cluster began.
	Version uint64          `json:"version"`
	Hosts   *shardmap.Hosts `json:"hosts"`
	// Addresses are those of the nodes, by name, as of the last change of the nodes; nil before the first. A node's own
	// list of peers comes first, so that addresses can change.
	Addresses map[string]string `json:"addresses,omitempty"`
	// Filling are the nodes that have joined and get their share of shards without a person, until they have it.
	Filling []string `json:"filling,omitempty"`
	// Manual is set if nodes that join get no shards by themselves.
	Manual bool `json:"manual,omitempty"`
	// Move is the one under way, or the last one; nil before the first.
	Move *Move `json:"move,omitempty"`
	// Ended is set when nothing of Move is left to do.
	Ended bool `json:"ended,omitempty"`
	// Lost has the nodes whose data folder is gone for good, with the incarnations of the folders: their shards move to
	// other nodes, and then they leave the cluster. No node accepts such a folder any more.
	Lost map[string]string `json:"lost,omitempty"`
	// Removed has the folders of lost nodes that have left, by the names of the nodes, the newest last.
	Removed map[string][]string `json:"removed,omitempty"`
}

// Moving returns the move under way, nil without one.
func (l Layout) Moving() *Move {
	if l.Move == nil || l.Ended {
		return nil
	}
	return l.Move
}

// Check returns what is wrong with a layout that was read.
func (l Layout) Check() error {
	if l.Hosts == nil {
		return errors.New("peering: a layout without a table of hosts")
	}
	return l.Hosts.Check()
}

// EndFilling ends the moves to a node that begin without a person.
func (l *Layout) EndFilling(node string) {
	l.Filling = slices.DeleteFunc(slices.Clone(l.Filling), func(name string) bool { return name == node })
}

// IsLost reports whether a node is lost.
func (l Layout) IsLost(node string) bool {
	_, lost := l.Lost[node]
	return lost
}

// Lose makes a node a lost one, whose folder has the incarnation, and changes the move under way so that it can end
// without that node. It returns false if the move cannot.
//
//	step         the node that the shard leaves   that to which it moves   another one with the shard
//	join, copy   taken back                       taken back               taken back
//	streams      goes on without it               taken back               goes on
//	leave        goes on without it               goes on                  goes on
//	return       -                                goes on                  goes on
//
// What is taken back begins again as the move of a lost node, which needs nothing of it.
func (l *Layout) Lose(node, incarnation string) bool {
	l.Lost = maps.Clone(l.Lost)
	if l.Lost == nil {
		l.Lost = map[string]string{}
	}
	l.Lost[node] = incarnation
	l.EndFilling(node)
	m := l.Moving()
	if m == nil {
		return true
	}
	next := *m
	switch at := m.Step; {
	case at == StepReturn && node == m.From:
		return false
	case at == StepDelete && node == m.From, at == StepClean && node == m.To:
		l.Ended = true // what was left to do was to delete its folder
	case (at == StepJoin || at == StepCopy) && (node == m.To || l.Hosts.On(node, m.Shard)):
		next.Step = StepCancel
	case at == StepStreams && node == m.To:
		next.Step = StepReturn
	case node == m.From && !m.Cancelled():
		next.Lost = true
	}
	l.Move = &next
	return true
}

// maxLeft bounds the incarnations of a node in [Layout.Removed].
const maxLeft = 8

// Leave takes a lost node that has no shard any more out of the nodes. Errors: [shardmap.ErrHosts].
func (l *Layout) Leave(node string) error {
	hosts, err := l.Hosts.Removed(node)
	if err != nil {
		return err
	}
	l.Hosts, l.Addresses, l.Lost, l.Removed = hosts, maps.Clone(l.Addresses), maps.Clone(l.Lost), maps.Clone(l.Removed)
	if incarnation := l.Lost[node]; incarnation != "" {
		if l.Removed == nil {
			l.Removed = map[string][]string{}
		}
		list := append(slices.Clone(l.Removed[node]), incarnation)
		l.Removed[node] = list[max(0, len(list)-maxLeft):]
	}
	delete(l.Addresses, node)
	delete(l.Lost, node)
	l.EndFilling(node)
	return nil
}

// Has reports whether a node has a folder of a shard: as one of its hosts, or as the node to which it moves.
func (l Layout) Has(node string, shard int) bool {
	if l.Hosts == nil || l.Hosts.On(node, shard) {
		return true
	}
	m := l.Moving()
	return m != nil && m.Shard == shard && m.To == node && (m.Step == StepCopy || m.Step == StepStreams ||
		m.Step == StepLeave || m.Step == StepReturn || m.Step == StepCancel)
}

// places reports whether JetStream may place streams of a shard at a node. While they move, that is the new node and
// no longer the old one.
func (l Layout) places(node string, shard int) bool {
	if m := l.Moving(); m != nil && m.Shard == shard && (m.Step == StepStreams || m.Step == StepLeave) {
		switch node {
		case m.To:
			return true
		case m.From:
			return false
		}
	}
	return l.Hosts.On(node, shard)
}

// tags are the tags of a node's server.
func (l Layout) tags(node string) (tags []string) {
	if l.Hosts == nil {
		return nil
	}
	for n := range l.Hosts.Shards {
		if l.places(node, n) {
			tags = append(tags, tagOf(n))
		}
	}
	return tags
}

// Has reports whether the node has a folder of a shard.
func (id Identity) Has(shard int) bool { return id.layout().Has(id.Node, shard) }

// layout returns the layout that an identity has.
func (id Identity) layout() Layout {
	if id.Layout != nil {
		return *id.Layout
	}
	return Layout{Hosts: id.Hosts}
}

// Layout returns the newest layout that this node knows; its Hosts are nil where all nodes have all shards.
func (s *Site) Layout() Layout {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity.layout()
}

// Take keeps a layout durably if it is newer than the one that this node has. It returns whether it is.
func (s *Site) Take(l Layout) (newer bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.identity
	newer, err = id.take(l)
	if !newer || err != nil {
		return false, err
	}
	return true, s.store(id)
}

// take puts a layout into an identity, unless it is older.
func (id *Identity) take(l Layout) (newer bool, err error) {
	have := id.layout()
	if have.Hosts == nil && id.State != Fronting || l.Version <= have.Version {
		return false, nil
	}
	if err := l.Check(); err != nil {
		return false, err
	}
	if have.Hosts != nil && len(l.Hosts.Shards) != len(have.Hosts.Shards) {
		return false, fmt.Errorf("%w: a table of other shards", ErrHosts)
	}
	id.Layout = &l
	id.forgetLost()
	return true, nil
}

// forgetLost forgets the folders of lost nodes that have left, as [Site.Forget] does: this node may have been away when
// they were removed.
func (id *Identity) forgetLost() {
	for node, list := range id.Layout.Removed {
		for _, incarnation := range list {
			if id.Members[node] == incarnation {
				id.Members = maps.Clone(id.Members)
				delete(id.Members, node)
			}
			if !slices.Contains(id.Removed[node], incarnation) {
				id.Removed = maps.Clone(id.Removed)
				if id.Removed == nil {
					id.Removed = map[string][]string{}
				}
				id.Removed[node] = append(slices.Clip(id.Removed[node]), incarnation)
			}
		}
	}
}

// Arrive notes durably that this node begins the folder of a shard for a move. It returns false if it has noted that
// before: then the folder is that of the move.
func (s *Site) Arrive(move uint64) (first bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.identity
	if id.Arriving == move {
		return false, nil
	}
	id.Arriving = move
	return true, s.store(id)
}

// Arriving is the number of the move for which this node has begun a folder.
func (s *Site) Arriving() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.identity.Arriving
}

// ErrLost means that the data folder of a node is lost, as the cluster has been told.
var ErrLost = errors.New("the cluster was told with `lazuli cluster leave --lost` that the data folder of this node is " +
	"lost, and its shards have other nodes: start it with an empty folder")

// Lost returns [ErrLost] if the cluster goes on without this node's folder, as far as this node knows.
func (s *Site) Lost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := &s.identity; id.layout().IsRemoved(id.Node, id.Incarnation) {
		return ErrLost
	}
	return nil
}

// IsRemoved reports whether the folder with an incarnation is that of a node that is or was lost.
func (l Layout) IsRemoved(node, incarnation string) bool {
	lost, is := l.Lost[node]
	return is && lost == incarnation || slices.Contains(l.Removed[node], incarnation)
}
