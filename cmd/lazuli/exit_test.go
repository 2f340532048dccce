package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Names and answers in an error are no commands for the terminal; its lines stay.
func TestErrorsArePrintable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if code := report(&out, errors.New("a\x1b[2Jb\nc")); code != exitFailure || out.String() != "lazuli: a\\x1b[2Jb\nc\n" {
		t.Errorf("exit code %d, %q", code, out.String())
	}
}

// An error of the service says what helps against it, and nothing else.
func TestErrorsAreExplained(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, code string
		says         string // "" is no advice
	}{
		{http.MethodPut, "ContainerNotFound", "To create it: lazuli blob create CONTAINER"},
		{http.MethodGet, "ContainerNotFound", ""},
		{http.MethodDelete, "ContainerNotFound", ""},
		{http.MethodDelete, "QueueNotFound", ""},
		{http.MethodHead, "HierarchicalNamespaceNotEnabled", "cp and rm move a blob"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), tc.method, "/x", nil)
		err := &azcore.ResponseError{ErrorCode: tc.code, StatusCode: http.StatusNotFound,
			RawResponse: &http.Response{Request: r, StatusCode: http.StatusNotFound, Body: http.NoBody}}
		advice := strings.TrimPrefix(explained(err), sdkerr.Text(err))
		if (advice == "") != (tc.says == "") || !strings.Contains(advice, tc.says) {
			t.Errorf("%s, %s: %q, want %q", tc.method, tc.code, advice, tc.says)
		}
	}
}

// A verb that a signal ends says what became of its work, and exits as shells expect: 128 and the number of the signal.
func TestInterrupted(t *testing.T) {
	var cancel context.CancelCauseFunc
	ended := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel(console.Signalled{Signal: syscall.SIGTERM}) // the signal comes while the request waits
		<-ended
	}))
	t.Cleanup(func() { close(ended); silent.Close() })
	account := "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=a2V5"
	for _, service := range []string{"Blob", "Queue", "Table"} {
		account += ";" + service + "Endpoint=" + silent.URL + "/devstoreaccount1"
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	check.OK(t, os.WriteFile(file, []byte("content"), 0o600))
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"blob", "put", file, "abc/blob"}, "lazuli: interrupted: the blob was not written\n"},
		{[]string{"blob", "get", "abc/blob", filepath.Join(folder, "new")}, "lazuli: interrupted: no file was written\n"},
		{[]string{"export", filepath.Join(folder, "archive")},
			"lazuli: interrupted: run the command again to continue\n"},
		{[]string{"blob", "ls"}, "lazuli: interrupted\n"},
	} {
		var ctx context.Context
		ctx, cancel = context.WithCancelCause(context.Background())
		var out bytes.Buffer
		m := Main{Args: append(tc.args, "--connection-string", account), Stdout: &out, Stderr: &out}
		if code := m.Run(ctx); code != exitSignal+int(syscall.SIGTERM) || !strings.HasSuffix(out.String(), tc.want) {
			t.Errorf("%s: exit code %d, %q, want %q", tc.args, code, out.String(), tc.want)
		}
		cancel(nil)
	}
	if _, err := os.Stat(filepath.Join(folder, "new")); err == nil {
		t.Error("blob get left a file")
	}
}

// A schedule that can't be is a mistake of the command line, which needs no server to be seen.
func TestWrongScheduleIsAUsageError(t *testing.T) {
	t.Parallel()
	closed := "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=a2V5;" +
		"TableEndpoint=http://127.0.0.1:1/devstoreaccount1"
	for _, args := range [][]string{
		{"nightly", "0 0 25 * * *", "--queue", "work"},
		{"nightly", "00:01:00", "--queue", "Work"},
		{"night ly", "00:01:00", "--queue", "work"},
		{"nightly", "00:01:00", "--queue", "work", "--time-zone", "Nowhere"},
		{"nightly", "00:01:00", "--queue", "work", "--catch-up", "some"},
	} {
		var errs bytes.Buffer
		m := &Main{Args: append([]string{"schedule", "create", "--connection-string", closed}, args...),
			Stdout: &bytes.Buffer{}, Stderr: &errs}
		if code := m.Run(t.Context()); code != exitUsage {
			t.Errorf("schedule create %q: exit code %d, %s", args, code, errs.String())
		}
	}
}
