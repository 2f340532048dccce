package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// startHidden is the time that a start message is hidden while the row is written. If the sender dies meanwhile, the
// message appears after that, and the row decides: without it nothing was created, with it the instance begins.
const startHidden = 30 * time.Second

// startLeeway is the time before the end of startHidden from which on the message counts as one that has appeared: the
// service's clock is not this one.
const startLeeway = 5 * time.Second

// CreateOrchestrationInstance implements backend.Backend. It returns api.ErrDuplicateInstance if an instance with the
// ID exists and the policy does not say otherwise.
func (b *Backend) CreateOrchestrationInstance(ctx context.Context, e *backend.HistoryEvent,
	options ...backend.OrchestrationIdReusePolicyOptions) error {
	if err := b.ready(); err != nil {
		return err
	}
	policy := &api.OrchestrationIdReusePolicy{}
	for _, o := range options {
		if err := o(policy); err != nil {
			return err
		}
	}
	return b.create(ctx, e, func(row *record.InstanceRow) (reuse, error) {
		switch {
		case !slices.Contains(policy.OperationStatus, row.Status()):
			return refuse, nil
		case policy.Action == api.REUSE_ID_ACTION_IGNORE:
			return ignore, nil
		case policy.Action == api.REUSE_ID_ACTION_TERMINATE:
			return replace, nil
		}
		return refuse, nil
	})
}

// reuse is the policy for an existing instance with the ID.
type reuse int

const (
	refuse reuse = iota
	ignore
	replace
)

// create starts an instance: a message that is hidden, the row, then the message is shown. The row is what creates the
// instance; see filter.judgeStart.
func (b *Backend) create(ctx context.Context, e *record.Event, decide func(*record.InstanceRow) (reuse, error)) error {
	e, err := b.checkStart(e)
	if err != nil {
		return err
	}
	x := e.GetExecutionStarted()
	instance := x.OrchestrationInstance.InstanceId
	etag := azcore.ETag("")
	// before the blob is written, which a refusal would leave
	if x.Input != nil && len(x.Input.Value) > record.InlineLimit {
		row, err := b.instances.Get(ctx, instance)
		if err != nil {
			return err
		}
		if row != nil {
			if etag, err = replaceable(row, decide); err != nil || etag == "" {
				return err
			}
		}
	}
	m := record.Outgoing{Message: &record.Message{ID: event.ExecutionOf(e), Instance: instance, Parsed: e}}
	m.Delay = startHidden
	if t := x.ScheduledStartTimestamp; t != nil {
		if due := t.AsTime(); due.After(b.clock.Now()) {
			m.Due = &due
			m.Delay = max(due.Sub(b.clock.Now()), startHidden)
		}
	}
	asked := b.clock.Now()
	s, err := b.send(ctx, m)
	if err != nil {
		return err
	}
	if err := fault.Point(pointStartSent); err != nil {
		return err
	}
	// Each round starts the instance on the condition that its row is as the last look found it: absent, or with the
	// ETag of the row that may be replaced. So of two starts at the same time one wins, and the other decides again.
	for {
		_, err = b.instances.Start(ctx, instance, e, m.Blob, etag)
		if !errors.Is(err, record.ErrExists) {
			break
		}
		row, getErr := b.instances.Get(ctx, instance)
		switch {
		case getErr != nil:
			err = getErr
		case row == nil:
			etag = ""
			continue
		case row.StartID == m.ID:
			err = nil // The answer to the first attempt was lost.
		default:
			if etag, err = replaceable(row, decide); err == nil && etag != "" {
				continue
			}
			s.Drop(ctx)
			return err
		}
		break
	}
	if err != nil {
		return err // Whether the instance exists is not known: the row decides when the message appears.
	}
	now := b.clock.Now()
	late := now.Sub(asked) > m.Delay-startLeeway // The message may have been received, and dropped for lack of the row.
	if m.Delay == startHidden {
		held, err := s.Show(ctx, m.Left(now))
		if err != nil {
			b.log.Warn("cannot show the message that starts an instance; it appears by itself", "instance", instance, "err",
				sdkerr.Short(err))
		}
		late = !held || err != nil && late
	}
	if late {
		m.Delay = m.Left(now)
		if _, err := b.send(ctx, m); err != nil { // A copy is dropped.
			return fmt.Errorf("durable: the instance %q is created and may not begin: %w", instance, err)
		}
	}
	return nil
}

// checkStart returns a copy of a start event that has an execution ID.
func (b *Backend) checkStart(e *record.Event) (*record.Event, error) {
	if e == nil || e.Timestamp == nil || e.GetExecutionStarted().GetOrchestrationInstance() == nil {
		return nil, errors.New("durable: the event does not start an instance")
	}
	if err := record.CheckInstanceID(e.GetExecutionStarted().OrchestrationInstance.InstanceId); err != nil {
		return nil, err
	}
	if e.GetExecutionStarted().Name == "" {
		return nil, fmt.Errorf("%w: the workflow has no name", record.ErrBadRequest)
	}
	if err := b.checkPayload(e); err != nil {
		return nil, err
	}
	e = proto.Clone(e).(*record.Event)
	if event.ExecutionOf(e) == "" {
		e.GetExecutionStarted().OrchestrationInstance.ExecutionId = wrapperspb.String(record.NewID())
	}
	return e, nil
}

// PurgeOrchestrationState implements backend.Backend: it deletes the history, the payloads and the row of an instance
// that does not run. It can be repeated after a failure.
func (b *Backend) PurgeOrchestrationState(ctx context.Context, id api.InstanceID) error {
	if err := b.ready(); err != nil {
		return err
	}
	instance := string(id)
	row, err := b.instances.Get(ctx, instance)
	if err != nil {
		return err
	}
	if row == nil {
		return api.ErrInstanceNotFound
	}
	if !record.IsFinal(row.Status()) {
		return api.ErrNotCompleted
	}
	if err := b.histories.Remove(ctx, instance, b.clock.Now()); err != nil {
		return err
	}
	if err := fault.Point(pointPurgeHistory); err != nil {
		return err
	}
	if err := b.payloads.DeleteAll(ctx, instance); err != nil {
		return err
	}
	if err := fault.Point(pointPurgePayloads); err != nil {
		return err
	}
	if err := b.instances.Remove(ctx, instance, row.ETag); err != nil {
		return fmt.Errorf("durable: purge %q: %w", instance, err)
	}
	return nil
}

// replaceable returns the ETag of a row that may be replaced; none if the request is to be ignored.
func replaceable(r *record.InstanceRow, decide func(*record.InstanceRow) (reuse, error)) (azcore.ETag, error) {
	what, err := decide(r)
	switch {
	case err != nil:
		return "", err
	case what == refuse:
		return "", api.ErrDuplicateInstance
	case what == ignore:
		return "", nil
	}
	return r.ETag, nil
}
