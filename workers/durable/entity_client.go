package durable

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// ErrEntityNotFound means that no entity has the ID, or that it has not handled its first message yet.
var ErrEntityNotFound = errors.New("durable: no such entity")

// EntityID returns the ID of an entity, "@name@key". Names do not differ by case; the SDKs write them in lower case.
func EntityID(name, key string) string { return "@" + strings.ToLower(name) + "@" + key }

// EntityInfo is the state of an entity.
type EntityInfo struct {
	// ID is "@name@key".
	ID string
	// State holds what the entity keeps, in the form of its worker; nil if it has none, or was not asked for.
	State *string `json:",omitempty"`
	// LastModified is the time at which the entity has handled its last message.
	LastModified time.Time
	// LockedBy is the workflow that has locked the entity; empty if none has.
	LockedBy string `json:",omitempty"`
	// Backlog is the number of messages that wait, up to 1,000. Queries leave it out.
	Backlog int
}

// SignalOptions are the options of [Client.SignalEntity].
type SignalOptions struct {
	// Input is JSON; empty for none.
	Input string
	// At is the time at which the signal arrives. Default: at once.
	At time.Time
	// RequestID identifies the signal: sent again under the same one within an hour, for instance after an error, it has
	// its effect once. Default: a random one.
	RequestID string
}

// SignalEntity sends an operation to an entity, which it creates if need be, and does not wait for it. Signals that one
// client sends one after the other arrive in that order. A signal whose call has returned without an error is not lost,
// and has its effect once.
func (c *Client) SignalEntity(ctx context.Context, id, operation string, o SignalOptions) error {
	if err := checkEntityID(id); err != nil {
		return err
	}
	if operation == "" {
		return fmt.Errorf("%w: the operation has no name", ErrBadRequest)
	}
	set(&o.RequestID, newID())
	x := &protocol.EntityOperationSignaledEvent{RequestId: o.RequestID, Operation: operation}
	if o.Input != "" {
		x.Input = wrapperspb.String(o.Input)
	}
	if !o.At.IsZero() {
		if err := event.CheckTime(timestamppb.New(o.At)); err != nil {
			return fmt.Errorf("%w: SignalOptions.At: %w", ErrBadRequest, err)
		}
		x.ScheduledTime = timestamppb.New(o.At)
	}
	e := event.NewExtra(-1, c.b.clock.Now(), func(e *protocol.HistoryEvent) {
		e.EventType = &protocol.HistoryEvent_EntityOperationSignaled{EntityOperationSignaled: x}
	})
	if err := c.b.checkPayload(e); err != nil {
		return err
	}
	m := outgoing{message: &message{ID: o.RequestID, Instance: id, event: e}}
	m.schedule(
		&protocol.HistoryEvent{EventType: &protocol.HistoryEvent_EntityOperationSignaled{EntityOperationSignaled: x}})
	m.delay = m.left(c.b.clock.Now())
	return c.b.deliver(ctx, m, fromClient)
}

// Entity returns an entity, with its state if that is wanted.
func (c *Client) Entity(ctx context.Context, id string, state bool) (*EntityInfo, error) {
	if err := checkEntityID(id); err != nil {
		return nil, err
	}
	r, err := c.b.entities.store.get(ctx, id, state)
	if err != nil {
		return nil, err
	}
	if r.etag == "" {
		return nil, ErrEntityNotFound
	}
	i := r.info()
	i.Backlog, err = c.b.entities.store.backlog(ctx, id)
	return i, err
}

func (r *entityRow) info() *EntityInfo {
	return &EntityInfo{ID: instanceOf(r.PartitionKey), State: r.state, LastModified: r.LastModified, LockedBy: r.LockOwner}
}

// EntityQuery selects entities.
type EntityQuery struct {
	// Prefix is the beginning of the IDs: "@counter@" for all counters.
	Prefix string
	// From and To bound the time of the last change, the second one exclusively; zero: unbounded.
	From, To time.Time
	// State includes the states.
	State bool
	// Empty includes entities without a state.
	Empty bool
	// Top bounds the entities of one page, 1 to 1,000. Default 100.
	Top int
	// Continuation is the position at which the page begins: EntityPage.Continuation of the page before.
	Continuation string
}

// EntityPage is a part of a query's result.
type EntityPage struct {
	Entities []*EntityInfo
	// Continuation is the position at which the next page begins; empty after the last page.
	Continuation string
}

func (q EntityQuery) filter() (string, error) {
	var all []string
	if q.Prefix != "" && q.Prefix != "@" {
		if q.Prefix[0] != '@' {
			return "", fmt.Errorf("%w: the IDs of entities begin with @", ErrBadInstanceID)
		}
		if err := checkInstanceID(q.Prefix[1:]); err != nil {
			return "", err
		}
		key := partitionKey(q.Prefix)
		all = append(all, "PartitionKey ge "+quote(key)+" and PartitionKey lt "+quote(key+"\uffff"))
	}
	if !q.From.IsZero() {
		all = append(all, "LastModified ge datetime'"+q.From.UTC().Format(edmTime)+"'")
	}
	if !q.To.IsZero() {
		all = append(all, "LastModified lt datetime'"+q.To.UTC().Format(edmTime)+"'")
	}
	if !q.Empty {
		all = append(all, "HasState eq true")
	}
	return strings.Join(all, " and "), nil
}

