package replica

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/cluster/mirror"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Where a shard is on a part of the nodes, the log of its blobs says which nodes have the content: from the first move
// of the shard on by one record, which each step of a move changes.
//
//	joined    the new node gets content too. A majority of the old nodes must have it
//	complete  a majority of the old ones, and of the new ones. The new node has everything that was referred to before,
//	          before anything else happens
//	left      a majority of the new ones. The number of the old node is retired
//
// If the old node is lost, its number is retired when the new one joins: what it has written is then copied from the
// nodes that have it, by the new node and by those that lack some of it. A majority of the old nodes is both of the
// others. As none of them lists what the old one alone knew of, the new node also looks at each reference of its
// database before the old one leaves ([Node.Verify]).
//
// Content is acknowledged before the record that refers to it. So the guard of the database (checkHosts), which sees
// each state from which a group of changes starts, has content that was acknowledged under an older record written
// again where it is missing ([mirror.Mirror.Renew]), and refuses the group if that fails, or if this node has left. A
// record of the log is valid only after the state that its closures have read, so every reference behind a record
// "left" is to content that a majority of the new nodes has. For those before it: what was referred to before
// "complete" is on the new node and on a majority of the old ones, of which at least one stays; and what was referred
// to after it is on a majority of the new ones.

// hostsKey is the key of the record in the meta bucket.
var hostsKey = []byte("hosts")

// Hosts is the record of the nodes that have the content of a shard.
type Hosts struct {
	// Version rises with each change.
	Version uint64 `json:"version"`
	// Nodes are the names of those that count.
	Nodes []string `json:"nodes"`
	// Move is the number of the move that has changed the record last.
	Move uint64 `json:"move"`
	// Joining is the node that comes in place of Leaving; "" when no move is under way.
	Joining string `json:"joining,omitempty"`
	Leaving string `json:"leaving,omitempty"`
	// Complete is set when Joining has recorded that it is.
	Complete bool `json:"complete,omitempty"`
	// Lost are those of Nodes whose content is lost: they change nothing any more.
	Lost []string `json:"lost,omitempty"`
}

// next are the nodes when the move is done.
func (h *Hosts) next() []string {
	list := slices.Clone(h.Nodes)
	if i := slices.Index(list, h.Leaving); i >= 0 {
		list[i] = h.Joining
	}
	slices.Sort(list)
	return list
}

// has reports whether a node has the content, or is about to.
func (h *Hosts) has(node string) bool {
	return !slices.Contains(h.Lost, node) && (slices.Contains(h.Nodes, node) || h.Joining == node)
}

// group is what the mirror needs to know.
func (h *Hosts) group() mirror.Group {
	g := mirror.Group{Version: h.Version, Nodes: h.Nodes, Joining: h.Joining, Lost: h.Lost}
	if h.Complete {
		g.Next = h.next()
	}
	return g
}

// readHosts returns the record, nil before the first move.
func readHosts(tx *store.Tx) (*Hosts, error) { return parseHosts(tx.Get(record.MetaBucket, hostsKey)) }

func parseHosts(v []byte) (*Hosts, error) {
	if v == nil {
		return nil, nil
	}
	h := new(Hosts)
	if err := json.Unmarshal(v, h); err != nil || len(h.Nodes) == 0 {
		return nil, fmt.Errorf("blob state: the record of the hosts does not parse: %q", v)
	}
	return h, nil
}

func (h *Hosts) put(tx *store.Tx) {
	h.Version++
	v, _ := json.Marshal(h) // texts and numbers
	tx.Put(record.MetaBucket, hostsKey, v)
}

// ErrLeft means that this node does not have the shard any more: nothing is changed by it.
var ErrLeft = fmt.Errorf("%w: the shard has moved to another node", store.ErrUnavailable)

// ErrOtherMove means that the record of the hosts is not that of the move, or at another step of it.
var ErrOtherMove = errors.New("blob state: the shard's log is not at this step of the move")

