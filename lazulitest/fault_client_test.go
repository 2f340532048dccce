package lazulitest_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// open starts a server with the container "box" in it and the blob "box/b", and a client without retries and with a
// connection of its own for each request, so that a broken connection is not retried below the SDK.
func open(t *testing.T) (*lazulitest.Lazuli, *azblob.Client) {
	t.Helper()
	l := lazulitest.Start(t)
	// After an error the SDK waits for 100 Continue before it sends a body; without the limit the transport would not
	// wait.
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true, ExpectContinueTimeout: check.Patience}
	client, err := azblob.NewClientFromConnectionString(l.ConnectionString(),
		&azblob.ClientOptions{ClientOptions: policy.ClientOptions{
			Retry: policy.RetryOptions{MaxRetries: -1}, Transport: &http.Client{Transport: transport}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateContainer(t.Context(), "box", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UploadBuffer(t.Context(), "box", "b", content, nil); err != nil {
		t.Fatal(err)
	}
	return l, client
}

var content = bytes.Repeat([]byte("0123456789"), 20_000)

func put(t *testing.T, client *azblob.Client, name string) error {
	t.Helper()
	sum := md5.Sum(content)
	_, err := client.ServiceClient().NewContainerClient("box").NewBlockBlobClient(name).Upload(t.Context(),
		readSeekCloser{bytes.NewReader(content)},
		&blockblob.UploadOptions{TransactionalValidation: blob.TransferValidationTypeMD5(sum[:])})
	return err
}

type readSeekCloser struct{ *bytes.Reader }

func (readSeekCloser) Close() error { return nil }

func get(t *testing.T, client *azblob.Client, name string) ([]byte, http.Header, error) {
	t.Helper()
	var answer *http.Response
	got, err := client.DownloadStream(policy.WithCaptureResponse(t.Context(), &answer), "box", name, nil)
	if err != nil {
		return nil, nil, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	return text, answer.Header, err
}

func code(err error) string {
	var e *azcore.ResponseError
	if errors.As(err, &e) {
		return e.ErrorCode
	}
	return ""
}

// What is answered has the rule's error and says which rule it was.
func TestErrorIsAnswered(t *testing.T) {
	t.Parallel()
	l, client := open(t)
	for _, tc := range []struct {
		code   string
		status int
	}{{"ServerBusy", 503}, {"OperationTimedOut", 500}, {"InternalError", 500}} {
		name := l.AddFault(t, lazulitest.FaultRule{Operation: "Put Blob", Error: tc.code,
			RetryAfter: lazulitest.FaultDuration(2 * time.Second), Count: 1})
		var e *azcore.ResponseError
		if err := put(t, client, "x"); !errors.As(err, &e) || e.ErrorCode != tc.code || e.StatusCode != tc.status {
			t.Fatalf("%s: %v", tc.code, err)
		}
		if got := e.RawResponse.Header.Get(faultrule.Header); got != name {
			t.Errorf("%s: header %s is %q, want %q", tc.code, faultrule.Header, got, name)
		}
		if got := e.RawResponse.Header.Get("Retry-After"); got != "2" {
			t.Errorf("%s: Retry-After is %q, want 2", tc.code, got)
		}
		l.RequireFaultHit(t, name)
		if _, _, err := get(t, client, "x"); !bloberror.HasCode(err, bloberror.BlobNotFound) {
			t.Errorf("%s: the blob after the failure: %v, want BlobNotFound", tc.code, err)
		}
	}
}

// An unanswered write has happened; so has none whose connection breaks before it.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	l, client := open(t)
	for _, tc := range []struct {
		name    string
		rule    lazulitest.FaultRule
		applied bool
	}{
		{"unanswered", lazulitest.FaultRule{Unanswered: true}, true},
		{"before", lazulitest.FaultRule{Reset: "before"}, false},
	} {
		tc.rule.Operation, tc.rule.Count = "PutBlob", 1
		rule := l.AddFault(t, tc.rule)
		if err := put(t, client, tc.name); err == nil || code(err) != "" {
			t.Errorf("%s: %v, want an error of the connection", tc.name, err)
		}
		l.RequireFaultHit(t, rule)
		_, _, err := get(t, client, tc.name)
		if tc.applied != (err == nil) {
			t.Errorf("%s: the blob afterwards: %v, want it applied: %v", tc.name, err, tc.applied)
		}
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	l, client := open(t)
	rule := l.AddFault(t, lazulitest.FaultRule{Operation: "Get Blob", Reset: "before"})
	if _, _, err := get(t, client, "b"); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Errorf("before: %v, want a reset", err)
	}
	l.RequireFaultHit(t, rule)
}

// A response that is cut off is recognised by its length, wherever it ends.
func TestCutOffResponses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		rule lazulitest.FaultRule
	}{
		{"during", lazulitest.FaultRule{Reset: "during"}},
		{"without a body", lazulitest.FaultRule{Truncate: to.Ptr(int64(0))}},
		{"in the middle", lazulitest.FaultRule{Truncate: to.Ptr(int64(100_000))}},
		{"before the last byte", lazulitest.FaultRule{Truncate: to.Ptr(int64(len(content) - 1))}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l, client := open(t)
			tc.rule.Operation = "GetBlob"
			rule := l.AddFault(t, tc.rule)
			text, _, err := get(t, client, "b")
			if err == nil || len(text) == len(content) {
				t.Errorf("%d bytes, %v; want an error after fewer than %d", len(text), err, len(content))
			}
			if !bytes.HasPrefix(content, text) {
				t.Error("the bytes received are not the blob's")
			}
			l.RequireFaultHit(t, rule)
		})
	}
}

