package mirror

import (
	"slices"
	"time"
)

// Half of the seeds have a fourth node, and the content moves among them as that of a shard does: a node joins, is
// complete, and another one leaves. The records that say so are in the log of the metadata, which is exact in this
// model: a record is valid if it was made from the newest state. See package replica for the real ones, and
// docs/design/shards.md.

// simHosts are the nodes that have the content.
type simHosts struct {
	group   Group
	leaving string
}

func (h *simHosts) has(node string) bool {
	return slices.Contains(h.group.Nodes, node) || slices.Contains(h.group.Next, node) || h.group.Joining == node
}

// update lets a node append a record to the log: f changes the newest state, or returns false. It returns false if the
// record is not valid. It is the guard of the node's database that sees the state before; a database changes one thing
// after the other.
func (n *simNode) update(f func(h *simHosts) bool) bool {
	s := n.s
	for n.updating {
		n.process.Park(10*time.Millisecond, func() bool { return !n.updating })
	}
	n.updating = true
	defer func() { n.updating = false }()
	for {
		h := s.hosts
		if n.mirror == nil || !h.has(n.name) {
			return false
		}
		n.learn(h)
		if err := n.mirror.Renew(); err != nil {
			return false
		}
		if s.hosts != h { // another record was before
			continue
		}
		next := *h
		if !f(&next) {
			return false
		}
		if next.group.Version != h.group.Version {
			s.changed(&next)
		}
		return true
	}
}

// learn lets a node know the record.
func (n *simNode) learn(h *simHosts) {
	n.mirror.SetGroup(h.group)
	for _, owner := range n.s.retired {
		n.gone[owner] = true
	}
}

// changed makes a record the newest one, of which the nodes hear.
func (s *simulation) changed(h *simHosts) {
	s.hosts = h
	s.w.Logf("the content is on %v, joining %q, then on %v", h.group.Nodes, h.group.Joining, h.group.Next)
	for _, n := range s.nodes {
		if n.owner > 0 && !h.has(n.name) {
			s.retired = append(s.retired, n.owner)
			n.owner = 0
		}
		s.w.After(s.w.Delay(time.Second), "", func() {
			switch {
			case n.mirror == nil:
			case s.hosts.has(n.name):
				n.learn(s.hosts)
			default:
				n.drop()
			}
		})
	}
	// What was committed is on enough of the nodes that count from now on. Those after the move must have what is
	// committed from now on, and get the rest before it ends.
	s.check(s.committed, s.hosts.group.Nodes)
}

// follow makes the steps of moves, one after the other.
func (s *simulation) follow() {
	s.w.After(s.w.Delay(300*time.Millisecond), "", func() {
		if s.hosts.group.Joining != "" && !s.settled {
			s.tend()
		}
		s.follow()
	})
}

// drop deletes the content of a node that has left.
func (n *simNode) drop() {
	n.s.w.Logf("%s: deletes its copy", n.name)
	n.process.Kill()
	n.mirror, n.disk = nil, map[uint64]*simExtent{}
}

// tend makes the next step of a move, or begins one.
func (s *simulation) tend() {
	h := s.hosts
	host := s.node(h.group.Nodes[s.w.Choose(len(h.group.Nodes))])
	switch joining := s.node(h.group.Joining); {
	case joining == nil:
		to := s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return !h.has(n.name) })]
		leaving := h.group.Nodes[s.w.Choose(len(h.group.Nodes))]
		if !to.process.Dead() { // it has not deleted what it had
			return
		}
		host.task(func() {
			host.update(func(next *simHosts) bool {
				if next.group.Joining != "" {
					return false
				}
				next.group.Version++
				next.group.Joining, next.leaving = to.name, leaving
				s.owners++
				to.owner, to.ready = s.owners, 0
				return true
			})
		})
	case joining.process.Dead():
		joining.start()
	case !h.complete() && s.w.Choose(150) == 0:
		host.task(func() {
			host.update(func(next *simHosts) bool {
				if next.group.Joining != joining.name || next.complete() {
					return false
				}
				next.group.Version++
				next.group.Joining, next.leaving = "", ""
				return true
			})
		})
	case !h.complete():
		joining.task(func() {
			joining.lacksNothing(func() {
				joining.update(func(next *simHosts) bool {
					if next.group.Joining != joining.name || next.complete() {
						return false
					}
					next.group.Version++
					next.group.Next = next.after()
					return true
				})
			})
		})
	case !joining.copied(h):
		joining.task(func() {
			joining.lacksNothing(func() { joining.ready = h.group.Version })
		})
	default:
		host.task(func() {
			host.update(func(next *simHosts) bool {
				if next.group.Joining != joining.name || !next.complete() || !joining.copied(next) {
					return false
				}
				next.group.Version++
				next.group.Nodes, next.group.Next, next.group.Joining = next.after(), nil, ""
				return true
			})
		})
	}
}

// complete reports whether the node that joins has said that it is complete.
func (h *simHosts) complete() bool { return len(h.group.Next) > 0 }

// copied reports whether a node has what was written before it has said that it is complete.
func (n *simNode) copied(h *simHosts) bool { return n.ready == h.group.Version }

// after returns the nodes after the move.
func (h *simHosts) after() []string {
	names := append(slices.Clone(h.group.Nodes), h.group.Joining)
	return slices.DeleteFunc(names, func(name string) bool { return name == h.leaving })
}

// lacksNothing calls do when the node has what the others list on its disk.
func (n *simNode) lacksNothing(do func()) {
	lacking, err := n.mirror.Missing()
	if err != nil {
		n.s.w.Logf("%s: does not know what it lacks: %v", n.name, err)
		return
	}
	for lacking() > 0 {
		n.process.Park(100*time.Millisecond, func() bool { return false })
		if n.mirror == nil {
			return
		}
	}
	// What it says is for good, so what it has must be on its disk: see mover.copy of package server.
	if err := n.SyncAllPuts(); err != nil {
		return
	}
	do()
}

// task does a part of a move at a node, unless the node does another one.
func (n *simNode) task(f func()) {
	if n.process.Dead() || n.mirror == nil || n.tending {
		return
	}
	n.tending = true
	n.process.Task("", func() {
		defer func() { n.tending = false }()
		f()
	})
}

// node returns the node of a name, nil without one.
func (s *simulation) node(name string) *simNode {
	if i := slices.IndexFunc(s.nodes, func(n *simNode) bool { return n.name == name }); i >= 0 {
		return s.nodes[i]
	}
	return nil
}
