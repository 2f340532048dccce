package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/lazuli-storage/lazuli/internal/durable/external"
	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/link"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durable/entity"
)

// Variables of the model. TestEntitiesSurviveKills kills workers LAZULI_ENTITY_KILLS times (default 12); with
// LAZULI_ENTITY_SERVER=1 the storage is a process of lazuli that is killed, too, and with LAZULI_ENTITY_PLAIN=1 workers
// do without the extensions of the protocol.
const (
	killsVariable  = "LAZULI_ENTITY_KILLS"
	serverVariable = "LAZULI_ENTITY_SERVER"
	plainVariable  = "LAZULI_ENTITY_PLAIN"
	// workerVariable makes the test binary a worker of the model on the account of the connection string.
	workerVariable = "LAZULI_TEST_ENTITY_WORKER"
)

func TestMain(m *testing.M) {
	if connection := os.Getenv(workerVariable); connection != "" {
		if err := runModelWorker(connection); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	check.FilesInMemory()
	check.MoreParallel(6) // most tests wait, for leases and timers
	os.Exit(m.Run())
}

const modelHub = "Model"

// note is a signal of the model: the Nth of a sender.
type note struct {
	From string
	N    int
	Pad  string `json:",omitempty"`
}

// bookState is the state of an entity that sees whether a signal is lost, doubled or in another order.
type bookState struct {
	Last  map[string]int
	Wrong []string
	Late  map[string]int // delayed signals, which have no order
	Pad   string
}

// burst is the input of the model's workflow.
type burst struct {
	Name   string
	Notes  int
	Ledger string
	Locks  []string // accounts
	Large  bool
}

func largeText(large bool) string {
	if large {
		return strings.Repeat("x", 20_000) // In a blob.
	}
	return ""
}

func modelWorkflow(ctx *durable.Context, b burst) (int, error) {
	relay := hub.EntityID("relay", b.Name[:1])
	for n := 1; n <= b.Notes; n++ {
		x := note{From: b.Name, N: n, Pad: largeText(b.Large && n == 2)}
		if err := ctx.SignalEntity(b.Ledger, "note", x); err != nil {
			return 0, err
		}
		if err := ctx.SignalEntity(relay, "pass", note{From: b.Ledger}); err != nil {
			return 0, err
		}
	}
	if err := ctx.SignalEntityAt(b.Ledger, "late", note{From: b.Name},
		ctx.CurrentTimeUtc.Add(time.Second)); err != nil {
		return 0, err
	}
	if _, err := durable.Call[int](ctx, "nothing", 1); err != nil {
		return 0, err
	}
	unlock, err := ctx.LockEntities(b.Locks...)
	if err != nil {
		return 0, err
	}
	for i, id := range b.Locks {
		if _, err := durable.CallEntity[int](ctx, id, "add", 1-2*(i%2)); err != nil {
			return 0, err
		}
	}
	if b.Notes%3 == 0 {
		return 0, errors.New("ends with its locks")
	}
	unlock()
	last, err := durable.CallEntity[int](ctx, b.Ledger, "last", b.Name)
	if err == nil && last != b.Notes {
		err = fmt.Errorf("a call came before signal %d: %d have", b.Notes, last)
	}
	return last, err
}

func runModelWorker(connection string) error {
	if text := os.Getenv(fault.EnvVar); text != "" {
		plan, err := fault.ParsePlan(text)
		if err != nil {
			return err
		}
		fault.Activate(plan)
	}
	var options []workers.StorageOption
	if os.Getenv(plainVariable) != "" {
		options = append(options, workers.WithTransport(link.Plain{Next: http.DefaultClient}))
	}
	storage, err := workers.OpenStorage(connection, options...)
	if err != nil {
		return err
	}
	engine := durable.NewEngine(durable.Options{Hub: modelHub, Visibility: time.Second, LeaseDuration: 15 * time.Second})
	app := workers.New(workers.Config{Storage: storage, Logger: slog.New(slog.DiscardHandler), Durable: engine,
		DrainTimeout: 10 * time.Second})
	app.Entity("account", accountEntity())
	app.Entity("relay", entity.Operation(new(entity.Kind[map[string]int]), "pass",
		func(ctx *entity.Context, state *map[string]int, to note) (any, error) {
			if *state == nil {
				*state = map[string]int{}
			}
			(*state)[to.From]++
			ctx.Signal(to.From, "note", note{From: ctx.ID, N: (*state)[to.From]}, time.Time{})
			return nil, nil
		}))
	book := new(entity.Kind[bookState])
	entity.Operation(book, "note", func(_ *entity.Context, s *bookState, n note) (any, error) {
		if s.Last == nil {
			s.Last = map[string]int{}
			s.Pad = strings.Repeat("state", 15_000) // More than a property can have.
		}
		if s.Last[n.From]+1 != n.N {
			s.Wrong = append(s.Wrong, fmt.Sprintf("%s: %d after %d", n.From, n.N, s.Last[n.From]))
		}
		s.Last[n.From] = n.N
		return nil, nil
	})
	entity.Operation(book, "late", func(_ *entity.Context, s *bookState, n note) (any, error) {
		if s.Late == nil {
			s.Late = map[string]int{}
		}
		s.Late[n.From]++
		return nil, nil
	})
	entity.Operation(book, "last", func(_ *entity.Context, s *bookState, from string) (int, error) {
		return s.Last[from], nil
	})
	app.Entity("ledger", book)
	durable.Register(app, "burst", modelWorkflow)
	app.Orchestration("burst in Core's form", external.Orchestrator(runCoreModel))
	workers.Activity(app, "nothing", func(_ context.Context, n int) (int, error) { return n, nil })
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return app.Run(ctx)
}

// model is a run: what has been sent, and the processes.
type model struct {
	t          *testing.T
	random     *rand.Rand
	connection string
	storage    *workers.Storage
	client     *hub.Client
	server     *killrig.Node // nil: the storage is in this process

	bursts []burst
	notes  map[string]int // by ledger: signals of the client
	kills  int
}

const modelLedgers, modelAccounts = 3, 4

func (m *model) worker(plan string) *killrig.Process {
	m.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVariable+"="+m.connection, fault.EnvVar+"="+plan)
	p, err := killrig.Start(cmd, nil)
	check.OK(m.t, err)
	m.t.Cleanup(p.Kill)
	return p
}

