package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/cmd/internal/searchproc"
	"github.com/lazuli-storage/lazuli/cmd/internal/searchserver"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/eventual"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/large"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
)

// variantEnv makes this test binary a worker process of the named variant.
const variantEnv = "LAZULI_DEMO_TEST_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // heaps of a few MiB, in some hundred processes: collecting them was a tenth of the work
	}
	if filepath.Base(os.Args[0]) == searchproc.Program {
		os.Exit(searchserver.Main())
	}
	if text := os.Getenv(sagaEnv); text != "" {
		os.Exit(runSagaVariant(text))
	}
	variant := os.Getenv(variantEnv)
	if variant == "" {
		check.FilesInMemory()
		check.MoreParallel(8)
		os.Exit(withSearchProgram(m.Run))
	}
	if err := runVariant(variant); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// withSearchProgram runs the tests with this binary as lazuli-search on the path.
func withSearchProgram(run func() int) int {
	folder, err := os.MkdirTemp("", "lazuli-demo-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(folder, searchproc.Program))
	}
	if err == nil {
		err = os.Setenv("PATH", folder+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		panic(err)
	}
	return run()
}

// variants are archive roles with their steps in various orders. All but the first are wrong, each in its own way.
var variants = map[string]func(v *variantRole) workers.QueueHandler{
	"correct": nil,
	"copy without delete": func(v *variantRole) workers.QueueHandler {
		return v.steps("archive/before-copy", v.copy, "archive/after-copy", "archive/before-delete", "archive/after-delete")
	},
	"property forgotten": func(v *variantRole) workers.QueueHandler {
		v.forget = "Party"
		return v.steps("archive/before-copy", v.copy, "archive/after-copy", "archive/before-delete", v.delete,
			"archive/after-delete")
	},
	"type forgotten": func(v *variantRole) workers.QueueHandler {
		v.forget = "Years@odata.type"
		return v.steps("archive/before-copy", v.copy, "archive/after-copy", "archive/before-delete", v.delete,
			"archive/after-delete")
	},
	// It does the steps in the right order, but takes them back when it finds that its lease was over.
	"takes back": func(v *variantRole) workers.QueueHandler {
		work := v.steps("archive/before-copy", v.copy, "archive/after-copy", "archive/before-delete", v.delete,
			"archive/after-delete", v.remember)
		return func(ctx context.Context, m workers.QueueMessage) error {
			ctx = context.WithoutCancel(ctx) // It also ignores the request to stop.
			if err := work(ctx, m); err != nil {
				return err
			}
			if err := v.acknowledge(ctx, m); err != nil {
				if entity, ok := v.done.Load(string(m.Body)); ok {
					_, err := v.storage.Tables.NewClient(v.s.Current).UpsertEntity(ctx, entity.([]byte), nil)
					return err
				}
			}
			return nil
		}
	},
	"poisons at once": func(v *variantRole) workers.QueueHandler {
		return func(context.Context, workers.QueueMessage) error {
			return workers.Permanent(errors.New("no"))
		}
	},
}

// variantRole is an archive role without the real one's care.
type variantRole struct {
	storage *workers.Storage
	s       rig.WorkerSettings
	forget  string
	done    sync.Map // entities by their message's body
}

func (v *variantRole) remember(_ context.Context, k archive.Key, entity []byte) error {
	body, err := json.Marshal(k)
	v.done.Store(string(body), entity)
	return err
}

// steps makes a handler of fault points (strings) and effects in the order given.
func (v *variantRole) steps(list ...any) workers.QueueHandler {
	return func(ctx context.Context, m workers.QueueMessage) error {
		var k archive.Key
		if err := json.Unmarshal(m.Body, &k); err != nil {
			return err
		}
		got, err := v.storage.Tables.NewClient(v.s.Current).GetEntity(ctx, k.PartitionKey, k.RowKey, nil)
		if rig.NotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, step := range list {
			switch step := step.(type) {
			case string:
				err = fault.Point(fault.Name(step))
			case func(context.Context, archive.Key, []byte) error:
				err = step(ctx, k, got.Value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func (v *variantRole) copy(ctx context.Context, _ archive.Key, entity []byte) error {
	var properties map[string]any
	if err := json.Unmarshal(entity, &properties); err != nil {
		return err
	}
	properties["Years@odata.type"] = "Edm.Double"
	delete(properties, v.forget)
	body, err := json.Marshal(properties)
	if err != nil {
		return err
	}
	_, err = v.storage.Tables.NewClient(v.s.Archive).UpsertEntity(ctx, body,
		&aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace})
	return err
}

func (v *variantRole) delete(ctx context.Context, k archive.Key, _ []byte) error {
	_, err := v.storage.Tables.NewClient(v.s.Current).DeleteEntity(ctx, k.PartitionKey, k.RowKey, nil)
	if rig.NotFound(err) {
		return nil
	}
	return err
}

func (v *variantRole) acknowledge(ctx context.Context, m workers.QueueMessage) error {
	_, err := v.storage.Queues.NewQueueClient(v.s.Queue).DeleteMessage(ctx, m.Id, m.PopReceipt, nil)
	return err
}

// runVariant is the worker process.
func runVariant(variant string) error {
	var s rig.WorkerSettings
	if err := json.Unmarshal([]byte(os.Getenv("LAZULI_DEMO_TEST_SETTINGS")), &s); err != nil {
		return err
	}
	if s.Fault != "" {
		plan, err := fault.ParsePlan(s.Fault)
		if err != nil {
			return err
		}
		fault.Activate(plan)
	}
	storage, err := workers.OpenStorage(s.ConnectionString)
	if err != nil {
		return err
	}
	app := workers.New(workers.Config{Storage: storage, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	options := s.Options()
	run := otherVariants[variant]
	if s.Mistake = variant; strings.Contains(variant, "/") {
		run = RunNaiveWorker
	}
	if run != nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		return run(ctx, storage, app, s)
	}
	if variant == "correct" {
		target, err := archive.Table(storage, s.Archive)
		if err != nil {
			return err
		}
		role, err := archive.New(storage, s.Current, target)
		if err != nil {
			return err
		}
		role.Register(app, "archive", options...)
	} else {
		app.Queue("archive", variants[variant](&variantRole{storage: storage, s: s}), options...)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return app.Run(ctx)
}

func variantWorker(variant string) func(rig.WorkerSettings) *exec.Cmd {
	return func(s rig.WorkerSettings) *exec.Cmd {
		settings, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), variantEnv+"="+variant, "LAZULI_DEMO_TEST_SETTINGS="+string(settings))
		return cmd
	}
}

// patience is far beyond what a round takes, on any machine.
const patience = 4 * time.Minute

// StuckAfter is the patience with workers whose work never ends.
const stuckAfter = 5 * time.Second

func newConfig(a *testaccount.Account, variant string) rig.Config {
	return rig.Config{ConnectionString: a.ConnectionString, Worker: variantWorker(variant), Seed: 1,
		Records: check.Size(240, 600), Patience: patience}
}

func TestArchive(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	c := newConfig(a, "correct")
	var progress bytes.Buffer
	c.Progress = &progress
	report, err := eventual.Run(t.Context(), c)
	if err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	if report.Records != c.Records || report.Old == 0 || report.Archived != report.Old ||
		report.Current != c.Records-report.Old {
		t.Errorf("report %+v", report)
	}
	if len(report.Rows) != len(eventual.Points()) {
		t.Errorf("%d rounds, want one for each of %v", len(report.Rows), eventual.Points())
	}
	caught := 0
	for _, row := range report.Rows {
		for _, crash := range row.Crashes {
			if crash.Lost > 0 {
				t.Errorf("%s: %d records were nowhere at the kill", row.Point, crash.Lost)
			}
			if crash.Kept > 0 || crash.Both > 0 {
				caught++
			}
		}
	}
	if caught != len(report.Rows) {
		t.Errorf("only %d of %d kills left work undone: the others prove nothing", caught, len(report.Rows))
	}
	if strings.Contains(progress.String(), "\x1b") ||
		strings.Count(progress.String(), "killed at") != len(archive.Points()) {
		t.Errorf("progress:\n%s", &progress)
	}
	for what, n := range map[string]int{"tables": countTables(t, a), "queues": countQueues(t, a)} {
		if n != 0 {
			t.Errorf("%d %s are left behind", n, what)
		}
	}
}

func countTables(t *testing.T, a *testaccount.Account) (n int) {
	t.Helper()
	for pager := a.Tables.NewListTablesPager(nil); pager.More(); {
		page, err := pager.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range page.Tables {
			if strings.HasPrefix(*table.Name, "LazuliDemo") {
				n++
			}
		}
	}
	return n
}

func countQueues(t *testing.T, a *testaccount.Account) (n int) {
	t.Helper()
	for pager := a.Queues.NewListQueuesPager(nil); pager.More(); {
		page, err := pager.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, queue := range page.Queues {
			if strings.HasPrefix(*queue.Name, "lazuli-demo-") {
				n++
			}
		}
	}
	return n
}

func TestArchivePairs(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	c := newConfig(a, "correct")
	c.Pairs = true
	c.Points = []string{"archive/after-copy", "archive/after-delete"}
	report, err := eventual.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != 6 || len(report.Rows[5].Crashes) != 2 {
		t.Errorf("report %+v, want two single rounds and four pairs", report.Rows)
	}
}

// The demonstration must notice every variant that does the steps wrongly, and say what is wrong.
func TestWrongWorkersAreCaught(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	for variant, c := range map[string]struct {
		points []string
		says   string
	}{
		"eventual-transaction/delete-first": {[]string{"archive/after-delete"}, "lost"},
		"copy without delete":               {[]string{"archive/after-copy"}, "in both tables"},
		"eventual-transaction/no-message":   {[]string{"archive/before-copy"}, "still in Current"},
		"property forgotten":                {[]string{"archive/after-copy"}, "records changed"},
		"type forgotten":                    {[]string{"archive/after-copy"}, "records changed"},
		"takes back":                        {[]string{rig.Frozen}, "in both tables"},
		"poisons at once":                   {[]string{"workers/before-delete-message"}, "poison queue"},
	} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			config := newConfig(a, variant)
			config.Points, config.Plain = c.points, true // A second delivery could repair the effect of the first one.
			report, err := eventual.Run(t.Context(), config)
			if !errors.Is(err, rig.ErrInvariant) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Fatalf("got %v, want %v saying %q", err, rig.ErrInvariant, c.says)
			}
			var table bytes.Buffer
			if err := report.WriteTable(&table); err != nil || !strings.Contains(table.String(), "NOT every invariant holds") {
				t.Errorf("%v, table:\n%s", err, &table)
			}
		})
	}
}

// A worker that never comes to its fault point, or ends by itself, is an error and not a success.
func TestWorkerThatIsNotKilled(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	for name, c := range map[string]struct {
		worker   func(rig.WorkerSettings) *exec.Cmd
		patience time.Duration
		says     string
	}{
		"ends by itself": {func(rig.WorkerSettings) *exec.Cmd { return exec.Command("sh", "-c", "echo bye; exit 3") },
			patience, "without SIGKILL: exit status 3\nbye"},
		"idles": {func(rig.WorkerSettings) *exec.Cmd { return exec.Command("sleep", "600") }, time.Second,
			"was not killed at its fault point"},
		"does not exist": {func(rig.WorkerSettings) *exec.Cmd { return exec.Command("/no/such/worker") }, patience,
			"start the worker"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := newConfig(a, "")
			config.Worker, config.Patience, config.Records = c.worker, c.patience, 100
			_, err := eventual.Run(t.Context(), config)
			if err == nil || errors.Is(err, rig.ErrInvariant) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want an error saying %q", err, c.says)
			}
		})
	}
}

