package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
	host := strings.TrimPrefix(hook.URL, "http://")
	r := start(t, Main{Args: []string{"--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port", "0", "--events",
		"--allow-event-host", host, "--allow-private-event-host"}})
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
		{[]string{"ls"}, exitOK, "no event subscriptions\n"},
		{[]string{"add", "--name", "hook", "--endpoint", hook.URL + "/x?code=secret", "--advanced-filter", "data.contentLength NumberGreaterThan 10",
			"--advanced-filter", "data.api StringIn PutBlob CopyBlob"}, exitOK, "hook Succeeded\n"},
		{[]string{"add", "--name", "hook", "--endpoint", hook.URL}, exitFailure, "the event subscription exists"},
		{[]string{"add", "--name", "other", "--endpoint", "http://example.com/"}, exitFailure, "--allow-event-host"},
		{[]string{"add", "--name", "other", "--endpoint", hook.URL, "--advanced-filter", "data.contentLength NumberGreaterThan many"}, exitUsage, "is not a number"},
		{[]string{"add", "--name", "other", "--endpoint", hook.URL, "--max-delivery-attempts", "31"}, exitFailure, "maxDeliveryAttempts"},
		{[]string{"ls"}, exitOK, hook.URL + "/x "},
		{[]string{"ls", "--json"}, exitOK, `"advancedFilters":[{"operatorType":"NumberGreaterThan","key":"data.contentLength","value":10},{"operatorType":"StringIn","key":"data.api","values":["PutBlob","CopyBlob"]}]`},
		{[]string{"flush"}, exitOK, ""},
		{[]string{"add", "--name", "byhand", "--endpoint", hook.URL + "/byhand"}, exitOK, "byhand AwaitingManualAction\n"},
		{[]string{"rm", "hook", "absent"}, exitFailure, "does not exist"},
		{[]string{"rm", "byhand"}, exitOK, ""},
		{[]string{"ls"}, exitOK, "no event subscriptions\n"},
	} {
		command := append([]string{"event"}, tc.args...)
		if code, output := runCommand(t, append(command, "--admin-port", port)...); code != tc.code || !strings.Contains(output, tc.want) {
			t.Errorf("lazuli event %s: exit code %d, want %d; output %q, want it to contain %q", tc.args, code, tc.code, output, tc.want)
		}
	}
	r.cancel()
	r.end(t)
}

// Without --events the admin listener refuses subscriptions.
func TestEventsAreOffByDefault(t *testing.T) {
	r := start(t, Main{Args: []string{"--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port", "0"}})
	address := strings.TrimPrefix(r.wait(t, `Admin +(http://\S+)`)[1], "http://")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	r.wait(t, "Ready")
	if code, output := runCommand(t, "event", "ls", "--admin-port", port); code != exitFailure || !strings.Contains(output, "start lazuli with --events") {
		t.Errorf("exit code %d, output %q", code, output)
	}
	r.cancel()
	r.end(t)
}