// checkHosts is the Guard of the database of a shard that is on a part of the nodes.
func (s *Node) checkHosts(tx *store.Tx) error {
	v := tx.Get(record.MetaBucket, hostsKey)
	if v == nil {
		return nil
	}
	if known := s.hosts.Load(); known == nil || !bytes.Equal(known.text, v) {
		if err := s.learnHosts(v); err != nil {
			return err
		}
	}
	switch {
	case s.hosts.Load().left:
		return ErrLeft
	case s.opened.Load() == nil: // before the content is open nothing refers to it
		return nil
	}
	if err := s.opened.Load().Renew(); err != nil {
		return fmt.Errorf("%w: content must be on other nodes than before: %w", store.ErrUnavailable, err)
	}
	return nil
}

// knownHosts is the record as this node has read it last.
type knownHosts struct {
	text []byte
	left bool
}

// learnHosts keeps a record, and tells the mirror.
func (s *Node) learnHosts(v []byte) error {
	h, err := parseHosts(v)
	if err != nil || h == nil {
		return err
	}
	node, _, _ := strings.Cut(s.cluster.Node, ".")
	s.hosts.Store(&knownHosts{bytes.Clone(v), !h.has(node)})
	if m := s.opened.Load(); m != nil {
		m.SetGroup(h.group())
	}
	return nil
}

// startHosts tells a mirror that was just opened which nodes have the content.
func (s *Node) startHosts(m *mirror.Mirror) error {
	s.opened.Store(m)
	return s.DB.View(func(tx *store.Tx) error {
		return s.learnHosts(tx.Get(record.MetaBucket, hostsKey))
	})
}

// Hosts returns the record of the nodes that have the content, nil before the first move.
func (s *Node) Hosts() (h *Hosts, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		h, err = readHosts(tx)
		return err
	})
	return h, err
}

// changeHosts changes the record. change returns false if it is as it should be.
func (s *Node) changeHosts(change func(tx *store.Tx, h *Hosts) (bool, error)) error {
	return s.DB.Update(func(tx *store.Tx) error {
		h, err := readHosts(tx)
		if err != nil {
			return err
		}
		if h == nil {
			h = new(Hosts)
		}
		if changed, err := change(tx, h); !changed || err != nil {
			return err
		}
		h.put(tx)
		return nil
	})
}

// Join records that a node joins in place of another one. nodes are those that have the content before the first move.
// A move is identified by its number, and a later one has a higher number; a repeated call changes nothing. Errors:
// [ErrOtherMove].
func (s *Node) Join(move uint64, nodes []string, from, to string) error {
	return s.join(move, nodes, from, to, false)
}

// JoinLost is Join in place of a node that is lost. Its number is retired, and it changes nothing any more, also if the
// move is cancelled.
func (s *Node) JoinLost(move uint64, nodes []string, from, to string) error {
	return s.join(move, nodes, from, to, true)
}

func (s *Node) join(move uint64, nodes []string, from, to string, lost bool) error {
	return s.changeHosts(func(tx *store.Tx, h *Hosts) (bool, error) {
		if h.Nodes == nil {
			h.Nodes = slices.Clone(nodes)
			slices.Sort(h.Nodes)
		}
		switch {
		case h.Move == move:
			return false, nil
		case h.Move > move, !slices.Contains(h.Nodes, from), slices.Contains(h.Nodes, to):
			return false, ErrOtherMove
		case h.Joining != "": // of a move that was cancelled: nothing else ends with a node that joins
			if err := retire(tx, h.Joining); err != nil {
				return false, err
			}
		}
		h.Move, h.Joining, h.Leaving, h.Complete = move, to, from, false
		if lost && !slices.Contains(h.Lost, from) {
			h.Lost = append(slices.Clone(h.Lost), from)
			return true, retire(tx, from)
		}
		return true, nil
	})
}

// Complete records that the node that joins has everything. Errors: [ErrOtherMove].
func (s *Node) Complete(move uint64) error {
	return s.changeHosts(func(_ *store.Tx, h *Hosts) (bool, error) {
		if h.Move != move || h.Joining == "" {
			return false, ErrOtherMove
		}
		changed := !h.Complete
		h.Complete = true
		return changed, nil
	})
}

