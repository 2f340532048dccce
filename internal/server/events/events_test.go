package events_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// shape replaces the values of an event that differ from run to run by their form.
func shape(e map[string]any) map[string]any {
	data := e["data"].(map[string]any)
	for key, form := range map[string]func(string) bool{
		"requestId": isGUID, "clientRequestId": isGUID, "eTag": func(s string) bool { return strings.HasPrefix(s, "0x") },
		"sequencer": func(s string) bool { return len(s) == 48 },
		"url":       func(s string) bool { return strings.HasPrefix(s, "http://") },
	} {
		if s, ok := data[key].(string); ok && form(s) {
			data[key] = "<" + key + ">"
		}
	}
	if d, ok := data["storageDiagnostics"].(map[string]any); ok && isGUID(d["batchId"].(string)) {
		data["storageDiagnostics"] = "<diagnostics>"
	}
	for _, key := range []string{"eventTime", "time"} {
		if s, ok := e[key].(string); ok {
			if _, err := time.Parse("2006-01-02T15:04:05.0000000Z", s); err == nil {
				e[key] = "<time>"
			}
		}
	}
	if s, _ := e["id"].(string); isGUID(s) {
		e["id"] = "<id>"
	}
	return e
}

func isGUID(s string) bool { return len(s) == 36 && strings.Count(s, "-") == 4 }

const topic = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/lazuli/providers/Microsoft.Storage/storageAccounts/devstoreaccount1"

func subject(name string) string { return "/blobServices/default/containers/photos/blobs/" + name }

// gridEvent is an event in the Event Grid schema with the data that all types have, and more.
func gridEvent(kind, api, name string, more map[string]any) map[string]any {
	data := map[string]any{"api": api, "clientRequestId": "<clientRequestId>", "requestId": "<requestId>",
		"contentType": "application/octet-stream",
		"blobType":    "BlockBlob", "url": "<url>", "sequencer": "<sequencer>", "storageDiagnostics": "<diagnostics>"}
	for k, v := range more {
		data[k] = v
	}
	return map[string]any{"topic": topic, "subject": subject(name), "eventType": kind, "id": "<id>", "data": data,
		"dataVersion":     "",
		"metadataVersion": "1", "eventTime": "<time>"}
}

// operate runs the operations that are events of Event Grid, and others that are not.
func (f *fixture) operate() {
	ctx := f.ctx()
	one := f.blobs.ServiceClient().NewContainerClient("photos").NewBlockBlobClient("one")
	f.put("one")
	_, err := one.StageBlock(ctx, base64.StdEncoding.EncodeToString([]byte("a")), body("block"), nil)
	check.OK(f, err)
	_, err = one.CommitBlockList(ctx, []string{base64.StdEncoding.EncodeToString([]byte("a"))}, nil)
	check.OK(f, err)
	_, err = one.SetMetadata(ctx, map[string]*string{"a": to.Ptr("b")}, nil)
	check.OK(f, err)
	snap, err := one.CreateSnapshot(ctx, nil)
	check.OK(f, err)
	copied := f.blobs.ServiceClient().NewContainerClient("photos").NewBlobClient("copied")
	_, err = copied.StartCopyFromURL(ctx, one.URL(), nil)
	check.OK(f, err)
	_, err = one.SetTier(ctx, blob.AccessTierCool, nil)
	check.OK(f, err)
	_, err = one.SetTier(ctx, blob.AccessTierArchive, nil)
	check.OK(f, err)
	_, err = one.SetTier(ctx, blob.AccessTierHot, nil)
	check.OK(f, err)
	old, err := one.WithSnapshot(*snap.Snapshot)
	check.OK(f, err)
	_, err = old.Delete(ctx, nil)
	check.OK(f, err)
	_, err = one.Delete(ctx, nil)
	check.OK(f, err)
}

type seekCloser struct{ *strings.Reader }

func (seekCloser) Close() error { return nil }