// A corrupted request is found by the server's check of its hash, a corrupted response by the client's.
func TestCorruptedBytes(t *testing.T) {
	t.Parallel()
	l, client := open(t)
	l.AddFault(t, lazulitest.FaultRule{Operation: "Put Blob", Corrupt: to.Ptr(int64(77_777)), CorruptRequest: true,
		Count: 1})
	if err := put(t, client, "x"); !bloberror.HasCode(err, bloberror.MD5Mismatch) {
		t.Errorf("the corrupted request: %v, want Md5Mismatch", err)
	}
	l.AddFault(t, lazulitest.FaultRule{Operation: "Get Blob", Corrupt: to.Ptr(int64(77_777))})
	text, _, err := get(t, client, "b")
	if err != nil {
		t.Fatal(err)
	}
	different := 0
	for i := range text {
		if text[i] != content[i] {
			different++
		}
	}
	if different != 1 || text[77_777] != content[77_777]^1 {
		t.Errorf("%d bytes differ, want one bit of byte 77777", different)
	}
}

func TestResponseIsCompleteBeforeTheReset(t *testing.T) {
	t.Parallel()
	l, client := open(t)
	rule := l.AddFault(t, lazulitest.FaultRule{Operation: "Delete Blob", Reset: "after"})
	_, _ = client.DeleteBlob(t.Context(), "box", "b", nil) // a reset may overtake the response
	l.RequireFaultHit(t, rule)
	if _, _, err := get(t, client, "b"); !bloberror.HasCode(err, bloberror.BlobNotFound) {
		t.Errorf("the blob after its deletion: %v", err)
	}
}

