package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

// Every role runs inside the server when it is asked to, makes what it needs, and takes messages as they come. How
// quickly is measured in BenchmarkWake of package workers: a busy machine says nothing of it.
func TestServeRoles(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "archive")
	r := start(t, Main{Args: []string{"--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0",
		"--admin-port", "0", "--roles", "archive,large-entity,log-storage",
		"--archive-to", "folder:" + folder}, Environ: []string{"LAZULI_LOG_STORAGE_FLUSH_EVERY=10ms"}})
	connection := r.wait(t, `(?m)^\s*(DefaultEndpointsProtocol=\S+)`)[1]
	admin := r.wait(t, `Admin\s+(http://\S+)`)[1]
	storage, err := workers.OpenStorage(connection)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	put := func(queue, body string) {
		t.Helper()
		if _, err := storage.Queues.NewQueueClient(queue).EnqueueMessage(ctx, base64.StdEncoding.EncodeToString([]byte(body)),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	current := storage.Tables.NewClient("Current")
	for i := range 3 {
		if _, err := current.AddEntity(ctx, []byte(fmt.Sprintf(`{"PartitionKey":"p","RowKey":"%d"}`, i)), nil); err != nil {
			t.Fatal(err)
		}
		put("archive", fmt.Sprintf(`{"PartitionKey":"p","RowKey":"%d"}`, i))
		began := time.Now()
		for {
			_, err := current.GetEntity(ctx, "p", fmt.Sprint(i), nil)
			var gone *azcore.ResponseError
			if errors.As(err, &gone) && gone.StatusCode == http.StatusNotFound {
				break
			}
			if err != nil || time.Since(began) > patience {
				t.Fatalf("not archived: %v", err)
			}
		}
	}
	put("logs", `{"service":"orders","level":"ERROR","message":"out of stock"}`)
	var lines bytes.Buffer
	for deadline := time.Now().Add(patience); lines.Len() == 0; {
		q := logsQuery{container: "logs", service: "orders", from: "1h", to: "0s", format: "text"}
		err := q.run(ctx, connection, &lines, io.Discard, time.Now().Add(time.Minute))
		if time.Now().After(deadline) {
			t.Fatalf("no line: %v", err)
		}
	}
	if !strings.Contains(lines.String(), "ERROR out of stock") {
		t.Errorf("got %q", &lines)
	}
	for _, path := range []string{"/workers", "/metrics"} {
		status, body, err := fetch(ctx, admin+path)
		if err != nil || status != http.StatusOK || !strings.Contains(body, "log-storage") ||
			!strings.Contains(body, "large-entity") {
			t.Errorf("%s: %d %v %.300s", path, status, err, body)
		}
	}
	r.cancel()
	if code := r.end(t); code != exitOK {
		t.Errorf("ended with %d", code)
	}
}

func TestServeRolesMistakes(t *testing.T) {
	for args, says := range map[string]string{
		"--roles|sweep":                                                      "large-entity",
		"--roles|archive|--roles-account|nobody":                             "nobody",
		"--roles-account|devstoreaccount1":                                   "roles-account needs the option roles",
		"--roles|archive|--archive-to|tape:x":                                "table:NAME",
		"--roles|log-storage|--log-storage-slot|7m":                          "log-storage-slot",
		"--roles|search-index":                                               "search-index-fields is missing",
		"--roles|search-index|--search-index-fields|Name":                    "NAME:TYPE",
		"--roles|table-index":                                                "table-index-by is missing",
		"--roles|table-index|--table-index-kind|lookups":                     "copies",
		"--roles|table-index|--table-index-by|Town|--table-index-to|current": "same table",
	} {
		var stderr bytes.Buffer
		m := Main{Args: append(strings.Split(args, "|"), "--in-memory", "--no-admin", "--blob-port", "0", "--queue-port", "0",
			"--table-port", "0"), Stdout: &stderr, Stderr: &stderr}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if code := m.Run(ctx); code != exitUsage || !strings.Contains(stderr.String(), says) {
			t.Errorf("%s: %d %s", args, code, &stderr)
		}
		cancel()
	}
}

// The search-index and table-index roles follow a table, and lazuli search asks the server that runs them.
func TestServeIndexRoles(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "index")
	r := start(t, Main{Args: []string{"--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0",
		"--admin-port", "0", "--roles", "search-index,table-index",
		"--search-index-fields", "Name:text,Town:keyword", "--search-index-folder", folder, "--table-index-by", "Town"}})
	connection := r.wait(t, `(?m)^\s*(DefaultEndpointsProtocol=\S+)`)[1]
	address, err := url.Parse(r.wait(t, `Admin\s+(http://\S+)`)[1])
	if err != nil {
		t.Fatal(err)
	}
	storage, err := workers.OpenStorage(connection)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Tables.NewClient("Current").AddEntity(t.Context(),
		[]byte(`{"PartitionKey":"p/q?","RowKey":"1 2","Name":"Ada Lovelace","Town":"New York"}`), nil); err == nil {
		t.Fatal("a key with a slash was accepted")
	}
	if _, err := storage.Tables.NewClient("Current").AddEntity(t.Context(),
		[]byte(`{"PartitionKey":"p q","RowKey":"1","Name":"Ada Lovelace","Town":"New/York"}`), nil); err != nil {
		t.Fatal(err)
	}
	search := func(args ...string) (string, error) {
		var out bytes.Buffer
		cmd := newSearchCommand(&Main{})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(append(args, "--admin-host", address.Hostname(), "--admin-port", address.Port()))
		cmd.SetOut(&out)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	for deadline := time.Now().Add(patience); ; {
		out, err := search("query", "ada", "--highlight", "--facet", "Town")
		if err == nil && strings.Contains(out, "1 of 1 hits") {
			for _, want := range []string{`"p q" "1"`, `Name matches: "[Ada] Lovelace"`,
				`Town: "New/York" 1, others 0, without 0`} {
				if !strings.Contains(out, want) {
					t.Errorf("the hits lack %s: %s", want, out)
				}
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the entity is not found: %s, %v", out, err)
		}
	}
	for deadline := time.Now().Add(patience); ; {
		_, err := storage.Tables.NewClient("CurrentIndex").GetEntity(t.Context(), "New~002FYork", "p~0020q 1", nil)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the copy is not found: %v", err)
		}
	}
	for deadline := time.Now().Add(patience); ; { // the first reading of the table may not have ended
		out, err := search("verify")
		if err == nil && strings.Contains(out, "1 entities, 1 documents, 0 differences") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("verify: %s, %v", out, err)
		}
	}
	if _, err := search("query", "Nmae:ada"); err == nil || !strings.Contains(err.Error(), `no field "Nmae"`) {
		t.Errorf("a field that does not exist: %v", err)
	}
	if _, err := search("verify", "--timeout", "1ns"); err == nil || !strings.Contains(err.Error(), "longer than 1ns") {
		t.Errorf("a comparison in too little time: %v", err)
	}
	if _, err := search("rebuild"); err != nil {
		t.Error(err)
	}
	r.cancel()
	if code := r.end(t); code != exitOK {
		t.Errorf("ended with %d", code)
	}
	if out, err := search("query", "ada", "--folder", folder); err != nil || !strings.Contains(out, "1 of 1 hits") {
		t.Errorf("in the folder: %s, %v", out, err)
	}
}

