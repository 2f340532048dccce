package tablesvc

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestEntityGroupTransaction(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	for _, row := range []string{"update", "merge", "delete", "replace"} {
		add(t, client, "p", row, "A", 1)
	}
	etag := add(t, client, "p", "conditional", "A", 1)
	actions := []aztables.TransactionAction{
		{ActionType: aztables.TransactionTypeAdd, Entity: entityJSON("p", "add", "B", 2)},
		{ActionType: aztables.TransactionTypeUpdateReplace, Entity: entityJSON("p", "update", "B", 2)},
		{ActionType: aztables.TransactionTypeUpdateMerge, Entity: entityJSON("p", "merge", "B", 2)},
		{ActionType: aztables.TransactionTypeDelete, Entity: entityJSON("p", "delete")},
		{ActionType: aztables.TransactionTypeInsertReplace, Entity: entityJSON("p", "replace", "B", 2)},
		{ActionType: aztables.TransactionTypeInsertMerge, Entity: entityJSON("p", "new", "B", 2)},
		{ActionType: aztables.TransactionTypeUpdateMerge, Entity: entityJSON("p", "conditional", "B", 2), IfMatch: &etag},
	}
	_, err := client.SubmitTransaction(ctx, actions, nil)
	check.OK(t, err)
	stamps := make(map[any]bool)
	for row, want := range map[string][2]any{"add": {nil, 2.0}, "update": {nil, 2.0}, "merge": {1.0, 2.0},
		"replace": {nil, 2.0}, "new": {nil, 2.0}, "conditional": {1.0, 2.0}} {
		m := read(t, client, "p", row)
		if m["A"] != want[0] || m["B"] != want[1] {
			t.Errorf("%s is %v", row, m)
		}
		stamps[m["Timestamp"]] = true
	}
	if len(stamps) != 1 {
		t.Errorf("one transaction has the timestamps %v", stamps)
	}
	_, err = client.GetEntity(ctx, "p", "delete", nil)
	check.Code(t, err, "404 ResourceNotFound")

	t.Run("a failure undoes all", func(t *testing.T) {
		for _, tc := range []struct {
			name   string
			last   aztables.TransactionAction
			status int
			code   string
		}{
			{"exists", aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: entityJSON("p", "add")}, 409,
				"EntityAlreadyExists"},
			{"is missing", aztables.TransactionAction{ActionType: aztables.TransactionTypeUpdateMerge,
				Entity: entityJSON("p", "nobody"), IfMatch: to.Ptr(azcore.ETagAny)}, 404, "ResourceNotFound"},
			{"stale", aztables.TransactionAction{ActionType: aztables.TransactionTypeUpdateMerge, Entity: entityJSON("p", "add"),
				IfMatch: to.Ptr(staleETag)}, 412, "UpdateConditionNotSatisfied"},
			{"other partition", aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd,
				Entity: entityJSON("q", "x")}, 400, "CommandsInBatchActOnDifferentPartitions"},
			{"same row", aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertMerge,
				Entity: entityJSON("p", "fresh1")}, 400, "InvalidDuplicateRow"},
			{"bad entity", aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd,
				Entity: entityJSON("p", "x", "a b", 1)}, 400, "PropertyNameInvalid"},
			{"bad key", aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: entityJSON("p", "a#b")}, 400,
				"OutOfRangeInput"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				_, err := client.SubmitTransaction(ctx, []aztables.TransactionAction{
					{ActionType: aztables.TransactionTypeAdd, Entity: entityJSON("p", "fresh0")},
					{ActionType: aztables.TransactionTypeAdd, Entity: entityJSON("p", "fresh1")}, tc.last}, nil)
				wantPart(t, err, tc.status, tc.code, `"2:`)
				_, err = client.GetEntity(ctx, "p", "fresh0", nil)
				check.Code(t, err, "404 ResourceNotFound")
			})
		}
	})
	t.Run("too many", func(t *testing.T) {
		var actions []aztables.TransactionAction
		for i := range 300 {
			actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd,
				Entity: entityJSON("many", fmt.Sprint(i))})
		}
		for _, n := range []int{101, 102, 300} {
			_, err := client.SubmitTransaction(ctx, actions[:n], nil)
			wantPart(t, err, 400, "InvalidInput",
				`"99:The batch request operation exceeds the maximum 100 changes per change set.`)
		}
		_, err := client.SubmitTransaction(ctx, actions[:100], nil)
		check.OK(t, err)
	})
	t.Run("alone", func(t *testing.T) { // the message of a single change has no index: recorded
		_, err := client.SubmitTransaction(ctx, []aztables.TransactionAction{
			{ActionType: aztables.TransactionTypeAdd, Entity: entityJSON("many", "1")}}, nil)
		wantPart(t, err, 409, "EntityAlreadyExists", `"value":"The specified entity`)
	})
	t.Run("no table", func(t *testing.T) {
		_, err := f.sdk.NewClient("nothere").SubmitTransaction(ctx, actions[:1], nil)
		wantPart(t, err, 404, "TableNotFound", "")
	})
}