// QueryEntities returns a page of entities, in the order of their IDs. A page can be empty though others follow.
func (c *Client) QueryEntities(ctx context.Context, q EntityQuery) (*EntityPage, error) {
	filter, err := q.filter()
	if err != nil {
		return nil, err
	}
	set(&q.Top, 100)
	if q.Top < 1 || q.Top > 1000 {
		return nil, fmt.Errorf("durable: EntityQuery.Top %d is not within 1 to 1000", q.Top)
	}
	after, err := positionOf(q.Continuation)
	if err != nil {
		return nil, err
	}
	rows, next, err := c.b.entities.store.list(ctx, filter, q.Top, after)
	if err != nil {
		return nil, err
	}
	page := &EntityPage{Continuation: next.text()}
	for _, r := range rows {
		if q.State {
			err := c.b.entities.store.fill(ctx, r)
			if errors.Is(err, errNoPayload) { // A commit may have deleted the blob after the page was read.
				r, err = c.b.entities.store.get(ctx, instanceOf(r.PartitionKey), true)
				if err == nil && r.etag == "" {
					continue // The entity was removed meanwhile.
				}
			}
			if err != nil {
				return nil, err
			}
		}
		page.Entities = append(page.Entities, r.info())
	}
	return page, nil
}

// CleanOptions are the options of [Client.CleanEntities].
type CleanOptions struct {
	// Empty removes entities that have neither state nor lock nor messages.
	Empty bool
	// Locks releases locks of workflows that do not run.
	Locks bool
	// Continuation is the place where to begin: Cleaned.Continuation of the call before.
	Continuation string
}

// Cleaned holds what a call of CleanEntities has done.
type Cleaned struct {
	Removed, Released int
	// Continuation is the position at which the next call begins; empty after the last one.
	Continuation string
}

// cleanPage is the number of entities that one call of CleanEntities looks at.
const cleanPage = 500

// CleanEntities removes empty entities and releases locks without owners, among up to 500 entities.
func (c *Client) CleanEntities(ctx context.Context, o CleanOptions) (*Cleaned, error) {
	after, err := positionOf(o.Continuation)
	if err != nil {
		return nil, err
	}
	rows, next, err := c.b.entities.store.list(ctx, "", cleanPage, after)
	if err != nil {
		return nil, err
	}
	done := &Cleaned{Continuation: next.text()}
	if o.Empty && done.Continuation == "" { // Entities that were removed have left their marks.
		if err := c.b.entities.store.trim(ctx, "", c.b.clock.Now()); err != nil {
			return nil, err
		}
	}
	for _, r := range rows {
		id := instanceOf(r.PartitionKey)
		if o.Locks && r.LockedBy != "" {
			released, err := c.releaseOrphan(ctx, id, r)
			if err != nil {
				return nil, err
			}
			if released {
				done.Released++
			}
		}
		if o.Empty && !r.HasState && r.LockedBy == "" {
			now, err := c.b.entities.store.get(ctx, id, false)
			if err != nil {
				return nil, err
			}
			removed, err := c.b.entities.store.remove(ctx, id, now)
			if err != nil {
				return nil, err
			}
			if removed {
				done.Removed++
			}
		}
	}
	return done, nil
}

// releaseOrphan releases an entity whose workflow does not run.
func (c *Client) releaseOrphan(ctx context.Context, id string, r *entityRow) (bool, error) {
	owner, err := c.b.instances.get(ctx, r.LockOwner)
	if err != nil || owner != nil && !isFinal(owner.status()) {
		return false, err
	}
	e := event.NewExtra(-1, c.b.clock.Now(), func(e *protocol.HistoryEvent) {
		e.EventType =
			&protocol.HistoryEvent_EntityUnlockSent{
				EntityUnlockSent: &protocol.EntityUnlockSentEvent{CriticalSectionId: r.LockedBy,
					ParentInstanceId: wrapperspb.String(r.LockOwner)}}
	})
	return true, c.b.deliver(ctx, outgoing{message: &message{ID: newID(), Instance: id, event: e}}, fromHub)
}

// PurgeEntity removes an entity that has neither state nor lock nor messages. It is false if there is no such entity,
// and returns ErrNotCompleted if the entity has any of them.
func (c *Client) PurgeEntity(ctx context.Context, id string) (bool, error) {
	if err := checkEntityID(id); err != nil {
		return false, err
	}
	r, err := c.b.entities.store.get(ctx, id, false)
	if err != nil || r.etag == "" {
		return false, err
	}
	removed, err := c.b.entities.store.remove(ctx, id, r)
	if err == nil && !removed {
		err = ErrNotCompleted
	}
	return removed, err
}
