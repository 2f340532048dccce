package queuesvc_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/budget"
)

func developmentKey(t testing.TB) *azqueue.SharedKeyCredential {
	t.Helper()
	return must(azqueue.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey))(t)
}

func escape(s string) string { return url.QueryEscape(s) }

// answer holds what came back for a raw request.
type answer struct {
	status int
	header http.Header
	body   string
}

// raw sends a request with an account SAS that may do everything. path is below the account; headers are name, value,
// name, value.
func (f *fixture) raw(t testing.TB, method, path string, body *string, headers ...string) answer {
	t.Helper()
	token, err := sas.AccountSignatureValues{Permissions: "rwdlacup", ResourceTypes: "sco",
		ExpiryTime: time.Now().Add(time.Hour)}.SignWithSharedKey(developmentKey(t))
	if err != nil {
		t.Fatal(err)
	}
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	var in io.Reader
	if body != nil {
		in = strings.NewReader(*body)
	}
	r, err := http.NewRequest(method, f.url()+path+separator+token.Encode(), in)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("x-ms-version", "2021-12-02")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if r.Header.Get("Transfer-Encoding") != "" {
		r.Header.Del("Transfer-Encoding")
		r.ContentLength, r.Body = -1, io.NopCloser(in) // in chunks, even if none exists
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{w.StatusCode, w.Header, string(text)}
}

// generated replaces what differs from run to run.
var generated = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "GUID"},
	{regexp.MustCompile(`[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} 20\d\d \d\d:\d\d:\d\d GMT`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z`), "TIME7"},
	{regexp.MustCompile(`[A-Za-z0-9+/]{27}=`), "RECEIPT"},
	{regexp.MustCompile(`http://127\.0\.0\.1:\d+`), "HOST"},
}

func normal(s string) string {
	for _, g := range generated {
		s = g.pattern.ReplaceAllString(s, g.name)
	}
	return s
}

// TestWire has the documents byte for byte, as the real service sends them.
func TestWire(t *testing.T) {
	t.Parallel()
	f := start(t)
	const head = "\ufeff<?xml version=\"1.0\" encoding=\"utf-8\"?>"
	failure := func(code, message, details string) string {
		return head + "<Error><Code>" + code + "</Code><Message>" + message + "\nRequestId:GUID\nTime:TIME7</Message>" +
			details + "</Error>"
	}
	put := func(expires string) string {
		return head +
			"<QueueMessagesList><QueueMessage><MessageId>GUID</MessageId><InsertionTime>TIME</InsertionTime><ExpirationTime>" +
			expires +
			"</ExpirationTime><PopReceipt>RECEIPT</PopReceipt><TimeNextVisible>TIME</TimeNextVisible></QueueMessage></QueueMessagesList>"
	}
	query := func(name, value, reason string) string {
		details := "<QueryParameterName>" + name + "</QueryParameterName><QueryParameterValue>" + value +
			"</QueryParameterValue>"
		if reason == "" {
			return details + "<Reason />"
		}
		return details + "<Reason>" + reason + "</Reason>"
	}
	text := func(s string) *string {
		return ptr("<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessage><MessageText>" + s +
			"</MessageText></QueueMessage>")
	}
	const invalidQuery = "Value for one of the query parameters specified in the request URI is invalid."
	const outOfRange = "One of the query parameters specified in the request URI is outside the permissible range."
	const stranger = "AgAAAAMAAAAAAAAAAQAAAAAAAAA="
	for _, c := range []struct {
		name, method, path string
		body               *string
		status             int
		want               string
		headers            []string
	}{
		{"create", "PUT", "/wire", nil, 201, "", nil},
		{"create again", "PUT", "/wire", nil, 204, "", nil},
		{"no messages", "GET", "/wire/messages", nil, 200, head + "<QueueMessagesList />", nil},
		{"put", "POST", "/wire/messages", text("a&lt;b"), 201, put("TIME"), nil},
		{"peek", "GET", "/wire/messages?peekOnly=True", nil, 200,
			head + "<QueueMessagesList><QueueMessage><MessageId>GUID</MessageId><InsertionTime>TIME</InsertionTime>" +
				"<ExpirationTime>TIME</ExpirationTime><DequeueCount>0</DequeueCount><MessageText>a&lt;b</MessageText></QueueMessage></QueueMessagesList>", nil},
		{"get", "GET", "/wire/messages", nil, 200,
			head + "<QueueMessagesList><QueueMessage><MessageId>GUID</MessageId><InsertionTime>TIME</InsertionTime>" +
				"<ExpirationTime>TIME</ExpirationTime><PopReceipt>RECEIPT</PopReceipt><TimeNextVisible>TIME</TimeNextVisible><DequeueCount>1</DequeueCount>" +
				"<MessageText>a&lt;b</MessageText></QueueMessage></QueueMessagesList>", nil},
		{"put by an old version", "POST", "/wire/messages", text("x"), 201, "", []string{"x-ms-version", "2015-12-11"}},
		{"ttl of an old version", "POST", "/wire/messages?messagettl=604801", text("x"), 400,
			failure("OutOfRangeQueryParameterValue", outOfRange,
				"<QueryParameterName>messagettl</QueryParameterName><QueryParameterValue>604801</QueryParameterValue><MinimumAllowed>1</MinimumAllowed><MaximumAllowed>604800</MaximumAllowed>"),
			[]string{"x-ms-version", "2016-05-31"}},
		{"ttl of 68 years and more", "POST", "/wire/messages?messagettl=2147483648", text("x"), 201, put("TIME"), nil},
		{"ttl without an end", "POST", "/wire/messages?messagettl=9223372036854775807", text("x"), 201,
			put("Fri, 31 Dec 9999 23:59:59 GMT"), nil},
		{"ttl of no number", "POST", "/wire/messages?messagettl=9223372036854775808", text("x"), 400,
			failure("OutOfRangeQueryParameterValue", outOfRange,
				"<QueryParameterName>messagettl</QueryParameterName><QueryParameterValue>9223372036854775808</QueryParameterValue><MinimumAllowed>1</MinimumAllowed><MaximumAllowed>9223372036854775807</MaximumAllowed>"), nil},
		{"bad XML", "POST", "/wire/messages", ptr("<QueueMessage>\n<MessageText>\x01</MessageText></QueueMessage>"), 400,
			failure("InvalidXmlDocument", "XML specified is not syntactically valid.",
				"<LineNumber>2</LineNumber><LinePosition>15</LinePosition><Reason>Error parsing Xml content</Reason>"), nil},
		{"too many", "GET", "/wire/messages?numofmessages=100&peekonly=true", nil, 400,
			failure("OutOfRangeQueryParameterValue", outOfRange,
				"<QueryParameterName>numofmessages</QueryParameterName><QueryParameterValue>100</QueryParameterValue><MinimumAllowed>1</MinimumAllowed><MaximumAllowed>32</MaximumAllowed>"), nil},
		{"visible after expiry", "POST", "/wire/messages?messagettl=30&visibilitytimeout=30", text("x"), 400,
			failure("InvalidQueryParameterValue", invalidQuery,
				query("visibilitytimeout", "30", "messagettl must be greater than visibilitytimeout")), nil},
		{"bad receipt", "DELETE", "/wire/messages/eab50e66-b515-42fd-aa2d-f20ae6dae8db?popreceipt=invalid", nil, 400,
			failure("InvalidQueryParameterValue", invalidQuery, query("popreceipt", "invalid", "Invalid pop receipt format")),
			nil},
		{"no receipt", "DELETE", "/wire/messages/eab50e66-b515-42fd-aa2d-f20ae6dae8db", nil, 400,
			failure("MissingRequiredQueryParameter", "A query parameter that's mandatory for this request is not specified.",
				"<QueryParameterName>popreceipt</QueryParameterName>"), nil},
		{"no visibility", "PUT", "/wire/messages/eab50e66-b515-42fd-aa2d-f20ae6dae8db?popreceipt=" + stranger, nil, 400,
			failure("MissingRequiredQueryParameter", "A query parameter that's mandatory for this request is not specified.",
				"<QueryParameterName>visibilitytimeout</QueryParameterName>"), nil},
		{"no such message", "DELETE", "/wire/messages/eab50e66-b515-42fd-aa2d-f20ae6dae8db?popreceipt=" + stranger, nil, 404,
			failure("MessageNotFound", "The specified message does not exist.", ""), nil},
		{"too large", "POST", "/wire/messages", text(strings.Repeat("a", 65537)), 413,
			failure("RequestBodyTooLarge", "The request body is too large and exceeds the maximum permissible limit.",
				"<MaxLimit>65536</MaxLimit>"), nil},
		{"no queue", "GET", "/none/messages", nil, 404, failure("QueueNotFound", "The specified queue does not exist.", ""),
			nil},
		{"bad name", "PUT", "/Upper", nil, 400,
			failure("InvalidResourceName", "The specifed resource name contains invalid characters.", ""), nil},
		{"bad number", "GET", "/wire/messages?numofmessages=x", nil, 400,
			failure("InvalidQueryParameterValue", invalidQuery, query("numofmessages", "x", "Failed to parse numofmessages")),
			nil},
		{"bad comp", "GET", "/wire?comp=nonsense", nil, 400,
			failure("InvalidQueryParameterValue", invalidQuery, query("comp", "nonsense", "")), nil},
		{"bad include", "GET", "/?comp=list&include=x", nil, 400,
			failure("InvalidQueryParameterValue", invalidQuery, query("include", "x", "Invalid query parameter value.")), nil},
		{"metadata", "PUT", "/wire?comp=metadata", nil, 204, "", []string{"x-ms-meta-a", "1"}},
		{"list", "GET", "/?comp=list&prefix=wi&maxresults=5&include=Metadata", nil, 200,
			head + `<EnumerationResults ServiceEndpoint="HOST/devstoreaccount1/"><Prefix>wi</Prefix><MaxResults>5</MaxResults>` +
				"<Queues><Queue><Name>wire</Name><Metadata><A>1</A></Metadata></Queue></Queues><NextMarker /></EnumerationResults>",
			nil},
		{"list by an old version", "GET", "/?comp=list", nil, 200,
			head + `<EnumerationResults AccountName="HOST/devstoreaccount1/"><Queues><Queue><Name>wire</Name>` +
				"<Url>HOST/devstoreaccount1/wire</Url></Queue></Queues><NextMarker /></EnumerationResults>",
			[]string{"x-ms-version", "2012-02-12"}},
		{"method", "PATCH", "/wire/messages", nil, 405,
			failure("UnsupportedHttpVerb", "The resource doesn't support specified Http Verb.", ""), nil},
		{"deeper than paths go", "GET", "/wire/messages/a/b", nil, 400,
			failure("InvalidUri", "The requested URI does not represent any resource on the server.", ""), nil},
		{"clear", "DELETE", "/wire/messages", nil, 204, "", nil},
		{"delete", "DELETE", "/wire", nil, 204, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := f.raw(t, c.method, c.path, c.body, c.headers...)
			if got := normal(r.body); r.status != c.status || got != c.want {
				t.Errorf("got  %d %s\nwant %d %s", r.status, got, c.status, c.want)
			}
			if c.method == "GET" && r.status == 200 && r.header.Get("Cache-Control") != "no-cache" {
				t.Errorf("Cache-Control %q", r.header.Get("Cache-Control"))
			}
			if _, code, ok := strings.Cut(c.want, "<Error><Code>"); ok {
				code, _, _ = strings.Cut(code, "<")
				if i := slices.Index(c.headers, "x-ms-version"); i >= 0 && c.headers[i+1] < "2017-07-29" {
					code = "" // which has no header with it
				}
				if r.header.Get("x-ms-error-code") != code {
					t.Errorf("x-ms-error-code %q", r.header.Get("x-ms-error-code"))
				}
			}
		})
	}
}

