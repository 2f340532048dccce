package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestEventCommand(t *testing.T) {
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var list []struct {
			Data struct{ ValidationURL, ValidationCode string }
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &list)
		if r.URL.Path == "/byhand" { // confirms by the address
			resp, err := http.Get(list[0].Data.ValidationURL)
			if err == nil {
				resp.Body.Close()
			}
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"validationResponse": list[0].Data.ValidationCode})
	}))
	t.Cleanup(hook.Close)
	r := start(t, Main{Args: []string{"--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0",
		"--admin-port", "0", "--events"}})
	address := strings.TrimPrefix(r.wait(t, `Admin +(http://\S+)`)[1], "http://")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	r.wait(t, "Ready")
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"ls"}, exitOK, "there are no event subscriptions; lazuli event create makes one\n"},
		{[]string{"create", "--name", "hook", "--endpoint", hook.URL + "/x?code=secret", "--advanced-filter",
			"data.contentLength NumberGreaterThan 10",
			"--advanced-filter", "data.api StringIn PutBlob CopyBlob"}, exitOK, "hook Succeeded\n"},
		{[]string{"create", "--name", "hook", "--endpoint", hook.URL}, exitFailure, "the event subscription exists"},
		{[]string{"create", "--name", "other", "--endpoint", "http://example.com/"}, exitFailure, "--allow-event-host"},
		{[]string{"create", "--name", "other", "--endpoint", hook.URL, "--advanced-filter",
			"data.contentLength NumberGreaterThan many"}, exitUsage, "is not a number"},
		{[]string{"create", "--name", "other", "--endpoint", hook.URL, "--max-delivery-attempts", "31"}, exitUsage,
			"maxDeliveryAttempts"},
		{[]string{"create", "--name", "other"}, exitUsage, "endpoint: want the URL of a webhook"},
		{[]string{"ls"}, exitOK, hook.URL + "/x "},
		{[]string{"ls", "--json"}, exitOK,
			`"advancedFilters":[{"operatorType":"NumberGreaterThan","key":"data.contentLength","value":10},{"operatorType":"StringIn","key":"data.api","values":["PutBlob","CopyBlob"]}]`},
		{[]string{"flush"}, exitOK, ""},
		{[]string{"create", "--name", "byhand", "--endpoint", hook.URL + "/byhand"}, exitOK, "byhand AwaitingManualAction\n"},
		{[]string{"rm", "hook", "absent", "--yes"}, exitFailure, "does not exist"},
		{[]string{"rm", "byhand", "--yes"}, exitOK, ""},
		{[]string{"ls"}, exitOK, "there are no event subscriptions; lazuli event create makes one\n"},
	} {
		command := append([]string{"event"}, tc.args...)
		if code, output := runCommand(t, append(command, "--admin-port", port)...); code != tc.code ||
			!strings.Contains(output, tc.want) {
			t.Errorf("lazuli event %s: exit code %d, want %d; output %q, want it to contain %q", tc.args, code, tc.code, output,
				tc.want)
		}
	}
	r.cancel()
	r.end(t)
}

// Without --events the admin listener refuses subscriptions.
func TestEventsAreOffByDefault(t *testing.T) {
	r := start(t, Main{Args: []string{"--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0",
		"--admin-port", "0"}})
	address := strings.TrimPrefix(r.wait(t, `Admin +(http://\S+)`)[1], "http://")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	r.wait(t, "Ready")
	if code, output := runCommand(t, "event", "ls", "--admin-port", port); code != exitFailure ||
		!strings.Contains(output, "start lazuli with --events") {
		t.Errorf("exit code %d, output %q", code, output)
	}
	r.cancel()
	r.end(t)
}

// The seed's subscriptions exist from the start; a webhook that does not answer yet is subscribed once it does. The
// banner counts them.
func TestEventsOfTheSeed(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("WebHook-Allowed-Origin", "*")
	}))
	t.Cleanup(hook.Close)
	folder := t.TempDir()
	seed := filepath.Join(folder, "seed.yaml")
	text := "queues: {news: []}\nevents:\n" +
		"- {name: news, endpointType: storagequeue, endpoint: news, includedEventTypes: [Lazuli.Storage.EntityInserted]}\n" +
		"- {name: hook, endpoint: " + hook.URL + ", eventDeliverySchema: cloudeventschemav1_0}\n"
	check.OK(t, os.WriteFile(seed, []byte(text), 0o600))
	args := []string{"--location", filepath.Join(folder, "data"), "--blob-port", "0", "--queue-port", "0", "--table-port",
		"0", "--admin-port", "0", "--seed", seed}
	for _, want := range []string{`Events +http://\S+/ui/events +\(1 subscription\)`,
		`Events +http://\S+/ui/events +\(2 subscriptions\)`} {
		r := start(t, Main{Args: append(args, "--events", "--allow-event-host", strings.TrimPrefix(hook.URL, "http://"),
			"--allow-private-event-host")})
		_, port, err := net.SplitHostPort(strings.TrimPrefix(r.wait(t, `Admin +(http://\S+)`)[1], "http://"))
		check.OK(t, err)
		r.wait(t, want)
		r.wait(t, "Ready")
		check.Eventually(t, func() bool {
			_, output := runCommand(t, "event", "ls", "--admin-port", port)
			return strings.Count(output, "Succeeded") == 2
		}, "both subscriptions exist")
		r.cancel()
		r.end(t)
	}
	if code, output := runCommand(t, args...); code != exitUsage || !strings.Contains(output, "--events") {
		t.Errorf("without --events: exit code %d, output %q", code, output)
	}
}
