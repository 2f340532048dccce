package events

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
)

// The states of a subscription, by the names of Azure's provisioningState.
const (
	// Succeeded: the endpoint has been validated, and events are delivered.
	Succeeded = "Succeeded"
	// AwaitingManualAction: the endpoint has accepted the handshake and not answered it. Events wait until the URL for
	// validation is called.
	AwaitingManualAction = "AwaitingManualAction"
)

// ErrHandshake means that an endpoint has not confirmed that it wants the events.
var ErrHandshake = errors.New("the webhook validation handshake failed")

// validationLifetime is for how long the URL for validation works.
const validationLifetime = 10 * time.Minute

// requestOrigin is the origin by which an endpoint for CloudEvents recognises Event Grid.
const requestOrigin = "eventgrid.azure.net"

// maxHandshake bounds the response of a handshake in bytes.
const maxHandshake = 64 << 10

// handshake asks the endpoint of a subscription whether it wants the events. code is secret; url is where a person can
// confirm instead, or "". https://learn.microsoft.com/azure/event-grid/end-point-validation-event-grid-events-schema
func (c *couriers) handshake(ctx context.Context, s *Subscription, code, url string, now time.Time) (state string,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	if s.EndpointType != Webhook {
		return Succeeded, nil
	}
	if s.DeliverySchema == CloudEvents {
		return c.askPermission(ctx, s, url)
	}
	data := map[string]string{"validationCode": code}
	if url != "" {
		data["validationUrl"] = url
	}
	e := Event{ID: uuid.NewString(), Topic: eventlog.Topic(s.Account),
		Type: "Microsoft.EventGrid.SubscriptionValidationEvent", Time: now, Data: mustMarshal(data)}
	g := e.grid()
	g.DataVersion = "2"
	h := http.Header{}
	h.Set("Content-Type", gridContent)
	h.Set(typeHeader, isValidation)
	h.Set("Aeg-Subscription-Name", strings.ToUpper(s.Name))
	h.Set("Aeg-Metadata-Version", metadataVersion)
	h.Set("Aeg-Data-Version", g.DataVersion)
	resp, err := c.request(ctx, http.MethodPost, s.Endpoint, mustMarshal([]gridEvent{g}), h)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxHandshake)) // An incomplete body confirms nothing.
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted {
		return "", fmt.Errorf("%w: the endpoint answered %d", ErrHandshake, resp.StatusCode)
	}
	var answer struct {
		Code string `json:"validationResponse"`
	}
	_ = json.Unmarshal(text, &answer) // likewise
	switch {
	case answer.Code == "" && url != "":
		return AwaitingManualAction, nil
	case subtle.ConstantTimeCompare([]byte(answer.Code), []byte(code)) != 1:
		return "", fmt.Errorf("%w: the endpoint's validationResponse is not the validation code", ErrHandshake)
	}
	return Succeeded, nil
}

// askPermission is the handshake of CloudEvents.
// https://learn.microsoft.com/azure/event-grid/end-point-validation-cloud-events-schema
// https://github.com/cloudevents/spec/blob/v1.0/http-webhook.md#4-abuse-protection
func (c *couriers) askPermission(ctx context.Context, s *Subscription, url string) (state string, err error) {
	h := http.Header{}
	h.Set("Webhook-Request-Origin", requestOrigin)
	if url != "" {
		h.Set("Webhook-Request-Callback", url)
	}
	resp, err := c.request(ctx, http.MethodOptions, s.Endpoint, nil, h)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxDiscarded)
	if resp.StatusCode < http.StatusOK || resp.StatusCode > http.StatusNoContent {
		return "", fmt.Errorf("%w: the endpoint answered %d to OPTIONS", ErrHandshake, resp.StatusCode)
	}
	switch allowed := resp.Header.Get("Webhook-Allowed-Origin"); {
	case allowed == "*" || strings.EqualFold(allowed, requestOrigin):
		return Succeeded, nil
	case allowed == "" && url != "":
		return AwaitingManualAction, nil
	default:
		return "", fmt.Errorf("%w: the endpoint allows the origin %q, and not %s", ErrHandshake, allowed, requestOrigin)
	}
}
