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
//	lazuli.catalog.-.receipts                the key of the pop receipts (receipt.go)
//	lazuli.catalog.-.floor                   the sequence before which all records are void
//
// The last record of a subject counts. The header Lazuli-Sum of a record is the CRC32C of its subject and payload.
//
// A change names the record that it replaces, so that the second of two front-ends that create a queue at the same time gets an error. Every
// front-end holds the catalog in memory and follows it.
const (
	catalogStream = "lazuli_catalog"
	catalogPrefix = "lazuli.catalog."
)

// Meta is one name and value of a queue's metadata.
type Meta struct{ Name, Value string }

// catalogEntry is the entry of a queue in the catalog.
type catalogEntry struct {
	Version int `json:"version"` // 1 or 2
	// Incarnation distinguishes a queue from a deleted one of the same name. It is part of the stream's name.
	Incarnation string          `json:"incarnation"`
	Metadata    []Meta          `json:"metadata,omitempty"`
	Policies    json.RawMessage `json:"policies,omitempty"` // opaque to this package
	// NoStream is set if the queue never had a message, and therefore has no stream (stream.go).
	NoStream bool `json:"noStream,omitempty"`
	// Floor is the sequence before which the records of the stream are void (floor.go).
	Floor uint64 `json:"floor,omitempty"`
}

// errConflict means that another front-end changed the record first.
var errConflict = errors.New("the catalog has changed")

// catalogRecord is a subject's current record; entry is nil if the queue does not exist.
type catalogRecord struct {
	seq     uint64
	entry   *catalogEntry
	damaged bool // the record cannot be read: it is unknown whether the queue exists
}

// account is the catalog of one account.
type account struct {
	queues map[string]catalogRecord
	names  []string // names of the existing queues, in order

	properties    []byte
	propertiesSeq uint64
}

// catalog is the copy in memory. It is safe for concurrent use.
type catalog struct {
	mu       sync.RWMutex
	accounts map[string]*account
	damaged  map[string]bool // subjects whose last record could not be read; "" if the subject is unknown
}

func newCatalog() *catalog {
	return &catalog{accounts: make(map[string]*account), damaged: make(map[string]bool)}
}

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

// put applies a record unless a newer one is known, and returns the incarnation that it ended, if any.
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

// noteDamage records whether the last record of a subject could be read. An empty subject represents an unknown one.
func (c *catalog) noteDamage(subject string, damaged bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if damaged {
		c.damaged[subject] = true
	} else {
		delete(c.damaged, subject)
	}
}

// whole reports whether all records could be read.
func (c *catalog) whole() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.damaged) == 0
}

// damagedQueues returns the number of queues of which the catalog cannot tell whether they exist.
func (c *catalog) damagedQueues() (n int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, a := range c.accounts {
		for _, r := range a.queues {
			if r.damaged {
				n++
			}
		}
	}
	return n
}

// claim records that a stream exists, and that the catalog cannot tell whether it belongs to the queue.
func (c *catalog) claim(accountName, queue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.accountLocked(accountName)
	r := a.queues[queue]
	r.damaged = true
	a.queues[queue] = r
}

// deniesStream reports whether the catalog proves that a stream belongs to no queue: the catalog is complete, and says that the queue of that
// name was deleted, has no stream, or has another one.
func (c *catalog) deniesStream(accountName, queue, incarnation string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	a := c.accounts[accountName]
	if len(c.damaged) > 0 || a == nil {
		return false
	}
	r, ok := a.queues[queue]
	return ok && !r.damaged && (r.entry == nil || r.entry.NoStream || r.entry.Incarnation != incarnation)
}

// void removes the entries of the records before a sequence.
func (c *catalog) void(floor uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.accounts {
		maps.DeleteFunc(a.queues, func(name string, r catalogRecord) bool {
			if r.seq >= floor {
				return false
			}
			if at, ok := slices.BinarySearch(a.names, name); ok {
				a.names = slices.Delete(a.names, at, at+1)
			}
			return true
		})
		if a.propertiesSeq < floor {
			a.properties, a.propertiesSeq = nil, 0
		}
	}
}

