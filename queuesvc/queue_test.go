package queuesvc_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"
)

func TestCreateQueue(t *testing.T) {
	t.Parallel()
	f := start(t)
	q := f.sdk.NewQueueClient("orders")
	meta := map[string]*string{"Colour": ptr("blue")}
	if _, err := q.Create(t.Context(), &azqueue.CreateOptions{Metadata: meta}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Create(t.Context(), &azqueue.CreateOptions{Metadata: meta}); err != nil { // 204, which the SDK takes
		t.Error(err)
	}
	_, err := q.Create(t.Context(), nil)
	wantCode(t, err, 409, "QueueAlreadyExists")
	_, err = q.Create(t.Context(), &azqueue.CreateOptions{Metadata: map[string]*string{"Colour": ptr("red")}})
	wantCode(t, err, 409, "QueueAlreadyExists")
	for name, code := range map[string]string{
		"UPPER": "InvalidResourceName", "under_score": "InvalidResourceName", "-a-b": "InvalidResourceName",
		"a--b": "InvalidResourceName", "ab-": "InvalidResourceName", "üüü": "InvalidResourceName",
		"ab": "OutOfRangeInput", strings.Repeat("a", 64): "OutOfRangeInput",
	} {
		_, err := f.sdk.CreateQueue(t.Context(), name, nil)
		wantCode(t, err, 400, code)
	}
	for _, name := range []string{"abc", strings.Repeat("a", 63), "0-1"} {
		if _, err := f.sdk.CreateQueue(t.Context(), name, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = f.sdk.CreateQueue(t.Context(), "big",
		&azqueue.CreateOptions{Metadata: map[string]*string{"a": ptr(strings.Repeat("x", 8192))}})
	wantCode(t, err, 400, "MetadataTooLarge")
}

func TestDeleteQueue(t *testing.T) {
	t.Parallel()
	f := start(t)
	q := f.queue(t, "orders")
	if _, err := q.EnqueueMessage(t.Context(), "x", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Delete(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	_, err := q.Delete(t.Context(), nil)
	wantCode(t, err, 404, "QueueNotFound")
	_, err = q.EnqueueMessage(t.Context(), "x", nil)
	wantCode(t, err, 404, "QueueNotFound")
	if _, err := q.Create(t.Context(), nil); err != nil {
		t.Fatalf("creating it again at once: %v", err)
	}
	if list := must(q.PeekMessages(t.Context(), nil))(t); len(list.Messages) != 0 {
		t.Error("the new queue has the messages of the old one")
	}
}

func TestGetAndSetQueueMetadata(t *testing.T) {
	t.Parallel()
	f := start(t)
	q := f.queue(t, "orders")
	if _, err := q.SetMetadata(t.Context(),
		&azqueue.SetMetadataOptions{Metadata: map[string]*string{"a": ptr("1"), "B": ptr("2")}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		must(q.EnqueueMessage(t.Context(), "x", nil))(t)
	}
	p := must(q.GetProperties(t.Context(), nil))(t)
	if *p.ApproximateMessagesCount != 3 || len(p.Metadata) != 2 {
		t.Errorf("%d messages, metadata %v", *p.ApproximateMessagesCount, p.Metadata)
	}
	must(q.SetMetadata(t.Context(), nil))(t)
	if p := must(q.GetProperties(t.Context(), nil))(t); len(p.Metadata) != 0 {
		t.Errorf("metadata %v after it was removed", p.Metadata)
	}
	none := f.sdk.NewQueueClient("none")
	_, err := none.GetProperties(t.Context(), nil)
	wantCode(t, err, 404, "QueueNotFound")
	_, err = none.SetMetadata(t.Context(), nil)
	wantCode(t, err, 404, "QueueNotFound")
	_, err = q.SetMetadata(t.Context(), &azqueue.SetMetadataOptions{Metadata: map[string]*string{"1a": ptr("x")}})
	wantCode(t, err, 400, "InvalidMetadata")
}

func TestGetAndSetQueueACL(t *testing.T) {
	t.Parallel()
	f := start(t)
	q := f.queue(t, "orders")
	if p := must(q.GetAccessPolicy(t.Context(), nil))(t); len(p.SignedIdentifiers) != 0 {
		t.Errorf("a new queue has policies: %v", p.SignedIdentifiers)
	}
	expiry := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	policies := []*azqueue.SignedIdentifier{{ID: ptr("readers"),
		AccessPolicy: &azqueue.AccessPolicy{Expiry: &expiry, Permission: ptr("r")}}, {ID: ptr("bare")}}
	if _, err := q.SetAccessPolicy(t.Context(), &azqueue.SetAccessPolicyOptions{QueueACL: policies}); err != nil {
		t.Fatal(err)
	}
	p := must(q.GetAccessPolicy(t.Context(), nil))(t)
	if len(p.SignedIdentifiers) != 2 || *p.SignedIdentifiers[0].ID != "readers" ||
		*p.SignedIdentifiers[0].AccessPolicy.Permission != "r" ||
		!p.SignedIdentifiers[0].AccessPolicy.Expiry.Equal(expiry) {
		t.Errorf("policies %+v", p.SignedIdentifiers)
	}

	// A token that refers to the policy works until the policy goes.
	token := f.serviceSAS(t, "orders", sas.QueueSignatureValues{Identifier: "readers"})
	if _, err := token.PeekMessages(t.Context(), nil); err != nil {
		t.Errorf("peeking by the stored policy: %v", err)
	}
	_, err := token.EnqueueMessage(t.Context(), "x", nil)
	wantCode(t, err, 403, "AuthorizationPermissionMismatch")
	must(q.SetAccessPolicy(t.Context(), nil))(t)
	_, err = token.PeekMessages(t.Context(), nil)
	wantCode(t, err, 403, "AuthenticationFailed")

	_, err = q.SetAccessPolicy(t.Context(), &azqueue.SetAccessPolicyOptions{QueueACL: []*azqueue.SignedIdentifier{
		{ID: ptr("a"), AccessPolicy: &azqueue.AccessPolicy{Permission: ptr("rwdl")}}}})
	wantCode(t, err, 400, "InvalidXmlDocument")
	var many []*azqueue.SignedIdentifier
	for _, id := range "abcdef" {
		many = append(many, &azqueue.SignedIdentifier{ID: ptr(string(id)),
			AccessPolicy: &azqueue.AccessPolicy{Permission: ptr("r")}})
	}
	_, err = q.SetAccessPolicy(t.Context(), &azqueue.SetAccessPolicyOptions{QueueACL: many})
	wantCode(t, err, 400, "InvalidXmlDocument")
	none := f.sdk.NewQueueClient("none")
	_, err = none.GetAccessPolicy(t.Context(), nil)
	wantCode(t, err, 404, "QueueNotFound")
	_, err = none.SetAccessPolicy(t.Context(), nil)
	wantCode(t, err, 404, "QueueNotFound")
}

// serviceSAS is a client with a service SAS for one queue.
func (f *fixture) serviceSAS(t testing.TB, queue string, v sas.QueueSignatureValues) *azqueue.QueueClient {
	t.Helper()
	v.QueueName = queue
	q, err := v.SignWithSharedKey(developmentKey(t))
	if err != nil {
		t.Fatal(err)
	}
	client, err := azqueue.NewQueueClientWithNoCredential(f.url()+"/"+queue+"?"+q.Encode(), &azqueue.ClientOptions{
		ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// What each permission of a service SAS allows, and nothing else.
func TestServiceSASPermissions(t *testing.T) {
	t.Parallel()
	f := start(t)
	owner := f.queue(t, "orders")
	expiry := time.Now().Add(time.Hour)
	for _, letter := range "raup" {
		q := f.serviceSAS(t, "orders", sas.QueueSignatureValues{Permissions: string(letter), ExpiryTime: expiry})
		must(owner.ClearMessages(t.Context(), nil))(t)
		m := must(owner.EnqueueMessage(t.Context(), "x", nil))(t).Messages[0]
		for _, call := range []struct {
			allowed string
			name    string
			do      func() error
		}{
			{"r", "peek", func() error { _, err := q.PeekMessages(t.Context(), nil); return err }},
			{"r", "metadata", func() error { _, err := q.GetProperties(t.Context(), nil); return err }},
			{"a", "put", func() error { _, err := q.EnqueueMessage(t.Context(), "x", nil); return err }},
			{"u", "update", func() error {
				u, err := q.UpdateMessage(t.Context(), *m.MessageID, *m.PopReceipt, "y",
					&azqueue.UpdateMessageOptions{VisibilityTimeout: ptr(int32(0))})
				if err == nil {
					m.PopReceipt = u.PopReceipt
				}
				return err
			}},
			{"p", "delete", func() error {
				_,
					err := q.DeleteMessage(t.Context(), *m.MessageID, *m.PopReceipt, nil)
				return err
			}},
			{"p", "get", func() error { _, err := q.DequeueMessages(t.Context(), nil); return err }},
			{"", "clear", func() error { _, err := q.ClearMessages(t.Context(), nil); return err }},
			{"", "delete queue", func() error { _, err := q.Delete(t.Context(), nil); return err }},
			{"", "set metadata", func() error { _, err := q.SetMetadata(t.Context(), nil); return err }},
			{"", "get ACL", func() error { _, err := q.GetAccessPolicy(t.Context(), nil); return err }},
		} {
			err := call.do()
			if allowed := call.allowed == string(letter); allowed != (err == nil) {
				t.Errorf("%s with a SAS for %c: %v", call.name, letter, err)
			} else if err != nil && !strings.Contains(err.Error(), "403") {
				t.Errorf("%s with a SAS for %c: %v, want 403", call.name, letter, err)
			}
		}
	}
}

func TestListQueues(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, name := range []string{"a-1", "a-2", "a-3", "b-1"} {
		if _, err := f.sdk.CreateQueue(t.Context(), name,
			&azqueue.CreateOptions{Metadata: map[string]*string{"n": ptr(name)}}); err != nil {
			t.Fatal(err)
		}
	}
	var pages []string
	pager := f.sdk.NewListQueuesPager(
		&azqueue.ListQueuesOptions{Prefix: ptr("a-"), MaxResults: ptr(int32(2)),
			Include: azqueue.ListQueuesInclude{Metadata: true}})
	for pager.More() {
		page := must(pager.NextPage(t.Context()))(t)
		var names []string
		for _, q := range page.Queues {
			names = append(names, *q.Name)
			if v := q.Metadata["n"]; v == nil || *v != *q.Name {
				t.Errorf("metadata of %s: %v", *q.Name, q.Metadata)
			}
		}
		pages = append(pages, strings.Join(names, " "))
	}
	if got := strings.Join(pages, " | "); got != "a-1 a-2 | a-3" {
		t.Errorf("pages %s", got)
	}
	page := must(f.sdk.NewListQueuesPager(nil).NextPage(t.Context()))(t)
	if len(page.Queues) != 4 || page.Queues[0].Metadata != nil || page.NextMarker != nil && *page.NextMarker != "" {
		t.Errorf("%d queues, %v, next %v", len(page.Queues), page.Queues[0].Metadata, page.NextMarker)
	}
}

// A marker that no list has returned, and one of another account.
func TestListQueuesForeignMarker(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.queue(t, "orders")
	for _, marker := range []string{"garbage", "orders", "/other/orders", "/devstoreaccount1"} {
		r := f.raw(t, "GET", "/?comp=list&marker="+escape(marker), nil)
		if r.status != 400 || r.header.Get("x-ms-error-code") != "OutOfRangeInput" {
			t.Errorf("%s: %d %s", marker, r.status, r.body)
		}
	}
}

// Metadata outside ASCII is refused, whatever its encoding.
func TestQueueMetadataOutsideASCII(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.queue(t, "orders")
	for _, value := range []string{"\u611b", "\xe9", "ok\u00e9"} {
		for _, path := range []string{"/other", "/orders?comp=metadata"} {
			r := f.raw(t, "PUT", path, ptr(""), "x-ms-meta-name", value)
			if r.status != 400 || r.header.Get("x-ms-error-code") != "InvalidMetadata" {
				t.Errorf("%s %q: %d %s", path, value, r.status, r.body)
			}
		}
	}
}

// A caller without a credential learns nothing before version 2019-12-12, and is challenged from then on.
func TestAnonymousQueueRequests(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.queue(t, "orders")
	for version, want := range map[string]string{"2018-11-09": "404 ResourceNotFound",
		"2019-12-12": "401 NoAuthenticationInformation"} {
		for _, method := range []string{"PUT", "DELETE", "GET"} {
			path := "/orders"
			if method == "GET" {
				path += "?comp=metadata"
			}
			r := must(http.NewRequest(method, f.url()+path, nil))(t)
			r.Header.Set("x-ms-version", version)
			w := must(http.DefaultClient.Do(r))(t)
			_ = w.Body.Close()
			if got := fmt.Sprint(w.StatusCode, " ", w.Header.Get("x-ms-error-code")); got != want {
				t.Errorf("%s %s of %s: %s, want %s", method, path, version, got, want)
			}
		}
	}
}

// A page of queues ends at a size, whatever metadata they have.
func TestPagesOfQueuesAreBounded(t *testing.T) {
	t.Parallel()
	f := start(t)
	metadata := map[string]*string{"m": ptr(strings.Repeat("&", 7000))} // as &amp;
	for i := range 150 {
		if _, err := f.sdk.CreateQueue(t.Context(), fmt.Sprintf("queue-%03d", i),
			&azqueue.CreateOptions{Metadata: metadata}); err != nil {
			t.Fatal(err)
		}
	}
	queues, pages := 0, 0
	for pager := f.sdk.NewListQueuesPager(
		&azqueue.ListQueuesOptions{Include: azqueue.ListQueuesInclude{Metadata: true}}); pager.More(); pages++ {
		queues += len(must(pager.NextPage(t.Context()))(t).Queues)
	}
	if queues != 150 || pages != 2 {
		t.Errorf("%d queues in %d pages", queues, pages)
	}
}

func TestGetAndSetQueueServiceProperties(t *testing.T) {
	t.Parallel()
	f := start(t)
	off := must(f.sdk.GetServiceProperties(t.Context(), nil))(t)
	if *off.Logging.Read || *off.HourMetrics.Enabled || len(off.CORS) != 0 {
		t.Errorf("by default: %+v", off)
	}
	rule := azqueue.CORSRule{AllowedOrigins: ptr("https://example.com"), AllowedMethods: ptr("GET,POST"),
		AllowedHeaders: ptr("x-ms-*"),
		ExposedHeaders: ptr("x-ms-request-id"), MaxAgeInSeconds: ptr(int32(60))}
	if _, err := f.sdk.SetProperties(t.Context(),
		&azqueue.SetPropertiesOptions{CORS: []*azqueue.CORSRule{&rule}}); err != nil {
		t.Fatal(err)
	}
	on := must(f.sdk.GetServiceProperties(t.Context(), nil))(t)
	if len(on.CORS) != 1 || *on.CORS[0].AllowedOrigins != "https://example.com" {
		t.Errorf("rules %+v", on.CORS)
	}
	_, err := f.sdk.SetProperties(t.Context(), &azqueue.SetPropertiesOptions{Logging: &azqueue.Logging{
		Read: ptr(true), Write: ptr(false), Delete: ptr(false),
		RetentionPolicy: &azqueue.RetentionPolicy{Enabled: ptr(false)}}})
	wantCode(t, err, 501, "NotImplemented")

	// Preflight Queue Request, and an actual request.
	preflight := func(origin string) *http.Response {
		r, _ := http.NewRequest(http.MethodOptions, f.url()+"/orders/messages", nil)
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", "POST")
		r.Header.Set("Access-Control-Request-Headers", "x-ms-version")
		return must(http.DefaultClient.Do(r))(t)
	}
	if r := preflight("https://example.com"); r.StatusCode != 200 ||
		r.Header.Get("Access-Control-Allow-Origin") != "https://example.com" ||
		r.Header.Get("Access-Control-Max-Age") != "60" || r.Header.Get("Access-Control-Allow-Methods") != "POST" {
		t.Errorf("preflight: %d %v", r.StatusCode, r.Header)
	}
	if r := preflight("https://elsewhere.com"); r.StatusCode != 403 ||
		r.Header.Get("x-ms-error-code") != "CorsPreflightFailure" {
		t.Errorf("preflight from elsewhere: %d %v", r.StatusCode, r.Header)
	}
	r := f.raw(t, "GET", "/?comp=list", nil, "Origin", "https://example.com")
	if r.header.Get("Access-Control-Allow-Origin") != "https://example.com" ||
		r.header.Get("Access-Control-Expose-Headers") != "x-ms-request-id" {
		t.Errorf("actual request: %v", r.header)
	}
}

func TestGetQueueServiceStats(t *testing.T) {
	t.Parallel()
	f := start(t)
	secondary := sdkClient(t, f.url()+"-secondary")
	stats := must(secondary.GetStatistics(t.Context(), nil))(t)
	if string(*stats.GeoReplication.Status) != "live" ||
		f.clock.Now().Sub(*stats.GeoReplication.LastSyncTime).Abs() > time.Minute {
		t.Errorf("%+v", stats.GeoReplication)
	}
	_, err := f.sdk.GetStatistics(t.Context(), nil)
	wantCode(t, err, 400, "InvalidQueryParameterValue")

	// The secondary endpoint shows messages, and hands out none.
	q := f.queue(t, "orders")
	must(q.EnqueueMessage(t.Context(), "x", nil))(t)
	other := secondary.NewQueueClient("orders")
	if list := must(other.PeekMessages(t.Context(), nil))(t); len(list.Messages) != 1 {
		t.Errorf("%d messages", len(list.Messages))
	}
	_, err = other.DequeueMessages(t.Context(), nil)
	wantCode(t, err, 403, "InsufficientAccountPermissions")
	_, err = other.EnqueueMessage(t.Context(), "x", nil)
	wantCode(t, err, 403, "InsufficientAccountPermissions")
}
