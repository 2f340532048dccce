package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// A stream costs memory, goroutines and time at start, and most of thousands of queues may be empty. So if no other process can see the streams,
// a queue gets its stream with its first message; until then its entry in the catalog has NoStream. When the store is closed, the streams of
// empty queues are removed. If other processes can see the streams, each queue has one from its creation, and queues without one get it at
// start.

// streamPrefix is the prefix of the names of all queues' streams.
const streamPrefix = "queue_"

// streamName returns the readable name of a queue's stream. Account and queue names have neither underscores nor dots.
func streamName(accountName, queue, incarnation string) string {
	return streamPrefix + accountName + "_" + queue + "_" + incarnation
}

func subjectPrefix(accountName, queue, incarnation string) string {
	return "lazuli.queue." + accountName + "." + queue + "." + incarnation + "."
}

// streamConfig is the configuration of a queue's stream.
func (s *Store) streamConfig(accountName, queue, incarnation string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        streamName(accountName, queue, incarnation),
		Description: fmt.Sprintf("Lazuli: queue %q of account %s", queue, accountName),
		Subjects:    []string{subjectPrefix(accountName, queue, incarnation) + "*"},
		// A slot is a subject, and only its newest record counts. compact.go removes the others.
		MaxMsgsPerSubject: s.recordsPerSubject(),
		AllowDirect:       true,
		Storage:           s.storage(),
		Replicas:          s.nats.Replicas(),
		Metadata:          map[string]string{"lazuli.account": accountName, "lazuli.queue": queue},
	}
}

// recordsPerSubject is the number of records that JetStream keeps of a subject. Without a limit it removes none by itself; on disk, such
// removals would not be safe.
func (s *Store) recordsPerSubject() int64 {
	if s.nats.InMemory() {
		return 1
	}
	return -1
}

// createStream creates a queue's stream, durably, unless it exists.
func (s *Store) createStream(ctx context.Context, accountName, queue, incarnation string) error {
	config := s.streamConfig(accountName, queue, incarnation)
	if _, err := s.makeStream(ctx, config); err != nil {
		return s.nats.Refused(fmt.Errorf("%w: creating stream %s: %w", ErrUnavailable, config.Name, err))
	}
	s.nats.LimitBlocks(config.Name)
	return s.nats.SyncConfig(config.Name)
}

// needStream creates a queue's stream if it has none. The catalog is updated before the first message is put: after a crash, a stream without an
// entry in the catalog is not read.
func (q *Queue) needStream(ctx context.Context) error {
	if !q.streamless.Load() {
		return nil
	}
	q.making.Lock()
	defer q.making.Unlock()
	if !q.streamless.Load() {
		return nil
	}
	if err := q.store.giveStream(context.WithoutCancel(ctx), q.Account, q.Name, q.stream); err != nil {
		return err
	}
	q.streamless.Store(false)
	return nil
}

// giveStream creates the stream of that name for a queue that has none.
func (s *Store) giveStream(ctx context.Context, accountName, queue, name string) error {
	r := s.catalog.get(accountName, queue)
	if r.entry == nil || streamName(accountName, queue, r.entry.Incarnation) != name {
		return ErrQueueNotFound
	}
	if err := s.createStream(ctx, accountName, queue, r.entry.Incarnation); err != nil {
		return err
	}
	current := true
	err := s.edit(ctx, accountName, queue, func(e *catalogEntry) *catalogEntry {
		if current = streamName(accountName, queue, e.Incarnation) == name; current {
			e.NoStream = false
		}
		return e
	})
	if err == nil && !current {
		err = ErrQueueNotFound
	}
	if errors.Is(err, ErrQueueNotFound) { // deleted meanwhile
		s.deleteStream(ctx, name)
	}
	return err
}

// parkTime is the time limit of Close for removing the streams of empty queues.
const parkTime = 2 * time.Second

// park removes the streams of queues that are known to be empty and no longer used. It updates the catalog first: the next start removes a
// stream without an entry in the catalog.
func (s *Store) park(queues map[string]*Queue) {
	ctx, cancel := context.WithTimeout(context.Background(), s.parkTime)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(8)
	for _, q := range queues {
		if !q.unneededStream() {
			continue
		}
		g.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			ours := true
			err := s.edit(ctx, q.Account, q.Name, func(e *catalogEntry) *catalogEntry {
				if ours = streamName(q.Account, q.Name, e.Incarnation) == q.stream; ours {
					e.NoStream, e.Floor = true, 0
				}
				return e
			})
			if err == nil && ours {
				s.deleteStream(ctx, q.stream)
			}
			return nil // a queue with a stream only makes the next start slower
		})
	}
	_ = g.Wait()
}

// unneededStream reports whether the queue has a stream that is known to have no message, readable or not.
func (q *Queue) unneededStream() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.gone && q.loading == loaded && q.loadErr == nil && !q.unreadable && q.index.live+q.index.aside == 0 && !q.streamless.Load()
}

