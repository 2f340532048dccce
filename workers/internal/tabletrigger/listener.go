package tabletrigger

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers/bindings"
	"github.com/lazuli-storage/lazuli/workers/internal/calls"
	"github.com/lazuli-storage/lazuli/workers/internal/locks"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// tablePoisonQueue is the poison queue of all table triggers.
const tablePoisonQueue = "webjobs-tabletrigger-poison"

// SetQueue sets the queue of a table trigger's messages, and checks the settings.
func SetQueue(f *trigger.Function, hostID string) error {
	f.Settings.QueueName = trigger.HashedQueueName("azure-webjobs-tabletrigger-", hostID, f.Name)
	f.Settings.Encoding = trigger.Base64Encoding
	errs := []error{CheckName(f.Settings.Table), f.Settings.ValidateQueue()}
	if f.Settings.Parallel < 1 {
		errs = append(errs, fmt.Errorf("%d parallel changes", f.Settings.Parallel))
	}
	return errors.Join(errs...)
}

// CheckName returns an error for a name that no table can have.
func CheckName(table string) error {
	if tableName().MatchString(table) {
		return nil
	}
	return fmt.Errorf("table name %q does not have 3 to 63 letters and digits, starting with a letter", table)
}

// New makes the listener of a table trigger.
func New(env *trigger.Environment, f *trigger.Function, h handler) (trigger.Listener, error) {
	l, err := newListener(env, f, h)
	if err != nil || !f.Settings.InOrder {
		return l, err
	}
	return &orderedListener{listener: l, handler: h, env: env}, nil
}

// handler handles one change.
type handler = func(ctx context.Context, c bindings.TableChange) error

// tableName are the rules of
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#table-names
var tableName = lazyregexp.New(`^[A-Za-z][A-Za-z0-9]{2,62}$`)

// message describes one change.
type message struct {
	Type, FunctionId, TableName, PartitionKey, RowKey, ETag string
	Change                                                  bindings.TableChangeKind
}

// listener runs a table trigger: a reader of the log on one instance, a queue listener on each instance.
type listener struct {
	function *trigger.Function
	tables   *aztables.ServiceClient
	feed     Feed
	store    locks.Store
	record   string // name of the record with the position in the log
	lock     *locks.Singleton
	messages *trigger.QueueListener
	reached  atomic.Pointer[string] // the position up to which messages were put
	every    time.Duration          // between attempts after an error
	nudge    calls.Nudge            // interrupts the pause after an error
	clock    calls.Clock
	log      *slog.Logger
}

func newListener(env *trigger.Environment, f *trigger.Function, h handler) (*listener, error) {
	if env.Tables == nil {
		return nil, errors.New("the connection string has no table endpoint")
	}
	store, err := env.OpenHost()
	if err != nil {
		return nil, fmt.Errorf("a table trigger keeps its position in a blob: %w", err)
	}
	l := &listener{
		function: f, tables: env.Tables, feed: NewFeed(env.Tables, f.Settings.Table), store: store,
		record: "tablefeeds/" + env.HostID + "/" + f.Name + "/" + f.Settings.Table, every: time.Second,
		nudge: calls.NewNudge(), clock: env.Clock, log: env.Log,
		lock: env.Singleton(store, f.Name+"/"+f.Settings.Table+".TableFeed"),
	}
	if l.messages, err = trigger.NewQueueListener(env, f, l.handle(h)); err != nil {
		return nil, err
	}
	l.messages.PoisonName = tablePoisonQueue
	l.messages.Poison, err = env.OpenQueue(tablePoisonQueue)
	return l, err
}

// MessageQueue implements trigger.Queued.
func (l *listener) MessageQueue() queues.Client { return l.messages.Queue }

// Wake implements trigger.Listener.
func (l *listener) Wake() { l.messages.Wake() }

// Listen implements trigger.Listener.
func (l *listener) Listen(soft, hard context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { l.lock.Lead(soft, hard, l.follow) })
	err := l.messages.Listen(soft, hard)
	wg.Wait()
	return err
}

// follow reads the log while this instance holds the lock. It can stop at any point: changes after the recorded
// position are read again.
func (l *listener) follow(soft, _ context.Context) {
	l.retrying(soft, func() error { return l.read(soft) })
}