// until repeats a request that fails while the server is away.
func (m *model) until(what string, f func(context.Context) error) {
	m.t.Helper()
	var err error
	for deadline := time.Now().Add(check.Patience); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if err = f(m.t.Context()); err == nil {
			return
		}
	}
	m.t.Fatalf("%s: %v", what, err)
}

// work starts workflows and sends signals.
func (m *model) work() {
	m.t.Helper()
	for range 2 {
		n := len(m.bursts)
		b := burst{Name: fmt.Sprintf("%c-%d", 'a'+n%2, n), Notes: 2 + n%4, Ledger: m.ledger(n), Large: n%5 == 0}
		for i := range 2 + 2*(n%2) {
			b.Locks = append(b.Locks, hub.EntityID("account", fmt.Sprint((n+i)%modelAccounts)))
		}
		m.random.Shuffle(len(b.Locks), func(i, j int) { b.Locks[i], b.Locks[j] = b.Locks[j], b.Locks[i] })
		text, err := json.Marshal(b)
		check.OK(m.t, err)
		workflow := []string{"burst", "burst in Core's form"}[n/2%2]
		m.until("start", func(ctx context.Context) error {
			_, err := m.client.Start(ctx, workflow, hub.StartOptions{InstanceID: b.Name, Input: string(text)})
			if errors.Is(err, record.ErrInstanceExists) {
				err = nil // An attempt whose answer was lost.
			}
			return err
		})
		m.bursts = append(m.bursts, b)
	}
	for i := range modelLedgers {
		for range 3 {
			id := m.ledger(i)
			m.notes[id]++
			text, err := json.Marshal(note{From: "client", N: m.notes[id], Pad: largeText(m.notes[id]%10 == 0)})
			check.OK(m.t, err)
			request := fmt.Sprint(id, "/", m.notes[id])
			m.until("signal", func(ctx context.Context) error {
				return m.client.SignalEntity(ctx, id, "note", hub.SignalOptions{Input: string(text), RequestID: request})
			})
		}
	}
}

