package durable_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durable/entity"
)

// overtaken is a transport whose first request of a payload is overtaken by a commit that deletes the payload.
type overtaken struct {
	t      *testing.T
	next   *http.Client
	part   string // of the address of the payload
	commit func()
	did    atomic.Bool
}

// Do implements policy.Transporter.
func (o *overtaken) Do(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.Contains(r.URL.Path, o.part) && !o.did.Swap(true) {
		o.commit()
		check.Eventually(o.t, func() bool {
			answer, err := o.next.Do(r.Clone(r.Context()))
			check.OK(o.t, err)
			answer.Body.Close()
			return answer.StatusCode == http.StatusNotFound
		}, "the payload is deleted")
	}
	return o.next.Do(r)
}

// client returns a client of a hub whose first request of a payload is overtaken by commit.
func (o *overtaken) client(account *lazulitest.Account) *hub.Client {
	o.t.Helper()
	o.next = http.DefaultClient
	storage, err := workers.OpenStorage(account.ConnectionString(), workers.WithTransport(o))
	check.OK(o.t, err)
	c, err := hub.NewClient(o.t.Context(), hub.Options{Storage: storage, Hub: "Test"})
	check.OK(o.t, err)
	return c
}

// An entity whose state is replaced while it is read is read again.
func TestEntityIsReadWhileItChanges(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(*hub.Client, string) (*record.EntityInfo, error){
		"one": func(c *hub.Client, id string) (*record.EntityInfo, error) {
			return c.Entity(t.Context(), id, true)
		},
		"query": func(c *hub.Client, _ string) (*record.EntityInfo, error) {
			page, err := c.QueryEntities(t.Context(), hub.EntityQuery{State: true})
			if err != nil {
				return nil, err
			}
			return page.Entities[0], nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newEntityApp(t, durable.Options{})
			c, id := a.run(), hub.EntityID("log", "one")
			sendSignal(t, c, id, "add", strings.Repeat("a", 100_000))
			check.Eventually(t, func() bool { return len(stateOf[[]string](t, c, id)) == 1 }, "the entity has a state")
			late := &overtaken{t: t, part: "/State-", commit: func() { sendSignal(t, c, id, "add", "b") }}
			e, err := read(late.client(a.account), id)
			check.OK(t, err)
			if !late.did.Load() || !strings.HasSuffix(*e.State, `,"b"]`) {
				t.Errorf("the state has %d bytes, overtaken: %t", len(*e.State), late.did.Load())
			}
		})
	}
}

// An instance that changes its status, or begins again, while it is read is read again: it is not corrupt.
func TestInstanceIsReadWhileItChanges(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		part string
		read func(context.Context, *hub.Client) error
	}{
		"status": {"/CustomStatus-", func(ctx context.Context, c *hub.Client) error {
			_, err := c.Get(ctx, "one")
			return err
		}},
		"list": {"/CustomStatus-", func(ctx context.Context, c *hub.Client) error {
			page, err := c.Query(ctx, hub.Query{Payloads: true})
			if err == nil && page.Instances[0].FailureType != "" {
				t.Errorf("the list has %+v", page.Instances[0])
			}
			return err
		}},
		"history": {".gz", func(ctx context.Context, c *hub.Client) error {
			_, err := c.History(ctx, "one")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, lazulitest.Start(t), nil)
			c := h.run(registry(t, workflows{"again": func(ctx *durable.Context) (any, error) {
				var round int
				if err := ctx.GetInput(&round); err != nil {
					return nil, err
				}
				if err := ctx.WaitForSingleEvent("data", -1).Await(nil); err != nil {
					return nil, err
				}
				ctx.SetCustomStatus(fmt.Sprint("round ", round, "\x00")) // A row has no such text; a blob has it.
				if err := ctx.WaitForSingleEvent("go", -1).Await(nil); err != nil {
					return nil, err
				}
				ctx.ContinueAsNew(round + 1)
				return nil, nil
			}}, nil))
			start(t, c, "again", hub.StartOptions{InstanceID: "one", Input: "1"})
			data := `"` + strings.Repeat("a", 100_000) + `"`
			check.OK(t, c.RaiseEvent(t.Context(), "one", "data", data))
			check.Eventually(t, func() bool {
				i, err := c.Get(t.Context(), "one")
				check.OK(t, err)
				return i.CustomStatus != ""
			}, "the instance has a status")
			late := &overtaken{t: t, part: tt.part, commit: func() {
				check.OK(t, c.RaiseEvent(t.Context(), "one", "go", ""))
				check.OK(t, c.RaiseEvent(t.Context(), "one", "data", data))
			}}
			check.OK(t, tt.read(t.Context(), late.client(h.account)))
			if !late.did.Load() {
				t.Error("nothing was overtaken")
			}
		})
	}
}

