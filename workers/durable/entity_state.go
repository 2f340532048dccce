package durable

import (
	"slices"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// The state machine of an entity's messages and lock. It is a pure function: it reads the messages in their order and
// says which of them the entity handles now. What it does not take stays where it is.
//
//	unlocked --lock request--> locked by a critical section     the request goes on to the section's next entity, or is granted
//	locked --unlock of that section--> unlocked
//
//	message                        unlocked            locked by its sender    locked by another one
//	signal                         run                 wait                    wait
//	call                           run                 run                     wait
//	lock request                   lock                drop (a copy)           wait
//	lock request, section released drop                drop                    drop
//	unlock of the section          -                   unlock                  -
//	unlock of another section      note as released    note as released        note as released
//
// A critical section locks its entities in the order of their IDs, one after the other, so that no two sections wait
// for each other. An unlock can arrive before the request that it belongs to, from a workflow that has ended while it
// waited: the section is noted as released.

// maxLockSet bounds the entities that one critical section locks.
const maxLockSet = 64

// lock is the critical section that has an entity; empty if none has.
type lock struct {
	Section, Owner string
}

// inboxMessage is a message to an entity, with the key of its row.
type inboxMessage struct {
	key     string
	message *message
	x       *protocol.HistoryEvent // the message's event
}

// entityStep collects what an entity does in one commit.
type entityStep struct {
	lock     lock
	released map[string]bool // critical sections that were released before their lock request arrived
	most     int             // rows that the commit deletes and adds, besides the entity's own

	run      []inboxMessage           // operations, in their order
	consumed []inboxMessage           // other messages that are handled
	forward  []*protocol.HistoryEvent // lock requests that go on, with the position of the next entity
	note     []string                 // critical sections to note as released
	forget   []string                 // critical sections whose note has served its purpose
	changed  bool                     // whether the lock has changed
	lost     []entitybatch.Operation  // calls whose input cannot be read
}

// full reports whether the step takes no more messages.
func (s *entityStep) full() bool {
	return len(s.run)+len(s.consumed)+len(s.note)+len(s.forget) >= s.most
}

// take decides about the next message in order.
func (s *entityStep) take(m inboxMessage) {
	switch e := m.x.GetEventType().(type) {
	case *protocol.HistoryEvent_EntityOperationSignaled:
		if s.lock.Section == "" {
			s.run = append(s.run, m)
		}
	case *protocol.HistoryEvent_EntityOperationCalled:
		if s.lock.Section == "" || s.lock.Owner == e.EntityOperationCalled.ParentInstanceId.GetValue() {
			s.run = append(s.run, m)
		}
	case *protocol.HistoryEvent_EntityLockRequested:
		s.takeLock(m, e.EntityLockRequested)
	case *protocol.HistoryEvent_EntityUnlockSent:
		section := e.EntityUnlockSent.CriticalSectionId
		if s.lock.Section == section {
			s.lock, s.changed = lock{}, true
		} else if !s.released[section] {
			s.note = append(s.note, section)
			s.released[section] = true
		}
		s.consumed = append(s.consumed, m)
	default:
		s.consumed = append(s.consumed, m) // Of no known kind.
	}
}

func (s *entityStep) takeLock(m inboxMessage, l *protocol.EntityLockRequestedEvent) {
	switch {
	case s.released[l.CriticalSectionId]:
		s.consumed = append(s.consumed, m)
		if at := slices.Index(s.note, l.CriticalSectionId); at >= 0 {
			s.note = slices.Delete(s.note, at, at+1) // The note was not written yet.
		} else if !slices.Contains(s.forget, l.CriticalSectionId) {
			s.forget = append(s.forget, l.CriticalSectionId)
		}
	case s.lock.Section == "":
		s.lock, s.changed = lock{l.CriticalSectionId, l.ParentInstanceId.GetValue()}, true
		s.consumed, s.forward = append(s.consumed, m), append(s.forward, m.x)
	case s.lock.Section == l.CriticalSectionId:
		s.consumed = append(s.consumed, m)
	}
}

// nextLock returns the receiver of a lock request that an entity has granted, and the event for it: the request for the
// next entity, or for the workflow the news that it has all locks.
func nextLock(l *protocol.EntityLockRequestedEvent) (receiver string, e *protocol.HistoryEvent) {
	next := l.Position + 1
	if int(next) < len(l.LockSet) {
		return l.LockSet[next], &protocol.HistoryEvent{EventId: -1, EventType: &protocol.HistoryEvent_EntityLockRequested{
			EntityLockRequested: &protocol.EntityLockRequestedEvent{CriticalSectionId: l.CriticalSectionId, LockSet: l.LockSet,
				Position:         next,
				ParentInstanceId: l.ParentInstanceId}}}
	}
	return l.ParentInstanceId.GetValue(),
		&protocol.HistoryEvent{EventId: -1, EventType: &protocol.HistoryEvent_EntityLockGranted{
			EntityLockGranted: &protocol.EntityLockGrantedEvent{CriticalSectionId: l.CriticalSectionId}}}
}

// toEntity returns the entity that an event of a workflow's history is for, and the message: with its sender, and a
// lock request with its entities in order. It returns "" for other events.
func toEntity(x *protocol.HistoryEvent, sender, execution string) (entity string, m *protocol.HistoryEvent) {
	from := wrapperspb.String(sender)
	m = &protocol.HistoryEvent{EventId: -1, Timestamp: x.GetTimestamp()}
	switch e := x.GetEventType().(type) {
	case *protocol.HistoryEvent_EntityOperationSignaled:
		s := e.EntityOperationSignaled
		m.EventType =
			&protocol.HistoryEvent_EntityOperationSignaled{EntityOperationSignaled: &protocol.EntityOperationSignaledEvent{
				RequestId: s.RequestId, Operation: s.Operation, ScheduledTime: s.ScheduledTime, Input: s.Input}}
		return s.TargetInstanceId.GetValue(), m
	case *protocol.HistoryEvent_EntityOperationCalled:
		c := e.EntityOperationCalled
		m.EventType =
			&protocol.HistoryEvent_EntityOperationCalled{EntityOperationCalled: &protocol.EntityOperationCalledEvent{
				RequestId: c.RequestId, Operation: c.Operation, ScheduledTime: c.ScheduledTime, Input: c.Input,
				ParentInstanceId: from, ParentExecutionId: wrapperspb.String(execution)}}
		return c.TargetInstanceId.GetValue(), m
	case *protocol.HistoryEvent_EntityLockRequested:
		l := e.EntityLockRequested
		set := slices.Compact(slices.Sorted(slices.Values(l.LockSet)))
		m.EventType = &protocol.HistoryEvent_EntityLockRequested{EntityLockRequested: &protocol.EntityLockRequestedEvent{
			CriticalSectionId: l.CriticalSectionId, LockSet: set, ParentInstanceId: from}}
		return set[0], m
	case *protocol.HistoryEvent_EntityUnlockSent:
		u := e.EntityUnlockSent
		m.EventType = &protocol.HistoryEvent_EntityUnlockSent{EntityUnlockSent: &protocol.EntityUnlockSentEvent{
			CriticalSectionId: u.CriticalSectionId, ParentInstanceId: from}}
		return u.TargetInstanceId.GetValue(), m
	}
	return "", nil
}
