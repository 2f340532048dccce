package server_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

// noNetwork is a network that reaches nothing.
type noNetwork struct{}

var errNoNetwork = errors.New("no network")

func (noNetwork) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNoNetwork }

// Clients in the process of a server need no connection, at its usual address, until it stops.
func TestClientsInTheProcess(t *testing.T) {
	t.Parallel()
	s, err := server.Start(server.Config{InMemory: true})
	check.OK(t, err)
	storage, err := workers.OpenStorage(s.ConnectionString(),
		workers.WithTransport(&http.Client{Transport: inproc.Here{Next: noNetwork{}}}),
		workers.WithClientRetry(policy.RetryOptions{MaxRetries: -1}))
	check.OK(t, err)
	check.OK(t, storage.Enqueue(t.Context(), "queue", "message"))
	check.OK(t, s.Stop(t.Context()))
	if err := storage.Enqueue(t.Context(), "queue", "message"); !errors.Is(err, errNoNetwork) {
		t.Errorf("after the stop: %v", err)
	}
}
