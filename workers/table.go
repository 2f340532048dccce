package workers

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/bindings"
)

// TableChange is a change that a table handler receives.
type TableChange = bindings.TableChange

// TableHandler handles one change of an entity.
type TableHandler func(ctx context.Context, c TableChange) error

// WithTable sets the table whose changes trigger the function. Default: the function's name.
func WithTable(name string) TableOption {
	return tableOption(func(s *settings) { s.table = name })
}

// WithExisting(true) makes a table trigger also run for the entities that exist when the app first starts, as updates.
// By default it runs for later changes only.
func WithExisting(existing bool) TableOption {
	return tableOption(func(s *settings) { s.existing = existing })
}

// InOrder makes a table trigger handle every change, of each entity in the order in which they were made, with the
// state of the entity before the change: what an index or a view of the table needs. One instance handles them, the one
// that has the lock; changes of different entities are handled at the same time, at most WithParallelChanges. A change
// that fails is tried again, after the delay of WithRetry, before the next one of its entity; after WithMaxDequeueCount
// attempts it goes to the queue webjobs-tabletrigger-poison. How far all changes were handled is kept in the container
// azure-webjobs-hosts: after a crash what follows is handled again, in order.
//
// Without it, all instances share the changes, and of several changes of an entity only the last may be handled.
func InOrder() TableOption { return tableOption(func(s *settings) { s.inOrder = true }) }

// WithParallelChanges sets how many entities' changes an InOrder trigger handles at the same time. Default 16.
func WithParallelChanges(n int) TableOption {
	return tableOption(func(s *settings) { s.parallel = n })
}

// tablePoisonQueue is the poison queue of all table triggers.
const tablePoisonQueue = "webjobs-tabletrigger-poison"

// Table registers a handler for changes of a table, from the first start of the app on. It needs Lazuli, which keeps a
// change log of tables on request (docs/extensions.md). On other services the function logs an error and does not run.
//
// One instance, which holds a blob lease, reads the log and puts a message for every change. All instances handle the
// messages, by the rules of queue triggers: retries, maximum dequeue count, poison queue (webjobs-tabletrigger-poison),
// lease renewal, drain. The position in the log is stored in the container azure-webjobs-hosts, so that no change is
// missed while no instance runs.
//
// Every change is handled at least once, unless a later change of the same entity supersedes it before it is handled.
// The handler gets the entity with the ETag of the change. The log covers one week and a million changes. If the app
// was stopped for longer, the handler is called for every entity of the table, as an update; deletions in that time are
// not reported.
func (a *App) Table(name string, h TableHandler, options ...TableOption) *Function {
	f := register(a, name, tableTrigger, options)
	fail := func(err error) {
		if err != nil {
			a.errs = append(a.errs, fmt.Errorf("workers: function %q: %w", name, err))
		}
	}
	if h == nil {
		fail(errors.New("the handler is nil"))
	}
	if f.settings.table == "" {
		f.settings.table = name
	}
	if !tableName().MatchString(f.settings.table) {
		fail(fmt.Errorf("table name %q does not have 3 to 63 letters and digits, starting with a letter", f.settings.table))
	}
	f.settings.queueName = hashedQueueName("azure-webjobs-tabletrigger-", a.config.HostID, name)
	f.settings.encoding = Base64
	fail(f.settings.validateQueue())
	if f.settings.parallel < 1 {
		fail(fmt.Errorf("%d parallel changes", f.settings.parallel))
	}
	f.listen = func(a *App, f *Function, storage *Storage) (listener, error) {
		l, err := newTableListener(a, f, storage, h)
		if err != nil || !f.settings.inOrder {
			return l, err
		}
		return &orderedTableListener{tableListener: l, handler: h, app: a, bound: bound{a, storage}, wrapped: a.compose()},
			nil
	}
	return f
}

// tableName are the rules of
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#table-names
var tableName = lazyregexp.New(`^[A-Za-z][A-Za-z0-9]{2,62}$`)

// WithEntities sets how a function of [Table] decodes entities, by the options of tables.New: the keys for fields that
// are encrypted, the types of an interface.
func WithEntities(options ...tables.Option) TableOption {
	return tableOption(func(s *settings) { s.entities = append(s.entities, options...) })
}

// Change is a change of an entity with the entity decoded as package tables stores it.
type Change[T any] struct {
	// Entity is the decoded entity, with its ETag; the zero value after a delete.
	Entity T
	// Before is the entity before the change, for triggers with InOrder; the zero value if Raw.Before is empty.
	Before T
	// Raw is the received change.
	Raw TableChange
}