// wantPart fails the test unless err is a transaction's failure with this status, code and index. The SDK shows the
// whole answer, whose own status is 202.
func wantPart(t *testing.T, err error, status int, code, index string) {
	t.Helper()
	var e *azcore.ResponseError
	if !errors.As(err, &e) || e.StatusCode != 202 || !strings.Contains(e.Error(), fmt.Sprintf("HTTP/1.1 %d ", status)) ||
		!strings.Contains(e.Error(), `"code":"`+code+`"`) || !strings.Contains(e.Error(), index) {
		t.Errorf("got %v, want %d %s", err, status, code)
	}
}

// guids matches what differs from answer to answer.
var guids = regexp.MustCompile(
	`(batchresponse|changesetresponse)_[0-9a-f-]{36}|datetime'[^']*'|RequestId:[0-9a-f-]*|Time:[0-9TZ:.-]*`)

// TestBatchBytes: answers are byte for byte those of the real service, but for ids and times.
func TestBatchBytes(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.table("people")
	send := func(body string) string {
		t.Helper()
		r := f.send("POST", "/$batch", headers{"Content-Type", "multipart/mixed; boundary=batch_1"},
			strings.ReplaceAll(body, "\n", "\r\n")).want(t, "202")
		if got := guids.ReplaceAllString(r.header.Get("Content-Type"),
			"$1"); got != "multipart/mixed; boundary=batchresponse" {
			t.Errorf("Content-Type %q", got)
		}
		return guids.ReplaceAllStringFunc(r.body, func(s string) string { return s[:strings.IndexAny(s, "_':")] })
	}
	part := func(content string) string {
		return "--changeset_1\nContent-Type: application/http\nContent-Transfer-Encoding: binary\n\n" + content + "\n"
	}
	wrap := func(parts ...string) string {
		return "--batch_1\nContent-Type: multipart/mixed; boundary=changeset_1\n\n" + strings.Join(parts, "") +
			"--changeset_1--\n--batch_1--\n"
	}
	answer := func(parts string) string {
		return strings.ReplaceAll("--batchresponse\nContent-Type: multipart/mixed; boundary=changesetresponse\n\n"+parts+
			"--changesetresponse--\n--batchresponse--\n", "\n", "\r\n")
	}
	const head = "--changesetresponse\nContent-Type: application/http\nContent-Transfer-Encoding: binary\n\n"
	location := f.base + "/people(PartitionKey='p',RowKey='1')"
	for _, tc := range []struct{ name, body, want string }{
		{"insert and more", wrap(
			part("POST /people HTTP/1.1\nContent-ID: 1\nContent-Type: application/json\nAccept: "+
				"application/json;odata=minimalmetadata\nPrefer: return-no-content\n\n"+
				`{"PartitionKey":"p","RowKey":"1"}`),
			part("PUT /people(PartitionKey='p',RowKey='2') HTTP/1.1\nContent-ID: 2\nContent-Type: application/json\n\n{}")),
			head + "HTTP/1.1 204 No Content\nContent-ID: 1\nX-Content-Type-Options: nosniff\nCache-Control: " +
				"no-cache\nPreference-Applied: return-no-content\n" +
				"DataServiceVersion: 3.0;\nLocation: " + location + "\nDataServiceId: " + location +
				"\nETag: W/\"datetime\"\n\n\n" +
				head + "HTTP/1.1 204 No Content\nContent-ID: 2\nX-Content-Type-Options: nosniff\nCache-Control: " +
				"no-cache\nDataServiceVersion: 1.0;\nETag: W/\"datetime\"\n\n\n"},
		{"failure of the second", wrap(
			part("DELETE /people(PartitionKey='p',RowKey='2') HTTP/1.1\nContent-ID: 1\nIf-Match: *\n"),
			part("POST /people HTTP/1.1\nContent-ID: 2\nContent-Type: application/json\nAccept: "+
				"application/json;odata=minimalmetadata\n\n"+`{"PartitionKey":"p","RowKey":"1"}`)),
			head + "HTTP/1.1 409 Conflict\nContent-ID: 2\nX-Content-Type-Options: nosniff\nCache-Control: " +
				"no-cache\nDataServiceVersion: 3.0;\n" +
				"Content-Type: application/json;odata=minimalmetadata;streaming=true;charset=utf-8\n\n" +
				`{"odata.error":{"code":"EntityAlreadyExists","message":{"lang":"en-US","value":"1:The specified entity already exists.\nRequestId\nTime"}}}` + "\n"},
		{"delete", wrap(part("DELETE /people(PartitionKey='p',RowKey='2') HTTP/1.1\nIf-Match: *\n")),
			head + "HTTP/1.1 204 No Content\nX-Content-Type-Options: nosniff\nCache-Control: no-cache\nDataServiceVersion: " +
				"1.0;\n\n\n"},
		{"nothing", wrap(), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := send(tc.body); got != answer(tc.want) {
				t.Errorf("got\n%s\nwant\n%s", got, answer(tc.want))
			}
		})
	}
}

