package events_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// childFolder and childHook tell a process of the test that it is the server that is killed.
const (
	childFolder = "LAZULI_EVENTS_TEST_FOLDER"
	childHook   = "LAZULI_EVENTS_TEST_HOOK"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childFolder); dir != "" {
		if err := serveChild(dir, os.Getenv(childHook)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		select {} // until it is killed
	}
	os.Exit(m.Run())
}

// serveChild serves with a subscription and prints the connection string.
func serveChild(dir, hook string) error {
	host := strings.TrimPrefix(hook, "http://")
	s, err := server.Start(server.Config{Location: dir, Events: true, EventHosts: egress.Policy{Hosts: []string{host}, Private: true}})
	if err != nil {
		return err
	}
	if len(s.Events().List()) == 0 {
		if _, err := s.Events().Add(context.Background(), events.Subscription{Name: "sub", Account: auth.DevelopmentAccount, Endpoint: hook}); err != nil {
			return err
		}
	}
	fmt.Println(s.ConnectionString())
	return nil
}

// Every write that was acknowledged before the server was killed has its event after it was started again.
func TestKill(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	dir := t.TempDir()
	var acknowledged []string
	for round := range 3 {
		blobs, kill := startChild(t, dir, h.URL)
		if round == 0 {
			_, err := blobs.CreateContainer(t.Context(), "photos", nil)
			check.OK(t, err)
		}
		names := make(chan string)
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for i := 0; ; i++ {
					name := fmt.Sprintf("%d-%d-%d", round, w, i)
					if _, err := blobs.UploadBuffer(t.Context(), "photos", name, []byte(name), nil); err != nil {
						return // The server was killed.
					}
					names <- name
				}
			})
		}
		for range 40 {
			acknowledged = append(acknowledged, <-names)
		}
		kill()
		go func() { writers.Wait(); close(names) }()
		for name := range names {
			acknowledged = append(acknowledged, name)
		}
	}
	_, kill := startChild(t, dir, h.URL)
	defer kill()
	missing := func() (list []string) {
		seen := h.events()
		for _, name := range acknowledged {
			if !slices.Contains(seen, events.BlobCreated+" "+subject(name)) {
				list = append(list, name)
			}
		}
		return list
	}
	check.Eventually(t, func() bool { return len(missing()) == 0 }, "%d blobs have events; without: %v", len(acknowledged), missing())
}

// startChild starts the server in a process of its own, and returns a client without retries and a function that kills the process.
func startChild(t *testing.T, dir, hook string) (*azblob.Client, func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFolder+"="+dir, childHook+"="+hook)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check.OK(t, err)
	check.OK(t, cmd.Start())
	kill := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	check.OK(t, err)
	blobs, err := azblob.NewClientFromConnectionString(strings.TrimSpace(line), &azblob.ClientOptions{ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}})
	check.OK(t, err)
	return blobs, kill
}
