package hub

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
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// ErrEntityNotFound means that no entity has the ID, or that it has not handled its first message yet.
var ErrEntityNotFound = errors.New("durable: no such entity")

// EntityID returns the ID of an entity, "@name@key". Names do not differ by case; the SDKs write them in lower case.
func EntityID(name, key string) string { return "@" + strings.ToLower(name) + "@" + key }

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
	if err := record.CheckEntityID(id); err != nil {
		return err
	}
	if operation == "" {
		return fmt.Errorf("%w: the operation has no name", record.ErrBadRequest)
	}
	set(&o.RequestID, record.NewID())
	x := &protocol.EntityOperationSignaledEvent{RequestId: o.RequestID, Operation: operation}
	if o.Input != "" {
		x.Input = wrapperspb.String(o.Input)
	}
	if !o.At.IsZero() {
		if err := event.CheckTime(timestamppb.New(o.At)); err != nil {
			return fmt.Errorf("%w: SignalOptions.At: %w", record.ErrBadRequest, err)
		}
		x.ScheduledTime = timestamppb.New(o.At)
	}
	e := event.NewExtra(-1, c.b.clock.Now(), func(e *protocol.HistoryEvent) {
		e.EventType = &protocol.HistoryEvent_EntityOperationSignaled{EntityOperationSignaled: x}
	})
	if err := c.b.checkPayload(e); err != nil {
		return err
	}
	m := record.Outgoing{Message: &record.Message{ID: o.RequestID, Instance: id, Parsed: e}}
	m.Schedule(
		&protocol.HistoryEvent{EventType: &protocol.HistoryEvent_EntityOperationSignaled{EntityOperationSignaled: x}})
	m.Delay = m.Left(c.b.clock.Now())
	return c.b.deliver(ctx, m, record.FromClient)
}

// Entity returns an entity, with its state if that is wanted.
func (c *Client) Entity(ctx context.Context, id string, state bool) (*record.EntityInfo, error) {
	if err := record.CheckEntityID(id); err != nil {
		return nil, err
	}
	r, err := c.b.entities.store.Get(ctx, id, state)
	if err != nil {
		return nil, err
	}
	if r.ETag == "" {
		return nil, ErrEntityNotFound
	}
	i := r.Info()
	i.Backlog, err = c.b.entities.store.Backlog(ctx, id)
	return i, err
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
	Entities []*record.EntityInfo
	// Continuation is the position at which the next page begins; empty after the last page.
	Continuation string
}

func (q EntityQuery) filter() (string, error) {
	var all []string
	if q.Prefix != "" && q.Prefix != "@" {
		if q.Prefix[0] != '@' {
			return "", fmt.Errorf("%w: the IDs of entities begin with @", record.ErrBadInstanceID)
		}
		if err := record.CheckInstanceID(q.Prefix[1:]); err != nil {
			return "", err
		}
		key := record.PartitionKey(q.Prefix)
		all = append(all, "PartitionKey ge "+record.Quote(key)+" and PartitionKey lt "+record.Quote(key+"\uffff"))
	}
	if !q.From.IsZero() {
		all = append(all, "LastModified ge datetime'"+q.From.UTC().Format(record.EdmTime)+"'")
	}
	if !q.To.IsZero() {
		all = append(all, "LastModified lt datetime'"+q.To.UTC().Format(record.EdmTime)+"'")
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
	after, err := record.PositionOf(q.Continuation)
	if err != nil {
		return nil, err
	}
	rows, next, err := c.b.entities.store.List(ctx, filter, q.Top, after)
	if err != nil {
		return nil, err
	}
	page := &EntityPage{Continuation: next.Text()}
	for _, r := range rows {
		if q.State {
			err := c.b.entities.store.Fill(ctx, r)
			if errors.Is(err, record.ErrNoPayload) { // A commit may have deleted the blob after the page was read.
				r, err = c.b.entities.store.Get(ctx, record.InstanceOf(r.PartitionKey), true)
				if err == nil && r.ETag == "" {
					continue // The entity was removed meanwhile.
				}
			}
			if err != nil {
				return nil, err
			}
		}
		page.Entities = append(page.Entities, r.Info())
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
	after, err := record.PositionOf(o.Continuation)
	if err != nil {
		return nil, err
	}
	rows, next, err := c.b.entities.store.List(ctx, "", cleanPage, after)
	if err != nil {
		return nil, err
	}
	done := &Cleaned{Continuation: next.Text()}
	if o.Empty && done.Continuation == "" { // Entities that were removed have left their marks.
		if err := c.b.entities.store.Trim(ctx, "", c.b.clock.Now()); err != nil {
			return nil, err
		}
	}
	for _, r := range rows {
		id := record.InstanceOf(r.PartitionKey)
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
			now, err := c.b.entities.store.Get(ctx, id, false)
			if err != nil {
				return nil, err
			}
			removed, err := c.b.entities.store.Remove(ctx, id, now)
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
func (c *Client) releaseOrphan(ctx context.Context, id string, r *record.EntityRow) (bool, error) {
	owner, err := c.b.instances.Get(ctx, r.LockOwner)
	if err != nil || owner != nil && !record.IsFinal(owner.Status()) {
		return false, err
	}
	e := event.NewExtra(-1, c.b.clock.Now(), func(e *protocol.HistoryEvent) {
		e.EventType =
			&protocol.HistoryEvent_EntityUnlockSent{
				EntityUnlockSent: &protocol.EntityUnlockSentEvent{CriticalSectionId: r.LockedBy,
					ParentInstanceId: wrapperspb.String(r.LockOwner)}}
	})
	return true, c.b.deliver(ctx, record.Outgoing{Message: &record.Message{ID: record.NewID(), Instance: id, Parsed: e}},
		record.FromHub)
}

// PurgeEntity removes an entity that has neither state nor lock nor messages. It is false if there is no such entity,
// and returns ErrNotCompleted if the entity has any of them.
func (c *Client) PurgeEntity(ctx context.Context, id string) (bool, error) {
	if err := record.CheckEntityID(id); err != nil {
		return false, err
	}
	r, err := c.b.entities.store.Get(ctx, id, false)
	if err != nil || r.ETag == "" {
		return false, err
	}
	removed, err := c.b.entities.store.Remove(ctx, id, r)
	if err == nil && !removed {
		err = record.ErrNotCompleted
	}
	return removed, err
}
