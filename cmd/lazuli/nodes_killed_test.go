package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

const (
	// workTime is the time that nodes are killed.
	workTime = 40 * time.Second
	// nodesPatience bounds what three processes do on a loaded machine.
	nodesPatience = 5 * time.Minute
)

// Nodes of a cluster are killed one after the other while blobs are written: each blob whose upload was acknowledged
// has its event. It runs only with LAZULI_TEST_KILL_NODES, since it takes a minute.
func TestEventsOfAClusterWhoseNodesAreKilled(t *testing.T) {
	t.Parallel()
	cluster := startNodes(t, "--events")
	blobs, err := azblob.NewClientFromConnectionString(cluster.ConnectionString(), nil)
	check.OK(t, err)
	queue, err := azqueue.NewQueueClientFromConnectionString(cluster.ConnectionString(), "events", nil)
	check.OK(t, err)
	_, err = queue.Create(t.Context(), nil)
	check.OK(t, err)
	_, err = blobs.CreateContainer(t.Context(), "photos", nil)
	check.OK(t, err)
	subscribe(t, cluster, events.BlobCreated)

	kills := killNodes(t, cluster)
	want := map[string]bool{}
	for i, until := 0, time.Now().Add(workTime); time.Now().Before(until); i++ {
		name := fmt.Sprintf("photo-%05d", i)
		if _, err := blobs.UploadBuffer(t.Context(), "photos", name, []byte(name), nil); err == nil {
			want["/blobServices/default/containers/photos/blobs/"+name] = true
		}
	}
	killed := kills()
	uploads, again := len(want), 0
	if uploads == 0 {
		t.Fatal("no upload was acknowledged")
	}
	got := map[string]bool{}
	for deadline := time.Now().Add(nodesPatience); len(want) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("after %d kills, %d of %d acknowledged uploads have no event", killed, len(want), uploads)
		}
		for _, subject := range receiveSubjects(t, queue) {
			if got[subject] {
				again++
			}
			got[subject] = true
			delete(want, subject)
		}
	}
	t.Logf("%d kills, %d acknowledged uploads, each with its event; %d events were delivered again", killed, uploads,
		again)
}

// startNodes starts three nodes as processes, if nodes are to be killed. LAZULI_TEST_PROGRAM is a program that takes
// the place of this one, such as that of a release before.
func startNodes(t *testing.T, args ...string) *killrig.Cluster {
	t.Helper()
	return startNodesBy(t, func(ctx context.Context, folder string, command func(...string) *exec.Cmd) (*killrig.Cluster,
		error) {
		return killrig.StartCluster(ctx, folder, 3, func(serve ...string) *exec.Cmd {
			return command(append(serve, args...)...)
		})
	})
}

// startNodesBy is startNodes with another start.
func startNodesBy(t *testing.T, start func(ctx context.Context, folder string, command func(...string) *exec.Cmd) (
	*killrig.Cluster, error)) *killrig.Cluster {
	t.Helper()
	if os.Getenv("LAZULI_TEST_KILL_NODES") == "" {
		t.Skip("LAZULI_TEST_KILL_NODES is not set")
	}
	self, err := os.Executable()
	check.OK(t, err)
	if path := os.Getenv("LAZULI_TEST_PROGRAM"); path != "" {
		self = path
	}
	cluster, err := start(t.Context(), t.TempDir(), func(serve ...string) *exec.Cmd {
		return lazuliCommand(self, serve...)
	})
	check.OK(t, err)
	t.Cleanup(cluster.Close)
	return cluster
}

// killNodes kills one node after the other, until the function that it returns is called. That waits until all nodes
// are ready, and returns the number of kills.
func killNodes(t *testing.T, cluster *killrig.Cluster) (end func() int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	type result struct {
		kills int
		err   error
	}
	ended := make(chan result, 1)
	go func() {
		kills, err := cluster.Harass(ctx, rand.New(rand.NewPCG(5, 1)), maxNodeDown, t.Logf)
		ended <- result{kills, err}
	}()
	return func() int {
		t.Helper()
		stop()
		r := <-ended
		check.OK(t, r.err)
		if r.kills == 0 {
			t.Fatal("no node was killed")
		}
		return r.kills
	}
}

