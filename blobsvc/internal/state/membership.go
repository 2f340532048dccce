package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/cluster/mirror"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Cluster configures the store of a node of a cluster.
type Cluster struct {
	// Log is the replicated log of which the database is a view. Close closes it.
	Log *replog.Log
	// Node names the data folder: another folder, also of the same machine, has another name. The database keeps it.
	Node string
	// Members returns the names of the data folders that belong to the cluster, this one included; nil if that is not
	// known. What the folder of a node has written that is not in the list is removed by the others once nothing refers to
	// it.
	Members func() []string
	// Mirror configures the copies of content. Extents, Owner and Gone are set by Open.
	Mirror mirror.Config
	// Streams, if set, keeps content in streams of an external NATS in place of Mirror; Node and Members are not used
	// then. Extents, Owner and Log are set by Open.
	Streams *Streams
	// Follower is called after changes of any node.
	Follower Follower
}

// Membership has the operations of a node of a cluster. On a single machine they do nothing, or say so.
type Membership struct{ *core }

// openNode opens the database as a view of the log, and the extents with their copies on other nodes.
func (s Membership) openNode(path, extents string, o store.Options, c Cluster) (err error) {
	s.cluster = c
	// The database closes the log when it is closed. If it was not opened, the log is closed here.
	defer func() {
		if err == nil {
			return
		}
		switch {
		case s.db != nil:
			err = errors.Join(err, s.db.Close())
		default:
			c.Log.Close()
		}
		if s.extents != nil {
			err = errors.Join(err, s.extents.Close())
		}
	}()
	// The extents come first: they receive what the log has.
	logged := int64(maxLogged)
	// The guard lets writes pass until the number of this process is known, which openStreams draws.
	if c.Streams != nil {
		logged = 0 // the log is cut, and the folders may be lost
		o.Guard = s.checkOwner
	}
	s.extents, err = extent.Open(extents, extent.Options{FS: o.FS, Logged: logged, Mirrored: true})
	if err != nil {
		return err
	}
	o.Buckets, o.Log, o.Applied, o.Attachments = Buckets(), c.Log, s.follow, copiedContent{s.extents}
	if s.db, err = store.Open(path, o); err != nil {
		return err
	}
	if c.Streams != nil {
		if err = s.openStreams(extents); err != nil {
			return err
		}
		return s.agreeOrClose()
	}
	number, err := s.numberNode()
	if err != nil {
		return err
	}
	c.Mirror.Extents, c.Mirror.Owner, c.Mirror.Gone = s.extents, number, s.nodeGone
	m, err := mirror.Open(c.Mirror)
	if err != nil {
		return err
	}
	s.mirror = m
	return s.agreeOrClose()
}

func (s Membership) agreeOrClose() error {
	err := s.agreeOnScopes()
	if err != nil {
		s.mirror.Close()
	}
	return err
}

// copies is the place where other nodes find content, and this one the content of others.
type copies interface {
	// Behind returns how many bytes this node lacks that it copies by itself; known is false before that is known.
	Behind() (missing int64, known bool)
	Close()
}

// Interrupt ends the calls on a node of a cluster that wait for the other nodes, and lets later ones fail. It does
// nothing on a single machine.
func (s Membership) Interrupt() {
	if s.replicated {
		s.mirror.Close()
		s.cluster.Log.Close()
	}
}

// copiedContent takes the content that the log of a cluster has, of all nodes.
type copiedContent struct{ extents *extent.Store }

var _ store.Attachments = copiedContent{}

// Restore implements store.Attachments.
func (c copiedContent) Restore(key, value []byte) error {
	err := c.extents.PutLogged(key, value)
	if errors.Is(err, extent.ErrCorrupt) {
		return nil // a reader fetches it
	}
	return err
}

// Sync implements store.Attachments.
func (c copiedContent) Sync() error {
	return errors.Join(c.extents.SyncLogged(), c.extents.SyncAllPuts())
}

// The numbers of nodes, in the meta bucket: the prefix and the node's name, and the number in 8 bytes.
var nodePrefix = []byte("node:")

// nodeNumbers has the names of the data folders that have ever belonged to the cluster, by number.
type nodeNumbers struct {
	mu    sync.Mutex
	names map[uint64]string
}

func (n *nodeNumbers) learn(name string, value []byte) {
	if len(value) != 8 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names == nil {
		n.names = map[uint64]string{}
	}
	n.names[binary.BigEndian.Uint64(value)] = name
}

func (n *nodeNumbers) name(number uint64) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names[number]
}

// numberNode returns the number of this node, which it gets when it is first opened.
func (s Membership) numberNode() (number uint64, err error) {
	key := append(bytes.Clone(nodePrefix), s.cluster.Node...)
	err = s.db.Update(func(tx *store.Tx) error {
		next, known := uint64(1), false
		c := tx.Cursor(metaBucket)
		for k, v := c.Seek(nodePrefix); bytes.HasPrefix(k, nodePrefix); k, v = c.Next() {
			if len(v) != 8 {
				return fmt.Errorf("blob state: the number of node %s has %d bytes", k[len(nodePrefix):], len(v))
			}
			s.nodes.learn(string(k[len(nodePrefix):]), v)
			n := binary.BigEndian.Uint64(v)
			// A retired number may not be used again: its content is being deleted. The name gets another number in its
			// place.
			if bytes.Equal(k, key) && tx.Get(metaBucket, retiredKey(n)) == nil {
				number, known = n, true
			}
			// A number is never used for a second folder, since ids of extents contain it. The highest one always has a
			// record: a name whose number is retired gets a higher one.
			next = max(next, n+1)
		}
		switch {
		case known:
			return nil
		case next > extent.MaxOwner:
			return errors.New("blob state: the cluster has had too many nodes")
		}
		number = next
		tx.Put(metaBucket, key, binary.BigEndian.AppendUint64(nil, number))
		return nil
	})
	return number, err
}

// nodeGone reports whether the data folder with a number no longer belongs to the cluster.
func (s Membership) nodeGone(number uint64) bool {
	if s.cluster.Members == nil {
		return false
	}
	members, name := s.cluster.Members(), s.nodes.name(number)
	return name != "" && len(members) > 0 && !slices.Contains(members, name)
}

// Behind returns how many bytes of content this node lacks, see [mirror.Mirror.Behind].
func (s Membership) Behind() (missing int64, known bool) {
	if s.mirror == nil {
		return 0, true
	}
	return s.mirror.Behind()
}

// Healed returns the number of damaged records of content that were replaced by copies of other nodes.
func (s Membership) Healed() int64 { return s.extents.Healed() }
