package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// content returns the request's body.
func (c *call) content() (string, error) {
	text, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.o.MaxBody))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return "", &apiError{status: http.StatusRequestEntityTooLarge, message: "The content is too large.", cause: err}
	}
	if err != nil {
		return "", &apiError{status: http.StatusBadRequest, message: "The content cannot be read.", cause: err}
	}
	return string(text), nil
}

// start starts an instance.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api#start-orchestration
func (c *call) start(workflow, id string) error {
	if c.o.Workflows != nil && !slices.Contains(c.o.Workflows, workflow) {
		return badRequest("The function %q does not exist or is not an orchestrator function.", workflow)
	}
	wait, err := c.wait()
	if err != nil {
		return err
	}
	input, err := c.content()
	if err != nil {
		return err
	}
	if input != "" && !json.Valid([]byte(input)) {
		return badRequest("Invalid JSON content")
	}
	id, err = c.client.Start(c.r.Context(), workflow, hub.StartOptions{
		InstanceID: id, Input: input, Version: c.query.text("version"), Replace: true, Running: c.o.ReplaceRunning})
	if errors.Is(err, record.ErrInstanceExists) {
		return &apiError{status: http.StatusConflict,
			message: "An orchestration instance with the ID " + id + " exists and still runs.", cause: err}
	}
	if err != nil {
		return err
	}
	return wait(id)
}

// restart starts the workflow of an instance again with its input, by default under a new ID.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api#restart-orchestration-instance
func (c *call) restart(id string) error {
	fresh, err := c.query.boolean("restartWithNewInstanceId", true)
	if err != nil {
		return err
	}
	wait, err := c.wait()
	if err != nil {
		return err
	}
	next, err := c.client.Restart(c.r.Context(), id, fresh)
	switch {
	case errors.Is(err, record.ErrInstanceNotFound):
		return &apiError{status: http.StatusBadRequest,
			message: "InstanceId does not match a valid orchestration instance.",
			cause:   err}
	case errors.Is(err, record.ErrNotCompleted), errors.Is(err, record.ErrInstanceExists):
		return &apiError{status: http.StatusConflict,
			message: "A non-terminal instance with this instance ID already exists.", cause: err}
	case err != nil:
		return err
	}
	return wait(next)
}

// wait reads timeout and pollingInterval, and returns what answers once the instance is started: with both, its output
// if it completes in time.
func (c *call) wait() (func(id string) error, error) {
	timeout, limited, err := c.query.seconds("timeout")
	if err != nil {
		return nil, err
	}
	interval, polled, err := c.query.seconds("pollingInterval")
	if err != nil {
		return nil, err
	}
	if !limited || !polled {
		return c.checkStatus, nil
	}
	if interval > timeout {
		return nil, badRequest("Total timeout %v should be bigger than retry timeout %v", timeout.Seconds(),
			interval.Seconds())
	}
	return func(id string) error {
		ctx, cancel := context.WithTimeout(c.r.Context(), timeout)
		defer cancel()
		i, err := c.client.Wait(ctx, id)
		switch {
		case err != nil && ctx.Err() == nil:
			return err
		case err != nil || i == nil || !i.Done():
			return c.checkStatus(id)
		case i.Status == "Completed":
			writeJSON(c.w, http.StatusOK, asJSON(i.Output))
			return nil
		}
		return c.answer(i)
	}, nil
}
