package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
	"github.com/lazuli-storage/lazuli/functions/internal/keys"
)

// The webhooks of Azure Functions' extensions, at /runtime/webhooks/EXTENSION?functionName=NAME. If keys are asked for,
// they need the system key of the extension.
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-event-grid-trigger#endpoint-url
const (
	extensionEvents = "EventGrid"
	extensionBlobs  = "blobs"
	// blobFunctionPrefix stands before the names of functions with a blob trigger.
	// https://learn.microsoft.com/azure/azure-functions/functions-event-grid-blob-trigger#build-the-endpoint-url
	blobFunctionPrefix = "Host.Functions."
)

// maxEvents is the maximum length of the body of a webhook's request: Event Grid sends up to 1 MB.
const maxEvents = 8 << 20

func webhookPath(extension, function string) string {
	return "/runtime/webhooks/" + extension + "?functionName=" + url.QueryEscape(function)
}

// serveWebhook serves the webhooks of Event Grid triggers and of blob triggers with the source EventGrid: the
// handshakes of both schemas, and deliveries. A delivery is accepted once all of its events are handled, or, for blob
// triggers, in the trigger's queue.
func (h *Host) serveWebhook(w http.ResponseWriter, r *http.Request) {
	extension, name := r.PathValue("extension"), r.URL.Query().Get("functionName")
	kind := kindEventTrigger
	switch {
	case strings.EqualFold(extension, extensionEvents):
	case strings.EqualFold(extension, extensionBlobs):
		kind, name = kindBlobTrigger, strings.TrimPrefix(name, blobFunctionPrefix)
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	key := map[string]string{kindEventTrigger: keys.Events, kindBlobTrigger: keys.Blobs}[kind]
	if !h.keys.Admit(w, r, key) {
		return
	}
	// The key was examined before: a caller without one does not learn which functions exist.
	f := h.subscriber(kind, name)
	if f == nil {
		http.Error(w, fmt.Sprintf("cannot find function: '%s'", name), http.StatusNotFound)
		return
	}
	if origin := r.Header.Get("Webhook-Request-Origin"); r.Method == http.MethodOptions && origin != "" {
		w.Header().Set("WebHook-Allowed-Origin", origin)
		return
	}
	// With the header of Event Grid the Functions host looks at no method: the tests of Microsoft's worker for Java
	// deliver by GET (EventGridEndToEndTests).
	if r.Method != http.MethodPost && r.Header.Get("Aeg-Event-Type") == "" {
		w.Header().Set("Allow", "OPTIONS, POST")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEvents))
	var list []json.RawMessage
	if err == nil {
		list, err = splitEvents(body)
	}
	if err != nil {
		http.Error(w, "want events as JSON: "+err.Error(), http.StatusBadRequest)
		return
	}
	switch r.Header.Get("Aeg-Event-Type") {
	case "SubscriptionValidation":
		var e struct {
			Data struct{ ValidationCode string }
		}
		if len(list) != 1 || json.Unmarshal(list[0], &e) != nil || e.Data.ValidationCode == "" {
			http.Error(w, "want one event with a validation code", http.StatusBadRequest)
			return
		}
		jsonvalue.Respond(w, http.StatusOK, map[string]string{"validationResponse": e.Data.ValidationCode})
	case "Unsubscribe":
		w.WriteHeader(http.StatusAccepted)
	default: // Notification, or CloudEvents from elsewhere
		if err := h.callForEvents(f, list); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}
}

// subscriber returns the function with a trigger of a kind that takes events, nil if the app has none of the name.
func (h *Host) subscriber(kind, name string) *function {
	for _, f := range h.project.functions {
		if strings.EqualFold(f.name, name) && f.trigger.kind == kind && (kind == kindEventTrigger || f.trigger.events) {
			return f
		}
	}
	return nil
}

// splitEvents returns the events of a body: an array, or one object.
func splitEvents(body []byte) (list []json.RawMessage, err error) {
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] == '{' {
		body = append(append([]byte{'['}, body...), ']')
	}
	err = json.Unmarshal(body, &list)
	return list, err
}

// callForEvents calls a function for each event, in order.
func (h *Host) callForEvents(f *function, list []json.RawMessage) error {
	h.calls.Add(1)
	defer h.calls.Done()
	for _, e := range list {
		var err error
		if f.trigger.kind == kindBlobTrigger {
			err = h.announce(h.hard, f, e)
		} else {
			err = h.callForEvent(h.hard, f, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) callForEvent(ctx context.Context, f *function, event json.RawMessage) error {
	inv := h.newInvocation(ctx, f, "EventGrid trigger fired.")
	if err := inv.fromEvent(event); err != nil {
		return err
	}
	return h.wrap(ctx, inv, func(ctx context.Context) error {
		_, err := h.call(ctx, inv)
		return err
	})
}

// errNoEvent means that the input of an Event Grid trigger is not an object.
var errNoEvent = errors.New("an event must be a JSON object")

// fromEvent takes what an Event Grid trigger offers: the event, and its data for binding expressions such as
// {data.url}.
func (inv *invocation) fromEvent(event json.RawMessage) error {
	var e struct{ Data json.RawMessage }
	if t := bytes.TrimSpace(event); len(t) == 0 || t[0] != '{' || json.Unmarshal(t, &e) != nil {
		return errNoEvent
	}
	inv.data.Set("EventGridTrigger", event)
	if jsonvalue.Present(e.Data) != nil {
		var data any
		if err := json.Unmarshal(e.Data, &data); err != nil {
			return err
		}
		inv.data.Set("data", data)
	}
	inv.trigger = event
	return nil
}

// announce puts the message of a blob trigger for a blob that was created. Other events are ignored.
func (h *Host) announce(ctx context.Context, f *function, event json.RawMessage) error {
	var e struct{ Subject, EventType, Type string }
	if json.Unmarshal(event, &e) != nil || e.EventType+e.Type != "Microsoft.Storage.BlobCreated" {
		return nil
	}
	path, ok := strings.CutPrefix(e.Subject, "/blobServices/default/containers/")
	container, name, found := strings.Cut(path, "/blobs/")
	if !ok || !found {
		return nil
	}
	err := f.worker.BlobCreated(ctx, container, name)
	if err != nil {
		h.log.LogAttrs(ctx, slog.LevelError, "a blob that was announced cannot be handled", slog.String("function", f.name),
			slog.String("blob", container+"/"+name), slog.Any("err", err))
	}
	return err
}