// Table registers a handler for changes of entities that are a T: a type of package tables, with the same tags, which
// may lack the keys; or tables.Entity. If T has encrypted fields, Start fails unless WithEntities has the key. A change
// whose entity is not a T is moved to the poison queue at once.
func Table[T any](a *App, name string, h func(ctx context.Context, c *Change[T]) error,
	options ...TableOption) *Function {
	var codec *tables.Codec
	f := a.Table(name, func(ctx context.Context, raw TableChange) error {
		c := Change[T]{Raw: raw}
		for entity, state := range map[*T]json.RawMessage{&c.Entity: raw.Entity, &c.Before: raw.Before} {
			if state == nil {
				continue
			}
			err := codec.Unmarshal(ctx, state, entity)
			if errors.Is(err, tables.ErrNoKey) {
				return fmt.Errorf("decrypt the entity: %w", err) // The key may be available later.
			}
			if err != nil {
				return Permanent(fmt.Errorf("the entity is not of type %T: %w", c.Entity, err))
			}
		}
		return h(ctx, &c)
	}, options...)
	var err error
	if codec, err = tables.NewCodec(reflect.TypeFor[T](), f.settings.table, f.settings.entities...); err != nil {
		a.errs = append(a.errs, fmt.Errorf("workers: function %q: %w", name, err))
	}
	return f
}

// tableMessage describes one change.
type tableMessage struct {
	Type, FunctionId, TableName, PartitionKey, RowKey, ETag string
	Change                                                  bindings.TableChangeKind
}

// tableListener runs a table trigger: a reader of the log on one instance, a queue listener on each instance.
type tableListener struct {
	function *Function
	tables   *aztables.ServiceClient
	feed     tableFeed
	store    hostStore
	record   string // name of the record with the position in the log
	lock     *singleton
	messages *queueListener
	reached  atomic.Pointer[string] // the position up to which messages were put
	every    time.Duration          // between attempts after an error
	nudge    nudge                  // interrupts the pause after an error
	clock    Clock
	log      *slog.Logger
}

func newTableListener(a *App, f *Function, storage *Storage, h TableHandler) (*tableListener, error) {
	if storage.Tables == nil {
		return nil, errors.New("the connection string has no table endpoint")
	}
	store, err := a.openHost(storage)
	if err != nil {
		return nil, fmt.Errorf("a table trigger keeps its position in a blob: %w", err)
	}
	log := a.config.Logger.With("function", f.name)
	l := &tableListener{
		function: f, tables: storage.Tables, feed: tableFeed{storage.Tables.NewClient(f.settings.table)}, store: store,
		record: "tablefeeds/" + a.config.HostID + "/" + f.name + "/" + f.settings.table, every: time.Second,
		nudge: newNudge(), clock: a.config.Clock, log: log,
		lock: &singleton{
			store: store, name: "locks/" + a.config.HostID + "/" + f.name + "/" + f.settings.table + ".TableFeed",
			owner:  uuid.NewString(),
			period: a.config.LockPeriod, retry: a.config.LockPeriod / 3, clock: a.config.Clock, log: log,
		},
	}
	if l.messages, err = newQueueListener(a, f, storage, l.handle(h)); err != nil {
		return nil, err
	}
	l.messages.poisonName = tablePoisonQueue
	l.messages.poison, err = a.openQueue(storage, tablePoisonQueue)
	return l, err
}

func (l *tableListener) messageQueue() queueClient { return l.messages.queue }

func (l *tableListener) wake() { l.messages.wake() }

func (l *tableListener) listen(soft, hard context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { l.lock.lead(soft, hard, l.follow) })
	err := l.messages.listen(soft, hard)
	wg.Wait()
	return err
}

// follow reads the log while this instance holds the lock. It can stop at any point: changes after the recorded
// position are read again.
func (l *tableListener) follow(soft, _ context.Context) {
	l.retrying(soft, func() error { return l.read(soft) })
}

// retrying calls read until soft is done, with pauses after errors. Equal errors in a row are logged once.
func (l *tableListener) retrying(soft context.Context, read func() error) {
	failing := ""
	for soft.Err() == nil {
		err := contain(read)
		switch text := sdkerr.Text(err); {
		case err == nil:
			failing = ""
			continue
		case soft.Err() != nil:
			return
		case text == failing:
		case hasTableCode(err, aztables.TableNotFound):
			failing = text
			l.log.Warn("the table does not exist; waiting for it", "table", l.function.settings.table)
		default:
			failing = text
			l.function.stats.fail(l.clock.Now(), err)
			l.log.Error("reading the change log of the table failed; retrying", "table", l.function.settings.table, "err",
				sdkerr.Short(err))
		}
		pause := l.every
		if errors.Is(err, errNoFeed) {
			pause = time.Minute
		}
		l.nudge.pause(soft, l.clock, pause)
	}
}

// Fault points around the writes of the reader for each page of the log.
var (
	pointBeforeChanges  = fault.Declare("workers/before-change-messages")
	pointAfterChanges   = fault.Declare("workers/after-change-messages")
	pointAfterWatermark = fault.Declare("workers/after-change-position")
)

// A recorded position in the log may have the prefix wholeTable: the entities of the table are to be read before the
// changes after the position.
const wholeTable = "all "

// begin records the beginning of the function durably unless an instance has recorded one before: the end of the log,
// with the whole table before it if the function is to handle existing entities, or the creation of the table if it
// does not exist. The service logs the changes after that.
func (l *tableListener) begin(ctx context.Context) error {
	record, err := l.store.read(ctx, l.record)
	if err != nil || len(record) > 0 {
		return wrapBegin(err)
	}
	page, err := l.feed.after(ctx, "", 0)
	switch {
	case hasTableCode(err, aztables.TableNotFound):
		page.position = longpoll.FromCreation
	case err != nil:
		return err
	case l.function.settings.existing:
		page.position = wholeTable + page.position
	}
	return wrapBegin(l.store.create(ctx, l.record, []byte(page.position)))
}

