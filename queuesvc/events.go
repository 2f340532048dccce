package queuesvc

import (
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	state "github.com/lazuli-storage/lazuli/internal/state/queue"
)

// event returns the event of a change of the call's queue, nil if no subscription wants it.
func (s *Service) event(c *call, kind, subject string) *changes.Event {
	if !s.common.Changes.WantsQueue(c.Account, c.queue, kind) {
		return nil
	}
	return &changes.Event{Type: kind, Subject: subject, Data: map[string]any{"queue": c.queue}}
}

// queueEvent is event for a change of the queue itself.
func (s *Service) queueEvent(c *call, kind string) *changes.Event {
	return s.event(c, kind, changes.QueueSubject(c.queue))
}

// messageEvent is event for a change of the message that the request names.
func (s *Service) messageEvent(c *call, kind string, id state.ID) *changes.Event {
	e := s.event(c, kind, changes.MessageSubject(c.queue, id.String()))
	if e != nil {
		e.Data["messageId"] = id.String()
	}
	return e
}

// putEvent is event for a new message, whose ID is not known yet. contentLength is the length of its text in bytes.
func (s *Service) putEvent(c *call, contentLength int) *changes.Event {
	kind := changes.MessagePut
	source, poisoned := strings.CutSuffix(c.queue, changes.PoisonSuffix)
	if poisoned {
		kind = changes.MessagePoisoned
	}
	e := s.queueEvent(c, kind)
	if e == nil {
		return nil
	}
	e.Data["contentLength"] = contentLength
	if poisoned {
		e.Data["sourceQueue"] = source
	}
	return e
}

// describe completes an event with a message.
func describe(e *changes.Event, queue string, m *state.Message) {
	if e == nil {
		return
	}
	e.Subject = changes.MessageSubject(queue, m.ID.String())
	e.Data["messageId"] = m.ID.String()
	e.Data["timeNextVisible"] = time.Unix(0, m.NextVisible).UTC()
}

// record makes a change with its event, which may be nil. The error of change is mapped to the answer's.
func (s *Service) record(c *call, e *changes.Event, change func() error) error {
	if e == nil {
		return change()
	}
	return s.recordAll(c, []*changes.Event{e}, change)
}

// recordAll is record for a change with several events, or none.
func (s *Service) recordAll(c *call, list []*changes.Event, change func() error) error {
	if len(list) == 0 {
		return change()
	}
	return s.common.Changes.Record(c.Request, list, func() error { return azureError(change()) })
}
