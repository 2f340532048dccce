package webhook

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// entityState is an entity as the API shows it in a list. LockedBy and Backlog are Lazuli's, and shown with
// details=true only.
type entityState struct {
	EntityID          entityID `json:"entityId"`
	LastOperationTime string   `json:"lastOperationTime"`
	State             any      `json:"state"`
	LockedBy          string   `json:"lockedBy,omitempty"`
	Backlog           int      `json:"backlog,omitempty"`
}

type entityID struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// signalEntity sends an operation to an entity.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api#signal-entity
func (c *call) signalEntity(name, key string) error {
	input, err := c.content()
	if err != nil {
		return err
	}
	if input != "" && !json.Valid([]byte(input)) {
		return badRequest("Invalid JSON content")
	}
	operation := c.query.text("op")
	if operation == "" {
		return badRequest("op names the operation, and is missing")
	}
	if err := c.client.SignalEntity(c.r.Context(), hub.EntityID(name, key), operation,
		hub.SignalOptions{Input: input}); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

// getEntity answers with the state of an entity.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api#get-entity
func (c *call) getEntity(name, key string) error {
	details, err := c.query.boolean("details", false)
	if err != nil {
		return err
	}
	e, err := c.client.Entity(c.r.Context(), hub.EntityID(name, key), true)
	if err == nil && details {
		s := entityState{EntityID: entityID{name, key}, LastOperationTime: e.LastModified.UTC().Format(time.RFC3339Nano),
			LockedBy: e.LockedBy, Backlog: e.Backlog}
		if e.State != nil {
			s.State = asJSON(*e.State)
		}
		writeJSON(c.w, http.StatusOK, s)
		return nil
	}
	// An entity that has only been signalled exists for the engine, and not for this API.
	if errors.Is(err, hub.ErrEntityNotFound) || err == nil && e.State == nil {
		return status(http.StatusNotFound)
	}
	if err != nil {
		return err
	}
	writeJSON(c.w, http.StatusOK, asJSON(*e.State))
	return nil
}

// listEntities answers a query for entities, of one name or of all.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api#list-entities
func (c *call) listEntities(name string) error {
	q := hub.EntityQuery{Continuation: c.r.Header.Get(continuation)}
	if name != "" {
		// With the sign that ends the name: @counter@ does not match the entities of counter2.
		q.Prefix = hub.EntityID(name, "")
	}
	var err error
	if q.From, err = c.query.time("lastOperationTimeFrom"); err != nil {
		return err
	}
	if q.To, err = c.query.time("lastOperationTimeTo"); err != nil {
		return err
	}
	if q.State, err = c.query.boolean("fetchState", false); err != nil {
		return err
	}
	details, err := c.query.boolean("details", false)
	if err != nil {
		return err
	}
	// An entity without state may still be locked or have a backlog, which only details show.
	q.Empty = details
	if text := c.query.text("top"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return badRequest("top=%s is not a number of 1 or more", text)
		}
		// Fewer than were asked for is no error: the token of the answer leads to the rest.
		q.Top = min(n, maxPage)
	}
	page, err := c.client.QueryEntities(c.r.Context(), q)
	if errors.Is(err, record.ErrBadRequest) && !errors.Is(err, record.ErrBadInstanceID) {
		return badRequest("x-ms-continuation-token is not one that an answer had")
	}
	if err != nil {
		return err
	}
	states := make([]entityState, 0, len(page.Entities))
	for _, e := range page.Entities {
		// A key may have the sign itself, a name not: the first one ends the name.
		name, key, _ := strings.Cut(strings.TrimPrefix(e.ID, "@"), "@")
		s := entityState{EntityID: entityID{name, key}, LastOperationTime: e.LastModified.UTC().Format(time.RFC3339Nano)}
		if e.State != nil {
			s.State = asJSON(*e.State)
		}
		if details {
			now, err := c.client.Entity(c.r.Context(), e.ID, false)
			// It was deleted between the page and this read.
			if errors.Is(err, hub.ErrEntityNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			s.LockedBy, s.Backlog = now.LockedBy, now.Backlog
		}
		states = append(states, s)
	}
	c.w.Header().Set(continuation, page.Continuation)
	writeJSON(c.w, http.StatusOK, states)
	return nil
}

// unmatched answers with the pending work that no connected worker takes. It is Lazuli's.
func (c *call) unmatched() error {
	list := []inflight.Unmatched{}
	if c.o.Unmatched != nil {
		list = append(list, c.o.Unmatched()...)
	}
	writeJSON(c.w, http.StatusOK, list)
	return nil
}
