package state

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// Errors of the methods that look up queues.
var (
	// ErrQueueNotFound: the queue does not exist.
	ErrQueueNotFound = errors.New("queue not found")
	// ErrDamaged: the data of the queue cannot be read completely; the queue is not used until an operator has repaired it.
	ErrDamaged = errors.New("queue is damaged")
	// ErrBusy: so many queues are in use that the process has no files left for another one. Nothing has changed.
	ErrBusy = errors.New("too many queues in use")
	// ErrQueueExists: the queue exists with other metadata.
	ErrQueueExists = errors.New("queue exists with other metadata")
)

const (
	// answerTimeout is the time limit for one request to NATS, and answerRetries the number of times that a change without an answer is sent
	// again: the embedded server always answers, but perhaps late.
	answerTimeout = 10 * time.Second
	answerRetries = 2
	// externalAnswerTimeout is the same for a cluster, where a lost leader loses requests, which are sent again.
	externalAnswerTimeout = 2 * time.Second
	externalRetries       = 8
	// retryPause is the pause before a retry.
	retryPause = 250 * time.Millisecond
	// staleRounds is the maximum number of times that a leader with an old state is asked.
	staleRounds = 8
	// orphanAge is the minimum age of a stream without a queue to be removed at start, on a NATS with other users: a younger one may belong to a
	// queue that is being created.
	orphanAge = 10 * time.Minute
	// conflictRounds is the maximum number of times that a change of the catalog is tried after changes of other front-ends.
	conflictRounds = 16
)

// Store has all queues of all accounts on one NATS. It is safe for concurrent use.
type Store struct {
	nats    *natsserver.Server
	conn    *nats.Conn
	js      jetstream.JetStream
	client  *client
	log     *slog.Logger
	catalog *catalog
	follow  *follower // follows the catalog; nil unless shared

	catalogSynced   atomic.Uint64 // the last record of the catalog that is known to be on disk
	catalogFloor    atomic.Uint64 // records of the catalog before this one are void
	catalogFloorSeq atomic.Uint64 // sequence of the record of the floor
	receiptKey      atomic.Pointer[macKey]
	receiptKeySeq   atomic.Uint64

	// end confirms the end of a stream; nil if no majority can be asked. See [natsserver.Server.StreamEnd].
	end func(ctx context.Context, stream string) (natsserver.StreamEnd, error)

	shared     bool // others may write to the streams
	external   bool // NATS is another process, and answers may be lost
	replicated bool // a replica that lags may answer reads
	retries    int
	retryPause time.Duration
	quiet      time.Duration // minimum age of a record to be cut off, if other processes write
	slack      int64         // see compactSlack
	parkTime   time.Duration // time limit of Close for removing the streams of empty queues
	slots      uint32        // the upper half of the slots that this front-end creates

	working    context.Context // done when the store is closed
	stopWork   context.CancelFunc
	background sync.WaitGroup

	mu     sync.Mutex // guards queues
	queues map[string]*Queue
}

// Open reads the catalog and returns when queues can be used. n must stay open until after [Store.Close]. A nil log means slog.Default().
func Open(ctx context.Context, n *natsserver.Server, log *slog.Logger) (*Store, error) {
	if log == nil {
		log = slog.Default()
	}
	s := &Store{nats: n, conn: n.Conn(), log: log, catalog: newCatalog(), shared: n.Shared(),
		external: n.External(), replicated: n.Replicas() > 1, slots: mathrand.Uint32(), retries: answerRetries, retryPause: retryPause, quiet: compactQuiet, slack: compactSlack,
		parkTime: parkTime, queues: make(map[string]*Queue)}
	s.working, s.stopWork = context.WithCancel(context.Background())
	if s.replicated && n.ClusterNode() != "" {
		s.end = n.StreamEnd
	}
	timeout := answerTimeout
	if s.external {
		timeout, s.retries = externalAnswerTimeout, externalRetries
	}
	var err error
	if s.client, err = newClient(s.conn, timeout, s.external, n.Suspect); err != nil {
		return nil, err
	}
	if s.js, err = jetstream.New(s.conn, jetstream.WithDefaultTimeout(answerTimeout)); err != nil {
		s.client.close()
		return nil, fmt.Errorf("queues: %w", err)
	}
	steps := []func(context.Context) error{s.openCatalog, s.openReceiptKey, s.inspectStreams}
	if s.shared {
		steps = append(steps, s.createStreams)
	} else {
		steps = append(steps, s.compactCatalog)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			s.Close()
			return nil, err
		}
	}
	n.OnRecovery(s.recovered)
	return s, nil
}

