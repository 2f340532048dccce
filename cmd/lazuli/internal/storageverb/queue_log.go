package storageverb

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
	queuestate "github.com/lazuli-storage/lazuli/internal/state/queue"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// newQueueLogCommand makes `lazuli queue log`, which prints the messages of the stream that keeps the queues' changes.
func newQueueLogCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{Use: "log [FOLDER]", Short: "Show the stream of changes of the queues in a data folder",
		Long: `Show the messages of the JetStream stream that is the log of the queues, in the order in which they were applied: the time, the message's number in
the stream, how many changes it holds, its size in bytes, and how many changes of each kind it makes to which queue. A server may be using the folder.
In a folder with several shards, each has a stream of its own: --shard selects one.

A single server removes the old end of the stream when it has more than 64 MiB. On a NATS server or a cluster, use the nats command: the headers
Lazuli-Changes and Lazuli-Change of each message say the same.`,
		Example: "  lazuli queue log\n  lazuli queue log ./data | tail", Args: cobra.MaximumNArgs(1)}
	begin := console.ListOutput(cmd)
	shard := cmd.Flags().Int("shard", 0, "show the queues of this shard of a folder with several")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		folder, err := target.DataFolder(cmd, environ, args)
		if err != nil {
			return err
		}
		if *shard < 0 || *shard >= shardmap.Max {
			return fmt.Errorf("--shard %d: shards have numbers from 0 to %d", *shard, shardmap.Max-1)
		}
		out := begin("TIME", "MESSAGE", "CHANGES", "BYTES", "WHAT").Or("the log is empty")
		damaged, err := queuestate.ReadLog(filepath.Join(folder, "queues"),
			datadir.ShardOf(folder, *shard).Log(queuestate.LogName), func(r jetstreamfiles.Record) error {
				h := headers(r.Header)
				// The stream may have messages of other origin, such as those that only mark a point; they change no queue.
				if h.Get(store.HeaderChanges) == "" {
					return nil
				}
				row := logRow{r.Time.UTC(), r.Sequence, json.Number(h.Get(store.HeaderChanges)), len(r.Payload),
					h.Values(store.HeaderChange)}
				return out.Add(row, row.Time.Format("2006-01-02T15:04:05.000Z"), row.Message, row.Changes, row.Bytes,
					strings.Join(row.What, "; "))
			})
		// A folder of a server that never had a queue has no stream, which is not damage.
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: it has no queues", datadir.ErrNotFound)
		}
		if err = out.End(err); err != nil {
			return fmt.Errorf("reading the log of the queues in %s: %w", folder, err)
		}
		for _, d := range damaged {
			// A torn end is what a crash leaves, and the server cuts it off at its next start.
			if !d.Torn {
				return fmt.Errorf("the rest of the stream cannot be read: %v; run `lazuli fsck`", d)
			}
		}
		return nil
	}
	return cmd
}

// logRow is a message of the log.
type logRow struct {
	Time    time.Time   `json:"time"`
	Message uint64      `json:"message"`
	Changes json.Number `json:"changes"`
	Bytes   int         `json:"bytes"`
	What    []string    `json:"what"`
}

// headers parses the headers of a NATS message.
func headers(text []byte) http.Header {
	h := http.Header{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			h.Add(name, strings.TrimSpace(value))
		}
	}
	return h
}
