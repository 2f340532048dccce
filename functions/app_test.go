package functions

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// put puts a message as Azure Functions' clients do.
func put(t *testing.T, s *workers.Storage, queue, text string) {
	t.Helper()
	q := s.Queues.NewQueueClient(queue)
	_, _ = q.Create(t.Context(), nil)
	if _, err := q.EnqueueMessage(t.Context(), base64.StdEncoding.EncodeToString([]byte(text)), nil); err != nil {
		t.Fatal(err)
	}
}

// messages returns the texts in a queue, up to 32.
func messages(t *testing.T, s *workers.Storage, queue string) (texts []string) {
	t.Helper()
	got, err := s.Queues.NewQueueClient(queue).PeekMessages(t.Context(),
		&azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(32))})
	if err != nil {
		return nil
	}
	for _, m := range got.Messages {
		text, err := base64.StdEncoding.DecodeString(*m.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

func blobText(t *testing.T, s *workers.Storage, path string) string {
	t.Helper()
	container, name, _ := strings.Cut(path, "/")
	got, err := s.Blobs.DownloadStream(t.Context(), container, name, nil)
	if err != nil {
		return "(" + sdkerr.Short(err).Error() + ")"
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const timeForm = "2006-01-02T15:04:05+00:00"

func TestQueueTrigger(t *testing.T) {
	t.Parallel()
	handler, calls := record(`{"Logs": ["a line"]}`)
	r := run(t, map[string]string{"Q/function.json": queueFunction}, handler)
	const message = `{"orderId": 5, "ok": true, "customer": {"name": "Ada"}, "list": [1]}`
	put(t, r.storage, "in-queue", message)
	a := next(t, calls)
	if a.path != "/Q" {
		t.Errorf("asked at %s", a.path)
	}
	quoted, _ := json.Marshal(message)
	if got := a.body.Data; len(got) != 1 || got["item"] != string(quoted) {
		t.Errorf("Data is %v", got)
	}
	m := a.body.Metadata
	for name, want := range map[string]any{"DequeueCount": "1", "orderId": `"5"`, "ok": `"True"`} {
		if m[name] != want {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
	if fmt.Sprint(m["customer"]) != "map[name:Ada]" {
		t.Errorf("customer is %v", m["customer"])
	}
	for _, name := range []string{"Id", "PopReceipt"} {
		if s, _ := m[name].(string); len(s) < 3 || s[0] != '"' || s[len(s)-1] != '"' {
			t.Errorf("%s is %v, want a quoted text", name, m[name])
		}
	}
	for _, name := range []string{"ExpirationTime", "InsertionTime", "NextVisibleTime"} {
		if s, _ := m[name].(string); len(s) != len(timeForm) || !strings.HasSuffix(s, "+00:00") {
			t.Errorf("%s is %v", name, m[name])
		}
	}
	sys, _ := m["sys"].(map[string]any)
	if sys["MethodName"] != "Q" || len(fmt.Sprint(sys["RandGuid"])) != 36 ||
		!strings.HasSuffix(fmt.Sprint(sys["UtcNow"]), "Z") {
		t.Errorf("sys is %v", sys)
	}
	if len(m) != 10 {
		t.Errorf("Metadata has more or less: %v", m)
	}
	if a.header.Get("X-Azure-Functions-InvocationId") == "" || a.header.Get("X-Azure-Functions-HostVersion") == "" ||
		!strings.HasPrefix(a.header.Get("User-Agent"), "Azure-Functions-Host/") ||
		a.header.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("headers are %v", a.header)
	}
	eventually(t, "the message is deleted", func() bool {
		p, err := r.storage.Queues.NewQueueClient("in-queue").GetProperties(t.Context(), nil)
		return err == nil && *p.ApproximateMessagesCount == 0
	})
	if !strings.Contains(r.log.String(),
		`msg="a line" function=Q invocation_id=`+a.header.Get("X-Azure-Functions-InvocationId")) {
		t.Error("the line is not logged")
	}
}

// A failure is tried again, and poisoned in the end; extensions.queues rules how often.
func TestFailures(t *testing.T) {
	t.Parallel()
	calls := make(chan string, 100)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls <- r.URL.Path
		w.WriteHeader(http.StatusTeapot)
	})
	host := strings.Replace(hostJSON("x", ""), `"queues": {`,
		`"queues": {"maxDequeueCount": 3, "messageEncoding": "none", `, 1)
	r := run(t, map[string]string{"host.json": host, "Q/function.json": queueFunction}, handler)
	q := r.storage.Queues.NewQueueClient("in-queue")
	if _, err := q.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := q.EnqueueMessage(t.Context(), "no base64!", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the message is poisoned", func() bool {
		got, err := r.storage.Queues.NewQueueClient("in-queue-poison").PeekMessages(t.Context(), nil)
		return err == nil && len(got.Messages) == 1 && *got.Messages[0].MessageText == "no base64!"
	})
	if len(calls) != 3 {
		t.Errorf("asked %d times", len(calls))
	}
	if !strings.Contains(r.log.String(), "the handler answered 418 I'm a teapot") {
		t.Error("the log does not say why")
	}
}

// An invocation that finds no handler waits for the next one, and is no attempt; one that is cut off is one, and then
// the next waits.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	const nobody = "http://127.0.0.1:1" // Nothing is served at a port that needs privileges.
	hangsUp := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }))
	defer hangsUp.Close()
	for address, want := range map[string]string{nobody: "1", hangsUp.URL: "2"} {
		handler, calls := record(`{}`)
		r := runAfter(t, address, lazulitest.Start(t).ConnectionString(),
			folder(t, map[string]string{"Q/function.json": queueFunction}), handler)
		put(t, r.storage, "in-queue", "text")
		if a := next(t, calls); a.body.Metadata["DequeueCount"] != want {
			t.Errorf("DequeueCount is %v, want %s", a.body.Metadata["DequeueCount"], want)
		}
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	handler, calls := record(`{
		"Outputs": {
			"several": ["one", {"two": 2}],
			"file": "text of the blob",
			"rows": [{"RowKey": "r1", "n": 1}, {"PartitionKey": "own", "RowKey": "r2", "n": 5000000000}],
			"bytes": "AAEC/w=="
		},
		"ReturnValue": {"answer": 42}
	}`)
	r := run(t, map[string]string{
		"Q/function.json": `{"bindings": [
			{"type": "queueTrigger", "direction": "in", "name": "item", "queueName": "in-queue"},
			{"type": "queue", "direction": "out", "name": "several", "queueName": "several-{kind}"},
			{"type": "blob", "direction": "out", "name": "file", "path": "made/{customer.name}/{id}.txt"},
			{"type": "blob", "direction": "out", "name": "bytes", "path": "made/bytes"},
			{"type": "table", "direction": "out", "name": "rows", "tableName": "Rows", "partitionKey": "of-{kind}"},
			{"type": "queue", "direction": "out", "name": "unused", "queueName": "unused"},
			{"type": "queue", "direction": "out", "name": "$return", "queueName": "returned"}
		]}`,
		// A listener of one of the outputs is woken.
		"W/function.json": `{"bindings": [{"type": "queueTrigger", "direction": "in", "name": "item", "queueName": "several-k"}]}`,
	}, handler, "AzureWebJobs_W_Disabled=true")
	put(t, r.storage, "in-queue", `{"kind": "k", "id": 7, "customer": {"name": "Ada"}}`)
	next(t, calls)
	eventually(t, "the return value is in its queue", func() bool { return len(messages(t, r.storage, "returned")) == 1 })
	if got := messages(t, r.storage, "returned")[0]; got != `{"answer":42}` {
		t.Error(got)
	}
	if got := strings.Join(messages(t, r.storage, "several-k"), "|"); got != `one|{"two":2}` {
		t.Error(got)
	}
	if got := blobText(t, r.storage, "made/Ada/7.txt"); got != "text of the blob" {
		t.Error(got)
	}
	if got := blobText(t, r.storage, "made/bytes"); got != "\x00\x01\x02\xff" {
		t.Errorf("%q", got)
	}
	rows := r.storage.Tables.NewClient("Rows")
	for _, key := range [][2]string{{"of-k", "r1"}, {"own", "r2"}} {
		if got, err := rows.GetEntity(t.Context(), key[0], key[1], nil); err != nil ||
			!strings.Contains(string(got.Value), `"n":`) {
			t.Errorf("%v: %s, %v", key, got.Value, err)
		}
	}
	if messages(t, r.storage, "unused") != nil {
		t.Error("an output without a value was written")
	}
	if !strings.Contains(r.log.String(), "set dataType to binary") {
		t.Error("nothing is said of base64")
	}

	// The same once more: the rows are there already, and that is no failure.
	put(t, r.storage, "in-queue", `{"kind": "k", "id": 8, "customer": {"name": "Ada"}}`)
	eventually(t, "it succeeds again", func() bool { return len(messages(t, r.storage, "returned")) == 2 })
	// Rows that are there with other properties are.
	if _, err := rows.UpdateEntity(t.Context(), []byte(`{"PartitionKey": "of-k", "RowKey": "r1", "n": 2}`),
		&aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeReplace}); err != nil {
		t.Fatal(err)
	}
	put(t, r.storage, "in-queue", `{"kind": "k", "id": 9, "customer": {"name": "Ada"}}`)
	eventually(t, "it is poisoned", func() bool { return len(messages(t, r.storage, "in-queue-poison")) == 1 })
	if !strings.Contains(r.log.String(), `output rows: insert entity 0 into the table`) {
		t.Error("the log does not say why")
	}
}

