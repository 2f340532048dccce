package queuesvc

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/queue"
)

// updateMessage implements Update Message: it sets a new visibility timeout from now on and, with a body, a new text.
// https://learn.microsoft.com/rest/api/storageservices/update-message
func (s *Service) updateMessage(c *call) error {
	id, receipt, err := c.messageID()
	if err != nil {
		return err
	}
	visibility, err := c.requiredSeconds("visibilitytimeout", 0, maxVisibility)
	if err != nil {
		return err
	}
	body, err := c.messageBody(nil, maxMessage)
	if err != nil {
		return err
	}
	var text []byte
	if len(body) > 0 {
		if text, err = parseMessage(body, maxMessage); err != nil {
			return err
		}
		if text == nil {
			text = []byte{} // an empty text, not a missing one
		}
	}
	q := s.state.Queue(c.Account, c.queue)
	var m state.Message
	e := s.messageEvent(c, changes.MessageUpdated, id)
	err = s.record(c, e, func() (err error) {
		m, err = q.Update(id, receipt, text, visibility, c.Now)
		if errors.Is(err, state.ErrPastExpiry) {
			return wire.InvalidQuery("visibilitytimeout", formatSeconds(visibility),
				"visibilitytimeout must not end after the message expires")
		}
		if err == nil {
			describe(e, c.queue, &m)
		}
		return err
	})
	if err != nil {
		return err
	}
	c.Touch(wire.MessageUpdated, m.ID, 0)
	// The message is visible now, and may be what a waiting Get Messages waits for.
	if visibility == 0 {
		s.common.Board.Touch(longpoll.Key(c.Account, c.queue))
	}
	c.Set("x-ms-popreceipt", m.Receipt.String())
	c.Set("x-ms-time-next-visible", wire.FormatRFC1123(time.Unix(0, m.NextVisible)))
	return c.Status(http.StatusNoContent)
}

// deleteMessage implements Delete Message.
// https://learn.microsoft.com/rest/api/storageservices/delete-message2
//
// With [longpoll.AlsoHeader], an extension, it deletes further messages in the same transaction. The status is that of
// the message in the path; the others have an outcome each, whatever it is.
func (s *Service) deleteMessage(c *call) error {
	id, receipt, err := c.messageID()
	if err != nil {
		return err
	}
	list, err := deleteAlso(c)
	if err != nil {
		return err
	}
	q := s.state.Queue(c.Account, c.queue)
	if len(list) > 0 && s.event(c, changes.MessageDeleted, "") == nil {
		err = s.deleteTogether(c, q, append(list, state.Held{ID: id, Receipt: receipt}))
	} else { // each with an event of its own
		// The message in the path goes last. If the outcomes of the others cannot be answered, it still exists, and a
		// client that tries again finds it.
		outcomes := make([]error, len(list))
		for i, h := range list {
			outcomes[i] = s.deleteOne(c, q, h)
		}
		if err = s.setAlso(c, outcomes); err == nil {
			err = s.deleteOne(c, q, state.Held{ID: id, Receipt: receipt})
		}
	}
	if err != nil {
		return err
	}
	return c.Status(http.StatusNoContent)
}

func (s *Service) deleteOne(c *call, q *state.Queue, h state.Held) error {
	err := s.record(c, s.messageEvent(c, changes.MessageDeleted, h.ID), func() error {
		return q.Delete(h.ID, h.Receipt, c.Now)
	})
	if err == nil {
		c.Touch(wire.MessageDeleted, h.ID, 0)
	}
	return err
}

// deleteTogether deletes several messages; the last is that of the path, whose outcome it returns.
func (s *Service) deleteTogether(c *call, q *state.Queue, list []state.Held) error {
	outcomes, err := q.DeleteAll(list, c.Now)
	if err != nil {
		return err
	}
	for i, outcome := range outcomes {
		if outcome == nil {
			c.Touch(wire.MessageDeleted, list[i].ID, 0)
		}
	}
	last := len(outcomes) - 1
	if err := s.setAlso(c, outcomes[:last]); err != nil {
		return err
	}
	return outcomes[last]
}

// deleteAlso parses [longpoll.AlsoHeader].
func deleteAlso(c *call) (list []state.Held, err error) {
	text := c.Header(longpoll.AlsoHeader)
	if text == "" {
		return nil, nil
	}
	parts := strings.SplitN(text, ",", longpoll.MaxAlso+1)
	if len(parts) > longpoll.MaxAlso {
		return nil, wire.InvalidHeader(longpoll.AlsoHeader, text)
	}
	for _, part := range parts {
		idText, receiptText, _ := strings.Cut(part, ":")
		id, ok := state.ParseID(idText)
		receipt, valid := state.ParseReceipt(receiptText)
		if !ok || !valid {
			return nil, wire.InvalidHeader(longpoll.AlsoHeader, text)
		}
		list = append(list, state.Held{ID: id, Receipt: receipt})
	}
	return list, nil
}

// setAlso answers with the outcomes of the messages of [longpoll.AlsoHeader]. It fails with an outcome that the client
// could not act upon.
func (s *Service) setAlso(c *call, outcomes []error) error {
	codes := make([]string, len(outcomes))
	for i, err := range outcomes {
		codes[i] = longpoll.AlsoDeleted
		if err == nil {
			continue
		}
		var e *wire.Error
		if err = azureError(err); !errors.As(err, &e) {
			return err
		}
		codes[i] = e.Code
	}
	if len(codes) > 0 {
		c.Set(longpoll.AlsoHeader, strings.Join(codes, ","))
	}
	return nil
}

// messageID parses the message id and the pop receipt of the request. The receipt must be base64. An id or a receipt
// that this service did not issue is the zero value, which no message has: the state finds no message, in a queue that
// exists. Recorded: DeleteMessagAsync_Error of
// https://github.com/Azure/azure-sdk-for-net/tree/main/sdk/storage/Azure.Storage.Queues/tests
func (c *call) messageID() (state.ID, state.Receipt, error) {
	if !c.Query.Has(popReceipt) {
		return state.ID{}, state.Receipt{}, wire.MissingQuery(popReceipt)
	}
	text := c.Query.Get(popReceipt)
	if _, err := base64.StdEncoding.DecodeString(text); err != nil || text == "" {
		return state.ID{}, state.Receipt{}, wire.InvalidQuery(popReceipt, text, "Invalid pop receipt format")
	}
	receipt, _ := state.ParseReceipt(text)
	id, _ := state.ParseID(c.message)
	return id, receipt, nil
}

const popReceipt = "popreceipt"
