package workers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/link"
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

func runChild(child string) {
	var queue, connection string
	var plain bool
	if _, err := fmt.Sscan(child, &queue, &connection, &plain); err != nil {
		panic(err)
	}
	var options []StorageOption
	if plain {
		options = append(options, WithTransport(link.Plain{Next: http.DefaultClient}))
	}
	storage, err := OpenStorage(connection, options...)
	if err != nil {
		panic(err)
	}
	goOn := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(goOn)
	}()
	app := New(Config{Storage: storage})
	app.Queue("work", func(ctx context.Context, m QueueMessage) error {
		fmt.Println("begun", string(m.Body))
		<-goOn
		fmt.Println("handled", string(m.Body))
		return nil
	}, WithQueueName(queue), WithLease(2*time.Second), WithConcurrency(4))
	if err := app.Run(context.Background()); err != nil {
		panic(err)
	}
}