// list returns up to n names that begin with prefix and do not sort before from.
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

// streams returns the names of the streams of all queues.
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

// streamless returns the account and name of the queues without a stream, by the name that the stream would have.
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
	if e.Version < 1 || e.Version > 2 || e.Incarnation == "" {
		return nil, fmt.Errorf("catalog entry of version %d", e.Version)
	}
	return e, nil
}

// openCatalog creates the catalog's stream if it does not exist, reads it, and follows it from then on.
func (s *Store) openCatalog(ctx context.Context) error {
	config := jetstream.StreamConfig{
		Name: catalogStream, Description: "Lazuli: the queues of all accounts",
		Subjects: []string{catalogPrefix + ">"}, MaxMsgsPerSubject: s.recordsPerSubject(),
		Storage: s.storage(), Replicas: s.nats.Replicas(),
	}
	stream, err := s.lookupStream(ctx, catalogStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if stream, err = s.makeStream(ctx, config); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = s.lookupStream(ctx, catalogStream) // another front-end was faster
		}
		if err == nil {
			err = s.nats.SyncConfig(catalogStream)
		}
	}
	if err != nil {
		return fmt.Errorf("queue catalog: %w", err)
	}
	if len(s.nats.Lost(catalogStream)) > 0 {
		s.log.Error("records of the queue catalog were lost; queues without a record cannot be used until `lazuli fsck --repair` has added them again",
			"err", lossOf(s.nats, catalogStream))
		s.catalog.noteDamage("", true)
	}
	if err := s.readCatalog(ctx, stream); err != nil {
		return fmt.Errorf("queue catalog: %w", err)
	}
	s.catalog.void(s.catalogFloor.Load())
	if !s.mustMigrate(stream.CachedInfo()) {
		return nil
	}
	// An earlier version of this program created the stream, and JetStream removed replaced records. See migrateStream.
	if err := s.raiseCatalogFloor(ctx, stream.CachedInfo().State.FirstSeq); err != nil {
		return err
	}
	return s.liftLimit(ctx, stream.CachedInfo())
}

// readCatalog reads the whole catalog. It must finish before the first request.
func (s *Store) readCatalog(ctx context.Context, stream jetstream.Stream) error {
	for from := uint64(0); ; {
		f, err := follow(ctx, reading{conn: s.conn, lossy: s.external, stream: stream, subject: catalogPrefix + ">", from: from, log: s.log,
			take: func(m *nats.Msg, seq uint64) { s.takeCatalog(m.Subject, raw{seq, m.Header, m.Data}) }})
		if err != nil {
			return err
		}
		err = f.wait(ctx)
		if err == nil && s.shared {
			s.follow = f
			return nil
		}
		f.stop()
		var stuck stuckAt
		if !errors.As(err, &stuck) {
			return err
		}
		s.catalog.noteDamage("", true)
		s.log.Error("a record of the queue catalog cannot be read", "record", stuck.seq)
		from = stuck.seq + 1
	}
}

// floorRecord is the payload of the catalog's floor.
type floorRecord struct {
	Version int    `json:"version"` // 1
	Floor   uint64 `json:"floor"`
}

const catalogFloorSubject = catalogPrefix + "-.floor"

// raiseCatalogFloor durably marks all records of the catalog before a sequence as void.
func (s *Store) raiseCatalogFloor(ctx context.Context, floor uint64) error {
	data, err := json.Marshal(floorRecord{1, floor})
	if err != nil {
		return err
	}
	seq, err := s.writeCatalog(ctx, catalogFloorSubject, data, s.catalogFloorSeq.Load())
	if err == nil {
		s.catalogFloor.Store(floor)
		s.catalogFloorSeq.Store(seq)
	}
	return err
}

// compactLeast is the minimum number of void records in the catalog for a compaction at start.
const compactLeast = 1000

