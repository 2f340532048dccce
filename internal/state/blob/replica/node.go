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
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// Config configures [Open].
type Config struct {
	// Path is the database; Extents is the folder of the content. They are created if absent, in a folder that exists.
	Path, Extents string
	// Store has options of the database and, where they are of files alone, of the extents. Open sets the others.
	Store store.Options
	// Grace is an extent.Options.Grace.
	Grace time.Duration
	// Scopes learn the keys that a cluster has in its database. A single server needs none.
	Scopes *encryption.Scopes
	// Archive gets the log of the database, and the content; nil sends them nowhere.
	Archive Archive
	// Tier has content that is not in Extents any more; with nil all is. The nodes of a cluster share the place.
	Tier *tier.Options
	// Cluster makes this the node of a cluster; nil is a single server.
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
	// Spread is set where a shard is on a part of the nodes: Mirror.Nodes are those that have it before the first move.
	Spread bool
	// Streams, if set, keeps content in streams of an external NATS in place of Mirror; Node and Members are not used
	// then. Extents, Owner and Log are set by Open.
	Streams *Streams
	// Follower is called after changes of any node.
	Follower Follower
}

// Node is the database and the content of a server: of one alone, or of a node of a cluster, whose methods keep it in
// step with the others. On a single server they do nothing, or say so.
type Node struct {
	DB      *store.DB
	Extents *extent.Store
	// Tier has content that is not in Extents any more; nil without one.
	Tier *tier.Tier
	// Freed is the content in bytes that lost its last reference since the last compaction.
	Freed atomic.Int64

	scopes *encryption.Scopes
	// replicated is set with Config.Cluster; what follows is used then.
	replicated bool
	cluster    Cluster
	mirror     copies // nil on a single server
	owner      owner
	nodes      nodeNumbers
	watched    watched
	// stopTier ends the copying to the tier.
	stopTier  func()
	tierPlace tierPlace
	worker    atomic.Pointer[worker]
	hosts     atomic.Pointer[knownHosts]    // nil before the first move
	opened    atomic.Pointer[mirror.Mirror] // mirror where a shard is on a part of the nodes, once it is open
}

// Open opens the files. Close them.
func Open(c Config) (*Node, error) {
	s := &Node{scopes: c.Scopes, replicated: c.Cluster != nil, stopTier: func() {}}
	if c.Archive != nil {
		c.Store.Archive = c.Archive
	}
	var err error
	if s.replicated {
		err = s.openNode(c)
	} else {
		err = s.openAlone(c)
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
	s.stopTier()
	return errors.Join(s.DB.Close(), s.Extents.Close())
}

// References calls yield for every slice of content that a record refers to.
func (s *Node) References(ctx context.Context, yield func(extent.Ref) bool) error {
	return s.DB.View(func(tx *store.Tx) error { return record.EachReference(ctx, tx, yield) })
}

// openAlone opens the database, completes the extents by what its log has, and opens them.
func (s *Node) openAlone(c Config) (err error) {
	extents, o := c.Extents, c.Store
	logged := &loggedContent{Restorer: extent.NewRestorer(extents, o.FS, false)}
	o.Buckets = record.Buckets()
	o.Attachments = logged
	if s.DB, err = store.Open(c.Path, o); err != nil {
		return err
	}
	files := extent.Options{ReadOnly: o.ReadOnly, Relaxed: o.Relaxed, Ephemeral: o.Ephemeral, FS: o.FS,
		Logged: MaxLogged, Grace: c.Grace,
		Refs: func(yield func(extent.Ref) bool) error { return s.References(context.Background(), yield) }, Logger: o.Logger}
	if err = s.newTier(c.Tier, &files); err != nil {
		return errors.Join(err, s.DB.Close())
	}
	s.Extents, err = extent.Open(extents, files)
	if err != nil {
		return errors.Join(err, s.DB.Close())
	}
	logged.extents.Store(s.Extents)
	if s.Tier != nil {
		if err := s.Tier.Attach(context.Background(), s.Extents); err != nil {
			return errors.Join(err, s.DB.Close(), s.Extents.Close())
		}
		s.runTier()
	}
	return nil
}

// openNode opens the database as a view of the log, and the extents with their copies on other nodes.
func (s *Node) openNode(config Config) (err error) {
	c, o := *config.Cluster, config.Store
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
	if c.Spread {
		o.Guard = s.checkHosts
	}
	files := extent.Options{FS: o.FS, Logged: logged, Mirrored: true, Grace: config.Grace}
	if config.Tier != nil {
		of := *config.Tier
		of.Nodes = len(c.Mirror.Nodes)
		config.Tier = &of
	}
	if err = s.newTier(config.Tier, &files); err != nil {
		return err
	}
	if s.Tier != nil && c.Streams != nil {
		return errNoStreamTier
	}
	s.Extents, err = extent.Open(config.Extents, files)
	if err != nil {
		return err
	}
	o.Buckets = record.Buckets()
	o.Log = c.Log
	o.Applied = s.follow
	o.Attachments = copiedContent{s.Extents}
	if s.DB, err = store.Open(config.Path, o); err != nil {
		return err
	}
	if c.Streams != nil {
		if err = s.openStreams(config.Extents); err != nil {
			return err
		}
		return s.agreeOrClose()
	}
	number, err := s.numberNode()
	if err != nil {
		return err
	}
	if err = s.attachTier(number); err != nil {
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
	if c.Spread {
		if err := s.startHosts(m); err != nil {
			m.Close()
			return err
		}
	}
	if err = s.agreeOrClose(); err == nil && s.Tier != nil {
		s.runTier()
	}
	return err
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

// Lacks returns how many bytes of the content that a node has this one lacks, by the names of the nodes; see
// [mirror.Mirror.Lacks]. It is nil where the content is not on a part of the nodes.
func (s *Node) Lacks() map[string]int64 {
	if m := s.opened.Load(); m != nil {
		return m.Lacks()
	}
	return nil
}

// Healed returns the number of damaged records of content that were replaced by copies of other nodes.
func (s *Node) Healed() int64 { return s.Extents.Healed() }