func (m *model) ledger(n int) string { return hub.EntityID("ledger", fmt.Sprint(n%modelLedgers)) }

// takeLeases ends the leases of a dead worker, which would keep its partitions for 15 s.
func (m *model) takeLeases() {
	for i := range 4 {
		b := m.storage.Blobs.ServiceClient().NewContainerClient("model-leases").NewBlobClient(
			fmt.Sprintf("default/model-control-%02d", i))
		c, err := lease.NewBlobClient(b, nil)
		check.OK(m.t, err)
		_, _ = c.BreakLease(m.t.Context(), &lease.BlobBreakOptions{BreakPeriod: to.Ptr(int32(0))}) // It may have none.
	}
}

// kill runs a worker that ends itself at a step, or is killed after a while, with the server or without it.
func (m *model) kill(point fault.Name) {
	m.t.Helper()
	plan := fmt.Sprintf("%s=kill@%d", point, 1+m.random.IntN(8))
	if point == "" {
		plan = ""
	}
	victim := m.worker(plan)
	m.work()
	patience := time.Duration(200+m.random.IntN(1500)) * time.Millisecond
	if point != "" {
		patience = 3 * time.Second // Not every worker reaches the step so often.
	}
	select {
	case <-victim.Exited():
		check.OK(m.t, victim.Killed())
	case <-time.After(patience):
		if m.server != nil && m.random.IntN(2) == 0 {
			m.server.Kill()
			victim.Kill()
			check.OK(m.t, m.server.Start())
			m.until("the server is ready", func(ctx context.Context) error {
				if !m.server.Ready(ctx) {
					return errors.New(m.server.Reason())
				}
				return nil
			})
			m.kills++
		} else {
			victim.Kill()
		}
	}
	m.kills++
	m.takeLeases()
}

// finish lets a worker do all that is left, and checks the entities.
func (m *model) finish() {
	m.t.Helper()
	p := m.worker("")
	defer p.Kill()
	m.work() // What only p can do: when it is done, p has begun, and a signal to end finds its handler.

	// For a slow machine.
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Minute)
	defer cancel()
	want, late := map[string]map[string]int{}, map[string]int{}
	add := func(ledger, from string, n int) {
		if want[ledger] == nil {
			want[ledger] = map[string]int{}
		}
		want[ledger][from] += n
	}
	for ledger, n := range m.notes {
		add(ledger, "client", n)
	}
	for _, b := range m.bursts {
		i, err := m.client.Wait(ctx, b.Name)
		if err != nil {
			m.t.Fatalf("after %d kills, %s: %v, %+v\n%s", m.kills, b.Name, err, i, p.Output())
		}
		if wanted := map[bool]string{true: "Failed", false: "Completed"}[b.Notes%3 == 0]; i.Status != wanted ||
			i.Status == "Failed" && !strings.Contains(i.FailureMessage, "ends with its locks") {
			m.t.Errorf("after %d kills, %s is %s: %s", m.kills, b.Name, i.Status, i.FailureMessage)
		}
		add(b.Ledger, b.Name, b.Notes)
		add(b.Ledger, hub.EntityID("relay", b.Name[:1]), b.Notes)
		late[b.Name] = 1
	}
	problems := m.problems(want, late)
	for problems != "" && ctx.Err() == nil {
		<-time.After(20 * time.Millisecond) // other processes are at work
		problems = m.problems(want, late)
	}
	if problems != "" {
		m.t.Fatalf("after %d kills:\n%s\n%s", m.kills, problems, p.Output())
	}
	check.OK(m.t, p.Terminate())
	m.t.Logf("%d kills, %d workflows: all signals are there, once and in order", m.kills, len(m.bursts))
}