// compactCatalog frees the space of void records of the catalog. It writes the current records again, marks all earlier ones as void, and cuts
// them off as far as possible (compact.go). No other process may write meanwhile.
func (s *Store) compactCatalog(ctx context.Context) error {
	stream, err := s.lookupStream(ctx, catalogStream)
	if err != nil {
		return fmt.Errorf("queue catalog: %w", err)
	}
	state := stream.CachedInfo().State
	if !s.catalog.whole() || state.LastSeq-max(state.FirstSeq, s.catalogFloor.Load()) < uint64(s.catalog.size()+compactLeast) {
		return nil
	}
	floor := state.LastSeq + 1
	for accountName, a := range s.catalog.accounts {
		for queue, r := range a.queues {
			if r.entry != nil {
				if err := s.write(ctx, accountName, queue, r.seq, r.entry); err != nil {
					return err
				}
			}
		}
		if a.properties != nil {
			if err := s.SetProperties(ctx, accountName, a.properties); err != nil {
				return err
			}
		}
	}
	data, err := json.Marshal(receiptKey{Version: 1, Key: s.receiptKey.Load().secret})
	if err != nil {
		return err
	}
	seq, err := s.writeCatalog(ctx, receiptKeySubject, data, s.receiptKeySeq.Load())
	if err != nil {
		return err
	}
	s.receiptKeySeq.Store(seq)
	if err := s.raiseCatalogFloor(ctx, floor); err != nil {
		return err
	}
	s.catalog.void(floor)
	point, err := s.nats.CutPoint(catalogStream, floor)
	if err != nil || point <= 1 {
		return err
	}
	return s.purge(ctx, catalogStream, point)
}

// size returns the number of current records of the catalog.
func (c *catalog) size() (n int) {
	for _, a := range c.accounts {
		n += len(a.names) + 1
	}
	return n
}

// takeCatalog applies a record of the catalog.
func (s *Store) takeCatalog(subject string, r raw) {
	accountName, rest, _ := strings.Cut(strings.TrimPrefix(subject, catalogPrefix), ".")
	queue, isQueue := strings.CutPrefix(rest, "queue.")
	var err error
	if want := r.header.Get(headerSum); want != "" && want != sumText(subject, string(r.body)) {
		err = errDamaged
	}
	if err == nil {
		s.catalog.noteDamage(subject, false)
	}
	var entry *catalogEntry
	switch subject { // the next record of these subjects replaces this one regardless of its content
	case receiptKeySubject:
		s.receiptKeySeq.Store(r.seq)
	case catalogFloorSubject:
		s.catalogFloorSeq.Store(r.seq)
	}
	switch {
	case err != nil:
	case rest == "properties":
		s.catalog.putProperties(accountName, slices.Clone(r.body), r.seq)
		return
	case subject == receiptKeySubject:
		if err = s.takeReceiptKey(r.body); err == nil {
			return
		}
	case subject == catalogFloorSubject:
		var f floorRecord
		if err = json.Unmarshal(r.body, &f); err == nil {
			s.catalogFloor.Store(f.Floor)
			return
		}
	case isQueue:
		entry, err = parseEntry(r.body)
	default:
		err = errRecord
	}
	if err != nil {
		s.log.Error("the queue catalog has a record that cannot be read", "subject", subject, "record", r.seq, "err", err)
		s.catalog.noteDamage(subject, true)
		if !isQueue {
			return
		}
		entry = nil
	}
	if ended := s.catalog.put(accountName, queue, catalogRecord{r.seq, entry, err != nil}); ended != "" && err == nil {
		s.dropQueue(accountName, queue, ended)
	}
	if entry != nil && entry.Floor > 0 {
		s.raiseKnownFloor(accountName, queue, entry)
	}
}

// lookup returns a queue's record in the catalog. If other processes write to the catalog and the copy in memory has no such queue, it asks the
// stream: the queue may have been created a moment ago. It returns [ErrDamaged] if it cannot determine whether the queue exists.
func (s *Store) lookup(ctx context.Context, accountName, queue string) (catalogRecord, error) {
	r := s.catalog.get(accountName, queue)
	if r.damaged {
		return r, fmt.Errorf("%w: the catalog's record of queue %s of account %s", ErrDamaged, queue, accountName)
	}
	if r.entry != nil || !s.shared {
		return r, nil
	}
	return s.refresh(ctx, accountName, queue)
}