// Slow bytes arrive all, and a client that gives up ends the request.
func TestSlowAndDelayed(t *testing.T) {
	t.Parallel()
	l, client := open(t)
	fast := l.AddFault(t, lazulitest.FaultRule{Operation: "Get Blob", Slow: 50_000_000,
		Delay: lazulitest.FaultDuration(time.Millisecond), Count: 1})
	text, header, err := get(t, client, "b")
	if err != nil || !bytes.Equal(text, content) {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	if header.Get(faultrule.Header) != fast {
		t.Errorf("header %s is %q, want %q", faultrule.Header, header.Get(faultrule.Header), fast)
	}
	l.AddFault(t, lazulitest.FaultRule{Operation: "Get Blob", Delay: lazulitest.FaultDuration(faultrule.MaxDelay)})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.DownloadStream(ctx, "box", "b", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a client that gives up: %v", err)
	}
}

// The SDK's retries hide a fault that passes.
func TestRetriesHideFaults(t *testing.T) {
	t.Parallel()
	l, _ := open(t)
	client, err := azblob.NewClientFromConnectionString(l.ConnectionString(),
		&azblob.ClientOptions{ClientOptions: policy.ClientOptions{
			Retry: policy.RetryOptions{MaxRetries: 3, RetryDelay: time.Millisecond, MaxRetryDelay: 10 * time.Millisecond}}})
	if err != nil {
		t.Fatal(err)
	}
	rule := l.AddFault(t, lazulitest.FaultRule{Operation: "Get Blob", Error: "ServerBusy", Count: 2})
	if _, _, err := get(t, client, "b"); err != nil {
		t.Errorf("after two failures: %v", err)
	}
	if got := l.FaultHits(t, rule); got != 2 {
		t.Errorf("%d hits, want 2", got)
	}
}

// A request can ask for a fault of its own, and hears what is wrong with its wish.
func TestRequestedFault(t *testing.T) {
	t.Parallel()
	_, client := open(t)
	for _, tc := range []struct{ header, code string }{
		{`{"error":"OperationTimedOut"}`, "OperationTimedOut"}, {`{"error":"Busy"}`, "InvalidHeaderValue"},
		{"busy", "InvalidHeaderValue"},
	} {
		ctx := policy.WithHTTPHeader(t.Context(), http.Header{faultrule.InjectHeader: {tc.header}})
		_, err := client.DownloadStream(ctx, "box", "b", nil)
		if got := code(err); got != tc.code {
			t.Errorf("%s: %q, want %q (%v)", tc.header, got, tc.code, err)
		}
	}
}

func TestThrottledEntitiesOfAPartition(t *testing.T) {
	t.Parallel()
	l := lazulitest.Start(t)
	a := l.Account(t)
	if _, err := a.Tables.CreateTable(t.Context(), "Readings", nil); err != nil {
		t.Fatal(err)
	}
	l.AddFault(t, lazulitest.FaultRule{Service: "table",
		Throttle: &lazulitest.FaultThrottle{Requests: 1e-6, Per: "partition"}, Operation: "Insert Entity"})
	insert := func(partition, row string) error {
		retry := policy.WithRetryOptions(t.Context(), policy.RetryOptions{MaxRetries: -1})
		_, err := a.Tables.NewClient("Readings").AddEntity(retry,
			[]byte(`{"PartitionKey":"`+partition+`","RowKey":"`+row+`"}`), nil)
		return err
	}
	for _, tc := range []struct{ partition, row, code string }{{"a", "1", ""}, {"b", "1", ""}, {"a", "2", "ServerBusy"}} {
		if err := insert(tc.partition, tc.row); code(err) != tc.code || (err == nil) != (tc.code == "") {
			t.Errorf("entity %s/%s: %v, want %q", tc.partition, tc.row, err, tc.code)
		} else if err != nil && !strings.Contains(err.Error(), "over the account limit") {
			t.Errorf("the text is %v", err)
		}
	}
}

// Each operation takes the entities that it reads or writes from the rate of the partition: the first one is served,
// and leaves nothing for the others.
func TestThrottledEntities(t *testing.T) {
	t.Parallel()
	l := lazulitest.Start(t)
	a := l.Account(t)
	if _, err := a.Tables.CreateTable(t.Context(), "Readings", nil); err != nil {
		t.Fatal(err)
	}
	table := a.Tables.NewClient("Readings")
	ctx := policy.WithRetryOptions(t.Context(), policy.RetryOptions{MaxRetries: -1})
	entity := func(partition, row string) []byte {
		return []byte(`{"PartitionKey":"` + partition + `","RowKey":"` + row + `"}`)
	}
	query := func(partition string) error {
		filter := "PartitionKey eq '" + partition + "'"
		_, err := table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter}).NextPage(ctx)
		return err
	}
	transaction := func(partition string) error {
		var actions []aztables.TransactionAction
		for _, row := range []string{"a", "b", "c", "d", "e"} {
			actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace,
				Entity: entity(partition, row)})
		}
		_, err := table.SubmitTransaction(ctx, actions, nil)
		return err
	}
	for _, partition := range []string{"q", "full"} {
		if err := transaction(partition); err != nil {
			t.Fatal(err)
		}
	}
	rule := l.AddFault(t, lazulitest.FaultRule{Throttle: &lazulitest.FaultThrottle{PartitionEntities: 5e-3,
		AccountEntities: 1e6}, RetryAfter: lazulitest.FaultDuration(time.Second)})
	for partition, first := range map[string]func(string) error{
		"w":    func(p string) error { _, err := table.AddEntity(ctx, entity(p, "1"), nil); return err },
		"t":    transaction,
		"q":    query,
		"full": func(p string) error { _, err := table.GetEntity(ctx, p, "a", nil); return err },
	} {
		if err := first(partition); err != nil {
			t.Errorf("partition %s, within the rate: %v", partition, err)
		}
		for name, next := range map[string]func(string) error{
			"query": query, "transaction": transaction,
			"insert": func(p string) error { _, err := table.AddEntity(ctx, entity(p, "9"), nil); return err },
			"get":    func(p string) error { _, err := table.GetEntity(ctx, p, "a", nil); return err },
		} {
			if err := next(partition); code(err) != "ServerBusy" {
				t.Errorf("%s of partition %s, above the rate: %v", name, partition, err)
			}
		}
	}
	l.RequireFaultHit(t, rule)
	if err := query("other"); err != nil {
		t.Errorf("a query without results: %v", err)
	}
}
