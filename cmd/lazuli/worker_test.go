package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// The worker verb makes what its role needs, archives an entity to a folder, and ends in good order.
func TestWorkerArchives(t *testing.T) {
	lazuli := lazulitest.Start(t)
	t.Setenv(connstr.Variable, lazuli.ConnectionString())
	folder := filepath.Join(t.TempDir(), "archive")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log testlog.Buffer
	cmd := newWorkerCommand(&Main{})
	cmd.SetArgs([]string{"--role", "archive", "--create", "--archive-queue", "leavers", "--archive-from", "Staff",
		"--archive-to", "folder:" + folder})
	cmd.SetErr(&log)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()

	storage, err := workers.OpenStorage(lazuli.ConnectionString())
	if err != nil {
		t.Fatal(err)
	}
	wait := func(what string, holds func() bool) {
		t.Helper()
		check.Eventually(t, holds, "%s; log:\n%s", what, &log)
	}
	staff := storage.Tables.NewClient("Staff")
	wait("the table exists", func() bool {
		_, err := staff.UpsertEntity(ctx, []byte(`{"PartitionKey":"Sales","RowKey":"1","Name":"Ada"}`), nil)
		return err == nil
	})
	wait("the queue exists", func() bool {
		_, err := queueCommand(t, "", "put", "leavers", `{"PartitionKey":"Sales","RowKey":"1"}`)
		return err == nil
	})
	file := filepath.Join(folder, "=Sales", "=1.json")
	wait("the entity is in its file and not in its table", func() bool {
		_, statErr := os.Stat(file)
		_, getErr := staff.GetEntity(ctx, "Sales", "1", nil)
		var gone *azcore.ResponseError
		return !errors.Is(statErr, fs.ErrNotExist) && errors.As(getErr, &gone) && gone.StatusCode == 404
	})
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if text := log.String(); !strings.Contains(text, "worker stopped") || strings.Contains(text, "AccountKey") {
		t.Errorf("log:\n%s", text)
	}
}

func TestWorkerMistakes(t *testing.T) {
	for args, says := range map[string]string{
		"":                                    "--role is missing",
		"--role|sweep":                        `unknown role "sweep"`,
		"--role|archive|--archive-to|nowhere": "--archive-to",
		"--role|archive|--archive-to|tape:x":  "--archive-to",
		"--role|archive|--log-format|xml":     "--log-format",
		"--role|archive|--connection-string|AccountName=a": "AccountKey",
	} {
		cmd := newWorkerCommand(&Main{})
		cmd.SetArgs(strings.FieldsFunc(args, func(r rune) bool { return r == '|' }))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); !errors.As(err, new(console.UsageError)) || !strings.Contains(err.Error(),
			says) {
			t.Errorf("worker %s: %v, want a usage error saying %q", args, err, says)
		}
	}
	t.Setenv(fault.EnvVar, "archive/after-lunch=kill")
	cmd := newWorkerCommand(&Main{})
	cmd.SetArgs([]string{"--role", "archive"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(t.Context()); !errors.As(err, new(console.UsageError)) ||
		!strings.Contains(err.Error(), "archive/after-copy") {
		t.Errorf("a fault plan with a wrong point: %v", err)
	}
}

func TestConnectionFlag(t *testing.T) {
	read := func(args ...string) (string, error) {
		cmd := &cobra.Command{}
		connection := target.AccountFlag(cmd)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		return connection()
	}
	account := func(name string) string { return "AccountName=" + name + ";AccountKey=a2V5" }
	want := func(text string, args ...string) {
		t.Helper()
		if got, err := read(args...); got != text || err != nil {
			t.Errorf("%q: %q, %v; want %q", args, got, err, text)
		}
	}
	for _, name := range connstr.Variables {
		t.Setenv(name, "")
	}
	want(connstr.Development)
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", account("cli"))
	want(account("cli"))
	t.Setenv("AzureWebJobsStorage", account("functions"))
	want(account("functions"))
	t.Setenv("LAZULI_CONNECTION_STRING", account("lazuli"))
	want(account("lazuli"))
	want(account("flag"), "--connection-string", account("flag"))
	t.Setenv("LAZULI_CONNECTION_STRING", "nonsense")
	if _, err := read(); !errors.As(err, new(console.UsageError)) || !strings.Contains(err.Error(),
		"LAZULI_CONNECTION_STRING: ") {
		t.Errorf("a malformed variable: %v", err)
	}
}

// A verb that starts a server when no account is named does not read the variables of other tools.
func TestOverrideFlag(t *testing.T) {
	for _, name := range connstr.Variables {
		t.Setenv(name, "")
	}
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "production")
	cmd := &cobra.Command{}
	if got := target.OverrideFlag(cmd, "x")(); got != "" {
		t.Errorf("with a variable of another tool: %q", got)
	}
	t.Setenv(connstr.Variable, "chosen")
	if got := target.OverrideFlag(&cobra.Command{}, "x")(); got != "chosen" {
		t.Errorf("with %s: %q", connstr.Variable, got)
	}
}
