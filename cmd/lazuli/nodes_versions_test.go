package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// formatsVar makes this test binary, started as the command, announce other formats of a cluster's data: OLDEST-NEWEST.
const formatsVar = "TEST_CLUSTER_FORMATS"

func actAsOtherRelease() {
	if text := os.Getenv(formatsVar); text != "" {
		if _, err := fmt.Sscanf(text, "%d-%d", &peering.Supported.Oldest, &peering.Supported.Newest); err != nil {
			panic(err)
		}
	}
}

// release returns the command of a release with the given formats.
func release(t *testing.T, formats string) func(args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	check.OK(t, err)
	return func(args ...string) *exec.Cmd {
		cmd := lazuliCommand(self, args...)
		cmd.Env = append(cmd.Env, formatsVar+"="+formats)
		return cmd
	}
}

// Three nodes are updated one after the other to a release that understands a newer format as well, and back, while
// clients write: nothing that was acknowledged is lost, and the log says how long a client has waited. The way back
// is open until the upgrade is finished. It runs only with LAZULI_TEST_KILL_NODES. LAZULI_TEST_OTHER_RELEASE is the
// path of a program that takes the place of the other release, and LAZULI_TEST_UPGRADES a number of upgrades and ways
// back in place of one.
func TestClusterIsUpdatedWhileClientsWrite(t *testing.T) {
	t.Parallel()
	cluster := startNodes(t)
	supported := peering.Supported
	other := release(t, fmt.Sprintf("%d-%d", supported.Oldest, supported.Newest+1))
	if path := os.Getenv("LAZULI_TEST_OTHER_RELEASE"); path != "" {
		other = func(args ...string) *exec.Cmd { return lazuliCommand(path, args...) }
	}
	ctx, stop := context.WithCancel(t.Context())
	load := startWriting(ctx, t, cluster)
	own := cluster.Nodes[0].Command
	update := func(command func(...string) *exec.Cmd) {
		t.Helper()
		for _, n := range cluster.Nodes {
			check.OK(t, n.Terminate())
			n.Command = command
			check.OK(t, n.Start())
			check.OK(t, cluster.Whole(t.Context()))
		}
	}
	upgrades := 1
	if text := os.Getenv("LAZULI_TEST_UPGRADES"); text != "" {
		n, err := strconv.Atoi(text)
		check.OK(t, err)
		upgrades = n
	}
	for i := range upgrades {
		update(other)
		update(own)
		t.Logf("%d upgrades and ways back, %d writes, the longest %s", i+1, load.count(), load.slowest())
	}
	update(other)
	stop()
	load.check(t)
	if os.Getenv("LAZULI_TEST_OTHER_RELEASE") != "" {
		return // it may have the same formats
	}
	n1 := cluster.Nodes[0]
	_, port, err := net.SplitHostPort(n1.Admin)
	check.OK(t, err)
	finish := own("cluster", "upgrade", "--finish", "--yes", "--admin-port", port)
	text, err := finish.CombinedOutput()
	if want := fmt.Sprintf("has format %d, and no upgrade is to be finished", supported.Newest+1); err != nil ||
		!strings.Contains(string(text), want) {
		t.Fatalf("%v: %s", err, text)
	}
	// The release before is refused by its own folder now.
	check.OK(t, n1.Terminate())
	n1.Command = own
	check.OK(t, n1.Start())
	check.Eventually(t, func() bool { return logged(t, n1, "use the newer release") },
		"the release before does not refuse")
}