// Leave records that the node that joins counts, and the one that leaves does not any more. Errors: [ErrOtherMove].
func (s *Node) Leave(move uint64) error {
	return s.changeHosts(func(tx *store.Tx, h *Hosts) (bool, error) {
		switch {
		case h.Move == move && h.Joining == "": // by another node
			return false, nil
		case h.Move != move || !h.Complete:
			return false, ErrOtherMove
		}
		err := retire(tx, h.Leaving)
		h.Lost = slices.DeleteFunc(slices.Clone(h.Lost), func(name string) bool { return name == h.Leaving })
		h.Nodes, h.Joining, h.Leaving, h.Complete = h.next(), "", "", false
		return true, err
	})
}

// Cancel records that the node that joins has left, also if it has not joined yet, so that it cannot join any more.
// Errors: [ErrOtherMove].
func (s *Node) Cancel(move uint64, nodes []string) error {
	return s.changeHosts(func(tx *store.Tx, h *Hosts) (bool, error) {
		if h.Nodes == nil {
			h.Nodes = slices.Clone(nodes)
			slices.Sort(h.Nodes)
		}
		switch {
		case h.Move > move:
			return false, ErrOtherMove
		case h.Move == move && h.Joining == "":
			return false, nil
		}
		var err error
		if h.Joining != "" {
			err = retire(tx, h.Joining)
		}
		h.Move, h.Joining, h.Leaving, h.Complete = move, "", "", false
		return true, err
	})
}

// retire retires the numbers of a node's folders: what they have written belongs to no node from now on, and a folder
// that the node gets later has another number.
func retire(tx *store.Tx, node string) error {
	c := tx.Cursor(record.MetaBucket)
	var keys [][]byte
	prefix := append(bytes.Clone(nodePrefix), node+"."...)
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if len(v) != 8 {
			return fmt.Errorf("blob state: the number of node %s has %d bytes", k[len(nodePrefix):], len(v))
		}
		keys = append(keys, retiredKey(binary.BigEndian.Uint64(v)))
	}
	for _, k := range keys {
		tx.Put(record.MetaBucket, k, []byte{1})
	}
	return nil
}

// Missing asks the other nodes for their content, and returns a function that returns how much of it this node still
// lacks; see [mirror.Mirror.Missing].
func (s *Node) Missing() (lacking func() int64, err error) {
	m := s.opened.Load()
	if m == nil {
		return nil, errors.New("blob state: the content is not mirrored")
	}
	return m.Missing()
}

// SyncCopies makes durable what this node has copied from others.
func (s *Node) SyncCopies() error { return s.Extents.SyncAllPuts() }

// ErrLacking means that content is referred to that this node does not have.
var ErrLacking = errors.New("blob state: content is missing")

// Verify reads all content that the newest metadata refers to from the files of this node, and compares its checksums.
// What is not there, or damaged, it takes from the other nodes. Errors: [ErrLacking] if no node that answers has some
// of it.
func (s *Node) Verify(ctx context.Context) error {
	var lacking int64
	var first error
	err := s.References(ctx, func(r extent.Ref) bool {
		if err := s.verify(r.Slice); err != nil {
			lacking += r.Slice.Length
			if first == nil {
				first = fmt.Errorf("extent %016x, offset %d: %w", r.Slice.Extent, r.Slice.Offset, err)
			}
		}
		return ctx.Err() == nil
	})
	if err = errors.Join(err, ctx.Err()); err == nil && lacking > 0 {
		err = fmt.Errorf("%w: %d bytes, such as %w", ErrLacking, lacking, first)
	}
	if err != nil {
		return err
	}
	return s.SyncCopies()
}

// verify is Verify for a slice.
func (s *Node) verify(x extent.Slice) error {
	err := s.Extents.Verify(x)
	if err == nil {
		return nil
	}
	r, err := s.Extents.NewReader([]extent.Slice{x}, 0, x.Length) // which fetches what is not there
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	return s.Extents.Verify(x)
}
