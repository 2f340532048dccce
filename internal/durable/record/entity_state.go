package record

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

// MaxLockSet bounds the entities that one critical section locks.
const MaxLockSet = 64

// EntityBatch bounds the rows that one commit of an entity deletes and adds. Its transaction has at most 100
// operations.
const EntityBatch = 90

// lock is the critical section that has an entity; empty if none has.
type lock struct {
	Section, Owner string
}

// InboxMessage is a message to an entity, with the key of its row.
type InboxMessage struct {
	Key     string
	Message *Message
	X       *protocol.HistoryEvent // the message's event
}

// EntityStep collects what an entity does in one commit.
type EntityStep struct {
	Lock     lock
	Released map[string]bool // critical sections that were released before their lock request arrived
	Most     int             // rows that the commit deletes and adds, besides the entity's own

	Run      []InboxMessage           // operations, in their order
	Consumed []InboxMessage           // other messages that are handled
	Forward  []*protocol.HistoryEvent // lock requests that go on, with the position of the next entity
	Note     []string                 // critical sections to note as released
	Forget   []string                 // critical sections whose note has served its purpose
	Changed  bool                     // whether the lock has changed
	Lost     []entitybatch.Operation  // calls whose input cannot be read
}

// Full reports whether the step takes no more messages.
func (s *EntityStep) Full() bool {
	return len(s.Run)+len(s.Consumed)+len(s.Note)+len(s.Forget) >= s.Most
}

// Take decides about the next message in order.
func (s *EntityStep) Take(m InboxMessage) {
	switch e := m.X.GetEventType().(type) {
	case *protocol.HistoryEvent_EntityOperationSignaled:
		if s.Lock.Section == "" {
			s.Run = append(s.Run, m)
		}
	case *protocol.HistoryEvent_EntityOperationCalled:
		if s.Lock.Section == "" || s.Lock.Owner == e.EntityOperationCalled.ParentInstanceId.GetValue() {
			s.Run = append(s.Run, m)
		}
	case *protocol.HistoryEvent_EntityLockRequested:
		s.takeLock(m, e.EntityLockRequested)
	case *protocol.HistoryEvent_EntityUnlockSent:
		section := e.EntityUnlockSent.CriticalSectionId
		if s.Lock.Section == section {
			s.Lock, s.Changed = lock{}, true
		} else if !s.Released[section] {
			s.Note = append(s.Note, section)
			s.Released[section] = true
		}
		s.Consumed = append(s.Consumed, m)
	default:
		s.Consumed = append(s.Consumed, m) // Of no known kind.
	}
}

func (s *EntityStep) takeLock(m InboxMessage, l *protocol.EntityLockRequestedEvent) {
	switch {
	case s.Released[l.CriticalSectionId]:
		s.Consumed = append(s.Consumed, m)
		if at := slices.Index(s.Note, l.CriticalSectionId); at >= 0 {
			s.Note = slices.Delete(s.Note, at, at+1) // The note was not written yet.
		} else if !slices.Contains(s.Forget, l.CriticalSectionId) {
			s.Forget = append(s.Forget, l.CriticalSectionId)
		}
	case s.Lock.Section == "":
		s.Lock, s.Changed = lock{l.CriticalSectionId, l.ParentInstanceId.GetValue()}, true
		s.Consumed, s.Forward = append(s.Consumed, m), append(s.Forward, m.X)
	case s.Lock.Section == l.CriticalSectionId:
		s.Consumed = append(s.Consumed, m)
	}
}

// NextLock returns the receiver of a lock request that an entity has granted, and the event for it: the request for the
// next entity, or for the workflow the news that it has all locks.
func NextLock(l *protocol.EntityLockRequestedEvent) (receiver string, e *protocol.HistoryEvent) {
	next := l.Position + 1
	if int(next) < len(l.LockSet) {
		return l.LockSet[next], &protocol.HistoryEvent{EventId: -1, EventType: &protocol.HistoryEvent_EntityLockRequested{
			EntityLockRequested: &protocol.EntityLockRequestedEvent{CriticalSectionId: l.CriticalSectionId,
				LockSet:          l.LockSet,
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
