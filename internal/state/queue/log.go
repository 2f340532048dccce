package queue

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// LogName is the name of the queues' log: its stream is LAZULI_LOG_queues.
const LogName = "queues"

// LogConfig is the configuration of a log on a NATS server.
func LogConfig(n *natsserver.Server, name string, log *slog.Logger) replog.Config {
	c := replog.Config{Conn: n.Conn(), Name: name, Replicas: n.Replicas(), InMemory: n.InMemory(), Log: log,
		Failed: n.Failed, Suspect: n.Suspect}
	c.Copied = func(stream string) (copied replog.Copied, known bool) {
		copied.Last, copied.Bytes, known = n.Copied(stream)
		return copied, known
	}
	c.Node, _ = os.Hostname()
	if n.Alone() && !n.Shared() {
		c.Store = n.Store
	}
	switch {
	case n.Alone():
		c.Settle, c.Sync, c.Cut = n.Settle, n.SyncStream, n.CutPoint
	case n.ClusterNode() != "":
		c.Node, c.Majority, c.Leads = n.ClusterNode(), n.Majority, n.Leads
	}
	if n.ClusterNode() != "" || n.Alone() && n.Shared() {
		c.End = n.StreamEnd
	}
	switch {
	case n.Alone():
	case n.ClusterNode() == "":
		c.Term = n.StreamTerm
	case n.Replicas() > 1:
		c.Term = n.StreamTerm
		c.Heads = func(ctx context.Context, stream string, from, to uint64) (replog.Heads, error) {
			h, err := n.StreamHeads(ctx, stream, from, to)
			return replog.Heads(h), err
		}
	}
	return c
}

// StoreOptions opens the log of the queues on a NATS server, and returns the options of a store that follows it.
func StoreOptions(ctx context.Context, n *natsserver.Server, log *slog.Logger) (store.Options, error) {
	queues, err := replog.Open(ctx, LogConfig(n, LogName, log))
	return StoreOptionsOf(n, queues), err
}

// StoreOptionsOf returns the options of a store that follows a log of queues.
func StoreOptionsOf(n *natsserver.Server, queues *replog.Log) store.Options {
	return store.Options{Log: queues, Ephemeral: n.InMemory(), Private: n.Alone(), ReadLocal: !n.Shared(),
		Relaxed: n.Alone() && n.Relaxed()}
}

// OpenFolder opens the file of a Queue service that is stopped, with what only the log has, which is in the files of an
// embedded server in the folder queues. It changes nothing. damaged is called for each damage of the log's files; the
// records behind it are not read.
func OpenFolder(path, queues string, damaged func(jetstreamfiles.Damage)) (*store.DB, error) {
	return OpenLog(path, queues, LogName, damaged)
}

// OpenLog is OpenFolder for a log of another name: that of the queues of a shard.
func OpenLog(path, queues, name string, damaged func(jetstreamfiles.Damage)) (*store.DB, error) {
	if s, err := store.ReadState(path); err == nil && s.Replicated { // its log is elsewhere
		return openFile(path, store.Options{ReadOnly: true})
	}
	db, err := openFile(path, store.Options{ReadOnly: true,
		Replay: func(from replog.Position, apply func([]byte, replog.Position) error) error {
			r := replog.NewReplay(from, apply)
			found, err := jetstreamfiles.Read(StreamDir(queues, name),
				func(m jetstreamfiles.Record) error { return r.Offer(m.Sequence, bytes.Clone(m.Payload)) }) // db keeps it
			for _, d := range found {
				damaged(d)
			}
			return err
		}})
	if err != nil {
		return nil, err
	}
	if last, err := db.EndOfLog(); err != nil {
		damaged(jetstreamfiles.Damage{Stream: filepath.Base(StreamDir(queues, name)), First: last, End: err.Error()})
	}
	return db, nil
}

// StreamDir is the folder of the stream of a log, below the folder of an embedded server.
func StreamDir(queues, name string) string {
	return filepath.Join(queues, "jetstream", "$G", "streams", replog.StreamOf(name))
}

// ReadLog calls take with each message of a log in the folder of an embedded server, which may be running.
func ReadLog(queues, name string, take func(jetstreamfiles.Record) error) ([]jetstreamfiles.Damage, error) {
	return jetstreamfiles.Read(StreamDir(queues, name), take)
}