// subscribe adds a subscription to types of events at the node that delivers the events.
func subscribe(t *testing.T, cluster *killrig.Cluster, types ...string) {
	t.Helper()
	for deadline := time.Now().Add(nodesPatience); ; {
		var output string
		for _, n := range cluster.Nodes {
			_, port, err := net.SplitHostPort(n.Admin)
			check.OK(t, err)
			var code int
			code, output = runCommand(t, "event", "add", "--name", "photos", "--endpoint-type", "storagequeue", "--endpoint",
				"events",
				"--included-event-types", strings.Join(types, ","), "--admin-port", port)
			if code == exitOK {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no node accepts the subscription: %s", output)
		}
	}
}

// receiveSubjects receives and deletes messages of the queue, and returns the subjects of their events.
func receiveSubjects(t *testing.T, queue *azqueue.QueueClient) (subjects []string) {
	t.Helper()
	n := int32(32)
	list, err := queue.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: &n})
	if err != nil {
		return nil
	}
	for _, m := range list.Messages {
		text := []byte(*m.MessageText)
		if !strings.HasPrefix(*m.MessageText, "{") && !strings.HasPrefix(*m.MessageText, "[") {
			text, err = base64.StdEncoding.DecodeString(*m.MessageText)
			check.OK(t, err)
		}
		var event struct{ Subject string }
		check.OK(t, json.Unmarshal(text, &event))
		subjects = append(subjects, event.Subject)
		_, _ = queue.DeleteMessage(t.Context(), *m.MessageID, *m.PopReceipt, nil)
	}
	return subjects
}

// Nodes of a cluster are killed one after the other while workflows run: each workflow whose start was acknowledged
// ends with its result. It runs only with LAZULI_TEST_KILL_NODES.
func TestWorkflowsOnAClusterWhoseNodesAreKilled(t *testing.T) {
	t.Parallel()
	cluster := startNodes(t)
	storage, err := workers.OpenStorage(cluster.ConnectionString())
	check.OK(t, err)
	engine := durable.NewEngine(durable.Options{Hub: "Killed"})
	app := workers.New(workers.Config{Storage: storage, Durable: engine, Logger: slog.New(slog.DiscardHandler)})
	durable.Register(app, "thrice", func(ctx *durable.Context, n int) (int, error) {
		for range 3 {
			var err error
			if n, err = durable.Call[int](ctx, "increment", n); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	workers.Activity(app, "increment", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	check.OK(t, app.Start(t.Context()))
	t.Cleanup(func() { check.OK(t, app.Stop(context.Background())) })
	client, err := engine.WaitClient(t.Context())
	check.OK(t, err)

	kills := killNodes(t, cluster)
	started := map[string]int{}
	for i, until := 0, time.Now().Add(workTime); time.Now().Before(until); i++ {
		if id, err := client.Start(t.Context(), "thrice", durable.StartOptions{Input: fmt.Sprint(i)}); err == nil {
			started[id] = i
		}
	}
	killed := kills()
	if len(started) == 0 {
		t.Fatal("no start was acknowledged")
	}
	ctx, cancel := context.WithTimeout(t.Context(), nodesPatience)
	defer cancel()
	for id, i := range started {
		w, err := client.Wait(ctx, id)
		if err != nil {
			t.Fatalf("after %d kills, workflow %d of %d has not ended: %v", killed, i, len(started), err)
		}
		if want := fmt.Sprint(i + 3); w.Status != "Completed" || w.Output != want {
			t.Errorf("workflow %d is %s with %s, want Completed with %s", i, w.Status, w.Output, want)
		}
	}
	t.Logf("%d kills, %d workflows, each with its result", killed, len(started))
}
