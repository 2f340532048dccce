package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/orders"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// sagaEnv makes this binary a worker of the saga: its settings as JSON.
const sagaEnv = "LAZULI_DEMO_TEST_SAGA"

// sagaVariant is a worker that does what the saga should, or, if Forgets is set, one whose compensation does not
// happen.
type sagaVariant struct {
	orders.Settings
	Forgets bool
}

func runSagaVariant(text string) int {
	err := func() error {
		var v sagaVariant
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return err
		}
		if v.Fault != "" {
			p, err := fault.ParsePlan(v.Fault)
			if err != nil {
				return err
			}
			defer fault.Activate(p)()
		}
		storage, err := workers.OpenStorage(v.ConnectionString)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		if !v.Forgets {
			return orders.RunWorker(ctx, storage, log, v.Settings)
		}
		app := workers.New(workers.Config{Storage: storage, Logger: log,
			Durable: durable.NewEngine(durable.Options{Hub: v.Hub, Visibility: v.Visibility})})
		orders.Of(storage, v.Settings).Register(app)
		app.Use(workers.MiddlewareFunc(func(next workers.Handler) workers.Handler {
			return func(ctx context.Context, mc *workers.MiddlewareContext) error {
				if mc.FunctionName == "release" {
					return nil
				}
				return next(ctx, mc)
			}
		}))
		return app.Run(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func sagaConfig(t *testing.T, forgets bool, points ...string) orders.Config {
	t.Helper()
	return orders.Config{ConnectionString: lazulitest.Start(t).ConnectionString(), Points: points, Seed: 1,
		Patience: 5 * time.Minute, Worker: sagaVariantWorker(forgets)}
}

func sagaVariantWorker(forgets bool) func(orders.Settings) *exec.Cmd {
	return func(s orders.Settings) *exec.Cmd {
		text, err := json.Marshal(sagaVariant{s, forgets})
		if err != nil {
			panic(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), sagaEnv+"="+string(text))
		return cmd
	}
}

func TestSaga(t *testing.T) {
	t.Parallel()
	c := sagaConfig(t, false, "durable/after-commit", "durable/after-activity-result")
	if killrig.HasSignals {
		c.Points = append(c.Points, rig.Frozen)
	}
	c.Pairs, c.SamplePairs = true, sample()
	report, err := orders.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(report.Rows); n != len(c.Points)+sample() {
		t.Errorf("%d rounds", n)
	}
	for _, row := range report.Rows {
		if row.Done != 8 || row.Compensated != 4 {
			t.Errorf("%+v", row)
		}
	}
}

// Without faults the orders are placed all the same, and a report without rounds or orders does not pass.
func TestSagaWithoutFaults(t *testing.T) {
	t.Parallel()
	withoutFaults := sagaConfig(t, false)
	withoutFaults.Points = []string{}
	report, err := orders.Run(t.Context(), withoutFaults)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != 1 || report.Rows[0].Done != 8 || report.Rows[0].Compensated != 4 || report.Rows[0].Kills != 0 {
		t.Errorf("%+v", report.Rows)
	}
	for what, report := range map[string]interface{ Err() error }{
		"no round":                &rig.Report{},
		"a round without records": &rig.Report{Rows: []rig.Row{{Records: 3}, {}}},
		"no round of orders":      &orders.Report{},
		"a round without orders":  &orders.Report{Rows: []orders.Row{{Done: 1}, {Orders: 12}}},
	} {
		if err := report.Err(); !errors.Is(err, rig.ErrInvariant) || !strings.Contains(err.Error(), "nothing was tested") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A compensation that does not happen is noticed.
func TestWrongSagaIsCaught(t *testing.T) {
	t.Parallel()
	_, err := orders.Run(t.Context(), sagaConfig(t, true, "durable/before-send"))
	if !errors.Is(err, rig.ErrInvariant) || !strings.Contains(err.Error(), "reserved true") {
		t.Errorf("got %v", err)
	}
}