// A worker that does all its work without coming to its point, as happens where leases are lost, gets the same work
// again.
func TestMissedPoint(t *testing.T) {
	t.Parallel()
	for name, demonstrate := range map[string]func(context.Context, rig.Config) (*rig.Report,
		error){"archive/after-delete": eventual.Run, "large-entity/after-reserve": large.Run} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConfig(testaccount.Open(t),
				map[bool]string{true: "correct", false: "large-entity"}[strings.HasPrefix(name, "archive")])
			right, missed := c.Worker, false
			c.Worker = func(s rig.WorkerSettings) *exec.Cmd {
				if !missed {
					missed, s.Fault = true, ""
				}
				return right(s)
			}
			var progress bytes.Buffer
			c.Points, c.Records, c.Progress = []string{name}, 100, &progress
			report, err := demonstrate(t.Context(), c)
			if err != nil {
				t.Fatalf("%v\n%s", err, &progress)
			}
			row := report.Rows[0]
			if !strings.Contains(progress.String(), "retrying with leases of 2s") || row.Messages < 2*row.Records ||
				row.OK != row.Records {
				t.Errorf("%+v\n%s", row, &progress)
			}
		})
	}
}

func TestUnknownPoint(t *testing.T) {
	_, err := eventual.Run(t.Context(),
		rig.Config{ConnectionString: "UseDevelopmentStorage=true", Points: []string{"archive/after-lunch"}})
	if err == nil || !strings.Contains(err.Error(), "archive/after-copy") {
		t.Errorf("got %v, want an error that lists the points", err)
	}
}

// The same seed makes the same rounds, another one others.
func TestSeed(t *testing.T) {
	plan := func(seed uint64) []string {
		r := &rig.Run{Config: rig.Config{Points: eventual.Points()}, Pattern: &eventual.Pattern{},
			Random: rig.NewRandom(seed)}
		for i := range 1000 {
			r.Work = append(r.Work, rig.Key{Partition: "p", Row: fmt.Sprint(i)})
		}
		r.Shuffle()
		var texts []string
		for _, round := range r.Plan() {
			texts = append(texts, fmt.Sprint(round.Keys[:5], round))
		}
		return texts
	}
	if diff := cmp.Diff(plan(7), plan(7)); diff != "" {
		t.Errorf("the same seed gives other rounds:\n%s", diff)
	}
	if slices.Equal(plan(7), plan(8)) {
		t.Error("another seed gives the same rounds")
	}
}