// TestBatchDialects: the bodies of several clients, which differ in line ends, addresses, blank lines and headers.
func TestBatchDialects(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.table("people")
	host := strings.TrimSuffix(f.base, "/devstoreaccount1")
	for i, tc := range []struct{ name, contentType, body string }{
		{"Go", "multipart/mixed; boundary=batch_0",
			"--batch_0\r\nContent-Type: multipart/mixed; boundary=changeset_0\r\n\r\n--changeset_0\r\n" +
				"Content-Transfer-Encoding: binary\r\nContent-Type: application/http\r\n\r\nPOST " + f.base +
				"/people?%24format=application%2Fjson%3Bodata%3Dminimalmetadata HTTP/1.1\r\n" +
				"Accept: application/json;odata=minimalmetadata\r\nContent-Length: 33\r\nContent-Type: " +
				"application/json\r\nDataserviceversion: 3.0\r\nPrefer: return-no-content\r\n\r\n" +
				"@\r\n--changeset_0--\r\n\r\n--batch_0--\r\n"},
		{"JavaScript", "multipart/mixed; boundary=batch_0",
			"--batch_0\r\ncontent-type: multipart/mixed; boundary=changeset_0\r\n\r\n\r\n--changeset_0\r\n" +
				"content-type: application/http\r\ncontent-transfer-encoding: binary\r\n\r\nPOST " + f.base +
				"/people HTTP/1.1\r\naccept: application/json\r\n" +
				"content-type: application/json\r\nprefer: return-no-content\r\n\r\n\r\n@\r\n--changeset_0--\r\n--batch_0\r\n"},
		{"Python", `multipart/mixed; boundary="batch_0"`,
			"--batch_0\r\nContent-Type: multipart/mixed; boundary=changeset_0\r\n\r\n--changeset_0\r\n" +
				"Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 0\r\n\r\nPOST " + f.base +
				"/people? HTTP/1.1\r\n" +
				"Accept: application/json;odata=minimalmetadata\r\nContent-Type: application/json\r\nContent-Length: " +
				"33\r\n\r\n@\r\n--changeset_0--\r\n\r\n--batch_0--\r\n"},
		{"Python, old", "multipart/mixed; boundary=batch_0",
			"--batch_0\nContent-Type: multipart/mixed; boundary=changeset_0\n\n--changeset_0\n" +
				"Content-Type: application/http\nContent-Transfer-Encoding: binary\n\nPOST /people HTTP/1.1\nContent-ID: " +
				"1\nContent-Type: application/json\n" +
				"Content-Length: 33\n\n@\n\n--changeset_0--\n--batch_0--"},
		{"Java", "multipart/mixed; boundary=batch_0",
			"--batch_0\r\nContent-Type: multipart/mixed; boundary=changeset_0\r\n\r\n\r\n--changeset_0\r\n" +
				"Content-Transfer-Encoding: binary\r\nContent-Type: application/http\r\n\r\nPOST " + f.base +
				"/people?$format=application/json;odata=minimalmetadata HTTP/1.1\r\n" +
				"content-type: application/json\r\nContent-Length: 33\r\naccept: " +
				"application/json;odata=minimalmetadata\r\n\r\n@\r\n--changeset_0--\r\n--batch_0--\r\n"},
		{".NET", "multipart/mixed; boundary=batch_0",
			"--batch_0\r\nContent-Type: multipart/mixed; boundary=changeset_0\r\n\r\n--changeset_0\r\n" +
				"Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPOST " + host +
				"/devstoreaccount1/people?$format=application%2Fjson%3Bodata%3Dminimalmetadata HTTP/1.1\r\n" +
				"Accept: application/json\r\nContent-Type: application/json\r\nDataServiceVersion: 3.0\r\nPrefer: " +
				"return-no-content\r\n\r\n@\r\n--changeset_0--\r\n\r\n--batch_0--\r\n"},
		{"relative without slash", "multipart/mixed; boundary=batch_0",
			"preamble\r\n--batch_0\r\nContent-Type: multipart/mixed; boundary=changeset_0\r\n\r\n--changeset_0  \r\n" +
				"Content-Type: application/http\r\n\r\nPOST people HTTP/1.1\r\nContent-Type: " +
				"application/json\r\n\r\n@\r\n--changeset_0--\r\n--batch_0--\r\nepilogue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := strings.Replace(tc.body, "@", fmt.Sprintf(`{"PartitionKey":"p","RowKey":"r%d"}`, i), 1)
			r := f.send("POST", "/$batch", headers{"Content-Type", tc.contentType}, body).want(t, "202")
			if !strings.Contains(r.body, "HTTP/1.1 204 No Content") && !strings.Contains(r.body, "HTTP/1.1 201 Created") {
				t.Errorf("answer %s", r.body)
			}
			f.send("GET", fmt.Sprintf("/people(PartitionKey='p',RowKey='r%d')", i), nil, "").want(t, "200")
		})
	}
}