// A payload belongs to one message or column: what is deleted with one of them leaves the same text of another.
func TestSameTextsHaveBlobsOfTheirOwn(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	large, raw := `"`+strings.Repeat("a", 100_000)+`"`, "no text of a row\x00"
	c := h.run(registry(t, workflows{"same": func(ctx *durable.Context) (any, error) {
		ctx.SetCustomStatus(raw)
		if err := ctx.WaitForSingleEvent("go", -1).Await(nil); err != nil {
			return nil, err
		}
		ctx.SetCustomStatus("another")
		return nil, ctx.WaitForSingleEvent("go", -1).Await(nil)
	}}, nil))
	start(t, c, "same", hub.StartOptions{InstanceID: "one", RawInput: &raw})
	for _, status := range []string{raw, "another"} {
		check.Eventually(t, func() bool {
			i, err := c.Get(t.Context(), "one")
			check.OK(t, err)
			return i.CustomStatus == status
		}, "the status is set")
		check.OK(t, c.RaiseEvent(t.Context(), "one", "go", large))
	}
	if i := ended(t, c, "one", "Completed"); i.Input != raw {
		t.Errorf("the input is %q", i.Input)
	}
	names := map[string]bool{}
	stored := h.account.Storage.Blobs.ServiceClient().NewContainerClient("test-largemessages")
	for pager := stored.NewListBlobsFlatPager(nil); pager.More(); {
		page, err := pager.NextPage(t.Context())
		check.OK(t, err)
		for _, b := range page.Segment.BlobItems {
			names[*b.Name] = true
		}
	}
	if len(names) != 3 {
		t.Errorf("an input and two events are %d blobs: %v", len(names), names)
	}
}

// lossy is a transport to a service that has lost the payloads whose addresses contain a text.
type lossy string

// Do implements policy.Transporter.
func (l lossy) Do(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.Contains(r.URL.Path, string(l)) {
		return &http.Response{StatusCode: http.StatusNotFound, Request: r, Body: http.NoBody,
			Header: http.Header{"X-Ms-Error-Code": {"BlobNotFound"}}}, nil
	}
	return http.DefaultClient.Do(r)
}

// A workflow whose call of an entity has lost its input or output gets a failure that says so; others go on.
func TestLostPayloadOfACallFailsIt(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]lossy{"input": "-largemessages/@log@one/", "output": "-largemessages/caller/"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newEntityApp(t, durable.Options{})
			storage, err := workers.OpenStorage(a.account.ConnectionString(), workers.WithTransport(lost))
			check.OK(t, err)
			engine := durable.NewEngine(durable.Options{Hub: "Test"})
			a.engine, a.App = engine, workers.New(workers.Config{Storage: storage, Durable: engine})
			echo := new(entity.Kind[int])
			entity.Operation(echo, "echo", func(_ *entity.Context, s *int, n int) (string, error) {
				*s++
				return strings.Repeat("b", n), nil
			})
			entity.Operation(echo, "size", func(_ *entity.Context, s *int, in string) (int, error) {
				*s++
				return len(in), nil
			})
			a.Entity("log", echo)
			id := hub.EntityID("log", "one")
			durable.Register(a.App, "call", func(ctx *durable.Context, _ any) (string, error) {
				var err error
				if name == "input" {
					_, err = durable.CallEntity[int](ctx, id, "size", strings.Repeat("a", 100_000))
				} else {
					_, err = durable.CallEntity[string](ctx, id, "echo", 100_000)
				}
				if err == nil {
					return "", errors.New("the call has succeeded")
				}
				n, again := durable.CallEntity[int](ctx, id, "size", "abc")
				return fmt.Sprint(err, "; then ", n), again
			})
			c := a.run()
			start(t, c, "call", hub.StartOptions{InstanceID: "caller"})
			if i := ended(t, c, "caller", "Completed"); !strings.Contains(i.Output, "cannot be read") ||
				!strings.Contains(i.Output, "; then 3") {
				t.Errorf("the workflow returns %s", i.Output)
			}
		})
	}
}