// A release that does not understand the format of the cluster's data refuses the folder of a node with a clear
// message; the others serve, and the node takes part again with its own release. It runs only with
// LAZULI_TEST_KILL_NODES.
func TestNodeWithoutACommonFormatIsRefused(t *testing.T) {
	t.Parallel()
	cluster := startNodes(t)
	ctx, stop := context.WithCancel(t.Context())
	load := startWriting(ctx, t, cluster)
	n3 := cluster.Nodes[2]
	own := n3.Command
	for _, other := range []struct{ formats, want string }{
		{"3-4", "it is 2, and this program needs 3 or newer"},
		{"1-1", "and this program supports formats up to 1: use the newer release"},
	} {
		check.OK(t, n3.Terminate())
		n3.Command = release(t, other.formats)
		check.OK(t, n3.Start())
		check.Eventually(t, func() bool { return logged(t, n3, other.want) },
			"the node does not say why it refuses its folder")
		before := load.count()
		check.Eventually(t, func() bool { return load.count() > before+20 }, "the other nodes do not serve")
		if n3.Ready(t.Context()) {
			t.Errorf("node n3 with formats %s is ready", other.formats)
		}
		n3.Kill() // it has exited
		n3.Command = own
		check.OK(t, n3.Start())
		check.OK(t, cluster.Whole(t.Context()))
	}
	stop()
	load.check(t)
}

// logged reports whether a node has logged a text.
func logged(t *testing.T, n *killrig.Node, text string) bool {
	t.Helper()
	log, err := os.ReadFile(n.Folder + ".log")
	check.OK(t, err)
	return strings.Contains(string(log), text)
}

// writers is the number of clients that write at a time: one alone would wait most of the time to try again.
const writers = 8

// writePause returns how long each client pauses after it has written one item of each kind. Without the pause, nodes
// spend most of a test's processor time on writes, and the longer the test takes, the more they have to copy.
func writePause() time.Duration { return check.Size(200*time.Millisecond, 0) }

// writing are clients that write entities, blobs and messages with the same names.
type writing struct {
	entities *aztables.Client
	blobs    *azblob.Client
	messages *azqueue.QueueClient
	done     sync.WaitGroup

	mu           sync.Mutex
	acknowledged [3][]string // names of entities, blobs and messages
	longest      waiting     // of the client that has waited most for an answer
	failed       []waiting   // calls of which an attempt has failed
}

// waiting splits the time of a call of an SDK: its attempts, and the pauses that the SDK makes between them.
type waiting struct {
	took, attempts time.Duration
	text           string // the attempts, one after the other
	failed         bool   // an attempt had no answer, or one from 500 on
}

type waitingKey struct{}

// Do implements policy.Policy. It notes an attempt.
func (waiting) Do(r *policy.Request) (*http.Response, error) {
	began := time.Now()
	answer, err := r.Next()
	if w, ok := r.Raw().Context().Value(waitingKey{}).(*waiting); ok {
		took, outcome := time.Since(began), "no answer"
		if err == nil {
			outcome = fmt.Sprint(answer.StatusCode, " ", answer.Header.Get("x-ms-error-code"))
		}
		w.attempts += took
		w.failed = w.failed || r.Raw().Context().Err() == nil && (err != nil || answer.StatusCode >= 500)
		w.text += fmt.Sprintf(" [%s %s %v: %s]", r.Raw().Method, began.Format("05.000"), took.Round(time.Millisecond),
			strings.TrimSpace(outcome))
	}
	return answer, err
}

func (w waiting) String() string {
	return fmt.Sprintf("%v, of which pauses of the SDK %v:%s", w.took.Round(time.Millisecond),
		(w.took - w.attempts).Round(time.Millisecond), w.text)
}

func startWriting(ctx context.Context, t *testing.T, cluster *killrig.Cluster) *writing {
	t.Helper()
	return startWritingTo(ctx, t, cluster.ConnectionString())
}