// recovered is called after the server has read its files again.
func (s *Store) recovered() {
	s.mu.Lock()
	queues := slices.Collect(maps.Values(s.queues))
	s.mu.Unlock()
	for _, q := range queues {
		q.reset()
	}
}

// Failed returns nil if the queues can be used, an [ErrStorage] while the disk refuses writes, or another error.
func (s *Store) Failed() error { return s.nats.Healthy() }

// Close stops the background work.
func (s *Store) Close() {
	s.stopWork()
	s.background.Wait()
	if s.follow != nil {
		s.follow.stop()
	}
	s.mu.Lock()
	queues := s.queues
	s.queues = make(map[string]*Queue)
	s.mu.Unlock()
	if !s.shared && !s.nats.InMemory() {
		s.park(queues)
	}
	for _, q := range queues {
		q.close(false)
	}
	s.client.close()
}

func (s *Store) storage() jetstream.StorageType {
	if s.nats.InMemory() {
		return jetstream.MemoryStorage
	}
	return jetstream.FileStorage
}

// newIncarnation returns ten random letters and digits.
func newIncarnation() string { return strings.ToLower(rand.Text()[:10]) }

// Create creates a queue. created is false if it existed with the same metadata. A deleted queue can be created again at once: the new one has
// another stream.
func (s *Store) Create(ctx context.Context, accountName, queue string, metadata []Meta) (created bool, err error) {
	for range conflictRounds {
		r, err := s.lookup(ctx, accountName, queue)
		if err != nil {
			return false, err
		}
		if r.entry != nil {
			if !sameMetadata(r.entry.Metadata, metadata) {
				return false, ErrQueueExists
			}
			return false, nil
		}
		entry := &catalogEntry{Incarnation: newIncarnation(), Metadata: metadata, NoStream: !s.shared}
		if !entry.NoStream {
			if err := s.createStream(ctx, accountName, queue, entry.Incarnation); err != nil {
				return false, err
			}
		}
		if err = s.write(ctx, accountName, queue, r.seq, entry); err == nil {
			s.openQueue(accountName, queue, entry)
			return true, nil
		}
		if !errors.Is(err, errConflict) {
			return false, err // the queue may exist and need its stream; otherwise the next start removes the stream
		}
		if !entry.NoStream {
			s.deleteStream(ctx, streamName(accountName, queue, entry.Incarnation))
		}
		if _, err := s.refresh(ctx, accountName, queue); err != nil {
			return false, err
		}
	}
	return false, fmt.Errorf("%w: %w", ErrUnavailable, errConflict)
}

// Delete deletes a queue and its messages.
func (s *Store) Delete(ctx context.Context, accountName, queue string) error {
	var incarnation string
	err := s.edit(ctx, accountName, queue, func(e *catalogEntry) *catalogEntry { incarnation = e.Incarnation; return nil })
	if err != nil {
		return err
	}
	// The queue is deleted. The stream only takes space, and the next start would remove it.
	s.deleteStream(ctx, streamName(accountName, queue, incarnation))
	return nil
}

// edit changes a queue's entry in the catalog. fn gets a copy, may run more than once, and returns nil to delete the queue.
func (s *Store) edit(ctx context.Context, accountName, queue string, fn func(*catalogEntry) *catalogEntry) error {
	for range conflictRounds {
		r, err := s.lookup(ctx, accountName, queue)
		if err != nil {
			return err
		}
		if r.entry == nil {
			return ErrQueueNotFound
		}
		c := *r.entry
		if err = s.write(ctx, accountName, queue, r.seq, fn(&c)); !errors.Is(err, errConflict) {
			return err
		}
		if _, err := s.refresh(ctx, accountName, queue); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, errConflict)
}

// Queue returns a queue that exists.
func (s *Store) Queue(ctx context.Context, accountName, queue string) (*Queue, error) {
	r, err := s.lookup(ctx, accountName, queue)
	if err != nil {
		return nil, err
	}
	if r.entry == nil {
		return nil, ErrQueueNotFound
	}
	return s.openQueue(accountName, queue, r.entry), nil
}

func (s *Store) openQueue(accountName, queue string, entry *catalogEntry) *Queue {
	name := streamName(accountName, queue, entry.Incarnation)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	if q == nil {
		q = newQueue(s, accountName, queue, name, subjectPrefix(accountName, queue, entry.Incarnation))
		q.floor = entry.Floor
		if err := lossOf(s.nats, name); err != nil {
			q.setLost(err)
		}
		if entry.NoStream { // the queue is empty, and no other process can put messages
			q.loading = loaded
			q.streamless.Store(true)
		}
		s.queues[name] = q
	}
	return q
}