// TestBatchQuery: a single query instead of changes.
func TestBatchQuery(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	add(t, client, "p", "1", "N", 1)
	add(t, client, "p", "2", "N", 2)
	send := func(uri string) reply {
		body := "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nGET " + uri +
			" HTTP/1.1\r\nAccept: application/json;odata=nometadata\r\n\r\n--b--\r\n"
		return f.send("POST", "/$batch", headers{"Content-Type", "multipart/mixed; boundary=b"}, body).want(t, "202")
	}
	inner := func(r reply) (head, body string) {
		_, rest, _ := strings.Cut(r.body, "\r\n\r\n")
		head, rest, _ = strings.Cut(rest, "\r\n\r\n")
		body, _, _ = strings.Cut(rest, "\r\n--")
		return head, body
	}
	head, body := inner(send(f.base + "/people()?$filter=N%20eq%202&$select=RowKey"))
	if !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") || body != `{"value":[{"RowKey":"2"}]}` {
		t.Errorf("got %s\n%s", head, body)
	}
	head, body = inner(send("/people(PartitionKey='p',RowKey='1')?$select=N"))
	if !strings.Contains(head, "\r\nETag: W/") || body != `{"N":1}` {
		t.Errorf("got %s\n%s", head, body)
	}
	head, body = inner(send("/people()?$top=1&$select=N"))
	if !strings.Contains(head, "x-ms-continuation-NextRowKey: "+encodeToken("2")) || body != `{"value":[{"N":1}]}` {
		t.Errorf("got %s\n%s", head, body)
	}
	head, body = inner(send("/people(PartitionKey='p',RowKey='9')"))
	if !strings.HasPrefix(head, "HTTP/1.1 404 Not Found\r\n") || !json.Valid([]byte(body)) ||
		!strings.Contains(body, "ResourceNotFound") {
		t.Errorf("got %s\n%s", head, body)
	}
	if head, _ = inner(send("/nothere()")); !strings.HasPrefix(head, "HTTP/1.1 404 ") {
		t.Errorf("got %s", head)
	}
	if head, _ = inner(send("/people()?$filter=N%20eq")); !strings.HasPrefix(head, "HTTP/1.1 400 ") {
		t.Errorf("got %s", head)
	}
}