// startWritingTo lets clients write to the account of a connection string.
func startWritingTo(ctx context.Context, t *testing.T, connection string) *writing {
	t.Helper()
	w := &writing{}
	var err error
	// Each attempt of a call passes this.
	options := azcore.ClientOptions{PerRetryPolicies: []policy.Policy{waiting{}}}
	tables, err := aztables.NewServiceClientFromConnectionString(connection,
		&aztables.ClientOptions{ClientOptions: options})
	check.OK(t, err)
	w.entities = tables.NewClient("written")
	w.blobs, err = azblob.NewClientFromConnectionString(connection, &azblob.ClientOptions{ClientOptions: options})
	check.OK(t, err)
	w.messages, err = azqueue.NewQueueClientFromConnectionString(connection, "written",
		&azqueue.ClientOptions{ClientOptions: options})
	check.OK(t, err)
	_, err = w.entities.CreateTable(ctx, nil)
	check.OK(t, err)
	_, err = w.blobs.CreateContainer(ctx, "written", nil)
	check.OK(t, err)
	_, err = w.messages.Create(ctx, nil)
	check.OK(t, err)
	for writer := range writers {
		w.done.Go(func() {
			for i := writer; ctx.Err() == nil; i += writers {
				w.write(ctx, fmt.Sprintf("%06d", i))
				select {
				case <-time.After(writePause()):
				case <-ctx.Done():
				}
			}
		})
	}
	return w
}

func (w *writing) write(ctx context.Context, name string) {
	w.call(ctx, 0, name, func(ctx context.Context) error {
		_, err := w.entities.UpsertEntity(ctx, fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":%q}`, name), nil)
		return err
	})
	w.call(ctx, 1, name, func(ctx context.Context) error {
		_, err := w.blobs.UploadBuffer(ctx, "written", name, []byte(strings.Repeat(name, 10_000)), nil)
		return err
	})
	w.call(ctx, 2, name, func(ctx context.Context) error {
		_, err := w.messages.EnqueueMessage(ctx, name, nil)
		return err
	})
}

func (w *writing) call(ctx context.Context, kind int, name string, do func(context.Context) error) {
	waited := &waiting{}
	began := time.Now()
	err := do(context.WithValue(ctx, waitingKey{}, waited))
	waited.took = time.Since(began)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.acknowledged[kind] = append(w.acknowledged[kind], name)
	}
	// Also of a call that has failed in the end, but not because the test has.
	if ctx.Err() == nil && waited.took > w.longest.took {
		w.longest = *waited
	}
	if waited.failed {
		w.failed = append(w.failed, *waited)
	}
}

// forget forgets the slowest write and the failures.
func (w *writing) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest, w.failed = waiting{}, nil
}

// failures returns the calls of which an attempt has failed.
func (w *writing) failures() []waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.failed)
}

// count returns the number of acknowledged writes.
func (w *writing) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acknowledged[0]) + len(w.acknowledged[1]) + len(w.acknowledged[2])
}

// slowest returns what the slowest of the writes has waited for.
func (w *writing) slowest() waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.longest
}

// check waits until writing has ended, and reads everything that was acknowledged.
func (w *writing) check(t *testing.T) {
	t.Helper()
	w.done.Wait()
	for kind, names := range w.acknowledged {
		if len(names) == 0 {
			t.Fatalf("nothing of kind %d was acknowledged", kind)
		}
	}
	for _, name := range w.acknowledged[0] {
		if _, err := w.entities.GetEntity(t.Context(), "p", name, nil); err != nil {
			t.Errorf("entity %s: %v", name, err)
		}
	}
	content := make([]byte, 60_000)
	for _, name := range w.acknowledged[1] {
		if _, err := w.blobs.DownloadBuffer(t.Context(), "written", name, content, nil); err != nil ||
			string(content) != strings.Repeat(name, 10_000) {
			t.Errorf("blob %s: other content, or %v", name, err)
		}
	}
	missing := map[string]bool{}
	for _, name := range w.acknowledged[2] {
		missing[name] = true
	}
	n := int32(32)
	for empty := 0; len(missing) > 0 && empty < 3; {
		list, err := w.messages.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: &n})
		check.OK(t, err)
		if empty++; len(list.Messages) > 0 {
			empty = 0
		}
		for _, m := range list.Messages {
			delete(missing, *m.MessageText)
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d of %d messages are lost: %v", len(missing), len(w.acknowledged[2]), missing)
	}
	t.Logf("%d entities, %d blobs and %d messages, all there", len(w.acknowledged[0]), len(w.acknowledged[1]),
		len(w.acknowledged[2]))
}
