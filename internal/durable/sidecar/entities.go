package sidecar

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

func signalEntity(ctx context.Context, h *openHub, r *protocol.SignalEntityRequest) (*protocol.SignalEntityResponse,
	error) {
	return &protocol.SignalEntityResponse{}, h.client.SignalEntity(ctx, r.InstanceId, r.Name,
		hub.SignalOptions{Input: r.Input.GetValue(), At: timeOf(r.ScheduledTime), RequestID: r.RequestId})
}

func getEntity(ctx context.Context, h *openHub, r *protocol.GetEntityRequest) (*protocol.GetEntityResponse, error) {
	e, err := h.client.Entity(ctx, r.InstanceId, r.IncludeState)
	if errors.Is(err, hub.ErrEntityNotFound) {
		return &protocol.GetEntityResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &protocol.GetEntityResponse{Exists: true, Entity: entityOf(e)}, nil
}

func entityOf(e *record.EntityInfo) *protocol.EntityMetadata {
	m := &protocol.EntityMetadata{InstanceId: e.ID, LastModifiedTime: timestamppb.New(e.LastModified),
		BacklogQueueSize: int32(e.Backlog), SerializedState: protocol.Text(e.State)}
	if e.LockedBy != "" {
		m.LockedBy = wrapperspb.String(e.LockedBy)
	}
	return m
}

func queryEntities(ctx context.Context, h *openHub, r *protocol.QueryEntitiesRequest) (*protocol.QueryEntitiesResponse,
	error) {
	q := r.GetQuery()
	page, err := h.client.QueryEntities(ctx,
		hub.EntityQuery{Prefix: q.GetInstanceIdStartsWith().GetValue(), From: timeOf(q.GetLastModifiedFrom()),
			To: timeOf(q.GetLastModifiedTo()), State: q.GetIncludeState(), Empty: q.GetIncludeTransient(),
			Top:          pageSize(q.GetPageSize().GetValue()),
			Continuation: q.GetContinuationToken().GetValue()})
	if err != nil {
		return nil, err
	}
	a := &protocol.QueryEntitiesResponse{}
	for _, e := range page.Entities {
		a.Entities = append(a.Entities, entityOf(e))
	}
	if page.Continuation != "" {
		a.ContinuationToken = wrapperspb.String(page.Continuation)
	}
	return a, nil
}

func cleanEntityStorage(ctx context.Context, h *openHub,
	r *protocol.CleanEntityStorageRequest) (*protocol.CleanEntityStorageResponse, error) {
	done, err := h.client.CleanEntities(ctx,
		hub.CleanOptions{Empty: r.RemoveEmptyEntities, Locks: r.ReleaseOrphanedLocks,
			Continuation: r.ContinuationToken.GetValue()})
	if err != nil {
		return nil, err
	}
	a := &protocol.CleanEntityStorageResponse{EmptyEntitiesRemoved: int32(done.Removed),
		OrphanedLocksReleased: int32(done.Released)}
	if done.Continuation != "" {
		a.ContinuationToken = wrapperspb.String(done.Continuation)
	}
	return a, nil
}
