package queuesvc

import (
	"errors"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/queuesvc/internal/state"
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
	body, err := c.messageBody()
	if err != nil {
		return err
	}
	var text []byte
	if len(body) > 0 {
		if text, err = parseMessage(body); err != nil {
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
	if visibility == 0 {
		s.common.Board.Touch(longpoll.Key(c.Account, c.queue))
	}
	c.Set("x-ms-popreceipt", m.Receipt.String())
	c.Set("x-ms-time-next-visible", messageTime(m.NextVisible))
	return c.Status(http.StatusNoContent)
}

// deleteMessage implements Delete Message.
// https://learn.microsoft.com/rest/api/storageservices/delete-message2
func (s *Service) deleteMessage(c *call) error {
	id, receipt, err := c.messageID()
	if err != nil {
		return err
	}
	q := s.state.Queue(c.Account, c.queue)
	err = s.record(c, s.messageEvent(c, changes.MessageDeleted, id), func() error {
		return q.Delete(id, receipt, c.Now)
	})
	if err != nil {
		return err
	}
	return c.Status(http.StatusNoContent)
}

// messageID parses the message id and the pop receipt of the request, the receipt first, as Azure does.
func (c *call) messageID() (state.ID, state.Receipt, error) {
	if !c.Query.Has(popReceipt) {
		return state.ID{}, state.Receipt{}, wire.MissingQuery(popReceipt)
	}
	text := c.Query.Get(popReceipt)
	receipt, ok := state.ParseReceipt(text)
	if !ok {
		return state.ID{}, receipt, wire.InvalidQuery(popReceipt, text, "Invalid pop receipt format")
	}
	id, ok := state.ParseID(c.message)
	if !ok {
		return state.ID{}, receipt, errMessageNotFound
	}
	return id, receipt, nil
}

const popReceipt = "popreceipt"
