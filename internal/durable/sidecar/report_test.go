package sidecar_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/sidecar"
	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// Each connected worker is in the account's list of processes, with the tasks of its filters and the work that it has
// and had; it goes with its connection.
func TestWorkersAreListed(t *testing.T) {
	t.Parallel()
	a := lazulitest.Start(t).Account(t)
	s := newSchedulerIn(t, a, sidecar.Options{Heartbeat: time.Second})
	store := hostrow.Open(a.Storage.Tables)
	list := func() []hostrow.Process {
		t.Helper()
		l, err := store.List(t.Context())
		check.OK(t, err)
		return l.Processes
	}
	// has reports whether a worker shows with a function, and the text of its counts.
	has := func(name, trigger string, inFlight, succeeded, failed int64) func() bool {
		return func() bool {
			for _, p := range list() {
				for _, f := range p.Functions {
					if f == (hostrow.Function{Name: name, Trigger: trigger, Fixed: true, InFlight: inFlight, Succeeded: succeeded,
						Failed: failed}) {
						return true
					}
				}
			}
			return false
		}
	}
	s.work(&protocol.WorkItemFilters{Orchestrations: []*protocol.OrchestrationFilter{{Name: "hello"}, {Name: "fails"}},
		Activities: []*protocol.ActivityFilter{{Name: "hello"}}, Entities: []*protocol.EntityFilter{{Name: "Counter"}}})
	check.Eventually(t, has("counter", "entityTrigger", 0, 0, 0), "the worker does not show")
	p := list()[0]
	if p.App != "durable-default" || !strings.HasPrefix(p.Machine, "127.0.0.1:") ||
		!strings.Contains(p.About, "grpc-go/") || len(p.Functions) != 4 {
		t.Errorf("%+v", p)
	}
	for _, name := range []string{"hello", "fails"} {
		check.OK(t, s.start(&protocol.CreateInstanceRequest{InstanceId: name, Name: name}))
	}
	check.Eventually(t, has("fails", "orchestrationTrigger", 0, 0, 1), "the failed workflow is not counted")
	// The activity of the same name is before it.
	check.Eventually(t, has("hello (orchestration)", "orchestrationTrigger", 0, 1, 0), "the workflow is not counted")

	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	stream, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/TaskHubSidecarService/GetWorkItems")
	check.OK(t, err)
	check.OK(t, stream.SendMsg(&protocol.GetWorkItemsRequest{}))
	check.OK(t, stream.CloseSend())
	check.Eventually(t, has("*", "anyTrigger", 0, 0, 0), "a worker without filters does not show")
	check.OK(t, s.start(&protocol.CreateInstanceRequest{InstanceId: "held", Name: "held"}))
	check.Eventually(t, has("held", "orchestrationTrigger", 1, 0, 0), "the work in flight does not show")
	leave()
	check.Eventually(t, func() bool { return len(list()) == 1 }, "a worker that has left shows")
	s.server.Stop()
	if l := list(); len(l) != 0 {
		t.Errorf("after the end of the server: %+v", l)
	}
}

// Without a heartbeat, no table is made.
func TestWorkersAreNotListed(t *testing.T) {
	t.Parallel()
	a := lazulitest.Start(t).Account(t)
	s := newSchedulerIn(t, a, sidecar.Options{})
	s.work(nil)
	check.OK(t, s.start(&protocol.CreateInstanceRequest{InstanceId: "one", Name: "hello"}))
	s.becomes("one", completed)
	if _, err := a.Storage.Tables.NewClient(hostrow.Table).GetEntity(t.Context(), "p", "r", nil); err == nil ||
		!strings.Contains(err.Error(), "TableNotFound") && !strings.Contains(err.Error(), "ResourceNotFound") {
		t.Errorf("the table: %v", err)
	}
}