// dropQueue removes a queue that was deleted from memory.
func (s *Store) dropQueue(accountName, queue, incarnation string) {
	name := streamName(accountName, queue, incarnation)
	s.mu.Lock()
	q := s.queues[name]
	delete(s.queues, name)
	s.mu.Unlock()
	if q != nil {
		go q.close(true) // asynchronously: this may be the follower's goroutine
	}
}

// raiseKnownFloor applies the floor of a queue that another front-end has raised.
func (s *Store) raiseKnownFloor(accountName, queue string, entry *catalogEntry) {
	s.mu.Lock()
	q := s.queues[streamName(accountName, queue, entry.Incarnation)]
	s.mu.Unlock()
	if q != nil {
		q.takeFloor(entry.Floor)
	}
}

// queueGone asks the catalog whether a queue whose stream does not answer was deleted.
func (s *Store) queueGone(ctx context.Context, q *Queue) bool {
	r := s.catalog.get(q.Account, q.Name)
	if s.shared {
		var err error
		if r, err = s.refresh(ctx, q.Account, q.Name); err != nil {
			return false
		}
	}
	return r.entry == nil || streamName(q.Account, q.Name, r.entry.Incarnation) != q.stream
}

// Metadata returns a queue's metadata. The caller must not change it.
func (s *Store) Metadata(ctx context.Context, accountName, queue string) ([]Meta, error) {
	e, err := s.entry(ctx, accountName, queue)
	if err != nil {
		return nil, err
	}
	return e.Metadata, nil
}

// SetMetadata replaces a queue's metadata.
func (s *Store) SetMetadata(ctx context.Context, accountName, queue string, metadata []Meta) error {
	return s.edit(ctx, accountName, queue, func(e *catalogEntry) *catalogEntry { e.Metadata = metadata; return e })
}

// Policies returns the policies that SetPolicies stored for a queue, nil by default. The caller must not change them.
func (s *Store) Policies(ctx context.Context, accountName, queue string) (json.RawMessage, error) {
	e, err := s.entry(ctx, accountName, queue)
	if err != nil {
		return nil, err
	}
	return e.Policies, nil
}

// SetPolicies replaces a queue's stored access policies, a JSON document.
func (s *Store) SetPolicies(ctx context.Context, accountName, queue string, policies json.RawMessage) error {
	return s.edit(ctx, accountName, queue, func(e *catalogEntry) *catalogEntry { e.Policies = policies; return e })
}

func (s *Store) entry(ctx context.Context, accountName, queue string) (*catalogEntry, error) {
	r, err := s.lookup(ctx, accountName, queue)
	if err != nil {
		return nil, err
	}
	if r.entry == nil {
		return nil, ErrQueueNotFound
	}
	return r.entry, nil
}

// Listed is a queue in a listing.
type Listed struct {
	Name     string
	Metadata []Meta
}

// List returns up to n queues, sorted by name, that begin with prefix and do not sort before from. next is the name to continue from, "" at the
// end.
func (s *Store) List(accountName, prefix, from string, n int) (queues []Listed, next string) {
	names, entries := s.catalog.list(accountName, prefix, from, n+1)
	if len(names) > n {
		next = names[n]
		names = names[:n]
	}
	queues = make([]Listed, len(names))
	for i, name := range names {
		queues[i] = Listed{name, entries[i].Metadata}
	}
	return queues, next
}

// Properties returns the properties that SetProperties stored for the account, nil by default. The caller must not change them.
func (s *Store) Properties(accountName string) []byte {
	value, _ := s.catalog.properties(accountName)
	return value
}

// SetProperties stores an account's service properties. Of concurrent calls the last wins.
func (s *Store) SetProperties(ctx context.Context, accountName string, value []byte) error {
	return s.ChangeProperties(ctx, accountName, func([]byte) ([]byte, error) { return value, nil })
}

// ChangeProperties replaces an account's service properties by what change returns for the current ones, nil for none. change may run several
// times; if it fails, nothing is replaced.
func (s *Store) ChangeProperties(ctx context.Context, accountName string, change func(old []byte) ([]byte, error)) error {
	subject := propertiesSubject(accountName)
	for range conflictRounds {
		old, replace := s.catalog.properties(accountName)
		value, err := change(old)
		if err != nil {
			return err
		}
		seq, err := s.writeCatalog(ctx, subject, value, replace)
		if err == nil {
			s.catalog.putProperties(accountName, value, seq)
			return nil
		}
		if !errors.Is(err, errConflict) {
			return err
		}
		current, err := s.client.leaderLast(ctx, catalogStream, subject)
		if err != nil {
			return fmt.Errorf("queue catalog: %w", unavailable(err))
		}
		s.catalog.putProperties(accountName, current.body, current.seq)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, errConflict)
}
