package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// receiver gets the events of accounts from their queues "events".
type receiver struct {
	c    *spreadNodes
	want map[string]map[string]string // types of events by account and subject
	got  map[string]map[string]int    // numbers of deliveries
}

func newReceiver(c *spreadNodes) *receiver {
	return &receiver{c: c, want: map[string]map[string]string{}, got: map[string]map[string]int{}}
}

// change makes a change of each service of an account at a node.
func (r *receiver) change(t *testing.T, node int, account, name string) {
	t.Helper()
	ctx, x, box := t.Context(), r.c.of(node, account), "first"+account
	want := r.want[account]
	if want == nil {
		want = map[string]string{}
		r.want[account], r.got[account] = want, map[string]int{}
	}
	check.Must(x.blobs.UploadBuffer(ctx, box, name, []byte(name), nil))(t)
	want["/blobServices/default/containers/"+box+"/blobs/"+name] = events.BlobCreated
	put := check.Must(x.queues.NewQueueClient(box).EnqueueMessage(ctx, name, nil))(t)
	want[changes.MessageSubject(box, *put.Messages[0].MessageID)] = changes.MessagePut
	check.Must(x.tables.NewClient(box).UpsertEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"`+name+`"}`), nil))(t)
	want[changes.EntitySubject(box, "p", name)] = changes.EntityInserted
}

// all waits until all events have come that are wanted, through a node.
func (r *receiver) all(t *testing.T, node int) {
	t.Helper()
	for account := range r.want {
		queue := r.c.of(node, account).queues.NewQueueClient("events")
		check.Eventually(t, func() bool {
			list, err := queue.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{
				NumberOfMessages: to.Ptr[int32](32), VisibilityTimeout: to.Ptr[int32](3600)})
			if err != nil {
				return false
			}
			for _, m := range list.Messages {
				r.take(t, account, *m.MessageText)
			}
			return len(r.got[account]) == len(r.want[account])
		}, "the events of %s", account)
	}
}

// take takes an event, which has Azure's shape.
func (r *receiver) take(t *testing.T, account, message string) {
	t.Helper()
	var e struct {
		ID, Topic, Subject, EventType, EventTime string
		Data                                     struct {
			API, RequestID, Sequencer string
			Unconfirmed               bool
		}
	}
	text := check.Must(base64.StdEncoding.DecodeString(message))(t)
	check.OK(t, json.Unmarshal(text, &e))
	if kind := r.want[account][e.Subject]; kind == "" || e.EventType != kind || e.Data.Unconfirmed ||
		e.Topic != eventlog.Topic(account) || len(e.ID) != 36 || e.EventTime == "" || e.Data.API == "" ||
		e.Data.RequestID == "" || e.Data.Sequencer == "" {
		t.Errorf("%s got %s", account, text)
	}
	r.got[account][e.Subject]++
}

// once checks that no event came twice, as while no node stops.
func (r *receiver) once(t *testing.T) {
	t.Helper()
	for account, got := range r.got {
		for subject, n := range got {
			if n != 1 {
				t.Errorf("%s got the event of %s %d times", account, subject, n)
			}
		}
	}
}

// testSpreadEvents makes changes of all services at nodes that do not have the shard with the account's subscription.
func (c *spreadNodes) testSpreadEvents(t *testing.T) {
	r := newReceiver(c)
	for _, name := range c.names {
		c.subscribe(t, name)
		for i, n := range c.nodes { // without a wait: the subscription is known when it was acknowledged
			if !n.services.Load().recorder.Wants(name, changes.MessagePut, changes.EntityInserted) {
				t.Errorf("node %d does not know the subscription of %s", i, name)
			}
		}
	}
	for i, name := range c.names {
		r.change(t, c.without(wire.Blob, name), name, "one")
		r.change(t, i%5, name, "two")
	}
	r.all(t, 1)
	r.once(t)
	name := c.names[0]
	check.Eventually(t, func() bool { // a change after the removal has no event
		for _, n := range c.nodes {
			if err := n.Events().Remove(name, "all"); err == nil || errors.Is(err, events.ErrNotFound) {
				return true
			}
		}
		return false
	}, "the node that delivers the events removes the subscription")
	for i, n := range c.nodes {
		if n.services.Load().recorder.Wants(name, changes.MessagePut) {
			t.Errorf("node %d records changes for a subscription that was removed", i)
		}
	}
}

// deliverer returns the node that delivers the events of a shard's accounts.
func (c *spreadNodes) deliverer(shard int) (found int) {
	c.t.Helper()
	check.Eventually(c.t, func() bool {
		for i, n := range c.nodes {
			if n == nil {
				continue
			}
			of := n.services.Load().numbered(shard)
			if of == nil {
				continue
			}
			node := n.services.Load().eventNode
			node.mu.Lock()
			holds := node.held[of.blobs.State.EventLog()]
			node.mu.Unlock()
			if found = i; holds {
				return true
			}
		}
		return false
	}, "a node delivers the events of shard %d", shard)
	return found
}

// The node that delivers events stops, and another one delivers what was not delivered; then their shard moves away
// from that one while clients change all services.
func TestEventsOfShardsThatMove(t *testing.T) {
	if testing.Short() {
		t.Skip("starts five nodes")
	}
	t.Parallel()
	c := &moving{spreadNodes: newSpreadNodes(t)}
	var ahead atomic.Int64
	for i := range c.configs {
		c.configs[i].Events = true
		c.configs[i].Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
	jump := func() { // the term of a node that delivered events ends
		ahead.Add(int64(time.Minute))
		for _, n := range c.nodes {
			if n != nil {
				n.ClockChanged()
			}
		}
	}
	c.start(0, 1, 2, 3, 4)
	c.shard = c.nodes[0].services.Load().placed.Of(shardmap.Blob, c.names[0])
	r := newReceiver(c.spreadNodes)
	var names []string // of accounts whose events are in the shard
	for i, name := range c.names {
		if c.nodes[0].services.Load().placed.Of(shardmap.Blob, name) == c.shard {
			names = append(names, name)
			c.of(i%5, name).fill(t, "first"+name)
			c.subscribe(t, name)
		}
	}
	change := func(word string) {
		t.Helper()
		for i, n := range c.nodes {
			for _, name := range names {
				if n != nil {
					r.change(t, i, name, fmt.Sprint(word, i))
				}
			}
		}
	}
	change("before")

	lost := c.deliverer(c.shard)
	c.stop(lost)
	change("meanwhile")
	jump()
	c.from = c.deliverer(c.shard)
	change("after")
	r.all(t, c.from)
	c.start(lost)

	hosts := c.hosts()
	for i := range c.configs {
		if !hosts.On(c.name(i), c.shard) {
			c.to = i
		}
	}
	change("returned")
	move := c.begin(c.to)
	for n := 0; layoutOf(c.nodes[c.to]).Moving() != nil; n++ {
		change(fmt.Sprint("moving", n, "-"))
	}
	c.ended(move)
	if m := c.nodes[c.from].Events(); len(m.List()) != 0 {
		t.Errorf("the node that the shard has left still delivers: %+v", m.List())
	}
	jump()
	if now := c.deliverer(c.shard); now == c.from {
		t.Errorf("node %d delivers the events of a shard that it does not have", now)
	}
	change("moved")
	r.all(t, c.from)
}

// A node that does not know yet what the subscriptions of an account want makes no change of its queues and tables: it
// could lack its event. Reads and blobs do not wait.
func TestSubscriptionsThatAreNotKnown(t *testing.T) {
	t.Parallel()
	const account = "shop00"
	var answers atomic.Bool
	recorder := new(changes.Recorder)
	o := &services{placed: check.Must(shardmap.New(2))(t), operations: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			switch {
			case !strings.HasSuffix(r.URL.Path, "/subscriptions"):
				w.WriteHeader(http.StatusNotFound)
			case !answers.Load():
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				check.OK(t, answerCall(w, map[string]changes.Interest{account: {Types: []string{changes.MessagePut}}}))
			}
		})}
	o.having.Store(newHaving([]*shard{{}, {}}))
	i := newInterests(o, recorder, slog.New(slog.DiscardHandler))
	o.eventNode = &eventNode{interests: i}
	knows := func(svc wire.Service, method string) bool {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it does not wait
		return o.knowsEvents(svc, 0, account, httptest.NewRequestWithContext(ctx, method, "/", nil))
	}
	of := i.shards[o.placed.Of(shardmap.Blob, account)]
	if err := i.read(t.Context(), of); err == nil {
		t.Error("the subscriptions are read where no node answers")
	}
	for svc, waits := range map[wire.Service]bool{wire.Queue: true, wire.Table: true, wire.Blob: false} {
		if knows(svc, http.MethodPost) == waits || !knows(svc, http.MethodGet) {
			t.Errorf("%v: a change is let through: %v, a read: %v", svc, knows(svc, http.MethodPost),
				knows(svc, http.MethodGet))
		}
	}
	answers.Store(true)
	check.OK(t, i.read(t.Context(), of))
	if !knows(wire.Queue, http.MethodPost) || !recorder.Wants(account, changes.MessagePut) {
		t.Error("what the subscriptions want is not known after they were read")
	}
}
