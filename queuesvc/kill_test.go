package queuesvc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	state "github.com/lazuli-storage/lazuli/internal/state/queue"
	"github.com/lazuli-storage/lazuli/internal/state/queue/history"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// child is a front-end in a process of its own, that can be killed and comes back at another address.
type child struct {
	t      testing.TB
	config childConfig
	cmd    *exec.Cmd

	mu  sync.Mutex // guards sdk
	sdk *azqueue.QueueClient
}

func startChild(t testing.TB, n natsserver.Config, folder string) *child {
	t.Helper()
	c := &child{t: t, config: childConfig{NATS: n, Folder: folder, Address: "127.0.0.1:0"}}
	c.start()
	t.Cleanup(c.kill)
	return c
}

func (c *child) start() {
	c.t.Helper()
	config, err := json.Marshal(c.config)
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(config))
	c.cmd.Stderr = os.Stderr
	if _, err = c.cmd.StdinPipe(); err != nil { // closed when this process ends, whichever way
		c.t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.t.Fatalf("the front-end did not start: %v", err)
	}
	f := testFrontend{address: strings.TrimSpace(address)}
	c.mu.Lock()
	c.sdk = sdkClient(c.t, f.url()).NewQueueClient("orders")
	c.mu.Unlock()
}

// kill ends the process at once.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func (c *child) client() *azqueue.QueueClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sdk
}

func (c *child) Put(ctx context.Context, body string) error {
	_, err := c.client().EnqueueMessage(ctx, body, nil)
	return c.pause(err)
}

func (c *child) Get(ctx context.Context, n int) ([]history.Held, error) {
	asked := time.Now()
	r, err := c.client().DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{
		NumberOfMessages: ptr(int32(n)), VisibilityTimeout: ptr(int32(history.Visibility / time.Second))})
	handed := time.Now()
	held := make([]history.Held, len(r.Messages))
	for i, m := range r.Messages {
		held[i] = history.Held{Body: *m.MessageText, Asked: asked, Handed: handed, Until: asked.Add(history.Visibility),
			Token: m}
	}
	return held, c.pause(err)
}

func (c *child) Delete(ctx context.Context, h history.Held) error {
	m := h.Token.(*azqueue.DequeuedMessage)
	_, err := c.client().DeleteMessage(ctx, *m.MessageID, *m.PopReceipt, nil)
	var e *azcore.ResponseError
	if errors.As(err, &e) && (e.StatusCode == http.StatusNotFound || e.ErrorCode == "PopReceiptMismatch") {
		return history.ErrDead
	}
	return c.pause(err)
}

// pause keeps callers from spinning while the front-end is away.
func (c *child) pause(err error) error {
	if err != nil {
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// recordHistory records the history of producers and consumers while the children are killed one after the other, at
// moments that no test chose.
func recordHistory(t *testing.T, children []*child, kills int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // also ends the work where this function ends early
	if _, err := children[0].client().Create(ctx, nil); err != nil {
		t.Fatal(err)
	}
	var queues []history.Queue
	for _, c := range children {
		queues = append(queues, c)
	}
	h := history.New()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		h.Work(ctx, queues, 8, 8, stop)
	}()
	killOneByOne(t, h, children, kills)
	close(stop)
	<-ended
	deadline, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := h.Drain(deadline, queues); err != nil {
		t.Fatal(err)
	}
	h.Check(t)
}

// patience is the time that requests may make no progress before a test gives up, and enough is how long it goes on
// killing where the machine is slow, once each of a few has been killed.
const (
	patience = 3 * time.Minute
	enough   = 45 * time.Second
)

// kills is the number of times that a test kills front-ends in all: each of two, at least twice.
var kills = check.Size(4, 10)

// killOneByOne kills and restarts the children in turn, while work goes on.
func killOneByOne(t *testing.T, h *history.History, children []*child, kills int) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("the seed of the moments is %d", seed)
	moments := rand.New(rand.NewPCG(seed, 0))
	began := time.Now()
	for i := range kills {
		if i >= 4 && time.Since(began) > enough {
			t.Logf("the machine is slow: %d kills must do", i)
			return
		}
		asked := time.Now()
		for goal := h.Requests() + 200 + moments.Int64N(600); h.Requests() < goal; {
			if time.Since(asked) > patience {
				t.Fatal("work has stopped")
			}
			time.Sleep(time.Millisecond)
		}
		c := children[i%len(children)]
		c.kill()
		c.start()
	}
}

// checkQueues checks what a front-end with the folder sees.
func checkQueues(t *testing.T, n *natsserver.Server, folder string) {
	t.Helper()
	o := must(state.StoreOptions(t.Context(), n, slog.New(slog.DiscardHandler)))(t)
	o.Buckets = state.Buckets()
	db := must(store.Open(filepath.Join(folder, "queues.db"), o))(t)
	defer db.Close()
	values := state.Values{Properties: properties.Check, Policies: properties.CheckPolicies}
	counts, err := state.Check(db, values, func(err error) { t.Errorf("check: %v", err) })
	if err != nil || counts.Queues != 1 {
		t.Errorf("check: %+v, %v", counts, err)
	}
}

// Two front-ends on one NATS serve one queue; either is killed, again and again.
func TestFrontendsKilledOnOneNATS(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
	}
	n, err := natsserver.Start(natsserver.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0",
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	config := natsserver.Config{URL: n.ClientURL()}
	recordHistory(t, []*child{startChild(t, config, t.TempDir()), startChild(t, config, t.TempDir())}, kills)
	checkQueues(t, n, t.TempDir())
}

// A front-end with its embedded NATS is killed, again and again.
func TestEmbeddedKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes a quarter of a minute")
	}
	config := natsserver.Config{Dir: t.TempDir()}
	folder := t.TempDir()
	c := startChild(t, config, folder)
	recordHistory(t, []*child{c}, kills)
	c.kill()
	config.Log = slog.New(slog.DiscardHandler)
	n, err := natsserver.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	checkQueues(t, n, folder)
}
