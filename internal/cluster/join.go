package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// A cluster whose nodes have a part of the shards has the nodes of its layout. A node that is not among them connects
// as a front-end does, with the secret and without a vote, and asks a member to take it in. The member adds it to the
// layout, without a shard, and answers with all that it needs: the table with which the cluster began, the layout, and
// the addresses of the other nodes. Only then its server starts, and JetStream counts it. So the other nodes know the
// name before they are asked to accept it, and the reason of a refusal is known where the node was started.
//
// A node that has no shard leaves the layout when it is removed ([Node.Remove]).

const (
	// joinAttempt bounds one attempt to be taken in, and joinAgain is the pause between two.
	joinAttempt = 5 * time.Second
	joinAgain   = time.Second
	// joinAfter is the time for which a node that could be one of the cluster's waits before it asks to be taken in.
	joinAfter = 5 * time.Second
	// joinTries bounds the attempts of a member to change the layout when others change it at the same time.
	joinTries = 5
)

// The points of a join at which a test ends the process.
var (
	pointAdding  = fault.Declare("join/adding")  // a member is about to add the node to the layout
	pointAdded   = fault.Declare("join/added")   // and has added it, and has not answered
	pointEntered = fault.Declare("join/entered") // the node has stored what the member has told it
	pointStarted = fault.Declare("join/started") // its server has started
	pointMember  = fault.Declare("join/member")  // it has recorded that it is a member
)

// ErrJoin means that a node cannot join as it was started. Trying again does not help.
var ErrJoin = errors.New("this node cannot join the cluster")

// newcomer is a node that asks to be taken into the cluster.
type newcomer struct {
	Name        string `json:"name"`
	Address     string `json:"address"`
	Zone        string `json:"zone,omitempty"`
	Incarnation string `json:"incarnation"`
	Format      int    `json:"format"` // the newest that its program understands
}

// welcome answers a newcomer.
type welcome struct {
	Roster *peering.Roster `json:"roster,omitempty"`
	// Refused says why the node is not taken in. Final: trying again does not help.
	Refused string `json:"refused,omitempty"`
	Final   bool   `json:"final,omitempty"`
}

// enter asks the members to take this node in until one does. Errors: [ErrJoin].
func (n *Node) enter(ctx context.Context) error {
	said := ""
	for {
		entered, why, err := n.askToJoin(ctx)
		switch {
		case err != nil || entered:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("waiting to be taken into the cluster: %w: %s", context.Cause(ctx), why)
		}
		if why = "no member has taken this node into the cluster yet: " + why; why != said {
			said = why
			n.config.Log.Info("waiting to be taken into the cluster", "node", n.site.Node(), "reason", why)
		}
		n.waiting(why)
		select {
		case <-time.After(joinAgain):
		case <-ctx.Done():
		}
	}
}

// askToJoin asks the members once. Without an answer that decides it, why says what is missing.
func (n *Node) askToJoin(ctx context.Context) (entered bool, why string, err error) {
	ctx, cancel := context.WithTimeout(ctx, joinAttempt)
	defer cancel()
	front, err := n.asFront(ctx)
	if err != nil {
		return false, err.Error(), nil
	}
	defer front.Close()
	self, id := n.site.Self(), n.site.Identity()
	request := newcomer{Name: self.Name, Address: self.Address, Zone: self.Zone, Incarnation: id.Incarnation,
		Format: peering.Supported.Newest}
	for {
		for _, name := range front.Connected() {
			answer, err := ask[welcome](ctx, front.conn, name, aboutJoin, request)
			switch {
			// A node that was connected just now has not said yet what it answers.
			case errors.Is(err, nats.ErrNoResponders):
				why = fmt.Sprintf("node %s takes no nodes in: it joins itself, or runs a release that does not", name)
			case err != nil:
				why = fmt.Sprintf("node %s: %v", name, err)
			case answer.Final:
				return false, "", fmt.Errorf("%w: node %s: %s", ErrJoin, name, answer.Refused)
			case answer.Roster == nil:
				why = fmt.Sprintf("node %s: %s", name, answer.Refused)
			default:
				n.config.Log.Info("this node was taken into the cluster", "node", self.Name, "by", name)
				return true, "", errors.Join(n.site.Enter(*answer.Roster), fault.Point(pointEntered))
			}
		}
		select {
		case <-time.After(majorityPoll):
		case <-ctx.Done():
			return false, cmp.Or(why, front.Missing(context.WithoutCancel(ctx)), "no member answers"), nil
		}
	}
}

