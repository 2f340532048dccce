package servertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/link"
	"github.com/lazuli-storage/lazuli/workers"
)

// childVariable makes the test binary a worker instead: its value is "queue connection-string plain", the last true for
// a worker without the extensions of the protocol. It says which messages it has begun and handled, and goes on with
// them when its standard input ends.
const childVariable = "LAZULI_TEST_WORKER"

// No goroutine of the runtime may outlive the tests. The idle connections of the process's HTTP transport may.
func TestMain(m *testing.M) {
	if child := os.Getenv(childVariable); child != "" {
		runChild(child)
	}
	check.MoreParallel(8)
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// schedulesChild is the name in place of the queue of a process with the role of schedules and a plan of faults.
const schedulesChild = "schedules-alone"

func runChild(child string) {
	var queue, connection string
	var plain bool
	if _, err := fmt.Sscan(child, &queue, &connection, &plain); err != nil {
		panic(err)
	}
	var options []workers.StorageOption
	if plain {
		options = append(options, workers.WithTransport(link.Plain{Next: http.DefaultClient}))
	}
	storage, err := workers.OpenStorage(connection, options...)
	if err != nil {
		panic(err)
	}
	if queue == schedulesChild {
		if plan := os.Getenv(fault.EnvVar); plan != "" {
			p, err := fault.ParsePlan(plan)
			if err != nil {
				panic(err)
			}
			fault.Activate(p)
		}
		app := workers.New(workers.Config{ConnectionString: connection, HostID: "schedules"})
		app.Schedules()
		if err := app.Run(context.Background()); err != nil {
			panic(err)
		}
		return
	}
	goOn := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(goOn)
	}()
	app := workers.New(workers.Config{Storage: storage})
	app.Queue("work", func(ctx context.Context, m workers.QueueMessage) error {
		fmt.Println("begun", string(m.Body))
		<-goOn
		fmt.Println("handled", string(m.Body))
		return nil
	}, workers.WithQueueName(queue), workers.WithLease(2*time.Second), workers.WithConcurrency(4))
	if err := app.Run(context.Background()); err != nil {
		panic(err)
	}
}
