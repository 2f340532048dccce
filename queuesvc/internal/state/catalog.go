package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The catalog is a stream with one subject per queue and one per account:
//
//	lazuli.catalog.<account>.queue.<queue>   a queue: its entry as JSON; an empty payload once it was deleted
//	lazuli.catalog.<account>.properties      the account's queue service properties, opaque to this package
//
// A change names the record that it replaces, so that of two front-ends that create a queue at the same time one
// learns that it was second. Every front-end holds the catalog in memory and follows it.
const (
	catalogStream = "lazuli_catalog"
	catalogPrefix = "lazuli.catalog."
)

// Meta is one name and value of a queue's metadata.
type Meta struct{ Name, Value string }

// catalogEntry is what the catalog says of a queue.
type catalogEntry struct {
	Version int `json:"version"` // 1
	// Incarnation tells a queue from one of the same name that was deleted: it is part of the stream's name.
	Incarnation string          `json:"incarnation"`
	Metadata    []Meta          `json:"metadata,omitempty"`
	Policies    json.RawMessage `json:"policies,omitempty"` // opaque to this package
	// NoStream says that the queue never had a message, and no stream for any (stream.go).
	NoStream bool `json:"noStream,omitempty"`
}

// errConflict means that another front-end changed the record first.
var errConflict = errors.New("the catalog has changed")

// catalogRecord is a subject's current record; entry is nil if there is no queue.
type catalogRecord struct {
	seq   uint64
	entry *catalogEntry
}

// account is the catalog of one account.
type account struct {
	queues map[string]catalogRecord
	names  []string // of the queues that exist, in order

	properties    []byte
	propertiesSeq uint64
}

// catalog is the copy in memory. It is safe for concurrent use.
type catalog struct {
	mu       sync.RWMutex
	accounts map[string]*account
}

func newCatalog() *catalog { return &catalog{accounts: make(map[string]*account)} }

func (c *catalog) accountLocked(name string) *account {
	a := c.accounts[name]
	if a == nil {
		a = &account{queues: make(map[string]catalogRecord)}
		c.accounts[name] = a
	}
	return a
}

func (c *catalog) get(accountName, queue string) catalogRecord {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if a := c.accounts[accountName]; a != nil {
		return a.queues[queue]
	}
	return catalogRecord{}
}

// put takes over a record unless a newer one is known, and returns the incarnation that it ended, if any.
func (c *catalog) put(accountName, queue string, r catalogRecord) (ended string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.accountLocked(accountName)
	old, known := a.queues[queue]
	if known && r.seq <= old.seq {
		return ""
	}
	a.queues[queue] = r
	at, exists := slices.BinarySearch(a.names, queue)
	switch {
	case r.entry != nil && !exists:
		a.names = slices.Insert(a.names, at, queue)
	case r.entry == nil && exists:
		a.names = slices.Delete(a.names, at, at+1)
	}
	if old.entry != nil && (r.entry == nil || r.entry.Incarnation != old.entry.Incarnation) {
		return old.entry.Incarnation
	}
	return ""
}

func (c *catalog) properties(accountName string) ([]byte, uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if a := c.accounts[accountName]; a != nil {
		return a.properties, a.propertiesSeq
	}
	return nil, 0
}

func (c *catalog) putProperties(accountName string, value []byte, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.accountLocked(accountName); seq > a.propertiesSeq {
		a.properties, a.propertiesSeq = value, seq
	}
}

// list returns up to n names that begin with prefix and are not before from.
func (c *catalog) list(accountName, prefix, from string, n int) (names []string, entries []*catalogEntry) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	a := c.accounts[accountName]
	if a == nil {
		return nil, nil
	}
	at, _ := slices.BinarySearch(a.names, max(prefix, from))
	for ; at < len(a.names) && len(names) < n && strings.HasPrefix(a.names[at], prefix); at++ {
		names = append(names, a.names[at])
		entries = append(entries, a.queues[a.names[at]].entry)
	}
	return names, entries
}

// streams returns the names of the streams that queues have.
func (c *catalog) streams() map[string]bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	streams := make(map[string]bool)
	for name, a := range c.accounts {
		for queue, r := range a.queues {
			if r.entry != nil && !r.entry.NoStream {
				streams[streamName(name, queue, r.entry.Incarnation)] = true
			}
		}
	}
	return streams
}