// asFront connects to the members as a front-end.
func (n *Node) asFront(ctx context.Context) (*Front, error) {
	c := n.config
	c.Node, c.Front, c.Listen, c.Dir = peering.Alias(), true, "", ""
	c.Log = slog.New(slog.DiscardHandler) // what is wrong with the peers, this node's own site says
	return StartFront(ctx, c, nil)
}

// answerJoin takes a node into the cluster, or refuses it.
func (n *Node) answerJoin(ctx context.Context, m *nats.Msg) {
	var c newcomer
	if json.Unmarshal(m.Data, &c) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if fault.Point(pointAdding) != nil {
		return // as a node that was killed
	}
	var err error
	for range joinTries {
		// Of two nodes that join at the same time, one is added to a layout that has the other one.
		if err = n.addNode(ctx, &c); !errors.Is(err, ErrNoAnswer) || ctx.Err() != nil {
			break
		}
	}
	var w welcome
	if err == nil {
		err = fault.Point(pointAdded)
	}
	if err == nil {
		r := n.site.Roster()
		w.Roster = &r
	} else {
		w.Refused = strings.TrimPrefix(err.Error(), ErrJoin.Error()+": ")
		w.Final = errors.Is(err, shardmap.ErrHosts) || errors.Is(err, ErrJoin) || errors.Is(err, ErrMoveFormat) ||
			errors.Is(err, ErrNotSpread)
	}
	natsserver.AnswerJSON(m, w)
}

// addNode adds a node to the layout, unless it has it. Errors: [ErrJoin], [shardmap.ErrHosts], and those of
// changeLayout.
func (n *Node) addNode(ctx context.Context, c *newcomer) error {
	if err := peering.CheckName(c.Name); err != nil {
		return fmt.Errorf("%w: %w", ErrJoin, err)
	}
	if f := n.site.Format(); f < peering.JoinFormat {
		return fmt.Errorf("%w: it is %d, and a further node needs %d: run `lazuli cluster upgrade --finish` when all "+
			"nodes run this release", ErrMoveFormat, f, peering.JoinFormat)
	}
	if n.site.Layout().IsLost(c.Name) { // it asks again
		return fmt.Errorf("node %s is lost, and its shards are still moving to other nodes: its name can join again when it "+
			"has left", c.Name)
	}
	known := n.site.Identity().Members[c.Name]
	if c.Name == n.site.Node() || known != "" && known != c.Incarnation {
		return fmt.Errorf("%w: it has a node %s with another data folder: if that folder was lost, run `lazuli cluster "+
			"leave %s` on another node; otherwise choose another name", ErrJoin, c.Name, c.Name)
	}
	added := false
	err := n.changeLayout(ctx, func(l *peering.Layout) error {
		// Two nodes with one address would each take the other one's connections.
		for _, p := range n.site.Peers() {
			if p.Name != c.Name && p.Address == c.Address {
				return fmt.Errorf("%w: its address %s is that of node %s", ErrJoin, c.Address, p.Name)
			}
		}
		if slices.Contains(l.Hosts.Names(), c.Name) {
			if zone := l.Hosts.Zone(c.Name); zone != c.Zone {
				return fmt.Errorf("%w: node %s of this cluster is in zone %q, and not in %q: start it with that zone, or "+
					"remove it first", ErrJoin, c.Name, zone, c.Zone)
			}
			if l.Addresses[c.Name] == c.Address {
				return errAsItIs
			}
		} else {
			hosts, err := l.Hosts.Added(shardmap.Place{Node: c.Name, Zone: c.Zone})
			if err != nil {
				return err
			}
			l.Hosts, added = hosts, true
			if !l.Manual {
				l.Filling = append(slices.Clone(l.Filling), c.Name)
			}
		}
		// Those of all nodes: the new one may have been started with the names of some.
		l.Addresses = n.addresses(l)
		l.Addresses[c.Name] = c.Address
		return nil
	})
	if errors.Is(err, errAsItIs) {
		return nil
	}
	if err == nil && added {
		n.config.Log.Info("a node joins the cluster", "node", c.Name, "address", c.Address, "zone", c.Zone)
	}
	return err
}

