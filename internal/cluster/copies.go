package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
)

// Copies holds what a node knows about the copies of the streams that it has: of those that it leads, and of those
// without a leader.
type Copies struct {
	// Short is the number of streams with fewer copies that follow than they should have, Examples are some of them,
	// with the reasons.
	Short    int      `json:"short"`
	Examples []string `json:"examples,omitempty"`
	// Behind are the nodes whose copy of a stream is missing, is to come, or lacks entries, in order.
	Behind []string `json:"behind,omitempty"`
	// Unsafe is a stream of which no majority of the copies is current, "" if all have one.
	Unsafe string `json:"unsafe,omitempty"`
	// Servers are the servers, by the names that they have in Raft, that have a copy of such a stream or are to have one.
	Servers []string `json:"servers,omitempty"`
}

// A copy that receives what is written is behind by what is under way, the slowest one nearly always: it is whole if it
// lacks at most followingLag entries of the Raft log and has answered within followingActive, which is some heartbeats.
const (
	followingLag    = 100
	followingActive = 3 * time.Second
)

// maxExamples bounds [Copies.Examples].
const maxExamples = 5

// ErrCopies means that streams have too few current copies: removing a node now, or losing another one, could lose
// records.
var ErrCopies = errors.New("streams have too few current copies")

// add counts a stream that a server named own has.
func (c *Copies) add(own string, detail *server.StreamDetail) {
	at := detail.Cluster
	if at == nil || detail.Config == nil || at.Leader != "" && at.Leader != own {
		return // its leader reports it
	}
	var why []string
	// current counts the copies that have everything, which decides whether a node can be lost. following also counts
	// those that are a little behind, as copies that receive writes always are: it decides only what the status reports.
	current, following := 0, 0
	// The replicas in the answer are the others: the leader itself is one more.
	if at.Leader == own {
		current, following = 1, 1
		c.server(own)
	}
	for _, r := range at.Replicas {
		c.server(r.Name)
		follows := r.Current || r.Lag <= followingLag && r.Active < followingActive
		if r.Offline || r.Pending || !follows {
			c.behind(nodeOf(r.Name))
		}
		switch {
		case r.Offline:
			why = append(why, nodeOf(r.Name)+" is not connected")
		case r.Pending:
			why = append(why, nodeOf(r.Name)+" is to get a copy")
		case !follows:
			why = append(why, fmt.Sprintf("%s lacks %d entries and answered %v ago", nodeOf(r.Name), r.Lag,
				r.Active.Round(time.Millisecond)))
		default:
			following++
		}
		if r.Current && !r.Offline && !r.Pending {
			current++
		}
	}
	switch {
	case at.Leader == "":
		why = append(why, "it has no leader")
	case at.Desired != nil:
		why = append(why, "its members change")
	}
	want := detail.Config.Replicas
	if at.Leader != "" && following >= want && current >= want/2+1 && at.Desired == nil {
		return
	}
	c.Short++
	if len(c.Examples) < maxExamples {
		c.Examples = append(c.Examples, strings.TrimSuffix(detail.Name+" ("+strings.Join(why, ", ")+")", " ()"))
	}
	// A committed record is on a majority of the copies, but which ones is unknown. Only a majority of current copies
	// surely has it without the one that is to be removed.
	if at.Leader == "" || current < want/2+1 {
		c.Unsafe = detail.Name
	}
}

func (c *Copies) server(name string) {
	if !slices.Contains(c.Servers, name) {
		c.Servers = append(c.Servers, name)
	}
}

func (c *Copies) behind(node string) {
	if i, found := slices.BinarySearch(c.Behind, node); !found {
		c.Behind = slices.Insert(c.Behind, i, node)
	}
}

// merge adds what another node knows.
func (c *Copies) merge(o Copies) {
	c.Short += o.Short
	c.Examples = append(c.Examples, o.Examples[:min(len(o.Examples), maxExamples-len(c.Examples))]...)
	if c.Unsafe == "" {
		c.Unsafe = o.Unsafe
	}
	for _, name := range o.Servers {
		c.server(name)
	}
	for _, node := range o.Behind {
		c.behind(node)
	}
}

// copies looks at the streams of this node.
func (n *Node) copies() (c Copies, err error) {
	e := n.server.Running()
	if e == nil {
		return c, natsserver.ErrStorage
	}
	info, err := e.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Config: true})
	if err != nil {
		return c, err
	}
	for _, account := range info.AccountDetails {
		for i := range account.Streams {
			if at := account.Streams[i].Cluster; at != nil {
				n.nameReplicas(at)
			}
			c.add(e.Name(), &account.Streams[i])
		}
	}
	return c, nil
}

// nameReplicas gives copies the names of their servers. A server that has not been connected since JetStream was
// started here is known to it by its ID alone.
func (n *Node) nameReplicas(info *server.ClusterInfo) {
	names := map[string]string{}
	for _, name := range n.Folders() {
		names[natsserver.PeerID(name)] = name
	}
	for _, r := range info.Replicas {
		r.Name = cmp.Or(names[r.Peer], r.Name)
	}
}

func (n *Node) answerCopies(m *nats.Msg) {
	if c, err := n.copies(); err == nil { // otherwise there is no answer, as from a node that is stopped
		natsserver.AnswerJSON(m, c)
	}
}

// allCopies asks all nodes to which this one is connected.
func (n *Node) allCopies(ctx context.Context) (all Copies, err error) {
	n.mu.Lock()
	connected := n.status.connected
	n.mu.Unlock()
	if all, err = n.copies(); err != nil {
		return all, err
	}
	var (
		wait sync.WaitGroup
		mu   sync.Mutex // guards all and err
	)
	for _, name := range connected {
		wait.Go(func() {
			c, e := ask[Copies](ctx, n.server.Conn(), name, aboutCopies, nil)
			mu.Lock()
			defer mu.Unlock()
			if e != nil {
				// A node that does not answer may lead a stream without a majority. So the result is an error, not a part.
				err = fmt.Errorf("asking %s for its streams: %w", name, e)
			}
			all.merge(c)
		})
	}
	wait.Wait()
	return all, err
}

// mayLoseNode returns an [ErrCopies] if a stream has no majority of current copies: the loss of a copy that is not
// current could be that of the only other one with a record.
func (n *Node) mayLoseNode(ctx context.Context) error {
	all, err := n.allCopies(ctx)
	if err == nil && all.Unsafe != "" {
		err = fmt.Errorf("%w: %s has no majority of them; wait until the other nodes have caught up, and run the command "+
			"again", ErrCopies, all.Unsafe)
	}
	return err
}

// copiesPoll is the interval at which the copies are looked at again.
const copiesPoll = 100 * time.Millisecond

// awaitLeft waits until no stream counts on a server that was removed. Until then, a stream can lose its majority with
// the next node, for good if that one's folder is lost too: its members are changed by its own leader, after JetStream
// has been told to.
func (n *Node) awaitLeft(ctx context.Context, serverName string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for {
		all, err := n.allCopies(ctx)
		// Servers has the name until each stream's own leader has changed the members, and Unsafe a stream until a majority
		// of those that remain is current.
		if err == nil && !slices.Contains(all.Servers, serverName) && all.Unsafe == "" {
			return nil
		}
		select {
		case <-time.After(copiesPoll):
		case <-ctx.Done():
			reason := strings.Join(all.Examples, ", ")
			if err != nil {
				reason = err.Error()
			}
			return fmt.Errorf("%w: they still count on %s; run the command again: %s", ErrCopies, nodeOf(serverName), reason)
		}
	}
}