// retrying calls read until soft is done, with pauses after errors. Equal errors in a row are logged once.
func (l *listener) retrying(soft context.Context, read func() error) {
	failing := ""
	for soft.Err() == nil {
		err := calls.Contain(read)
		switch text := sdkerr.Text(err); {
		case err == nil:
			failing = ""
			continue
		case soft.Err() != nil:
			return
		case text == failing: // It was logged when it came first.
		case HasTableCode(err, aztables.TableNotFound):
			failing = text
			l.log.Warn("the table does not exist; waiting for it", "table", l.function.Settings.Table)
		default:
			failing = text
			l.function.Stats.Fail(l.clock.Now(), err)
			l.log.Error("reading the change log of the table failed; retrying", "table", l.function.Settings.Table, "err",
				sdkerr.Short(err))
		}
		pause := l.every
		if errors.Is(err, ErrNoFeed) {
			pause = time.Minute
		}
		l.nudge.Pause(soft, l.clock, pause)
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

// Begin records the beginning of the function durably unless an instance has recorded one before: the end of the log,
// with the whole table before it if the function is to handle existing entities, or the creation of the table if it
// does not exist. The service logs the changes after that.
func (l *listener) Begin(ctx context.Context) error {
	record, err := l.store.Read(ctx, l.record)
	if err != nil || len(record) > 0 {
		return wrapBegin(err)
	}
	page, err := l.feed.After(ctx, "", 0)
	switch {
	case HasTableCode(err, aztables.TableNotFound):
		page.Position = longpoll.FromCreation
	case err != nil:
		return err
	case l.function.Settings.Existing:
		page.Position = wholeTable + page.Position
	}
	return wrapBegin(l.store.Create(ctx, l.record, []byte(page.Position)))
}

func wrapBegin(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("record where the function begins: %w", err)
}

// position returns the recorded position, which begin has made.
func (l *listener) position(ctx context.Context) (string, error) {
	if err := l.Begin(ctx); err != nil {
		return "", err
	}
	record, err := l.store.Read(ctx, l.record)
	if err != nil {
		return "", fmt.Errorf("read the recorded position: %w", err)
	}
	position := string(record)
	l.reached.Store(&position)
	return position, nil
}

// moveTo records the position up to which changes were put or handled.
func (l *listener) moveTo(ctx context.Context, position string) error {
	if err := fault.Point(pointAfterChanges); err != nil {
		return err
	}
	if err := l.store.Write(ctx, l.record, []byte(position)); err != nil {
		return fmt.Errorf("record the position: %w", err)
	}
	l.reached.Store(&position)
	return fault.Point(pointAfterWatermark)
}

// forgotten returns the position from which to continue if the log does not have the changes after the recorded one.
func (l *listener) forgotten(now string) string {
	l.log.Warn("the change log no longer has the recorded position; reading the whole table", "table",
		l.function.Settings.Table)
	return wholeTable + now
}

// read reads the log from the recorded position until an error.
func (l *listener) read(ctx context.Context) error {
	position, err := l.position(ctx)
	if err != nil {
		return err
	}
	for {
		next, whole := strings.CutPrefix(position, wholeTable)
		if whole {
			err = l.feed.all(ctx, func(m []message) error { return l.put(ctx, m) })
		} else {
			asked := l.clock.Now()
			var page Page
			if page, err = l.feed.After(ctx, position, queues.LongWait); err != nil {
				return err
			}
			if page.Known && len(page.changes) == 0 && l.clock.Now().Sub(asked) < queues.MinPollingInterval {
				l.lock.Pause(ctx, queues.MinPollingInterval) // The long poll returned at once: the service is stopping.
			}
			if err := fault.Point(pointBeforeChanges); err != nil {
				return err
			}
			if next = page.Position; !page.Known {
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
func (l *listener) put(ctx context.Context, changes []message) error {
	// A handler reads the entity as it is now, so that an earlier change of it would be dropped anyway.
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
		// After an error the position stays where it was, and all of the page comes again.
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			c.Type, c.FunctionId, c.TableName = "TableTrigger", l.function.Name, l.function.Settings.Table
			body, err := json.Marshal(c)
			if err == nil {
				_, err = queues.PutCreating(ctx, l.messages.Queue, base64.StdEncoding.EncodeToString(body))
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
		l.messages.Wake()
	}
	return nil
}

// handle converts a table handler to a queue handler.
func (l *listener) handle(h handler) trigger.QueueHandler {
	return func(ctx context.Context, raw bindings.QueueMessage) error {
		var m message
		if err := json.Unmarshal(raw.Body, &m); err != nil {
			return calls.Permanent(fmt.Errorf("not a table trigger's message: %w", err))
		}
		change := bindings.TableChange{Table: m.TableName, PartitionKey: m.PartitionKey, RowKey: m.RowKey, Change: m.Change,
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
		if i := trigger.InvocationOf(ctx); i != nil {
			i.Metadata["Table"], i.Metadata["PartitionKey"], i.Metadata["RowKey"] = m.TableName,
				m.PartitionKey, m.RowKey
			i.Metadata["Change"], i.Metadata["ETag"] = string(m.Change), m.ETag
		}
		return h(ctx, change)
	}
}

func isNoEntity(err error) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && (r.ErrorCode == string(aztables.ResourceNotFound) ||
		r.ErrorCode == string(aztables.TableNotFound) || r.ErrorCode == string(aztables.EntityNotFound))
}

// Idle reports whether all changes of the table have been handled.
func (l *listener) Idle(ctx context.Context) (bool, error) {
	position := l.reached.Load()
	if position == nil {
		l.nudge.Give()
		return false, nil
	}
	page, err := l.feed.After(ctx, *position, 0)
	if HasTableCode(err, aztables.TableNotFound) && *position == longpoll.FromCreation {
		return l.messages.Idle(ctx)
	}
	if err != nil || !page.Known || len(page.changes) > 0 {
		l.nudge.Give() // It may be in the pause after an error.
		return false, err
	}
	return l.messages.Idle(ctx)
}
