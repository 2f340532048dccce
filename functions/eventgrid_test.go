package functions

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

const (
	eventFunction     = `{"bindings": [{"type": "eventGridTrigger", "direction": "in", "name": "event"}]}`
	eventBlobFunction = `{"bindings": [{"type": "blobTrigger", "direction": "in", "name": "blob", "path": "photos/{name}.jpg", "source": "EventGrid"}]}`
)

// startWithEvents runs functions beside a storage server whose events can reach them, at the address that it returns.
func startWithEvents(t *testing.T, files map[string]string, handler http.Handler) (l *lazulitest.Lazuli, r *running,
	address string) {
	t.Helper()
	var target atomic.Pointer[url.URL] // The server must know the address of webhooks before the functions run.
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(
		p *httputil.ProxyRequest) {
		p.SetURL(target.Load())
	}})
	t.Cleanup(proxy.Close)
	l = lazulitest.Start(t, lazulitest.WithEvents(strings.TrimPrefix(proxy.URL, "http://")))
	r = runOn(t, l.ConnectionString(), folder(t, files), handler)
	u, err := url.Parse(r.url)
	check.OK(t, err)
	target.Store(u)
	return l, r, proxy.URL
}

func upload(t *testing.T, l *lazulitest.Lazuli, names ...string) {
	t.Helper()
	blobs, err := azblob.NewClientFromConnectionString(l.ConnectionString(), nil)
	check.OK(t, err)
	_, err = blobs.CreateContainer(t.Context(), "photos", nil)
	check.OK(t, err)
	for _, name := range names {
		_, err = blobs.UploadBuffer(t.Context(), "photos", name, []byte("content of "+name), nil)
		check.OK(t, err)
	}
}

// A function with an Event Grid trigger gets the events of blobs, after the handshake of either schema.
func TestEventGridTrigger(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"eventgridschema", "cloudeventschemav1_0"} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			handler, calls := record(`{}`)
			l, _, address := startWithEvents(t, map[string]string{"Saw/function.json": eventFunction}, handler)
			l.Subscribe(t, lazulitest.EventSubscription{Name: "saw",
				Endpoint: address + "/runtime/webhooks/EventGrid?functionName=Saw&code=key", DeliverySchema: schema})
			upload(t, l, "a.jpg")
			l.FlushEvents(t)
			a := next(t, calls)
			event, _ := a.body.Data["event"].(map[string]any)
			kind, ok := event["eventType"]
			if !ok {
				kind = event["type"]
			}
			if a.path != "/Saw" || kind != "Microsoft.Storage.BlobCreated" ||
				event["subject"] != "/blobServices/default/containers/photos/blobs/a.jpg" {
				t.Errorf("the handler was called at %s with %v", a.path, event)
			}
			data, _ := a.body.Metadata["data"].(map[string]any)
			if data["api"] != "PutBlob" || fmt.Sprint(data) != fmt.Sprint(event["data"]) {
				t.Errorf("data in Metadata is %v", a.body.Metadata["data"])
			}
		})
	}
}

// A blob trigger with the source EventGrid runs for the blobs of its path that events announce, and does not scan.
func TestBlobTriggerWithEventGrid(t *testing.T) {
	t.Parallel()
	handler, calls := record(`{}`)
	l, r, address := startWithEvents(t, map[string]string{"Thumb/function.json": eventBlobFunction}, handler)
	upload(t, l, "before.jpg")
	l.Subscribe(t, lazulitest.EventSubscription{Name: "thumb",
		Endpoint: address + "/runtime/webhooks/blobs?functionName=Host.Functions.Thumb"})
	blobs, err := azblob.NewClientFromConnectionString(l.ConnectionString(), nil)
	check.OK(t, err)
	for _, name := range []string{"a.png", "b.jpg"} {
		_, err = blobs.UploadBuffer(t.Context(), "photos", name, []byte("content of "+name), nil)
		check.OK(t, err)
	}
	l.FlushEvents(t)
	a := next(t, calls)
	if a.body.Data["blob"] != `"content of b.jpg"` || a.body.Metadata["name"] != `"b"` {
		t.Errorf("Data %v, Metadata %v", a.body.Data, a.body.Metadata)
	}
	eventually(t, "the function is idle", func() bool { s := r.App().Stats(); return len(s) == 1 && s[0].Succeeded == 1 })
	select {
	case a := <-calls:
		t.Errorf("another call: %v", a.body.Metadata)
	default:
	}
}

// What is not a delivery to a function of the app is refused as the extensions of Azure Functions do; a failed function
// fails the delivery.
func TestEventWebhook(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	r := run(t, map[string]string{"Saw/function.json": eventFunction, "H/function.json": fmt.Sprintf(httpOnly, "")},
		handler)
	hook := r.url + "/runtime/webhooks/EventGrid?functionName="
	for _, c := range []struct{ method, url, body, kind, want string }{
		{"POST", hook + "Saw", `[{"data":{"validationCode":"c"}}]`, "SubscriptionValidation",
			`200 {"validationResponse":"c"}`},
		{"POST", hook + "saw", `[{"data":{}}]`, "SubscriptionValidation", "400 "},
		{"POST", hook + "Saw", `[{"eventType":"x","data":{}}]`, "Notification", "500 "},
		{"POST", hook + "Saw", `{"type":"x","data":{}}`, "", "500 "},
		{"POST", hook + "Saw", `[]`, "Unsubscribe", "202 "},
		{"POST", hook + "Saw", `nonsense`, "Notification", "400 "},
		{"POST", hook + "Saw", `[5]`, "Notification", "500 "},
		{"POST", hook + "Absent", `[]`, "Notification", "404 cannot find function: 'Absent'"},
		{"POST", hook + "H", `[]`, "Notification", "404 "},
		{"GET", hook + "Saw", ``, "", "405 "},
		{"POST", r.url + "/runtime/webhooks/other?functionName=Saw", `[]`, "Notification", "404 "},
	} {
		if got := do(t, c.method, c.url, c.body, "Aeg-Event-Type", c.kind); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %s %s: %s, want %s", c.method, c.url, c.body, got, c.want)
		}
	}
}
