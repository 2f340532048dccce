package queuesvc

import (
	"errors"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/queuesvc/internal/state"
)

// updateMessage is Update Message: a new visibility timeout from now on and, with a body, a new text.
// https://learn.microsoft.com/rest/api/storageservices/update-message
func (s *Service) updateMessage(c *call) error {
	id, receipt, err := c.messageReceipt()
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
			text = []byte{} // an empty text, not none
		}
	}
	q, err := s.state.Queue(c.HTTP.Context(), c.Account, c.queue)
	if err != nil {
		return s.failure(c, err)
	}
	m, err := q.Update(c.HTTP.Context(), id, receipt, text, visibility, c.Now)
	if errors.Is(err, state.ErrPastExpiry) {
		return wire.InvalidQuery("visibilitytimeout", formatSeconds(visibility),
			"visibilitytimeout must not end after the message expires")
	}
	if err != nil {
		return s.failure(c, err)
	}
	if visibility == 0 {
		s.common.Board.Touch(longpoll.Key(c.Account, c.queue))
	}
	c.Set("x-ms-popreceipt", m.Receipt.String())
	c.Set("x-ms-time-next-visible", messageTime(m.NextVisible))
	return c.Status(http.StatusNoContent)
}

// deleteMessage is Delete Message.
// https://learn.microsoft.com/rest/api/storageservices/delete-message2
func (s *Service) deleteMessage(c *call) error {
	id, receipt, err := c.messageReceipt()
	if err != nil {
		return err
	}
	q, err := s.state.Queue(c.HTTP.Context(), c.Account, c.queue)
	if err != nil {
		return s.failure(c, err)
	}
	if err := q.Delete(c.HTTP.Context(), id, receipt, c.Now); err != nil {
		return s.failure(c, err)
	}
	return c.Status(http.StatusNoContent)
}

// messageReceipt reads which message is meant and what shows that the caller holds it.
func (c *call) messageReceipt() (state.ID, state.Receipt, error) {
	if !c.Query.Has("popreceipt") {
		return state.ID{}, 0, wire.MissingQuery("popreceipt")
	}
	text := c.Query.Get("popreceipt")
	receipt, ok := state.ParseReceipt(text)
	if !ok {
		return state.ID{}, 0, wire.InvalidQuery("popreceipt", text, "Invalid pop receipt format")
	}
	id, ok := state.ParseID(c.message)
	if !ok {
		return state.ID{}, 0, errMessageNotFound
	}
	return id, receipt, nil
}
