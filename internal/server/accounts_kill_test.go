package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/state/blob/offline"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

// accountsVariable has the steps of a process that changes accounts until it is killed.
const accountsVariable = "LAZULI_TEST_ACCOUNTS"

// accountSteps are what such a process does: it adds an account, writes, rotates key 1, removes the account with its
// data, and kills itself after the given number of steps or at a point of the removal.
type accountSteps struct {
	Folder string
	Steps  int
	Point  fault.Name
}

// killAfterSteps does the steps. It prints the first keys of the account, and those after the rotation.
func killAfterSteps(text string) {
	var c accountSteps
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fail(json.Unmarshal([]byte(text), &c))
	if c.Point != "" {
		fault.Activate(fault.NewPlan(fault.Rule{Point: c.Point, Do: fault.Kill}))
	}
	s, err := Start(Config{Location: c.Folder, ManagedAccounts: true, Log: slog.New(slog.DiscardHandler)})
	fail(err)
	var keys []string
	for i, step := range []func() error{
		func() error { keys, err = s.AccountManager().Add("shop", nil, nil); return err },
		func() error {
			blobs, err := azblob.NewClientFromConnectionString(s.ConnectionStringOf("shop", keys[0]), nil)
			fail(err)
			_, err = blobs.CreateContainer(ctx, "goods", nil)
			fail(err)
			_, err = blobs.UploadBuffer(ctx, "goods", "blob", []byte("goods"), nil)
			fail(err)
			queues, err := azqueue.NewServiceClientFromConnectionString(s.ConnectionStringOf("shop", keys[1]), nil)
			fail(err)
			_, err = queues.CreateQueue(ctx, "goods", nil)
			return err
		},
		func() error {
			_, err := s.AccountManager().Rotate("shop", 1)
			fail(err)
			keys, err = s.AccountManager().Keys("shop")
			return err
		},
		func() error { return s.AccountManager().Remove("shop", true) },
	} {
		if i == c.Steps {
			break
		}
		fail(step())
		// Printed once the step is acknowledged: what is printed has to hold after the kill.
		text, err := json.Marshal(keys)
		fail(err)
		fmt.Println(string(text))
	}
	if c.Point == "" {
		_ = fault.Kill("")
	}
	select {} // until the point is reached
}

// Each acknowledged step holds after kill -9, and a removal goes on: what was deleted stays deleted, also for the next
// account of the name.
func TestAccountsKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	for _, c := range []accountSteps{{Steps: 1}, {Steps: 2}, {Steps: 3}, {Steps: 4},
		{Steps: 4, Point: "accounts/removed"}, {Steps: 4, Point: "accounts/deleted"}} {
		t.Run(fmt.Sprint(c.Steps, c.Point), func(t *testing.T) {
			t.Parallel()
			c.Folder = t.TempDir()
			printed := stepsUntilKilled(t, c)
			s := startManaged(t, Config{Location: c.Folder, AccountGrace: time.Millisecond})
			switch {
			case c.Steps == 4:
				gone(t, s, "shop")
				if got := allowed(t, s, "shop", printed[2][0]); got != "no" {
					t.Errorf("the keys of the removed account: %s", got)
				}
				keys, err := s.AccountManager().Add("shop", nil, nil)
				check.OK(t, err)
				if found := newTenant(t, s.ConnectionStringOf("shop", keys[0])).has(t, "goods"); found != "" {
					t.Errorf("the next account of the name has %q", found)
				}
			default:
				for i, key := range printed[len(printed)-1] {
					if got := allowed(t, s, "shop", key); got != "ok" {
						t.Errorf("key %d: %s", i+1, got)
					}
				}
				if c.Steps == 3 {
					if got := allowed(t, s, "shop", printed[0][0]); got != "no" {
						t.Errorf("the key that was replaced: %s", got)
					}
				}
			}
			check.OK(t, s.Stop(context.Background()))
			_, err := offline.Check(s.dir.Blobs(), s.dir.Extents(),
				offline.CheckOptions{Report: func(err error) { t.Error(err) }})
			check.OK(t, err)
		})
	}
}

// stepsUntilKilled does steps in a process until it is killed, and returns the keys that it printed after each step.
func stepsUntilKilled(t *testing.T, c accountSteps) (printed [][]string) {
	t.Helper()
	text, err := json.Marshal(c)
	check.OK(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), accountsVariable+"="+string(text))
	said := &testlog.Buffer{}
	process, err := killrig.Start(cmd, said)
	check.OK(t, err)
	t.Cleanup(process.Kill)
	<-process.Exited()
	check.OK(t, process.Killed())
	lines := json.NewDecoder(strings.NewReader(said.String()))
	for lines.More() {
		var keys []string
		check.OK(t, lines.Decode(&keys))
		printed = append(printed, keys)
	}
	// A step that the kill has interrupted has printed nothing.
	if len(printed) < min(c.Steps, 3) {
		t.Fatalf("the process did %d steps: %s", len(printed), process.Output())
	}
	return printed
}
