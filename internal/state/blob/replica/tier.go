package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// The nodes of a cluster share the objects of their tier. The node that has written an extent copies it, and puts the
// record of that into the log:
//
//	owner: extent ──> object ──> compared ──> record in the log ──> each node: the file may go
//	owner: nothing refers to the extent ──> record removed ──> the object is removed after tier.Options.Keep
//
// A reference to an extent is made from another one, or by its owner's writers, which hold it. So what one state of the
// log does not refer to, no later one does, and it does not matter how far behind another node is.

// nodeExtents are the extents of a node as its tier sees them.
type nodeExtents struct {
	*extent.Store
	node   *Node
	number uint64
}

var _ tier.Shared = nodeExtents{}

// tierPlace holds the [record.TierPlace] of the log; nil before there is one.
type tierPlace struct {
	atomic.Pointer[record.TierPlace]
}

// FolderID implements [tier.Extents].
func (x nodeExtents) FolderID() string { folder, _ := x.Agreed(); return folder }

// Agreed implements [tier.Shared].
func (x nodeExtents) Agreed() (folder, key string) {
	if p := x.node.tierPlace.Load(); p != nil {
		return p.Folder, p.Key
	}
	return "", ""
}

// Agree implements [tier.Shared].
func (x nodeExtents) Agree(folder, key string) (agreedFolder, agreedKey string, err error) {
	place := record.TierPlace{Folder: folder, Key: key}
	text, err := json.Marshal(place)
	if err != nil {
		return "", "", err
	}
	err = x.node.DB.Update(func(tx *store.Tx) (err error) {
		if v := tx.Get(record.MetaBucket, record.TierPlaceKey); v != nil {
			place, err = record.DecodeTierPlace(v)
			return err
		}
		place = record.TierPlace{Folder: folder, Key: key}
		tx.Put(record.MetaBucket, record.TierPlaceKey, text)
		return nil
	})
	if err != nil {
		return "", "", err
	}
	x.node.tierPlace.Store(&place)
	return place.Folder, place.Key, nil
}

// Number implements [tier.Shared].
func (x nodeExtents) Number() uint64 { return x.number }

// Mine implements [tier.Shared].
func (x nodeExtents) Mine(id uint64) bool {
	owner := extent.OwnerOf(id)
	return owner == x.number || x.node.nodeGone(owner)
}

// Local implements [tier.Extents]. What is damaged here, other nodes have: it may not become what all have.
func (x nodeExtents) Local(id uint64) (f *os.File, size int64, done func() error, err error) {
	refs := func(yield func(extent.Ref) bool) error { return x.node.References(context.Background(), yield) }
	if err := x.FixFile(id, refs); err != nil {
		return nil, 0, nil, err
	}
	return x.Store.Local(id)
}

// SetRemote implements [tier.Extents].
func (x nodeExtents) SetRemote(id uint64, sum string) error {
	_, size, done, err := x.Store.Local(id)
	if err != nil {
		return err
	}
	defer func() { _ = done() }() // of a file that was only read
	text, err := json.Marshal(record.Tiered{Size: size, Sum: sum})
	if err != nil {
		return err
	}
	err = x.node.DB.Update(func(tx *store.Tx) error {
		tx.Put(record.MetaBucket, record.TieredKey(id), text)
		return nil
	})
	// follow has noted it, or will: the figures need not wait for that.
	if err == nil {
		x.Tiered(id, size, sum)
	}
	return err
}

// Refresh implements [tier.Shared]: it removes the records of extents that Compact has deleted.
func (x nodeExtents) Refresh() error {
	var dead []uint64
	err := x.node.DB.View(func(tx *store.Tx) error {
		return record.EachTiered(tx, func(id uint64, at record.Tiered) error {
			switch {
			case !x.Removed(id):
				x.Tiered(id, at.Size, at.Sum)
			case x.Mine(id):
				dead = append(dead, id)
			}
			return nil
		})
	})
	if err != nil || len(dead) == 0 {
		return err
	}
	return x.node.DB.Update(func(tx *store.Tx) error {
		for _, id := range dead {
			if key := record.TieredKey(id); tx.Get(record.MetaBucket, key) != nil {
				tx.Delete(record.MetaBucket, key)
			}
		}
		return nil
	})
}

// followTier learns what another node, or this one, has put into the log.
func (s *Node) followTier(w store.Write) {
	if s.Tier == nil || w.Deleted() {
		return
	}
	if string(w.Key) == string(record.TierPlaceKey) {
		if place, err := record.DecodeTierPlace(w.Value); err == nil {
			s.tierPlace.Store(&place)
		}
	}
	// A record that does not decode is reported at the next start.
	if id, ok := record.ParseTieredKey(w.Key); ok {
		if x, err := record.DecodeTiered(w.Value); err == nil {
			s.Extents.Tiered(id, x.Size, x.Sum)
		}
	}
}

// attachTier makes the extents know what the log says of the tier, before other nodes ask for them. number is that of
// this node.
func (s *Node) attachTier(number uint64) error {
	err := s.DB.ViewLocal(func(tx *store.Tx) error {
		if err := s.readTierPlace(tx); err != nil {
			return err
		}
		return learnTier(tx, s.Extents, s.Tier != nil, number)
	})
	if err != nil || s.Tier == nil {
		return err
	}
	return s.Tier.Attach(context.Background(), nodeExtents{s.Extents, s, number})
}

// readTierPlace learns the place that the database has, if any.
func (s *Node) readTierPlace(tx *store.Tx) error {
	v := tx.Get(record.MetaBucket, record.TierPlaceKey)
	if v == nil {
		return nil
	}
	place, err := record.DecodeTierPlace(v)
	if err != nil {
		return fmt.Errorf("the place of the tier of content: %w", err)
	}
	s.tierPlace.Store(&place)
	return nil
}

// learnTier makes extents know what the database of a node says of the tier. Without a tier, what the node has written
// itself must be on its disk.
func learnTier(tx *store.Tx, extents *extent.Store, tiered bool, number uint64) error {
	here := map[uint64]bool{}
	for _, x := range extents.Stats() {
		here[x.ID] = true
	}
	return record.EachTiered(tx, func(id uint64, x record.Tiered) error {
		switch {
		case tiered:
			extents.Tiered(id, x.Size, x.Sum)
		case extent.OwnerOf(id) == number && !here[id]:
			return extent.ErrNoTier
		}
		return nil
	})
}

// runTier begins the copying to the tier.
func (s *Node) runTier() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Tier.Run(ctx) })
	s.stopTier = func() { cancel(); running.Wait() }
}

// newTier creates the tier, and sets the options of the extents for it.
func (s *Node) newTier(o *tier.Options, files *extent.Options) (err error) {
	if o == nil {
		return nil
	}
	if s.Tier, err = tier.New(*o); err != nil {
		return err
	}
	files.Tier, files.SealSize = s.Tier, s.Tier.SealSize()
	return nil
}

// LookAtTier makes the extents of the stopped node of a cluster, which are read-only, know what its database says of
// the tier, and attaches the tier, which is nil if it is not to be looked at.
func LookAtTier(tx *store.Tx, extents *extent.Store, t *tier.Tier) error {
	if err := learnTier(tx, extents, true, 0); err != nil || t == nil {
		return err
	}
	looked := &Node{}
	if err := looked.readTierPlace(tx); err != nil {
		return err
	}
	// No node has that number: which objects are not needed, only nodes that run decide.
	return t.Attach(context.Background(), nodeExtents{extents, looked, ^uint64(0)})
}

var errNoStreamTier = errors.New("content in streams of NATS cannot have a tier")