// refresh reads a queue's record from the stream.
func (s *Store) refresh(ctx context.Context, accountName, queue string) (catalogRecord, error) {
	subject := catalogSubject(accountName, queue)
	r, err := s.client.leaderLast(ctx, catalogStream, subject)
	switch {
	case errors.Is(err, errNoRecord): // never created
		return catalogRecord{}, nil
	case err != nil:
		return catalogRecord{}, fmt.Errorf("queue catalog: %w", unavailable(err))
	}
	s.takeCatalog(subject, r)
	return s.catalog.get(accountName, queue), nil
}

// write replaces a queue's record in the catalog by entry, or by a tombstone if entry is nil.
func (s *Store) write(ctx context.Context, accountName, queue string, replace uint64, entry *catalogEntry) error {
	var data []byte
	if entry != nil {
		entry.Version = 2
		var err error
		if data, err = json.Marshal(entry); err != nil {
			return err
		}
	}
	seq, err := s.writeCatalog(ctx, catalogSubject(accountName, queue), data, replace)
	if err != nil {
		return err
	}
	if ended := s.catalog.put(accountName, queue, catalogRecord{seq, entry, false}); ended != "" {
		s.dropQueue(accountName, queue, ended)
	}
	return nil
}

// headerWriter lets a caller that got no answer to a change of the catalog find out whether the current record is its own.
const headerWriter = "Lazuli-Writer"

// writeCatalog durably publishes a record that replaces another. errConflict means that another change came first. As for messages, neither a
// missing answer nor a refusal proves that nothing was written (see finish).
func (s *Store) writeCatalog(ctx context.Context, subject string, data []byte, replace uint64) (uint64, error) {
	ctx = context.WithoutCancel(ctx)
	if err := s.nats.Failed(); err != nil {
		return 0, err
	}
	writer := s.client.newWriter()
	header := nats.Header{headerWriter: {writer}, headerExpected: {strconv.FormatUint(replace, 10)},
		headerSum: {sumText(subject, string(data))}}
	if s.nats.Durable() {
		header[headerSynced] = []string{strconv.FormatUint(s.catalogSynced.Load(), 10)}
	}
	var err error
	for attempt := 1; attempt <= s.retries+1; attempt++ {
		if attempt > 1 {
			s.pause(ctx)
		}
		p := s.client.send(catalogStream, &nats.Msg{Subject: subject, Header: header, Data: data})
		var seq uint64
		if seq, err = p.sequence(ctx); err == nil {
			return seq, s.syncCatalog(seq)
		}
		if errors.Is(err, ErrStorage) {
			return 0, err
		}
		if !errors.As(err, new(wrongSequence)) {
			continue
		}
		current, readErr := s.client.leaderLast(ctx, catalogStream, subject)
		switch {
		case readErr != nil:
			err = readErr
		case current.seq > replace && current.header.Get(headerWriter) == writer:
			return current.seq, s.syncCatalog(current.seq)
		case current.seq > replace:
			return 0, errConflict
		default:
			err = errUndecided
		}
	}
	return 0, fmt.Errorf("queue catalog: %w", unavailable(err))
}

// syncCatalog returns when the catalog's records up to a sequence are on disk.
func (s *Store) syncCatalog(seq uint64) error {
	if err := s.nats.Sync(catalogStream); err != nil {
		if failed := s.nats.Failed(); failed != nil {
			return failed
		}
		return fmt.Errorf("%w: queue catalog: %w", ErrUnavailable, err)
	}
	for {
		old := s.catalogSynced.Load()
		if old >= seq || s.catalogSynced.CompareAndSwap(old, seq) {
			return nil
		}
	}
}

// unavailable converts an error that says that the catalog has no leader to [ErrUnavailable].
func unavailable(err error) error {
	if errors.Is(err, errNoStream) || errors.Is(err, errNoRecord) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// sameMetadata compares metadata as the service does: names are case-insensitive.
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