func wrapBegin(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("record where the function begins: %w", err)
}

// position returns the recorded position, which begin has made.
func (l *tableListener) position(ctx context.Context) (string, error) {
	if err := l.begin(ctx); err != nil {
		return "", err
	}
	record, err := l.store.read(ctx, l.record)
	if err != nil {
		return "", fmt.Errorf("read the recorded position: %w", err)
	}
	position := string(record)
	l.reached.Store(&position)
	return position, nil
}

// moveTo records the position up to which changes were put or handled.
func (l *tableListener) moveTo(ctx context.Context, position string) error {
	if err := fault.Point(pointAfterChanges); err != nil {
		return err
	}
	if err := l.store.write(ctx, l.record, []byte(position)); err != nil {
		return fmt.Errorf("record the position: %w", err)
	}
	l.reached.Store(&position)
	return fault.Point(pointAfterWatermark)
}

// forgotten returns the position from which to continue if the log does not have the changes after the recorded one.
func (l *tableListener) forgotten(now string) string {
	l.log.Warn("the change log no longer has the recorded position; reading the whole table", "table",
		l.function.settings.table)
	return wholeTable + now
}

// read reads the log from the recorded position until an error.
func (l *tableListener) read(ctx context.Context) error {
	position, err := l.position(ctx)
	if err != nil {
		return err
	}
	for {
		next, whole := strings.CutPrefix(position, wholeTable)
		if whole {
			err = l.feed.all(ctx, func(m []tableMessage) error { return l.put(ctx, m) })
		} else {
			asked := l.clock.Now()
			var page feedPage
			if page, err = l.feed.after(ctx, position, longWait); err != nil {
				return err
			}
			if page.known && len(page.changes) == 0 && l.clock.Now().Sub(asked) < minPollingInterval {
				l.lock.pause(ctx, minPollingInterval) // The long poll returned at once: the service is stopping.
			}
			if err := fault.Point(pointBeforeChanges); err != nil {
				return err
			}
			if next = page.position; !page.known {
				next = l.forgotten(next)
			}
			err = l.put(ctx, page.changes)
		}
		if err == nil && next != position {
			err = l.moveTo(ctx, next)
		}
		if err != nil {
			return err
		}
		position = next
	}
}

// putAtOnce is the number of messages that are put concurrently.
const putAtOnce = 16

// put puts messages for changes, for each entity only for the last change.
func (l *tableListener) put(ctx context.Context, changes []tableMessage) error {
	last := make(map[[2]string]int, len(changes))
	for i, c := range changes {
		last[[2]string{c.PartitionKey, c.RowKey}] = i
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, putAtOnce)
	var wg sync.WaitGroup
	for i, c := range changes {
		if last[[2]string{c.PartitionKey, c.RowKey}] != i {
			continue
		}
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			c.Type, c.FunctionId, c.TableName = "TableTrigger", l.function.name, l.function.settings.table
			body, err := json.Marshal(c)
			if err == nil {
				_, err = putCreating(ctx, l.messages.queue, base64.StdEncoding.EncodeToString(body))
			}
			if err != nil {
				cancel(fmt.Errorf("put a message: %w", err))
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(changes) > 0 {
		l.messages.wake()
	}
	return nil
}

// handle converts a table handler to a queue handler.
func (l *tableListener) handle(h TableHandler) QueueHandler {
	return func(ctx context.Context, raw QueueMessage) error {
		var m tableMessage
		if err := json.Unmarshal(raw.Body, &m); err != nil {
			return Permanent(fmt.Errorf("not a table trigger's message: %w", err))
		}
		change := TableChange{Table: m.TableName, PartitionKey: m.PartitionKey, RowKey: m.RowKey, Change: m.Change,
			ETag: m.ETag}
		entity, err := entityio.Get(ctx, l.tables.NewClient(m.TableName), m.PartitionKey, m.RowKey)
		switch missing := isNoEntity(err); {
		case err != nil && !missing:
			return fmt.Errorf("get the entity: %w", err)
		case missing != (m.Change == bindings.TableDelete), !missing && string(entity.ETag) != m.ETag:
			return nil // The entity was changed; that change has, or will have, another message.
		case !missing:
			change.Entity = entity.JSON
		}
		if ic, ok := FromContext(ctx); ok {
			ic.TriggerMetadata["Table"], ic.TriggerMetadata["PartitionKey"], ic.TriggerMetadata["RowKey"] = m.TableName,
				m.PartitionKey, m.RowKey
			ic.TriggerMetadata["Change"], ic.TriggerMetadata["ETag"] = string(m.Change), m.ETag
		}
		return h(ctx, change)
	}
}

func isNoEntity(err error) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && (r.ErrorCode == string(aztables.ResourceNotFound) ||
		r.ErrorCode == string(aztables.TableNotFound) || r.ErrorCode == string(aztables.EntityNotFound))
}
