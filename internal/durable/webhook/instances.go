package webhook

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// continuation is the header with the continuation token of a query.
const continuation = "X-Ms-Continuation-Token"

// list answers a query for instances.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api#get-all-instances-status
func (c *call) list() error {
	q, err := c.query.filter()
	if err != nil {
		return err
	}
	if q.Prefix = c.query.text("instanceIdPrefix"); len(q.Prefix) > 256 {
		return badRequest("instanceIdPrefix has more than 256 bytes")
	}
	if text := c.query.text("top"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return badRequest("top=%s is not a number of 1 or more", text)
		}
		q.Top = min(n, maxPage)
	}
	input, err := c.query.boolean("showInput", true)
	if err != nil {
		return err
	}
	q.Continuation = c.r.Header.Get(continuation)
	// Before the token is checked: that of this order has another form.
	if c.query.text("order") == "newest" {
		q.Workflow = c.query.text("workflow")
		return c.listNewest(q)
	}
	if q.Continuation != "" && !json.Valid([]byte(q.Continuation)) {
		return badRequest("x-ms-continuation-token is not one that an answer had")
	}
	details, err := c.query.boolean("details", false)
	if err != nil {
		return err
	}
	// The states have input and output, unless showInput is false.
	q.Payloads = true
	if details {
		q.Workflow = c.query.text("workflow")
	}
	page, err := c.client.Query(c.r.Context(), q)
	if err != nil {
		return err
	}
	states := make([]state, 0, len(page.Instances))
	for _, i := range page.Instances {
		s := newState(i, input)
		if details {
			s.detail(i)
		}
		states = append(states, s)
	}
	c.w.Header().Set(continuation, page.Continuation)
	writeJSON(c.w, http.StatusOK, states)
	return nil
}

// get answers with the state of an instance.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api#get-instance-status
func (c *call) get(id string) error {
	i, err := c.client.Get(c.r.Context(), id)
	if err != nil {
		return err
	}
	return c.answer(i)
}

// answer writes the state of an instance: with 202 and Location while it runs.
func (c *call) answer(i *record.Instance) error {
	history, err := c.query.boolean("showHistory", false)
	if err != nil {
		return err
	}
	output, err := c.query.boolean("showHistoryOutput", false)
	if err != nil {
		return err
	}
	input, err := c.query.boolean("showInput", true)
	if err != nil {
		return err
	}
	failures, err := c.query.boolean("returnInternalServerErrorOnFailure", false)
	if err != nil {
		return err
	}
	details, err := c.query.boolean("details", false)
	if err != nil {
		return err
	}
	s := newState(i, input)
	if details {
		s.detail(i)
	}
	if history {
		events, err := c.client.History(c.r.Context(), i.ID)
		if err != nil {
			return err
		}
		s.HistoryEvents = historyOf(events, output, details)
	}
	code := http.StatusOK
	switch {
	// Clients of the API poll the Location until it is no longer 202.
	case !i.Done():
		code = http.StatusAccepted
		c.w.Header().Set("Location", c.origin()+c.r.URL.RequestURI())
		c.w.Header().Set("Retry-After", "5")
	// Only if it is asked for: a caller such as a gateway looks at the status alone.
	case i.Status == "Failed" && failures:
		code = http.StatusInternalServerError
	}
	writeJSON(c.w, code, s)
	return nil
}

// running returns an error unless the instance runs: 404 without it, 410 if it has ended.
func (c *call) running(id string) error {
	i, err := c.client.Get(c.r.Context(), id)
	if err != nil {
		return err
	}
	if i.Done() {
		return status(http.StatusGone)
	}
	return nil
}

// steer sends something to an instance that runs.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api#terminate-instance
func (c *call) steer(id string, send func(reason string) error) error {
	if err := c.running(id); err != nil {
		return err
	}
	if err := send(c.query.text("reason")); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

// raiseEvent sends an event with JSON to an instance that runs.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api#raise-event
func (c *call) raiseEvent(id, name string) error {
	if err := c.running(id); err != nil {
		return err
	}
	if kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type")); !strings.EqualFold(kind, "application/json") {
		return badRequest("Only application/json request content is supported")
	}
	data, err := c.content()
	if err != nil {
		return err
	}
	if !json.Valid([]byte(data)) {
		return badRequest("Invalid JSON content")
	}
	if err := c.client.RaiseEvent(c.r.Context(), id, name, data); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

// rewind restarts a failed instance from its failed activities.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api#rewind-instance-preview
func (c *call) rewind(id string) error {
	i, err := c.client.Get(c.r.Context(), id)
	if errors.Is(err, record.ErrInstanceNotFound) {
		return &apiError{status: http.StatusNotFound, message: "No orchestration with instance ID \"" + id + "\" found.",
			text: true}
	}
	if err != nil {
		return err
	}
	notFailed := &apiError{status: http.StatusPreconditionFailed, text: true,
		message: "This orchestration has status " + i.Status +
			", but only orchestrations in the \"Failed\" state can be rewound."}
	if i.Status != "Failed" {
		return notFailed
	}
	// The instance may have been restarted since it was read; the engine decides.
	switch err := c.client.Rewind(c.r.Context(), id, c.query.text("reason")); {
	case errors.Is(err, record.ErrNotFailed):
		return notFailed
	case err != nil:
		return err
	}
	c.w.WriteHeader(http.StatusAccepted)
	return nil
}

// purged is the body of an answer to a purge.
type purged struct {
	InstancesDeleted int `json:"instancesDeleted"`
}

// purge deletes the history and payloads of an instance that has ended.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api#purge-single-instance-history
func (c *call) purge(id string) error {
	i, err := c.client.Get(c.r.Context(), id)
	if err != nil {
		return err
	}
	running := &apiError{status: http.StatusPreconditionFailed, text: true,
		message: "Only orchestrations in a terminal state can be purged, but the orchestration with instance ID " + id +
			" has status " + i.Status}
	if !i.Done() {
		return running
	}
	switch err := c.client.Purge(c.r.Context(), id); {
	case errors.Is(err, record.ErrNotCompleted):
		return running
	case err != nil:
		return err
	}
	writeJSON(c.w, http.StatusOK, purged{1})
	return nil
}

// purgeAll purges the instances that a filter selects and that have ended.
//
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api#purge-multiple-instance-histories
func (c *call) purgeAll() error {
	q, err := c.query.filter()
	if err != nil {
		return err
	}
	// A request without any filter would delete the histories of the whole hub.
	if q.From.IsZero() {
		return &apiError{status: http.StatusBadRequest, message: "Please provide value for 'createdTimeFrom' parameter.",
			text: true}
	}
	if q.To.IsZero() {
		q.To = time.Now()
	}
	n, err := c.client.PurgeAll(c.r.Context(), q)
	if err != nil {
		return err
	}
	if n == 0 {
		return status(http.StatusNotFound)
	}
	writeJSON(c.w, http.StatusOK, purged{n})
	return nil
}