// With product-style URLs disabled, the Host header of a batch names no account for its parts either.
func TestBatchQueryStaysInItsAccount(t *testing.T) {
	t.Parallel()
	development := auth.Development().Get(auth.DevelopmentAccount)
	accounts, err := auth.NewAccounts(*development, auth.Account{Name: "victim", Keys: development.Keys})
	check.OK(t, err)
	f := start(t, func(c *tablehost.Config) {
		c.Accounts = accounts
		c.Options.PathStyle = true
	})
	cred, err := aztables.NewSharedKeyCredential("victim", auth.DevelopmentKey)
	check.OK(t, err)
	victim, err := aztables.NewServiceClientWithSharedKey(strings.Replace(f.base, auth.DevelopmentAccount, "victim", 1),
		cred, nil)
	check.OK(t, err)
	// Read with the name of the host, the path of a part is that of a table with the name of the caller's account.
	_, err = victim.CreateTable(ctx, auth.DevelopmentAccount, nil)
	check.OK(t, err)
	add(t, victim.NewClient(auth.DevelopmentAccount), "p", "1", "Name", "secret")
	for _, uri := range []string{"/", "http://victim.table.localhost/", "/()", "/victim/" + auth.DevelopmentAccount} {
		body := "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nGET " + uri +
			" HTTP/1.1\r\nHost: victim.table.localhost\r\nAccept: application/json;odata=nometadata\r\n\r\n--b--\r\n"
		r := f.send("POST", "/$batch",
			headers{"Content-Type", "multipart/mixed; boundary=b", "Host", "victim.table.localhost"}, body)
		if strings.Contains(r.body, "secret") || strings.Contains(r.body, "200 OK") {
			t.Errorf("%s reads another account: %s", uri, r.body)
		}
	}
}

// The Accept header of a batch is of no account: its parts have formats of their own. Boundaries may have any
// characters.
func TestBatchOfLegacyClients(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.table("people")
	for _, boundary := range []string{"b", "b/c=d:e", "=="} {
		body := "--" + boundary + "\r\nContent-Type: multipart/mixed; boundary=" + boundary + "c\r\n\r\n--" + boundary +
			"c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n" +
			"PUT /people(PartitionKey='p',RowKey='r') HTTP/1.1\r\nContent-Type: application/json\r\nAccept: " +
			"application/json;odata=nometadata\r\n\r\n{}\r\n--" + boundary + "c--\r\n--" + boundary + "--\r\n"
		r := f.send("POST", "/$batch",
			headers{"Content-Type", "multipart/mixed; boundary=" + boundary, "Accept", "application/atom+xml,application/xml"},
			body).want(t, "202")
		if !strings.Contains(r.body, "HTTP/1.1 204 No Content") {
			t.Errorf("%s: %s", boundary, r.body)
		}
	}
}

