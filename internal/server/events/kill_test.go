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
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/changes"
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
	check.FilesInMemory()
	os.Exit(m.Run())
}

// serveChild serves with a subscription and prints the connection string.
func serveChild(dir, hook string) error {
	host := strings.TrimPrefix(hook, "http://")
	s, err := server.Start(server.Config{Location: dir, Events: true,
		EventHosts: egress.Policy{Hosts: []string{host}, Private: true}})
	if err != nil {
		return err
	}
	if len(s.Events().List()) == 0 {
		if _, err := s.Events().Add(context.Background(),
			events.Subscription{Name: "sub", Account: auth.DevelopmentAccount, Endpoint: hook,
				IncludedEventTypes: events.AllTypes}); err != nil {
			return err
		}
	}
	fmt.Println(s.ConnectionString())
	return nil
}

// Every write of a blob, a message or an entity that was acknowledged before the server was killed has its event after
// it was started again.
func TestKill(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	dir := t.TempDir()
	var acknowledged []string
	for round := range 3 {
		c := startChild(t, dir, h.URL)
		if round == 0 {
			c.create(t)
		}
		names := make(chan string)
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for i := 0; ; i++ {
					name := fmt.Sprintf("%d-%d-%d", round, w, i)
					subject, err := c.write(t.Context(), i, name)
					if err != nil {
						return // The server was killed.
					}
					names <- subject
				}
			})
		}
		for range 40 {
			acknowledged = append(acknowledged, <-names)
		}
		c.kill()
		go func() { writers.Wait(); close(names) }()
		for name := range names {
			acknowledged = append(acknowledged, name)
		}
	}
	defer startChild(t, dir, h.URL).kill()
	missing := func() (list []string) {
		seen := h.events()
		for _, name := range acknowledged {
			if !slices.Contains(seen, name) {
				list = append(list, name)
			}
		}
		return list
	}
	check.Eventually(t, func() bool { return len(missing()) == 0 }, "%d changes have events; without: %v",
		len(acknowledged), missing())
}

// child is a server in a process of its own, with clients without retries.
type child struct {
	blobs *azblob.Client
	queue *azqueue.QueueClient
	table *aztables.Client
	kill  func()
}

func (c *child) create(t *testing.T) {
	t.Helper()
	_, err := c.blobs.CreateContainer(t.Context(), "photos", nil)
	check.OK(t, err)
	_, err = c.queue.Create(t.Context(), nil)
	check.OK(t, err)
	_, err = c.table.CreateTable(t.Context(), nil)
	check.OK(t, err)
}

// write writes a blob, a message or an entity, and returns type and subject of the event.
func (c *child) write(ctx context.Context, i int, name string) (event string, err error) {
	switch i % 3 {
	case 0:
		_, err := c.blobs.UploadBuffer(ctx, "photos", name, []byte(name), nil)
		return events.BlobCreated + " " + subject(name), err
	case 1:
		put, err := c.queue.EnqueueMessage(ctx, name, nil)
		if err != nil {
			return "", err
		}
		return changes.MessagePut + " " + changes.MessageSubject("orders", *put.Messages[0].MessageID), nil
	default:
		_, err := c.table.AddEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"`+name+`"}`), nil)
		return changes.EntityInserted + " " + changes.EntitySubject("Orders", "p", name), err
	}
}

// startChild starts the server.
func startChild(t *testing.T, dir, hook string) *child {
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
	connection, options := strings.TrimSpace(line), azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}
	c := &child{kill: kill}
	c.blobs, err = azblob.NewClientFromConnectionString(connection, &azblob.ClientOptions{ClientOptions: options})
	check.OK(t, err)
	c.queue, err = azqueue.NewQueueClientFromConnectionString(connection, "orders",
		&azqueue.ClientOptions{ClientOptions: options})
	check.OK(t, err)
	tables, err := aztables.NewServiceClientFromConnectionString(connection,
		&aztables.ClientOptions{ClientOptions: options})
	check.OK(t, err)
	c.table = tables.NewClient("Orders")
	return c
}