// A page of large messages, or of queues with much metadata, ends where the size of an answer does, and all pages
// together have everything.
func TestPagesEndAtTheSizeOfAnAnswer(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.queue(t, "large")
	const messages = 90
	text := "<QueueMessage><MessageText>" + strings.Repeat("m", 60<<10) + "</MessageText></QueueMessage>"
	for range messages {
		if a := f.raw(t, "POST", "/large/messages", &text); a.status != 201 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	n, pages, after := 0, 0, ""
	for {
		a := f.raw(t, "GET", "/large/messages?peekonly=true&numofmessages=1000", nil, "x-lazuli-hidden", "include",
			"x-lazuli-after", after)
		if len(a.body) > budget.Answer+(1<<20) {
			t.Errorf("a page has %d bytes", len(a.body))
		}
		n, pages = n+strings.Count(a.body, "<QueueMessage>"), pages+1
		if after = a.header.Get("x-lazuli-position"); after == "" {
			break
		}
	}
	if n != messages || pages < 2 {
		t.Errorf("%d messages in %d pages", n, pages)
	}
	const queues = 600
	for i := range queues {
		if a := f.raw(t, "PUT", fmt.Sprintf("/q%04d", i), nil, "x-ms-meta-a", strings.Repeat("m", 8000)); a.status != 201 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	n, pages, marker := 0, 0, ""
	for more := true; more; pages++ {
		a := f.raw(t, "GET", "/?comp=list&include=metadata&prefix=q&marker="+escape(marker), nil)
		if len(a.body) > budget.Answer+(1<<20) {
			t.Errorf("a page has %d bytes", len(a.body))
		}
		n += strings.Count(a.body, "<Queue>")
		_, rest, _ := strings.Cut(a.body, "<NextMarker>")
		marker, _, more = strings.Cut(rest, "</NextMarker>")
	}
	if n != queues || pages < 2 {
		t.Errorf("%d queues in %d pages", n, pages)
	}
}