func TestLogsQuery(t *testing.T) {
	lazuli := lazulitest.Start(t)
	storage, err := workers.OpenStorage(lazuli.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	w, err := logstore.NewWriter(storage, "logs")
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, level := range []slog.Level{slog.LevelInfo, slog.LevelError, slog.LevelWarn} {
		if err := w.Enqueue(logstore.Record{Service: "web", Time: noon.Add(time.Duration(i) * time.Minute), Level: level,
			Message: fmt.Sprint("line\n", i), ID: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		cmd := newLogsCommand()
		cmd.SetArgs(append([]string{"query", "--connection-string", lazuli.ConnectionString()}, args...))
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	for args, want := range map[string]string{
		"--from|2026-03-01|--to|2026-03-02|--level|warn": "2026-03-01T12:01:00.000Z ERROR " +
			"\"line\\n1\"\n2026-03-01T12:02:00.000Z WARN  \"line\\n2\"\n",
		"--from|2026-03-01T12:02:00Z|--to|2026-03-01 12:03|--format|json": `{"service":"web","time":"2026-03-01T12:02:00Z","level":"WARN","message":"line\n2","id":"2"}` + "\n",
		"--from|2026-03-01|--to|2026-03-02|--limit|1|--format|raw|--stats": `{"time":"2026-03-01T12:00:00Z","level":"INFO","message":"line\n0","id":"0"}` + "\n" +
			"1 lines found among 3, in 1 blobs of 229 bytes; 1 lists named 1 blobs; 0 lines could not be read\n",
		"--from|1h": "no lines of web in this time\n",
	} {
		if got, err := run(append([]string{"--container", "logs", "--service", "web"},
			strings.Split(args, "|")...)...); err != nil || got != want {
			t.Errorf("%s: %v, got\n%s", args, err, got)
		}
	}
	// Without --container, both logs are read.
	if got, err := run("--service", "web", "--from", "2026-03-01", "--to", "2026-03-02", "--level", "ERROR"); err != nil ||
		got != "2026-03-01T12:01:00.000Z ERROR \"line\\n1\"\n" {
		t.Errorf("without --container: %v, got\n%s", err, got)
	}
	// Nothing was logged yet: there is no $logs.
	if got, err := run("--service", "queue"); err != nil ||
		!strings.HasPrefix(got, "no lines of queue in this time; ") {
		t.Errorf("%q, %v", got, err)
	}
	for args, says := range map[string]string{
		"":                                    "--service",
		"--service|queue|--from|yesterday":    "--from",
		"--service|queue|--to|2026-03-40":     "--to",
		"--service|queue|--from|0s":           "not before",
		"--service|queue|--level|loud":        "--level",
		"--service|queue|--format|xml":        "--format",
		"--service|queue|--limit|-1":          "--limit",
		"--service|web|--container|nowhere":   "the container nowhere does not exist",
		"--service|a/b":                       "not the name of a service",
		"--service|q|--connection-string|A=b": "connection string",
	} {
		if _, err := run(strings.FieldsFunc(args, func(r rune) bool { return r == '|' })...); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error saying %q", args, err, says)
		}
	}
}
