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
	id, err := c.messageID()
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
	q, err := s.state.Queue(c.HTTP.Context(), c.Account, c.queue)
	if err != nil {
		return s.failure(c, err)
	}
	receipt, err := c.receipt(q, id)
	if err != nil {
		return err
	}
	var m state.Message
	e := s.messageEvent(c, changes.MessageUpdated, id)
	err = s.record(c, e, func() (err error) {
		m, err = q.Update(c.HTTP.Context(), id, receipt, text, visibility, c.Now)
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
	c.Set("x-ms-popreceipt", q.ReceiptText(m.ID, m.Receipt))
	c.Set("x-ms-time-next-visible", messageTime(m.NextVisible))
	return c.Status(http.StatusNoContent)
}

// deleteMessage implements Delete Message.
// https://learn.microsoft.com/rest/api/storageservices/delete-message2
func (s *Service) deleteMessage(c *call) error {
	id, err := c.messageID()
	if err != nil {
		return err
	}
	q, err := s.state.Queue(c.HTTP.Context(), c.Account, c.queue)
	if err != nil {
		return s.failure(c, err)
	}
	receipt, err := c.receipt(q, id)
	if err != nil {
		return err
	}
	err = s.record(c, s.messageEvent(c, changes.MessageDeleted, id), func() error {
		return q.Delete(c.HTTP.Context(), id, receipt, c.Now)
	})
	if err != nil {
		return err
	}
	return c.Status(http.StatusNoContent)
}

// messageID parses the message id of the request. It checks the pop receipt first, as Azure does.
func (c *call) messageID() (state.ID, error) {
	if !c.Query.Has(popReceipt) {
		return state.ID{}, wire.MissingQuery(popReceipt)
	}
	if text := c.Query.Get(popReceipt); !state.WellFormedReceipt(text) {
		return state.ID{}, wire.InvalidQuery(popReceipt, text, "Invalid pop receipt format")
	}
	id, ok := state.ParseID(c.message)
	if !ok {
		return state.ID{}, errMessageNotFound
	}
	return id, nil
}

const popReceipt = "popreceipt"

// receipt parses the pop receipt of the request.
func (c *call) receipt(q *state.Queue, id state.ID) (state.Receipt, error) {
	text := c.Query.Get(popReceipt)
	r, ok := q.ParseReceipt(id, text)
	if !ok {
		return 0, wire.InvalidQuery(popReceipt, text, "Invalid pop receipt format")
	}
	return r, nil
}