// A payload without the name that an output asks for is a failure that says so.
func TestExpressionWithoutValue(t *testing.T) {
	t.Parallel()
	handler, _ := record(`{"ReturnValue": "x"}`)
	r := run(t, map[string]string{"Q/function.json": `{"bindings": [
		{"type": "queueTrigger", "direction": "in", "name": "item", "queueName": "in-queue"},
		{"type": "blob", "direction": "out", "name": "$return", "path": "made/{missing}"}]}`}, handler)
	put(t, r.storage, "in-queue", "text")
	eventually(t, "it is poisoned", func() bool { return len(messages(t, r.storage, "in-queue-poison")) == 1 })
	if !strings.Contains(r.log.String(), `{missing}: the trigger has no value of that name`) {
		t.Error("the log does not say why")
	}
}

func TestBlobTriggerAndInputs(t *testing.T) {
	t.Parallel()
	handler, calls := record(`{}`)
	files := map[string]string{"B/function.json": `{"bindings": [
		{"type": "blobTrigger", "direction": "in", "name": "blob", "path": "incoming/{name}.{ext}"},
		{"type": "blob", "direction": "in", "name": "side", "path": "side/{name}", "dataType": "binary"},
		{"type": "blob", "direction": "in", "name": "missing", "path": "side/none"},
		{"type": "table", "direction": "in", "name": "row", "tableName": "Rows", "partitionKey": "p", "rowKey": "{name}"},
		{"type": "table", "direction": "in", "name": "rows", "tableName": "Rows", "partitionKey": "p", "filter": "n lt 3", "take": 2},
		{"type": "table", "direction": "in", "name": "nothing", "tableName": "None", "partitionKey": "p", "rowKey": "r"}
	]}`}
	r := run(t, files, handler)
	for _, c := range []string{"incoming", "side"} {
		if _, err := r.storage.Blobs.CreateContainer(t.Context(), c, nil); err != nil {
			t.Fatal(err)
		}
	}
	rows := r.storage.Tables.NewClient("Rows")
	if _, err := rows.CreateTable(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for i, row := range []string{"photo", "q", "r", "s"} {
		if _, err := rows.AddEntity(t.Context(),
			fmt.Appendf(nil, `{"PartitionKey": "p", "RowKey": %q, "n": %d, "big": "5000000000", "big@odata.type": "Edm.Int64"}`,
				row, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	upload := func(container, name, text string, metadata map[string]*string) {
		t.Helper()
		if _, err := r.storage.Blobs.UploadBuffer(t.Context(), container, name, []byte(text),
			&blockblob.UploadBufferOptions{Metadata: metadata}); err != nil {
			t.Fatal(err)
		}
	}
	upload("side", "photo", "\x00\xff", nil)
	upload("incoming", "photo.json", `{"width": 3}`, map[string]*string{"Camera": to.Ptr("old")})
	a := next(t, calls)
	d, m := a.body.Data, a.body.Metadata
	for name, want := range map[string]any{"blob": `"{\"width\": 3}"`, "side": "AP8=", "missing": "null",
		"nothing": "null"} {
		if d[name] != want {
			t.Errorf("Data.%s is %v, want %v", name, d[name], want)
		}
	}
	row, _ := d["row"].(map[string]any)
	if row["RowKey"] != "photo" || row["big"] != 5e9 || row["big@odata.type"] != nil || row["odata.metadata"] != nil {
		t.Errorf("row is %v", row)
	}
	var list []map[string]any
	if text, _ := d["rows"].(string); json.Unmarshal([]byte(text), &list) != nil || len(list) != 2 {
		t.Fatalf("rows is %v", d["rows"])
	}
	for _, entity := range append(list, row) {
		etag, _ := entity["odata.etag"].(string)
		if at, _ := entity["Timestamp"].(string); !strings.HasPrefix(etag, "W/") || !strings.HasPrefix(at, "2") {
			t.Errorf("Timestamp or ETag is missing: %v", entity)
		}
	}
	for name, want := range map[string]any{"name": `"photo"`, "ext": `"json"`, "width": `"3"`} {
		if m[name] != want {
			t.Errorf("Metadata.%s is %v, want %v", name, m[name], want)
		}
	}
	if uri, _ := m["Uri"].(string); !strings.HasPrefix(uri, `"http://`) ||
		!strings.HasSuffix(uri, `/incoming/photo.json"`) {
		t.Errorf("Uri is %v", m["Uri"])
	}
	properties, _ := m["Properties"].(map[string]any)
	if properties["ContentLength"] != float64(12) || fmt.Sprint(m["Metadata"]) != "map[Camera:old]" {
		t.Errorf("Properties %v, Metadata %v", properties, m["Metadata"])
	}
	if _, ok := m["BlobTrigger"]; ok {
		t.Error("what triggered is there twice")
	}
}

// A table trigger is called for each change; those in order have the entity before it.
func TestTableTrigger(t *testing.T) {
	t.Parallel()
	handler, calls := record(`{"Outputs": {"note": "was seen"}}`)
	r := run(t, map[string]string{"T/function.json": `{"bindings": [
		{"type": "tableTrigger", "direction": "in", "name": "change", "tableName": "Orders", "inOrder": true},
		{"type": "blob", "direction": "out", "name": "note", "path": "notes/{Change}-{RowKey}-{item}"}
	]}`}, handler)
	eventually(t, "the function listens", func() bool { return strings.Contains(r.log.String(), "msg=listening") })
	orders := r.storage.Tables.NewClient("Orders")
	if _, err := orders.CreateTable(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	const keys = `"PartitionKey": "p", "RowKey": "7"`
	if _, err := orders.AddEntity(t.Context(),
		[]byte(`{`+keys+`, "item": "lamp", "big": "5000000000", "big@odata.type": "Edm.Int64"}`), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := orders.DeleteEntity(t.Context(), "p", "7", nil); err != nil {
		t.Fatal(err)
	}
	const entity = "map[PartitionKey:p RowKey:7 big:5e+09 item:lamp]"
	inserted, deleted := next(t, calls).body.Data["change"], next(t, calls).body.Data["change"]
	got, _ := inserted.(map[string]any)
	if etag, _ := got["ETag"].(string); got["Change"] != "insert" || got["Table"] != "Orders" ||
		got["PartitionKey"] != "p" || got["RowKey"] != "7" || fmt.Sprint(got["Entity"]) != entity ||
		got["Before"] != nil || !strings.HasPrefix(etag, "W/") {
		t.Errorf("the value for an insert is %v", got)
	}
	if got, _ = deleted.(map[string]any); got["Change"] != "delete" || got["Entity"] != nil ||
		fmt.Sprint(got["Before"]) != entity {
		t.Errorf("the value for a deletion is %v", got)
	}
	eventually(t, "outputs have their names from the changes", func() bool {
		return blobText(t, r.storage, "notes/insert-7-lamp") == "was seen" &&
			blobText(t, r.storage, "notes/delete-7-lamp") == "was seen"
	})
}

func TestTimerTrigger(t *testing.T) {
	t.Parallel()
	handler, calls := record(`{"Outputs": {"q": "tick"}}`)
	r := run(t, map[string]string{"T/function.json": `{"bindings": [
		{"type": "timerTrigger", "name": "timer", "schedule": "0 0 0 1 1 *", "runOnStartup": true},
		{"type": "queue", "direction": "out", "name": "q", "queueName": "ticks"}]}`}, handler)
	a := next(t, calls)
	timer, _ := a.body.Data["timer"].(map[string]any)
	status, _ := timer["ScheduleStatus"].(map[string]any)
	if timer["IsPastDue"] != false || fmt.Sprint(timer["Schedule"]) != "map[AdjustForDST:true]" || status["Next"] == "" ||
		len(status) != 3 {
		t.Errorf("timer is %v", timer)
	}
	if len(a.body.Metadata) != 1 {
		t.Errorf("Metadata is %v", a.body.Metadata)
	}
	eventually(t, "it is written", func() bool { return len(messages(t, r.storage, "ticks")) == 1 })
}

// A retry policy applies within one invocation, and the function gets the number of the attempt.
func TestRetryPolicy(t *testing.T) {
	t.Parallel()
	var seen []string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c struct {
			Metadata struct{ RetryContext map[string]any }
		}
		_ = json.NewDecoder(r.Body).Decode(&c)
		retry := c.Metadata.RetryContext
		seen = append(seen, fmt.Sprintf("%v/%v %v", retry["RetryCount"], retry["MaxRetryCount"], retry["Exception"] != nil))
		w.Header().Set("Content-Type", "application/json")
		if len(seen) < 3 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, `{"Outputs": {"res": {"body": "at last"}}}`)
	})
	r := run(t,
		map[string]string{"H/function.json": `{"retry": {"strategy": "exponentialBackoff", "maxRetryCount": 2, "minimumInterval": "00:00:00.001", "maximumInterval": "00:00:00.002"},
		"bindings": [{"type": "httpTrigger", "name": "req"}, {"type": "http", "direction": "out", "name": "res"}]}`}, handler)
	if got := get(t, r.url+"/api/H"); got != "200 at last" {
		t.Error(got)
	}
	if got := strings.Join(seen, ", "); got != "0/2 false, 1/2 true, 2/2 true" {
		t.Error(got)
	}
}

// The host keeps a policy for a message too: its attempts are made within each delivery. At the start it warns.
func TestRetryPolicyOfAQueueTrigger(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c struct {
			Metadata struct {
				DequeueCount string
				RetryContext struct{ RetryCount int }
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&c)
		if c.Metadata.DequeueCount != "1" || c.Metadata.RetryContext.RetryCount < 2 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ReturnValue": "at last"}`)
	})
	r := run(t, map[string]string{"Q/function.json": `{"retry": {"strategy": "fixedDelay", "maxRetryCount": 2,
		"delayInterval": "00:00:00"}, "bindings": [{"type": "queueTrigger", "name": "item", "queueName": "in-queue"},
		{"type": "queue", "direction": "out", "name": "$return", "queueName": "done"}]}`}, handler)
	put(t, r.storage, "in-queue", "x")
	eventually(t, "the third attempt succeeds", func() bool { return len(messages(t, r.storage, "done")) == 1 })
	if got := r.Warnings(); len(got) != 1 || !strings.Contains(got[0], "Q/function.json: retry") {
		t.Errorf("warnings are %v", got)
	}
}

// A stop does not wait for the next attempt of a timer's run, which is still due at the next start.
func TestStopWhileARetryWaits(t *testing.T) {
	t.Parallel()
	failed := make(chan struct{}, 10)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		failed <- struct{}{}
		w.WriteHeader(http.StatusInternalServerError)
	})
	files := map[string]string{"T/function.json": `{"retry": {"strategy": "fixedDelay", "maxRetryCount": -1,
		"delayInterval": "01:00:00"}, "bindings": [
		{"type": "timerTrigger", "name": "timer", "schedule": "0 0 0 1 1 *", "runOnStartup": true}]}`}
	r := runConfig(t, "", Config{Dir: folder(t, files), Environ: append(os.Environ(), role+"=handler"),
		ConnectionString: lazulitest.Start(t).ConnectionString(), DrainTimeout: 2 * patience}, handler)
	<-failed
	eventually(t, "the next attempt is announced", func() bool { return strings.Contains(r.log.String(), "trying again") })
	began := time.Now()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > patience { // half of the time for what runs
		t.Errorf("the stop takes %v", took)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	return do(t, http.MethodGet, url, "")
}

// do returns the status and the body.
func do(t *testing.T, method, url, body string, headers ...string) string {
	t.Helper()
	answer, err := try(method, url, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// try is do for other goroutines than the test's.
func try(method, url, body string, headers ...string) (string, error) {
	r, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	got, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	return fmt.Sprintf("%d %s", got.StatusCode, strings.TrimSpace(string(text))), err
}

// tryGet is get for other goroutines than the test's: a failure is its answer.
func tryGet(url string) string {
	answer, err := try(http.MethodGet, url, "")
	if err != nil {
		return "failed: " + err.Error()
	}
	return answer
}