func body(text string) io.ReadSeekCloser { return seekCloser{strings.NewReader(text)} }

// Each operation has the event, the name of the API and the fields that Azure documents.
// https://learn.microsoft.com/azure/event-grid/event-schema-blob-storage
func TestEventsOfOperations(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	f.subscribe(h, nil)
	f.operate()
	f.flush()
	created := func(n float64) map[string]any {
		return map[string]any{"eTag": "<eTag>", "contentLength": n, "accessTier": "Default"}
	}
	want := []map[string]any{
		gridEvent(events.BlobCreated, "PutBlob", "one", created(14)),
		gridEvent(events.BlobCreated, "PutBlockList", "one", created(5)),
		gridEvent(events.BlobTierChanged, "SetBlobTier", "one",
			map[string]any{"contentLength": 5., "accessTier": "Cool", "previousTier": "Hot"}),
		gridEvent(events.BlobTierChanged, "SetBlobTier", "one",
			map[string]any{"contentLength": 5., "accessTier": "Archive", "previousTier": "Cool"}),
		gridEvent(events.AsyncOperationInitiated, "SetBlobTier", "one", map[string]any{"contentLength": 5.}),
		gridEvent(events.BlobDeleted, "DeleteBlob", "one", nil),
	}
	var got, copied []map[string]any
	for _, r := range h.got() {
		if strings.HasSuffix(r.subject(), "copied") {
			copied = append(copied, shape(r.events[0]))
			continue
		}
		got = append(got, shape(r.events[0]))
		for name, want := range map[string]string{"Content-Type": "application/json; charset=utf-8",
			"Aeg-Event-Type":        "Notification",
			"Aeg-Subscription-Name": "SUB", "Aeg-Delivery-Count": "0", "Aeg-Metadata-Version": "1", "Aeg-Data-Version": ""} {
			if got, ok := r.header[name]; !ok || got[0] != want {
				t.Errorf("header %s is %q, want %q", name, got, want)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]map[string]any{gridEvent(events.BlobCreated, "CopyBlob", "copied", created(5))},
		copied); diff != "" {
		t.Errorf("events of the copy (-want +got):\n%s", diff)
	}
}

// Types that Event Grid does not have are delivered to a subscription that names them.
func TestEventsBeyondEventGrid(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	f.subscribe(h, func(s *events.Subscription) {
		s.IncludedEventTypes = []string{events.BlobPropertiesUpdated, events.BlobSnapshotCreated}
	})
	f.operate()
	f.flush()
	want := []string{events.BlobPropertiesUpdated + " " + subject("one"),
		events.BlobSnapshotCreated + " " + subject("one")}
	if diff := cmp.Diff(want, h.events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestCloudEvents(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	f.subscribe(h, func(s *events.Subscription) { s.DeliverySchema = events.CloudEvents })
	f.put("a b/ü")
	f.flush()
	got := h.got()
	if len(got) != 1 || got[0].body[0] != '{' {
		t.Fatalf("deliveries %d, want one with an object", len(got))
	}
	want := map[string]any{"source": topic, "subject": subject("a b/ü"), "type": events.BlobCreated, "id": "<id>",
		"specversion": "1.0", "time": "<time>",
		"data": gridEvent("", "PutBlob", "",
			map[string]any{"eTag": "<eTag>", "contentLength": 17., "accessTier": "Default"})["data"]}
	if diff := cmp.Diff(want, shape(got[0].events[0])); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	if c := got[0].header.Get("Content-Type"); c != "application/cloudevents+json; charset=utf-8" {
		t.Errorf("Content-Type %q", c)
	}
}

// A batch has as many events as there are, up to its limit.
func TestBatches(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	h.answerWith(status(http.StatusServiceUnavailable))
	f.subscribe(h, func(s *events.Subscription) { s.DeliverySchema, s.MaxEventsPerBatch = events.CloudEvents, 3 })
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		f.put(name)
	}
	check.Eventually(t, func() bool { return f.status().Pending == 7 && f.status().Failed >= 3 }, "the events were read")
	h.answerWith(nil)
	before := len(h.got())
	f.flush()
	largest := 0
	for _, r := range h.got()[before:] {
		largest = max(largest, len(r.events))
		if c := r.header.Get("Content-Type"); c != "application/cloudevents-batch+json; charset=utf-8" {
			t.Errorf("Content-Type %q", c)
		}
	}
	if largest != 3 {
		t.Errorf("the largest batch has %d events, want 3", largest)
	}
}

func TestHandshake(t *testing.T) {
	t.Parallel()
	answer := func(status int, header, value, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if header != "" {
				w.Header().Set(header, value)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	for _, c := range []struct {
		name, schema string
		greet        http.HandlerFunc
		state        string
		err          error
	}{
		{"confirmed", events.GridSchema, nil, events.Succeeded, nil},
		{"wrong code", events.GridSchema, answer(200, "", "", `{"validationResponse":"x"}`), "", events.ErrHandshake},
		{"no code", events.GridSchema, answer(200, "", "", ``), events.AwaitingManualAction, nil},
		{"accepted", events.GridSchema, answer(202, "", "", ``), events.AwaitingManualAction, nil},
		{"failed", events.GridSchema, answer(500, "", "", ``), "", events.ErrHandshake},
		{"redirect", events.GridSchema, answer(302, "Location", "/elsewhere", ``), "", events.ErrHandshake},
		{"origin", events.CloudEvents, nil, events.Succeeded, nil},
		{"any origin", events.CloudEvents, answer(200, "WebHook-Allowed-Origin", "*", ``), events.Succeeded, nil},
		{"other origin", events.CloudEvents, answer(200, "WebHook-Allowed-Origin", "example.com", ``), "",
			events.ErrHandshake},
		{"no origin", events.CloudEvents, answer(200, "", "", ``), events.AwaitingManualAction, nil},
		{"no OPTIONS", events.CloudEvents, answer(405, "", "", ``), "", events.ErrHandshake},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHook(t)
			h.greet = c.greet
			f := start(t, []*hook{h}, func(c *server.Config) {
				c.EventURL = func(account, name, code string) string { return "http://admin.test/?code=" + code }
			})
			s, err := f.stack.Events().Add(f.Context(),
				events.Subscription{Name: "sub", Account: auth.DevelopmentAccount, Endpoint: h.URL, DeliverySchema: c.schema})
			if !errors.Is(err, c.err) || s.State != c.state {
				t.Fatalf("state %q, error %v; want %q, %v", s.State, err, c.state, c.err)
			}
			if n := len(f.stack.Events().List()); (n == 1) != (err == nil) {
				t.Errorf("%d subscriptions after error %v", n, err)
			}
		})
	}
}

// An endpoint that does not answer the handshake gets its events once a person has called the URL for validation.
func TestValidationByHand(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	code := ""
	h.greet = func(w http.ResponseWriter, r *http.Request) {
		var list []struct {
			EventType string
			Data      struct{ ValidationURL string }
		}
		check.OK(t, json.NewDecoder(r.Body).Decode(&list))
		if list[0].EventType != "Microsoft.EventGrid.SubscriptionValidationEvent" {
			t.Errorf("type of the handshake's event: %q", list[0].EventType)
		}
		_, code, _ = strings.Cut(list[0].Data.ValidationURL, "code=")
	}
	f := start(t, []*hook{h}, func(c *server.Config) {
		c.EventURL = func(account, name, code string) string { return "http://admin.test/?code=" + code }
	})
	f.subscribe(h, nil)
	f.put("early")
	m := f.stack.Events()
	if err := m.Confirm(auth.DevelopmentAccount, "sub", "wrong"); !errors.Is(err, events.ErrCode) {
		t.Errorf("wrong code: %v", err)
	}
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	if left, err := m.Flush(ctx); !errors.Is(err, events.ErrUndelivered) || len(left.Undelivered) != 1 {
		t.Errorf("flush before validation: %v %v", left, err)
	}
	check.OK(t, m.Confirm(auth.DevelopmentAccount, "sub", code))
	f.flush()
	if diff := cmp.Diff([]string{events.BlobCreated + " " + subject("early")}, h.events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if err := m.Confirm(auth.DevelopmentAccount, "sub", code); !errors.Is(err, events.ErrCode) {
		t.Errorf("the code works twice: %v", err)
	}
}

// The server calls no host that its configuration does not allow, and follows no redirect.
func TestEgress(t *testing.T) {
	t.Parallel()
	allowed, other := newHook(t), newHook(t)
	f := start(t, []*hook{allowed}, nil)
	_, err := f.stack.Events().Add(f.Context(),
		events.Subscription{Name: "sub", Account: auth.DevelopmentAccount, Endpoint: other.URL})
	if !errors.Is(err, events.ErrHost) {
		t.Errorf("another host: %v", err)
	}
	f.subscribe(allowed, nil)
	allowed.Config.Handler = http.RedirectHandler(other.URL, http.StatusTemporaryRedirect)
	f.put("one")
	check.Eventually(t, func() bool { return f.status().Failed == 1 }, "the redirect is a failure")
	if n := len(other.got()); n != 0 {
		t.Errorf("the redirect was followed %d times", n)
	}
}

// Attempts follow Azure's schedule; after the last one the event is dead-lettered with its history.
func TestRetriesAndDeadLetter(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{events.GridSchema, events.CloudEvents} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			h := newHook(t)
			f := start(t, []*hook{h}, nil)
			_, err := f.blobs.CreateContainer(f.Context(), "dead", nil)
			check.OK(t, err)
			h.answerWith(status(http.StatusInternalServerError))
			f.subscribe(h, func(s *events.Subscription) {
				s.DeliverySchema, s.MaxDeliveryAttempts, s.DeadLetterContainer = schema, 4, "dead"
			})
			f.put("one")
			for attempt, pause := range []time.Duration{0, 10 * time.Second, 30 * time.Second, time.Minute} {
				if pause > 0 {
					f.clock.Advance(pause - time.Millisecond)
					f.stack.ClockChanged()
					check.Eventually(t, func() bool { return f.status().Failed == int64(attempt) }, "no attempt before its time")
					f.clock.Advance(pause/10 + time.Millisecond)
					f.stack.ClockChanged()
				}
				check.Eventually(t, func() bool { return len(h.got()) == attempt+1 && f.status().Failed == int64(attempt+1) },
					"attempt %d is made", attempt+1)
			}
			for i, r := range h.got() {
				if n := r.header.Get("Aeg-Delivery-Count"); n != []string{"0", "1", "2", "3"}[i] {
					t.Errorf("delivery count of attempt %d: %s", i+1, n)
				}
			}
			f.flush()
			letter := f.deadLetter("SUB")
			names := []string{"deadLetterReason", "deliveryAttempts", "lastDeliveryOutcome", "publishTime",
				"lastDeliveryAttemptTime"}
			got := []any{}
			for _, n := range names {
				if schema == events.CloudEvents {
					n = strings.ToLower(n)
				}
				got = append(got, letter[n])
			}
			if got[0] != "MaxDeliveryAttemptsExceeded" || got[1] != 4. || got[2] != "GenericError" || got[3] == nil ||
				got[4] == nil || letter["id"] != h.got()[0].id() {
				t.Errorf("dead letter %v, of event %v", got, letter["id"])
			}
			if s := f.status(); s.DeadLettered != 1 || s.Dropped != 0 || s.Pending != 0 {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// deadLetter returns the only dead letter of a subscription.
func (f *fixture) deadLetter(folder string) map[string]any {
	f.Helper()
	var letters []map[string]any
	pages := f.blobs.NewListBlobsFlatPager("dead", nil)
	for pages.More() {
		page, err := pages.NextPage(f.Context())
		check.OK(f, err)
		for _, b := range page.Segment.BlobItems {
			parts := strings.Split(*b.Name, "/")
			if len(parts) != 6 || parts[0] != folder || !isGUID(strings.TrimSuffix(parts[5], ".json")) {
				f.Errorf("name of a dead letter: %s", *b.Name)
			}
			text := make([]byte, *b.Properties.ContentLength)
			_, err := f.blobs.DownloadBuffer(f.Context(), "dead", *b.Name, text, nil)
			check.OK(f, err)
			var list []map[string]any
			check.OK(f, json.Unmarshal(text, &list))
			letters = append(letters, list...)
		}
	}
	if len(letters) != 1 {
		f.Fatalf("%d dead letters, want 1", len(letters))
	}
	return letters[0]
}

// An event that is too old is not tried again; statuses that more attempts do not change end the delivery at once.
func TestEndOfDelivery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		status         int
		wait           time.Duration
		reason, result string
	}{
		{"too old", 503, 2 * time.Minute, "TimeToLiveExceeded", "Busy"},
		{"bad request", 400, 0, "UndeliverableDueToHttpBadRequest", "BadRequest"},
		{"too large", 413, 0, "UndeliverableDueToHttpRequestEntityTooLarge", "RequestEntityTooLarge"},
		{"unauthorized", 401, 0, "UndeliverableDueToHttpUnauthorized", "Unauthorized"},
		{"forbidden", 403, 0, "UndeliverableDueToHttpForbidden", "Forbidden"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHook(t)
			f := start(t, []*hook{h}, nil)
			_, err := f.blobs.CreateContainer(f.Context(), "dead", nil)
			check.OK(t, err)
			h.answerWith(status(c.status))
			f.subscribe(h, func(s *events.Subscription) { s.EventTTL, s.DeadLetterContainer = 2, "dead" })
			f.put("one")
			check.Eventually(t, func() bool { return f.status().Failed == 1 }, "an attempt is made")
			f.clock.Advance(c.wait)
			f.flush()
			letter := f.deadLetter("SUB")
			if letter["deadLetterReason"] != c.reason || letter["lastDeliveryOutcome"] != c.result ||
				letter["deliveryAttempts"] != 1. {
				t.Errorf("dead letter: %v, %v, %v attempts", letter["deadLetterReason"], letter["lastDeliveryOutcome"],
					letter["deliveryAttempts"])
			}
			if n := len(h.got()); n != 1 {
				t.Errorf("%d attempts, want 1", n)
			}
		})
	}
}

func TestDroppedWithoutDeadLetters(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	h.answerWith(status(http.StatusBadRequest))
	f.subscribe(h, nil)
	f.put("one")
	f.flush()
	if s := f.status(); s.Dropped != 1 || s.Pending != 0 || s.LastError != "the endpoint answered 400" {
		t.Errorf("status %+v", s)
	}
}

// The events of a blob are delivered in order, even if one of them fails; those of other blobs do not wait for it.
func TestOrderPerBlob(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	h.answerWith(func(r request) int {
		if r.subject() == subject("a") {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	f.subscribe(h, nil)
	f.put("a")
	_, err := f.blobs.DeleteBlob(f.Context(), "photos", "a", nil)
	check.OK(t, err)
	f.put("b")
	check.Eventually(t, func() bool {
		return slices.Contains(h.events(), events.BlobCreated+" "+subject("b")) && f.status().Failed == 1
	}, "b is delivered")
	h.answerWith(nil)
	f.flush()
	var ofA []string
	for _, e := range h.events() {
		if strings.HasSuffix(e, "/a") {
			ofA = append(ofA, strings.Fields(e)[0])
		}
	}
	if diff := cmp.Diff([]string{events.BlobCreated, events.BlobCreated, events.BlobDeleted}, ofA); diff != "" {
		t.Errorf("events of a (-want +got):\n%s", diff)
	}
}

func TestQueueEndpoint(t *testing.T) {
	t.Parallel()
	f := start(t, nil, nil)
	service, err := azqueue.NewServiceClientWithNoCredential(f.stack.InProcessURL(wire.Queue, auth.DevelopmentAccount),
		&azqueue.ClientOptions{ClientOptions: f.options()})
	check.OK(t, err)
	s := events.Subscription{Name: "sub", Account: auth.DevelopmentAccount, EndpointType: events.StorageQueue,
		Endpoint: "changes"}
	if _, err := f.stack.Events().Add(f.Context(), s); !errors.Is(err, events.ErrInvalid) {
		t.Errorf("a queue that does not exist: %v", err)
	}
	_, err = service.CreateQueue(f.Context(), "changes", nil)
	check.OK(t, err)
	_, err = f.stack.Events().Add(f.Context(), s)
	check.OK(t, err)
	f.put("one")
	f.flush()
	got, err := service.NewQueueClient("changes").DequeueMessage(f.Context(), nil)
	check.OK(t, err)
	if len(got.Messages) != 1 {
		t.Fatalf("%d messages, want 1", len(got.Messages))
	}
	text, err := base64.StdEncoding.DecodeString(*got.Messages[0].MessageText)
	check.OK(t, err)
	var e map[string]any
	check.OK(t, json.Unmarshal(text, &e))
	if e["eventType"] != events.BlobCreated || e["subject"] != subject("one") {
		t.Errorf("message %s", text)
	}
}

func TestFilterBySubject(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	f.subscribe(h, func(s *events.Subscription) {
		s.SubjectBeginsWith, s.SubjectEndsWith = "/blobservices/default/containers/photos/blobs/in/", ".JPG"
	})
	for _, name := range []string{"in/a.jpg", "in/a.png", "out/a.jpg", "in/b.Jpg"} {
		f.put(name)
	}
	f.flush()
	want := []string{events.BlobCreated + " " + subject("in/a.jpg"), events.BlobCreated + " " + subject("in/b.Jpg")}
	got := h.events()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// A subscription gets no events of its own dead letters: they would fail again, without end.
func TestDeadLettersAreNoEvents(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	_, err := f.blobs.CreateContainer(f.Context(), "dead", nil)
	check.OK(t, err)
	h.answerWith(status(http.StatusBadRequest))
	f.subscribe(h, func(s *events.Subscription) { s.DeadLetterContainer = "dead" })
	f.put("one")
	f.flush()
	f.flush()
	if n := len(h.got()); n != 1 {
		t.Errorf("%d deliveries, want 1", n)
	}
}

// Events survive a stop while the endpoint is down, with their attempts; what was delivered is not delivered again.
func TestRestart(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	dir := t.TempDir()
	onDisk := func(c *server.Config) { c.InMemory, c.Location = false, dir }
	var wanted []string
	t.Run("before", func(t *testing.T) {
		f := start(t, []*hook{h}, onDisk)
		f.subscribe(h, nil)
		f.put("delivered")
		f.flush()
		h.answerWith(status(http.StatusServiceUnavailable))
		for _, name := range []string{"a", "b", "c"} {
			f.put(name)
			wanted = append(wanted, events.BlobCreated+" "+subject(name))
		}
		check.Eventually(t, func() bool { return f.status().Failed == 3 }, "the deliveries fail")
	})
	h.answerWith(nil)
	before := len(h.got())
	f := start(t, []*hook{h}, func(c *server.Config) {
		onDisk(c)
		c.Now = time.Now // the clock of the fixture stands
	})
	f.flush()
	got := h.events()[before:]
	slices.Sort(got)
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("events after the restart (-want +got):\n%s", diff)
	}
	for _, r := range h.got()[before:] {
		if n := r.header.Get("Aeg-Delivery-Count"); n != "1" {
			t.Errorf("delivery count %s, want 1", n)
		}
	}
}

// What all subscriptions have finished leaves the log, and so does everything with the last subscription.
func TestLogIsTrimmed(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	f.subscribe(h, nil)
	f.put("one")
	f.flush()
	check.Eventually(t, func() bool { return f.logged() == 0 }, "a delivered event leaves the log")
	h.answerWith(status(http.StatusServiceUnavailable))
	f.put("two")
	check.Eventually(t, func() bool { return f.status().Failed == 1 }, "an attempt is made")
	if n := f.logged(); n != 1 {
		t.Errorf("%d events in the log, want 1", n)
	}
	check.OK(t, f.stack.Events().Remove(auth.DevelopmentAccount, "sub"))
	check.Eventually(t, func() bool { return f.logged() == 0 }, "the log ends with the last subscription")
	f.put("three")
	if n := f.logged(); n != 0 {
		t.Errorf("%d events in the log of an account without subscriptions", n)
	}
}

func (f *fixture) logged() int {
	f.Helper()
	list, _, err := f.stack.Events().Logs.All[0].Read(auth.DevelopmentAccount, 0, 1000, 1<<20)
	check.OK(f, err)
	return len(list)
}

// A reset of an account discards its events.
func TestResetDiscardsEvents(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	h.answerWith(status(http.StatusServiceUnavailable))
	f.subscribe(h, nil)
	f.put("one")
	check.Eventually(t, func() bool { return f.status().Failed == 1 }, "an attempt is made")
	_, err := f.stack.Reset(f.Context(), server.Scope{})
	check.OK(t, err)
	f.flush()
	if s := f.status(); s.Pending != 0 || s.Delivered+s.Dropped+s.DeadLettered != 0 {
		t.Errorf("status after the reset: %+v", s)
	}
}

// The list does not show the query of an endpoint, which often has a key.
func TestListHidesKeys(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	f.subscribe(h, nil)
	if s := f.status(); s.Endpoint != h.URL+"/hook" {
		t.Errorf("endpoint %s", s.Endpoint)
	}
}

func TestInvalidSubscriptions(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	f.subscribe(h, nil)
	valid := `"name":"other","account":"devstoreaccount1","endpoint":"` + h.URL + `"`
	for text, want := range map[string]error{
		`{` + valid + `,"unknown":1}`:                                    events.ErrInvalid,
		`{` + valid + `,"maxDeliveryAttempts":31}`:                       events.ErrInvalid,
		`{` + valid + `,"eventTtl":1441}`:                                events.ErrInvalid,
		`{` + valid + `,"maxEventsPerBatch":5001}`:                       events.ErrInvalid,
		`{` + valid + `,"includedEventTypes":["Microsoft.Storage.X"]}`:   events.ErrInvalid,
		`{` + valid + `,"eventDeliverySchema":"custominputschema"}`:      events.ErrInvalid,
		`{` + valid + `,"endpointType":"eventhub"}`:                      events.ErrInvalid,
		`{` + valid + `,"deadletterContainer":"absent"}`:                 events.ErrInvalid,
		`{` + valid + `,"account":"nobody"}`:                             events.ErrInvalid,
		`{` + valid + `,"endpoint":"ftp://x"}`:                           events.ErrInvalid,
		`{` + valid + `,"name":"a b c"}`:                                 events.ErrInvalid,
		`{` + valid + `,"name":"SUB"}`:                                   events.ErrExists,
		`{` + valid + `,"advancedFilters":[{"operatorType":"Nothing"}]}`: events.ErrInvalid,
		`{` + valid + `} {}`:                                             events.ErrInvalid,
		`[]`:                                                             events.ErrInvalid,
	} {
		s, err := events.Decode([]byte(text))
		if err == nil {
			_, err = f.stack.Events().Add(f.Context(), s)
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	if n := len(f.stack.Events().List()); n != 1 {
		t.Errorf("%d subscriptions, want 1", n)
	}
}
