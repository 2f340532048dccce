package replica

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/cluster/mirror"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Config configures [Open].
type Config struct {
	// Path is the database; Extents is the folder of the content. They are created if absent, in a folder that exists.
	Path, Extents string
	// Store has options of the database and, where they are of files alone, of the extents. Open sets the others.
	Store store.Options
	// Grace is an extent.Options.Grace of a server alone.
	Grace time.Duration
	// Scopes learn the keys that a cluster has in its database. A server alone needs none.
	Scopes *encryption.Scopes
	// Archive gets the log of the database, and the content, of a server alone; nil sends them nowhere.
	Archive Archive
	// Cluster makes this the node of a cluster; nil is a server alone.
	Cluster *Cluster
}

// Archive is an archive of the state of blobs.
type Archive interface {
	store.Archive
	// Extents is called with the content once it is open.
	Extents(*extent.Store)
}

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

// Node is the database and the content of a server: of one alone, or of a node of a cluster, whose methods keep it in
// step with the others. On a server alone they do nothing, or say so.
type Node struct {
	DB      *store.DB
	Extents *extent.Store
	// Freed is the content in bytes that lost its last reference since the last compaction.
	Freed atomic.Int64

	scopes *encryption.Scopes
	// replicated is set with Config.Cluster; what follows is used then.
	replicated bool
	cluster    Cluster
	mirror     copies // nil on a server alone
	owner      owner
	nodes      nodeNumbers
	watched    watched
	worker     atomic.Pointer[worker]
}

// Open opens the files. Close them.
func Open(c Config) (*Node, error) {
	s := &Node{scopes: c.Scopes, replicated: c.Cluster != nil}
	var err error
	if s.replicated {
		err = s.openNode(c.Path, c.Extents, c.Store, *c.Cluster)
	} else {
		if c.Archive != nil {
			c.Store.Archive = c.Archive
		}
		err = s.openAlone(c.Path, c.Extents, c.Store, c.Grace)
	}
	if err != nil {
		return nil, err
	}
	if c.Archive != nil {
		c.Archive.Extents(s.Extents)
	}
	return s, nil
}

// Close closes the files. Nothing may be under way.
func (s *Node) Close() error {
	if s.mirror != nil {
		s.mirror.Close()
	}
	return errors.Join(s.DB.Close(), s.Extents.Close())
}

// References calls yield for every slice of content that a record refers to.
func (s *Node) References(ctx context.Context, yield func(extent.Ref) bool) error {
	return s.DB.View(func(tx *store.Tx) error { return record.EachReference(ctx, tx, yield) })
}

// openAlone opens the database, completes the extents by what its log has, and opens them. grace is an
// extent.Options.Grace.
func (s *Node) openAlone(path, extents string, o store.Options, grace time.Duration) (err error) {
	logged := &loggedContent{Restorer: extent.NewRestorer(extents, o.FS, false)}
	o.Buckets = record.Buckets()
	o.Attachments = logged
	if s.DB, err = store.Open(path, o); err != nil {
		return err
	}
	files := extent.Options{ReadOnly: o.ReadOnly, Relaxed: o.Relaxed, Ephemeral: o.Ephemeral, FS: o.FS,
		Logged: MaxLogged, Grace: grace,
		Refs: func(yield func(extent.Ref) bool) error { return s.References(context.Background(), yield) }, Logger: o.Logger}
	s.Extents, err = extent.Open(extents, files)
	if err != nil {
		return errors.Join(err, s.DB.Close())
	}
	logged.extents.Store(s.Extents)
	return nil
}

// openNode opens the database as a view of the log, and the extents with their copies on other nodes.
func (s *Node) openNode(path, extents string, o store.Options, c Cluster) (err error) {
	s.cluster = c
	// The database closes the log when it is closed. If it was not opened, the log is closed here.
	defer func() {
		if err == nil {
			return
		}
		switch {
		case s.DB != nil:
			err = errors.Join(err, s.DB.Close())
		default:
			c.Log.Close()
		}
		if s.Extents != nil {
			err = errors.Join(err, s.Extents.Close())
		}
	}()
	// The extents come first: they receive what the log has.
	logged := int64(MaxLogged)
	// The guard lets writes pass until the number of this process is known, which openStreams draws.
	if c.Streams != nil {
		logged = 0 // the log is cut, and the folders may be lost
		o.Guard = s.checkOwner
	}
	s.Extents, err = extent.Open(extents, extent.Options{FS: o.FS, Logged: logged, Mirrored: true})
	if err != nil {
		return err
	}
	o.Buckets = record.Buckets()
	o.Log = c.Log
	o.Applied = s.follow
	o.Attachments = copiedContent{s.Extents}
	if s.DB, err = store.Open(path, o); err != nil {
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
	c.Mirror.Extents = s.Extents
	c.Mirror.Owner = number
	c.Mirror.Gone = s.nodeGone
	m, err := mirror.Open(c.Mirror)
	if err != nil {
		return err
	}
	s.mirror = m
	return s.agreeOrClose()
}

func (s *Node) agreeOrClose() error {
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
func (s *Node) Interrupt() {
	if s.replicated {
		s.mirror.Close()
		s.cluster.Log.Close()
	}
}

// Behind returns how many bytes of content this node lacks, see [mirror.Mirror.Behind].
func (s *Node) Behind() (missing int64, known bool) {
	if s.mirror == nil {
		return 0, true
	}
	return s.mirror.Behind()
}

// Healed returns the number of damaged records of content that were replaced by copies of other nodes.
func (s *Node) Healed() int64 { return s.Extents.Healed() }