// streamless returns account and name of the queues that have no stream, by the name that it would have.
func (c *catalog) streamless() map[string][2]string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	found := make(map[string][2]string)
	for name, a := range c.accounts {
		for queue, r := range a.queues {
			if r.entry != nil && r.entry.NoStream {
				found[streamName(name, queue, r.entry.Incarnation)] = [2]string{name, queue}
			}
		}
	}
	return found
}

func catalogSubject(accountName, queue string) string {
	return catalogPrefix + accountName + ".queue." + queue
}

func propertiesSubject(accountName string) string { return catalogPrefix + accountName + ".properties" }

// parseEntry reads a record's payload.
func parseEntry(data []byte) (*catalogEntry, error) {
	if len(data) == 0 {
		return nil, nil
	}
	e := new(catalogEntry)
	if err := json.Unmarshal(data, e); err != nil {
		return nil, err
	}
	if e.Version != 1 || e.Incarnation == "" {
		return nil, fmt.Errorf("catalog entry of version %d", e.Version)
	}
	return e, nil
}

// openCatalog creates the catalog's stream if there is none, reads it, and follows it from then on.
func (s *Store) openCatalog(ctx context.Context) error {
	config := jetstream.StreamConfig{
		Name: catalogStream, Description: "Lazuli: the queues of all accounts",
		Subjects: []string{catalogPrefix + ">"}, MaxMsgsPerSubject: 1,
		Storage: s.storage(), Replicas: s.nats.Replicas(),
	}
	stream, err := s.js.Stream(ctx, catalogStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if stream, err = s.js.CreateStream(ctx, config); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = s.js.Stream(ctx, catalogStream) // another front-end was faster
		}
		if err == nil {
			err = s.nats.SyncConfig(catalogStream)
		}
	}
	if err != nil {
		return fmt.Errorf("queue catalog: %w", err)
	}
	// Everything that is in the stream now must be known before the first request.
	f, err := follow(ctx, s.conn, stream, catalogPrefix+">", false, func(m *nats.Msg, seq uint64) {
		s.takeCatalog(m.Subject, m.Data, seq)
	})
	if err != nil {
		return fmt.Errorf("queue catalog: %w", err)
	}
	if err := f.wait(ctx); err != nil {
		f.stop()
		return fmt.Errorf("queue catalog: %w", err)
	}
	if s.shared {
		s.follow = f
	} else {
		f.stop()
	}
	return nil
}

// compactLeast is the number of deleted queues in the catalog from which it is compacted at start.
const compactLeast = 1000

// compactCatalog gives the space of deleted queues back. Records are not removed singly (trim.go says why): those of the
// queues that exist are written again, and then all that is older is cut off. Nobody else may write meanwhile.
func (s *Store) compactCatalog(ctx context.Context) error {
	dead := 0
	first := uint64(0) // of what was written again
	for accountName, a := range s.catalog.accounts {
		for queue, r := range a.queues {
			if r.entry == nil {
				dead++
			} else if err := s.write(ctx, accountName, queue, r.seq, r.entry); err != nil {
				return err
			}
			if seq := a.queues[queue].seq; r.entry != nil && (first == 0 || seq < first) {
				first = seq
			}
		}
		if a.properties != nil {
			if err := s.SetProperties(ctx, accountName, a.properties); err != nil {
				return err
			}
		}
	}
	if first == 0 || dead == 0 {
		return nil
	}
	if err := s.purge(ctx, catalogStream, first); err != nil {
		return err
	}
	for _, a := range s.catalog.accounts {
		maps.DeleteFunc(a.queues, func(_ string, r catalogRecord) bool { return r.entry == nil })
	}
	return s.sync(catalogStream)
}

// deadQueues is how many records of deleted queues the catalog holds.
func (c *catalog) deadQueues() (n int) {
	for _, a := range c.accounts {
		n += len(a.queues) - len(a.names)
	}
	return n
}