// problems compares the entities with what was sent.
func (m *model) problems(want map[string]map[string]int, late map[string]int) string {
	var list []string
	got := map[string]int{}
	for id, senders := range want {
		s := stateOf[bookState](m.t, m.client, id)
		if len(s.Wrong) > 0 {
			m.t.Fatalf("after %d kills, %s: lost, doubled or in another order: %q", m.kills, id, s.Wrong)
		}
		for from, n := range senders {
			if s.Last[from] != n {
				list = append(list, fmt.Sprintf("%s has %d of %d signals of %s", id, s.Last[from], n, from))
			}
		}
		for from, n := range s.Late {
			got[from] += n
		}
	}
	for from, n := range late {
		if got[from] > n {
			m.t.Fatalf("after %d kills: the delayed signal of %s came %d times", m.kills, from, got[from])
		}
		if got[from] < n {
			list = append(list, "the delayed signal of "+from+" is missing")
		}
	}
	sum := 0
	for i := range modelAccounts {
		id := hub.EntityID("account", fmt.Sprint(i))
		sum += stateOf[int](m.t, m.client, id)
		if e, err := m.client.Entity(m.t.Context(), id, false); err == nil && (e.LockedBy != "" || e.Backlog > 0) {
			list = append(list, fmt.Sprintf("%s is locked by %q, with %d messages", id, e.LockedBy, e.Backlog))
		}
	}
	if sum != 0 {
		list = append(list, fmt.Sprintf("the accounts have %d", sum))
	}
	return strings.Join(list, "\n")
}

// Workers are killed with SIGKILL at each step in turn, and at any moment, while workflows, entities and a client send
// numbered signals, calls and locks: each signal has its effect once and in its sender's order, and no lock stays.
func TestEntitiesSurviveKills(t *testing.T) {
	t.Parallel()
	most, seed := 12, rand.Uint64()
	if text := os.Getenv(killsVariable); text != "" {
		var err error
		most, err = strconv.Atoi(text)
		check.OK(t, err)
	}
	m := &model{t: t, random: rand.New(rand.NewPCG(seed, 0)), notes: map[string]int{}}
	m.open(os.Getenv(serverVariable) != "")
	var points []fault.Name
	for _, p := range fault.Points() {
		if name := string(p); strings.HasPrefix(name, "durable/") && !strings.HasPrefix(name, "durable/purge") &&
			name != "durable/after-start-message" {
			points = append(points, p)
		}
	}
	m.random.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	points = append(points, "", "", "")
	for i := 0; m.kills < most; i++ {
		if m.kill(points[i%len(points)]); i%8 == 7 {
			m.finish()
		}
	}
	m.finish()
	t.Logf("seed %d", seed)
}

// serverBinary builds the server that is killed.
var serverBinary = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "lazuli-entities")
	if err != nil {
		return "", err
	}
	return killrig.Build(folder)
})

// open starts the storage and makes the hub.
func (m *model) open(process bool) {
	t := m.t
	if process {
		binary, err := serverBinary()
		check.OK(t, err)
		t.Cleanup(func() { os.RemoveAll(filepath.Dir(binary)) })
		m.server, err = killrig.NewNode("server", t.TempDir(),
			func(args ...string) *exec.Cmd { return exec.Command(binary, args...) }, &http.Client{Timeout: 5 * time.Second})
		check.OK(t, err)
		check.OK(t, m.server.Start())
		t.Cleanup(m.server.Kill)
		m.connection = fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey="+
			"Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;BlobEndpoint=http://%s/"+
			"devstoreaccount1;QueueEndpoint=http://%s/devstoreaccount1;TableEndpoint=http://%s/devstoreaccount1",
			m.server.Blob,
			m.server.Queue, m.server.Table)
	} else {
		m.connection = lazulitest.Start(t).Account(t).ConnectionString()
	}
	var err error
	m.storage, err = workers.OpenStorage(m.connection)
	check.OK(t, err)
	b, err := hub.New(hub.Options{Storage: m.storage, Hub: modelHub, Visibility: time.Second,
		Logger: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	m.until("the hub is made", b.CreateTaskHub)
	m.client = b.Client()
}
