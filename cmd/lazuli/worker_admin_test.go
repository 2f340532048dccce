package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/server/admin"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/adminhttp"
)

// workersVerb runs `lazuli workers` against an admin listener and returns what it prints.
func workersVerb(t *testing.T, address string, args ...string) (string, error) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := newWorkersCommand(&Main{})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"--admin-host", u.Hostname(), "--admin-port", u.Port()}, args...))
	cmd.SetOut(&out)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// A worker's admin listener tells what it does; a function is paused and resumed.
func TestWorkersOfAWorker(t *testing.T) {
	lazuli := lazulitest.Start(t)
	t.Setenv(connstr.Variable, lazuli.ConnectionString())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log testlog.Buffer
	cmd := newWorkerCommand(&Main{})
	cmd.SetArgs([]string{"--role", "archive", "--create", "--admin", "127.0.0.1:0"})
	cmd.SetErr(&log)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	listens := regexp.MustCompile(`msg="admin listener" url=(\S+)`)
	var address string
	check.Eventually(t, func() bool {
		if m := listens.FindStringSubmatch(log.String()); m != nil {
			address = m[1]
		}
		return address != ""
	}, "%s", &log)
	show := func() string {
		t.Helper()
		text, err := workersVerb(t, address)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if text := show(); !strings.Contains(text, "archive   queueTrigger  runs") {
		t.Error(text)
	}
	if text, err := workersVerb(t, address, "pause", "archive"); err != nil || text != "paused archive\n" {
		t.Errorf("%s, %v", text, err)
	}
	if text := show(); !strings.Contains(text, "paused") {
		t.Error(text)
	}
	if text, err := workersVerb(t, address, "resume", "archive"); err != nil || text != "resumed archive\n" {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := workersVerb(t, address, "pause", "a/b c"); err == nil || err.Error() != "no function is named a/b c" {
		t.Error(err)
	}
	if text, err := workersVerb(t, address, "--json"); err != nil || !strings.Contains(text, `"inFlight":0`) {
		t.Errorf("%s, %v", text, err)
	}
	body, err := target.AdminListener{URL: address}.Send(ctx, "GET", "/metrics", nil)
	if err != nil || !strings.Contains(string(body),
		`lazuli_worker_queue_messages{function="archive",host="lazuli",trigger="queueTrigger"} 0`) {
		t.Errorf("%.2000s, %v", body, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := workersVerb(t, address); err == nil {
		t.Error("the listener outlives its worker")
	}
}

// Calls under way and last errors are shown.
func TestWorkersShowsWhatRuns(t *testing.T) {
	lazuli := lazulitest.Start(t)
	storage, err := workers.OpenStorage(lazuli.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Queues.CreateQueue(t.Context(), "work", nil); err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	attempts := 0
	app := workers.New(workers.Config{Storage: storage})
	app.Queue("work", func(ctx context.Context, m workers.QueueMessage) error {
		if attempts++; attempts == 1 {
			return errors.New("the first\nfails")
		}
		close(entered)
		<-leave
		return nil
	})
	if _, err := storage.Queues.NewQueueClient("work").EnqueueMessage(t.Context(), "eA==",
		&azqueue.EnqueueMessageOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer app.Stop(context.Background())
	server := httptest.NewServer(admin.NewHandler(admin.Options{Workers: adminhttp.NewHandler(app)}))
	defer server.Close()
	<-entered
	text, err := workersVerb(t, server.URL)
	if err != nil || !regexp.MustCompile(`(?m)^work: invocation \S+, attempt 2, message \S+, for \d`).MatchString(text) ||
		!strings.Contains(text, `ago: the first\nfails`) {
		t.Errorf("%s, %v", text, err)
	}
	text, err = workersVerb(t, server.URL, "show", "work")
	if err != nil ||
		!regexp.MustCompile(`(?s)^BEGAN .*\n\S.* failed .*\b1 .*the first\\nfails\n$`).MatchString(text) {
		t.Errorf("show: %s, %v", text, err)
	}
	text, err = workersVerb(t, server.URL, "show", "work", "--json")
	if err != nil || !regexp.MustCompile(`^\{"invocationId":"[^"]+",.*"outcome":"failed","error":"the first\\nfails"\}\n$`).
		MatchString(text) {
		t.Errorf("show --json: %s, %v", text, err)
	}
	if _, err := workersVerb(t, server.URL, "show", "none"); err == nil || err.Error() != "no function is named none" {
		t.Error(err)
	}
	close(leave)
	if _, err := workersVerb(t, server.URL, "pause"); err == nil {
		t.Error("pause without a function is accepted")
	}
	bare := httptest.NewServer(admin.NewHandler(admin.Options{}))
	defer bare.Close()
	if _, err := workersVerb(t, bare.URL); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a process without workers: %v", err)
	}
}

// `lazuli workers` reaches a program that serves adminhttp.NewHandler, wherever the program mounts it.
func TestWorkersOfOnesOwnProgram(t *testing.T) {
	app := workers.New(workers.Config{})
	app.Queue("ship", func(context.Context, workers.QueueMessage) error { return nil })
	for name, mount := range map[string]func(*http.ServeMux, http.Handler){
		"the root":  func(m *http.ServeMux, h http.Handler) { m.Handle("/", h) },
		"/workers/": func(m *http.ServeMux, h http.Handler) { m.Handle("/workers/", h) },
		"/workers/ without prefix": func(m *http.ServeMux,
			h http.Handler) {
			m.Handle("/workers/", http.StripPrefix("/workers", h))
		},
		"/workers and all below it": func(m *http.ServeMux,
			h http.Handler) {
			m.Handle("/workers", h)
			m.Handle("/workers/", h)
		},
		"/workers, /workers/ without prefix": func(m *http.ServeMux, h http.Handler) {
			m.Handle("/workers", http.StripPrefix("/workers", h))
			m.Handle("/workers/", http.StripPrefix("/workers", h))
		},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mount(mux, adminhttp.NewHandler(app))
			server := httptest.NewServer(mux)
			defer server.Close()
			if text, err := workersVerb(t, server.URL); err != nil || !strings.Contains(text, "ship      queueTrigger  runs") {
				t.Errorf("%s, %v", text, err)
			}
			if text, err := workersVerb(t, server.URL, "pause", "ship"); err != nil || text != "paused ship\n" {
				t.Errorf("pause: %s, %v", text, err)
			}
			if !app.Stats()[0].Paused {
				t.Error("the function is not paused")
			}
			if text, err := workersVerb(t, server.URL, "resume", "ship"); err != nil || text != "resumed ship\n" {
				t.Errorf("resume: %s, %v", text, err)
			}
		})
	}
}