// takeCatalog takes over a record of the catalog.
func (s *Store) takeCatalog(subject string, data []byte, seq uint64) {
	accountName, rest, _ := strings.Cut(strings.TrimPrefix(subject, catalogPrefix), ".")
	if rest == "properties" {
		s.catalog.putProperties(accountName, slices.Clone(data), seq)
		return
	}
	queue, ok := strings.CutPrefix(rest, "queue.")
	entry, err := parseEntry(data)
	if !ok || err != nil {
		s.log.Warn("the catalog holds a record that cannot be read", "subject", subject, "err", err)
		return
	}
	if ended := s.catalog.put(accountName, queue, catalogRecord{seq, entry}); ended != "" {
		s.dropQueue(accountName, queue, ended)
	}
}

// lookup returns a queue's record in the catalog. If others write to the catalog it asks the stream when the copy in
// memory knows of no queue: it may have been created a moment ago.
func (s *Store) lookup(ctx context.Context, accountName, queue string) (catalogRecord, error) {
	r := s.catalog.get(accountName, queue)
	if r.entry != nil || !s.shared {
		return r, nil
	}
	return s.refresh(ctx, accountName, queue)
}

// refresh reads a queue's record from the stream.
func (s *Store) refresh(ctx context.Context, accountName, queue string) (catalogRecord, error) {
	seq, _, data, err := s.client.leaderLast(ctx, catalogStream, catalogSubject(accountName, queue))
	switch {
	case errors.Is(err, errNoRecord): // never created
		return catalogRecord{}, nil
	case err != nil:
		return catalogRecord{}, fmt.Errorf("queue catalog: %w", unavailable(err))
	}
	s.takeCatalog(catalogSubject(accountName, queue), data, seq)
	entry, err := parseEntry(data)
	return catalogRecord{seq, entry}, err
}

// write replaces a queue's record in the catalog: with entry, or with a tombstone if that is nil.
func (s *Store) write(ctx context.Context, accountName, queue string, replace uint64, entry *catalogEntry) error {
	m := &nats.Msg{Subject: catalogSubject(accountName, queue), Header: nats.Header{}}
	if entry != nil {
		entry.Version = 1
		data, err := json.Marshal(entry)
		if err != nil {
			return err
		}
		m.Data = data
	}
	seq, err := s.writeCatalog(ctx, m, replace)
	if err != nil {
		return err
	}
	if ended := s.catalog.put(accountName, queue, catalogRecord{seq, entry}); ended != "" {
		s.dropQueue(accountName, queue, ended)
	}
	return nil
}

// headerWriter tells whoever had no answer to a change of the catalog whether the record that is there is his.
const headerWriter = "Lazuli-Writer"

// writeCatalog publishes a record in place of another, durably. errConflict means that another came first. As with the
// messages, neither silence nor a refusal is taken for proof that nothing was written (finish says why).
func (s *Store) writeCatalog(ctx context.Context, m *nats.Msg, replace uint64) (uint64, error) {
	ctx = context.WithoutCancel(ctx)
	writer := s.client.newWriter()
	m.Header[headerExpected] = []string{strconv.FormatUint(replace, 10)}
	m.Header[headerWriter] = []string{writer}
	var err error
	for attempt := 1; attempt <= s.retries+1; attempt++ {
		if attempt > 1 {
			s.pause(ctx)
		}
		p := s.client.send(&nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
		var seq uint64
		if seq, err = p.sequence(ctx); err == nil {
			return seq, s.sync(catalogStream)
		}
		if !errors.As(err, new(wrongSequence)) {
			continue
		}
		current, header, _, readErr := s.client.leaderLast(ctx, catalogStream, m.Subject)
		switch {
		case readErr != nil:
			err = readErr
		case current > replace && header.Get(headerWriter) == writer:
			return current, s.sync(catalogStream)
		case current > replace:
			return 0, errConflict
		default:
			err = errUndecided
		}
	}
	return 0, fmt.Errorf("queue catalog: %w", unavailable(err))
}

// unavailable makes an error that callers know of one that says that the catalog has no leader.
func unavailable(err error) error {
	if errors.Is(err, errNoStream) || errors.Is(err, errNoRecord) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// sameMetadata compares as the service does: names without regard to case.
func sameMetadata(a, b []Meta) bool {
	fold := func(pairs []Meta) map[string]string {
		m := make(map[string]string, len(pairs))
		for _, p := range pairs {
			m[strings.ToLower(p.Name)] = p.Value
		}
		return m
	}
	return maps.Equal(fold(a), fold(b))
}
