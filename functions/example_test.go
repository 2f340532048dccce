package functions_test

import (
	"context"
	"log"
	"net"
	"os"
	"os/signal"

	"github.com/lazuli-storage/lazuli/functions"
)

// The functions of a folder with host.json and a custom handler, as `lazuli func start` runs them.
func ExampleLoad() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	host, err := functions.Load(ctx, functions.Config{Dir: "my-functions", Environ: os.Environ(), Stderr: os.Stderr})
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	l, err := net.Listen("tcp", "127.0.0.1:7071")
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range host.Describe(l.Addr().String()) { // the URLs and triggers
		log.Print(line)
	}
	if err := host.Run(ctx, l); err != nil { // until ctx is done; then running invocations end
		log.Fatal(err)
	}
}
