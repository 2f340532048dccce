package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A message that becomes visible in an hour is received after the test clock was set forward by one. The clock does not
// go back, and other servers refuse to set theirs.
func TestServerWithATestClock(t *testing.T) {
	t.Parallel()
	args := []string{"--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port", "0"}
	post := func(url string) (int, string) {
		t.Helper()
		resp, err := http.Post(url, "", nil)
		check.OK(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		check.OK(t, err)
		return resp.StatusCode, string(text)
	}
	r := start(t, Main{Args: append(args, "--test-clock")})
	admin := r.wait(t, `Admin +(http://\S+)`)[1]
	connection := r.wait(t, `(DefaultEndpointsProtocol=\S+)`)[1]
	r.wait(t, "Ready")
	queue, err := azqueue.NewQueueClientFromConnectionString(connection, "orders", nil)
	check.OK(t, err)
	_, err = queue.Create(t.Context(), nil)
	check.OK(t, err)
	_, err = queue.EnqueueMessage(t.Context(), "later",
		&azqueue.EnqueueMessageOptions{VisibilityTimeout: to.Ptr(int32(3600))})
	check.OK(t, err)
	for _, step := range []struct {
		forward  string
		status   int
		want     string
		messages int
	}{{"-1h", 400, "forward", 0}, {"30m", 200, `"ahead":"30m0s"`, 0}, {"30m", 200, `"ahead":"1h0m0s"`, 1}} {
		if status, body := post(admin + "/admin/clock?forward=" + step.forward); status != step.status ||
			!strings.Contains(body, step.want) {
			t.Errorf("forward by %s: %d %s, want %d %s", step.forward, status, body, step.status, step.want)
		}
		got, err := queue.DequeueMessage(t.Context(), nil)
		check.OK(t, err)
		if len(got.Messages) != step.messages {
			t.Errorf("after %s: %d messages, want %d", step.forward, len(got.Messages), step.messages)
		}
	}
	r.cancel()
	r.end(t)

	r = start(t, Main{Args: args})
	admin = r.wait(t, `Admin +(http://\S+)`)[1]
	if status, body := post(admin + "/admin/clock?forward=1h"); status != http.StatusForbidden ||
		!strings.Contains(body, "--test-clock") {
		t.Errorf("without a test clock: %d %s", status, body)
	}
	r.cancel()
	r.end(t)
}
