package backup

import (
	"context"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// Databases are the names of the databases that a [Source] has, in the order in which they are read.
var Databases = []string{"tables", "queues", "blobs"}

// Info describes a [Source].
type Info struct {
	// Origin identifies the history of the content: in backups of the same origin, the same ranges of a window are the
	// same bytes. "" if that is not known.
	Origin string `json:"origin"`
	// Release is the release of the server.
	Release string `json:"release"`
	// Map says which account is in which shard; nil for one shard.
	Map *shardmap.Map `json:"map,omitempty"`
	// Only says of which shard alone this is the state, in the archive of a folder with more; nil for all shards.
	Only *Only `json:"only,omitempty"`
	// Held says that the moment is one of all logs of a cluster, and HeldSeconds how long writes waited for it. A release
	// that cannot do that does not say so.
	Held        bool    `json:"held,omitempty"`
	HeldSeconds float64 `json:"held_seconds,omitempty"`
	// Log is where the moment is in an archive of the log; nil without one.
	Log *LogPosition `json:"log,omitempty"`
}

// Only is one shard of a folder with more.
type Only struct {
	Shard int `json:"shard"`
	// Map is that of the folder.
	Map *shardmap.Map `json:"map"`
}

// shards is the number of shards.
func (i *Info) shards() int {
	if i.Map == nil {
		return 1
	}
	return i.Map.Shards()
}

// LogPosition is a moment in an archive of the log, see package archive.
type LogPosition struct {
	// Timeline names a sequence of segments without a gap, and Segment is the first one that may have something that the
	// moment lacks.
	Timeline string `json:"timeline"`
	Segment  uint64 `json:"segment"`
	// Groups are the numbers of the last groups of the databases that the moment has.
	Groups map[string]uint64 `json:"groups"`
	// From is not after the moment, which has every write up to it; zero in bases of former releases. At is not before the
	// moment: later writes have later times.
	From time.Time `json:"from,omitzero"`
	At   time.Time `json:"at"`
}

// Source gives the state of one moment. Its methods are called once, in this order, then Close.
type Source interface {
	// Info describes the source.
	Info() Info
	// Database calls emit with the parts of a database, see [store.Pin.Parts].
	Database(ctx context.Context, name string, emit func(part []byte) error) error
	// Keys returns the file with the keys of encryption scopes, nil without such keys.
	Keys(ctx context.Context) ([]byte, error)
	// Contents calls emit with the content of blobs, see [extent.Store.Backup].
	Contents(ctx context.Context, held func(extent.Window) []extent.Range, emit func(extent.Content) error) error
	// Close ends the use of the source.
	Close() error
}

// Sharded is a [Source] with more than one shard, as its Info says. Its own methods give shard 0; the others follow in
// their order.
type Sharded interface {
	Source
	// Shard gives another shard. Close of the source closes it.
	Shard(number int) Source
}

// shardOf returns a shard of a source.
func shardOf(s Source, number int) (Source, error) {
	if number == 0 {
		return s, nil
	}
	all, ok := s.(Sharded)
	if !ok {
		return nil, errors.New("the source of the backup has only one of its shards")
	}
	return all.Shard(number), nil
}