// createStreams creates the streams of all queues.
func (s *Store) createStreams(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(8)
	for name, at := range s.catalog.streamless() {
		g.Go(func() error {
			err := s.giveStream(ctx, at[0], at[1], name)
			if errors.Is(err, ErrQueueNotFound) {
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

func (s *Store) deleteStream(ctx context.Context, name string) {
	if err := s.js.DeleteStream(ctx, name); err != nil && !isNoStream(err) {
		s.log.Warn("a deleted queue's stream could not be removed", "stream", name, "err", err)
		return
	}
	if err := s.nats.Forget(name); err != nil {
		s.log.Warn("the removal of a stream could not be synced", "stream", name, "err", err)
	}
}

// inspectStreams compares the streams with the catalog. It removes streams that, according to the catalog, belong to no queue: a process was
// killed between two steps of creating or deleting a queue. It keeps all others, since they may contain data.
func (s *Store) inspectStreams(ctx context.Context) error {
	if err := s.restoreConfigurations(ctx); err != nil {
		return err
	}
	known := s.catalog.streams()
	lister := s.js.ListStreams(ctx, jetstream.WithStreamListSubject("lazuli.queue.>"))
	for info := range lister.Info() {
		name := info.Config.Name
		account, queue, incarnation, ok := parseStreamName(name)
		switch {
		case !ok:
			continue
		case known[name]:
			delete(known, name)
			if err := s.migrateStream(ctx, account, queue, incarnation, info); err != nil {
				return err
			}
		case s.shared && time.Since(info.Created) < orphanAge: // it may belong to a queue that is being created
		case info.State.LastSeq == 0 || s.catalog.deniesStream(account, queue, incarnation):
			s.log.Info("removing a stream that belongs to no queue", "stream", name)
			s.deleteStream(ctx, name)
		default:
			s.catalog.claim(account, queue)
			s.log.Error("a stream belongs to no queue in the catalog; it is kept, and the queue of its name cannot be used until `lazuli fsck --repair` has added it again",
				"account", account, "queue", queue, "stream", name, "records", info.State.Msgs)
		}
	}
	if err := lister.Err(); err != nil {
		return fmt.Errorf("queues: listing streams: %w", err)
	}
	for name := range known {
		account, queue, _, _ := parseStreamName(name)
		s.log.Error("the stream of a queue is missing", "account", account, "queue", queue, "stream", name)
	}
	return nil
}

// restoreConfigurations creates streams again whose configuration was damaged: their records exist, and JetStream loads them.
func (s *Store) restoreConfigurations(ctx context.Context) error {
	known := s.catalog.streams()
	for _, d := range s.nats.Damaged() {
		account, queue, incarnation, ok := parseStreamName(d.Stream)
		if d.Meta == "" || !ok || !known[d.Stream] {
			continue
		}
		if err := s.createStream(ctx, account, queue, incarnation); err != nil {
			return err
		}
		s.log.Warn("restored the damaged configuration of a queue's stream", "account", account, "queue", queue, "stream", d.Stream)
	}
	return nil
}

// migrateStream removes the limit from a stream of an earlier version of this program: JetStream kept only the last record of a slot, and
// removed the others. Removed and cleared records must not reappear: the floor is set after them.
func (s *Store) migrateStream(ctx context.Context, account, queue, incarnation string, info *jetstream.StreamInfo) error {
	config := s.streamConfig(account, queue, incarnation)
	if !s.mustMigrate(info) {
		return nil
	}
	floor := info.State.FirstSeq
	cleared, err := s.client.leaderLast(ctx, config.Name, subjectPrefix(account, queue, incarnation)+clearedToken)
	switch {
	case err == nil:
		floor = max(floor, cleared.seq)
	case !errors.Is(err, errNoRecord):
		return fmt.Errorf("queues: stream %s: %w", config.Name, err)
	}
	err = s.edit(ctx, account, queue, func(e *catalogEntry) *catalogEntry {
		if e.Incarnation == incarnation {
			e.Floor = max(e.Floor, floor)
		}
		return e
	})
	if err != nil && !errors.Is(err, ErrQueueNotFound) {
		return err
	}
	return s.liftLimit(ctx, info)
}

// mustMigrate reports whether JetStream removes records of a stream by itself, on disk.
func (s *Store) mustMigrate(info *jetstream.StreamInfo) bool {
	return info.Config.Storage == jetstream.FileStorage && info.Config.MaxMsgsPerSubject != s.recordsPerSubject()
}

// liftLimit durably removes the limit on records per subject from a stream.
func (s *Store) liftLimit(ctx context.Context, info *jetstream.StreamInfo) error {
	config := info.Config
	config.MaxMsgsPerSubject = s.recordsPerSubject()
	if _, err := s.js.UpdateStream(ctx, config); err != nil {
		return fmt.Errorf("%w: updating stream %s: %w", ErrUnavailable, config.Name, err)
	}
	return s.nats.SyncConfig(config.Name)
}

// parseStreamName parses the text of streamName.
func parseStreamName(name string) (account, queue, incarnation string, ok bool) {
	rest, ok := strings.CutPrefix(name, streamPrefix)
	if !ok {
		return "", "", "", false
	}
	parts := strings.Split(rest, "_")
	if len(parts) != 3 {
		return "", "", "", false
	}
	return parts[0], parts[1], parts[2], true
}