// errAsItIs ends a change of the layout that has nothing to do.
var errAsItIs = errors.New("the layout is as it should be")

// addresses returns the addresses of the nodes of a layout, as this node knows them.
func (n *Node) addresses(l *peering.Layout) map[string]string {
	all := map[string]string{}
	maps.Copy(all, l.Addresses)
	for _, p := range n.site.Peers() {
		all[p.Name] = p.Address
	}
	maps.DeleteFunc(all, func(name, _ string) bool { return !slices.Contains(l.Hosts.Names(), name) })
	return all
}

// removeEmpty takes a node without a shard out of the layout, after its data folder was removed. It does nothing where
// all nodes have all shards, and for a node that has a shard: that one is replaced under its name.
func (n *Node) removeEmpty(ctx context.Context, name string) (removed bool, err error) {
	if n.site.Hosts() == nil || len(n.site.Hosts().Of(name)) > 0 || n.site.Format() < peering.JoinFormat {
		return false, nil
	}
	err = n.changeLayout(ctx, func(l *peering.Layout) error {
		m := l.Moving()
		comes := m != nil && m.To == name && !m.Decided()
		if !slices.Contains(l.Hosts.Names(), name) || len(l.Hosts.Of(name)) > 0 || comes {
			return errAsItIs
		}
		if err := l.Leave(name); err != nil {
			return err
		}
		if m != nil && (m.From == name || m.To == name) {
			l.Ended = true // what was left to do was to delete its folder
		}
		return nil
	})
	if errors.Is(err, errAsItIs) {
		return false, nil
	}
	return err == nil, err
}

// noteAddress makes the address of this node that of the layout, if it was started with another one: nodes that were
// started with a list without this node have it from there.
func (n *Node) noteAddress(ctx context.Context) error {
	l, self := n.site.Layout(), n.site.Self()
	if at := l.Addresses[self.Name]; at == "" || at == self.Address || n.site.Format() < peering.JoinFormat {
		return nil
	}
	return n.changeLayout(ctx, func(l *peering.Layout) error {
		if !slices.Contains(l.Hosts.Names(), self.Name) {
			return errAsItIs
		}
		l.Addresses = maps.Clone(l.Addresses)
		l.Addresses[self.Name] = self.Address
		return nil
	})
}

// Others returns the names of the other nodes of the cluster.
func (n *Node) Others() (names []string) {
	for _, p := range n.site.Peers() {
		if p.Name != n.site.Node() {
			names = append(names, p.Name)
		}
	}
	return names
}

// enterLater asks the members to take this node in after it has waited for some time, if it joins a cluster whose nodes
// have a part of the shards: its list of peers is that with which the cluster began, and the name may have been removed
// since. The channel receives once, if a member has answered.
func (n *Node) enterLater(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	if id := n.site.Identity(); id.State != peering.Joining || id.Hosts == nil || n.entered {
		return done
	}
	go func() {
		for {
			select {
			case <-time.After(joinAfter):
			case <-ctx.Done():
				return
			}
			// While the cluster is formed there is no member that could answer.
			if entered, _, err := n.askToJoin(ctx); entered || err != nil {
				done <- err
				return
			}
		}
	}()
	return done
}
