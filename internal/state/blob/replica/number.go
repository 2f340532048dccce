package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// The numbers of nodes, in the meta bucket: the prefix and the node's name, and the number in 8 bytes.
var nodePrefix = []byte("node:")

// nodeNumbers has the names of the data folders that have ever belonged to the cluster, by number.
type nodeNumbers struct {
	mu      sync.Mutex
	names   map[uint64]string
	retired map[uint64]bool
}

// retire notes that a number is retired, which is in 8 bytes.
func (n *nodeNumbers) retire(number []byte) {
	if len(number) != 8 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.retired == nil {
		n.retired = map[uint64]bool{}
	}
	n.retired[binary.BigEndian.Uint64(number)] = true
}

func (n *nodeNumbers) isRetired(number uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.retired[number]
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
func (s *Node) numberNode() (number uint64, err error) {
	key := append(bytes.Clone(nodePrefix), s.cluster.Node...)
	err = s.DB.Update(func(tx *store.Tx) error {
		next, known := uint64(1), false
		c := tx.Cursor(record.MetaBucket)
		for k, v := c.Seek(nodePrefix); bytes.HasPrefix(k, nodePrefix); k, v = c.Next() {
			if len(v) != 8 {
				return fmt.Errorf("blob state: the number of node %s has %d bytes", k[len(nodePrefix):], len(v))
			}
			s.nodes.learn(string(k[len(nodePrefix):]), v)
			n := binary.BigEndian.Uint64(v)
			// A retired number may not be used again: its content is being deleted. The name gets another number in its
			// place.
			if bytes.Equal(k, key) && tx.Get(record.MetaBucket, retiredKey(n)) == nil {
				number, known = n, true
			}
			// A number is never used for a second folder, since ids of extents contain it. The highest one always has a
			// record: a name whose number is retired gets a higher one.
			next = max(next, n+1)
		}
		for k, _ := c.Seek(retiredPrefix); bytes.HasPrefix(k, retiredPrefix); k, _ = c.Next() {
			s.nodes.retire(k[len(retiredPrefix):])
		}
		switch {
		case known:
			return nil
		case next > extent.MaxOwner:
			return errors.New("blob state: the cluster has had too many nodes")
		}
		number = next
		tx.Put(record.MetaBucket, key, binary.BigEndian.AppendUint64(nil, number))
		return nil
	})
	return number, err
}

// Gone reports whether the data folder with a number no longer belongs to the cluster, or no longer has the shard: what
// it has written belongs to no node, and it writes nothing more that a record could refer to. On a single server none
// is gone.
func (s *Node) Gone(number uint64) bool { return s.replicated && s.nodeGone(number) }

// nodeGone reports whether the data folder with a number no longer belongs to the cluster, or no longer has the shard.
func (s *Node) nodeGone(number uint64) bool {
	if s.nodes.isRetired(number) {
		return true
	}
	if s.cluster.Members == nil {
		return false
	}
	members, name := s.cluster.Members(), s.nodes.name(number)
	return name != "" && len(members) > 0 && !slices.Contains(members, name)
}