// TestBatchRefused: bodies that are no transaction.
func TestBatchRefused(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.table("people")
	change := "--c\r\nContent-Type: application/http\r\n\r\nPOST /people HTTP/1.1\r\nContent-Type: " +
		"application/json\r\n\r\n{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\r\n--c--\r\n"
	set := "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n" + change
	query := "--b\r\nContent-Type: application/http\r\n\r\nGET /people() HTTP/1.1\r\n\r\n"
	for _, tc := range []struct{ name, contentType, body, want string }{
		{"no boundary", "multipart/mixed", set + "--b--", "400 InvalidInput"},
		{"other type", "application/json", set + "--b--", "400 InvalidInput"},
		{"no part", "multipart/mixed; boundary=b", "--b--", "400 InvalidInput"},
		{"empty", "multipart/mixed; boundary=b", "", "400 InvalidInput"},
		{"other boundary", "multipart/mixed; boundary=x", set, "400 InvalidInput"},
		{"two queries", "multipart/mixed; boundary=b", query + query + "--b--", "400 InvalidInput"},
		{"query and changes", "multipart/mixed; boundary=b", query + set + "--b--", "400 InvalidInput"},
		{"query among changes", "multipart/mixed; boundary=b", strings.Replace(set, "POST", "GET", 1) + "--b--",
			"400 InvalidInput"},
		{"no request", "multipart/mixed; boundary=b", strings.Replace(set, "POST /people HTTP/1.1", "POST", 1) + "--b--",
			"400 InvalidInput"},
		{"set cut off", "multipart/mixed; boundary=b", strings.Replace(set, "--c--\r\n", "", 1) + "--b--",
			"400 InvalidInput"},
		{"over 4 MiB", "multipart/mixed; boundary=b", strings.Repeat(" ", 4<<20+1), "413 RequestBodyTooLarge"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.send("POST", "/$batch", headers{"Content-Type", tc.contentType}, tc.body).want(t, tc.want)
		})
	}
	for _, tc := range []struct{ name, replace, with, want string }{
		{"delete without If-Match", "POST /people", "DELETE /people(PartitionKey='p',RowKey='r')", "MissingRequiredHeader"},
		{"table operation", "POST /people", "DELETE /Tables('people')", "InvalidInput"},
		{"comp", "POST /people", "POST /people?comp=acl", "InvalidInput"},
		{"bad address", "POST /people", "POST /people(", "InvalidInput"},
		{"two tables", "POST /people", "POST /other", "TableNotFound"},
		{"the service", "POST /people", "POST /", "MethodNotAllowed"},
		{"the service, by its address", "POST /people", "POST " + f.base, "MethodNotAllowed"},
		{"the service, with a slash", "POST /people", "POST " + f.base + "/", "MethodNotAllowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := f.send("POST", "/$batch", headers{"Content-Type", "multipart/mixed; boundary=b"},
				strings.Replace(set, tc.replace, tc.with, 1)+"--b--").want(t, "202")
			if !strings.Contains(r.body, `"code":"`+tc.want+`"`) {
				t.Errorf("got %s, want %s", r.body, tc.want)
			}
		})
	}
	comp := strings.Replace(query, "people()", "people?comp=acl", 1)
	if r := f.send("POST", "/$batch", headers{"Content-Type", "multipart/mixed; boundary=b"}, comp+"--b--").want(t,
		"202"); !strings.Contains(r.body, "InvalidInput") {
		t.Errorf("query with comp: %s", r.body)
	}
	r := f.send("POST", "/$batch", headers{"Content-Type", "multipart/mixed; boundary=b"}, set+set+"--b--").want(t, "202")
	if !strings.Contains(r.body, "HTTP/1.1 201 Created") || !strings.Contains(r.body, "HTTP/1.1 400 Bad Request") {
		t.Errorf("of two change sets the first is carried out and the second refused; got %s", r.body)
	}
}

// TestTransactionsAreIsolated: a query sees all changes of a transaction or none.
func TestTransactionsAreIsolated(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	const entities, generations = 20, 60
	write := func(generation int) {
		actions := make([]aztables.TransactionAction, entities)
		for i := range actions {
			actions[i] = aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace,
				Entity: entityJSON("p", fmt.Sprint(i), "G", generation)}
		}
		_, err := client.SubmitTransaction(ctx, actions, nil)
		if err != nil {
			t.Error(err)
		}
	}
	write(0)
	done := make(chan struct{})
	defer func() { <-done }() // also if the test ends early
	go func() {
		defer close(done)
		for g := range generations {
			write(g)
		}
	}()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		r := f.send("GET", "/people()?$select=G", nil, "")
		var page struct{ Value []struct{ G int } }
		check.OK(t, json.Unmarshal([]byte(r.body), &page))
		for _, e := range page.Value {
			if len(page.Value) != entities || e != page.Value[0] {
				t.Fatalf("half of a transaction: %s", r.body)
			}
		}
	}
}
