package events_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func (f *fixture) queues() *azqueue.ServiceClient {
	c, err := azqueue.NewServiceClientWithNoCredential(f.stack.InProcessURL(wire.Queue, auth.DevelopmentAccount),
		&azqueue.ClientOptions{ClientOptions: f.options()})
	check.OK(f, err)
	return c
}

func (f *fixture) tables() *aztables.ServiceClient {
	c, err := aztables.NewServiceClientWithNoCredential(f.stack.InProcessURL(wire.Table, auth.DevelopmentAccount),
		&aztables.ClientOptions{ClientOptions: f.options()})
	check.OK(f, err)
	return c
}

// wanting subscribes to types as CloudEvents.
func wanting(types ...string) func(*events.Subscription) {
	return func(s *events.Subscription) { s.IncludedEventTypes, s.DeliverySchema = types, events.CloudEvents }
}

// members returns the data of the delivered events with the members that differ from run to run by their presence.
func (h *hook) members() (list []map[string]any) {
	for _, r := range h.got() {
		data := maps.Clone(r.events[0]["data"].(map[string]any))
		for _, name := range []string{"requestId", "clientRequestId", "sequencer", "messageId", "eTag", "version",
			"timeNextVisible"} {
			if text, _ := data[name].(string); text != "" {
				data[name] = "<" + name + ">"
			}
		}
		list = append(list, data)
	}
	return list
}

// message is the data of an event of a message.
func message(api string, more map[string]any) map[string]any {
	data := map[string]any{"api": api, "queue": "orders", "requestId": "<requestId>",
		"clientRequestId": "<clientRequestId>", "sequencer": "<sequencer>"}
	maps.Copy(data, more)
	return data
}

func TestQueueChangesAreCloudEvents(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	f.subscribe(h, wanting(changes.QueueTypes...))
	ctx := f.ctx()
	q := f.queues().NewQueueClient("orders")
	for range 2 { // the second call changes nothing
		_, err := q.Create(ctx, nil)
		check.OK(t, err)
	}
	put, err := q.EnqueueMessage(ctx, "hello", nil)
	check.OK(t, err)
	id := *put.Messages[0].MessageID
	updated, err := q.UpdateMessage(ctx, id, *put.Messages[0].PopReceipt, "hello again", nil)
	check.OK(t, err)
	_, err = q.DeleteMessage(ctx, id, *put.Messages[0].PopReceipt, nil) // refused: no event
	if err == nil {
		t.Fatal("a message was deleted with an old pop receipt")
	}
	_, err = q.DeleteMessage(ctx, id, *updated.PopReceipt, nil)
	check.OK(t, err)
	_, err = q.ClearMessages(ctx, nil)
	check.OK(t, err)
	_, err = q.Delete(ctx, nil)
	check.OK(t, err)
	f.flush()

	subject := "/queueServices/default/queues/orders/"
	want := []string{changes.QueueCreated + " " + subject, changes.MessagePut + " " + subject + "messages/" + id,
		changes.MessageUpdated + " " + subject + "messages/" + id, changes.MessageDeleted + " " + subject + "messages/" + id,
		changes.MessagesCleared + " " + subject, changes.QueueDeleted + " " + subject}
	got := h.events()
	slices.Sort(want)
	slices.Sort(got) // different subjects are delivered at the same time
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	var messages []map[string]any
	for _, data := range h.members() {
		if data["messageId"] != nil {
			messages = append(messages, data)
		}
	}
	if diff := cmp.Diff([]map[string]any{
		message("PutMessage", map[string]any{"messageId": "<messageId>", "contentLength": 5.,
			"timeNextVisible": "<timeNextVisible>"}),
		message("UpdateMessage", map[string]any{"messageId": "<messageId>", "timeNextVisible": "<timeNextVisible>"}),
		message("DeleteMessage", map[string]any{"messageId": "<messageId>"}),
	}, messages); diff != "" {
		t.Errorf("data of the message's events, in order (-want +got):\n%s", diff)
	}
	for _, r := range h.got() {
		if e := r.events[0]; e["specversion"] != "1.0" || e["source"] != topic ||
			r.header.Get("Content-Type") != "application/cloudevents+json; charset=utf-8" {
			t.Errorf("not a CloudEvent: %v %v", e, r.header)
		}
	}
}

func TestPoisonMessagesHaveAnEventOfTheirOwn(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	f.subscribe(h, wanting(changes.MessagePoisoned))
	for _, name := range []string{"orders", "orders-poison"} {
		q := f.queues().NewQueueClient(name)
		_, err := q.Create(f.ctx(), nil)
		check.OK(t, err)
		_, err = q.EnqueueMessage(f.ctx(), "hello", nil)
		check.OK(t, err)
	}
	f.flush()
	want := message("PutMessage", map[string]any{"queue": "orders-poison", "sourceQueue": "orders",
		"messageId": "<messageId>", "contentLength": 5., "timeNextVisible": "<timeNextVisible>"})
	if diff := cmp.Diff([]map[string]any{want}, h.members()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTableChangesAreCloudEvents(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	f.subscribe(h, wanting(changes.TableTypes...))
	ctx := f.ctx()
	_, err := f.tables().CreateTable(ctx, "Orders", nil)
	check.OK(t, err)
	c := f.tables().NewClient("Orders")
	entity := func(row string) []byte { return []byte(`{"PartitionKey":"p q","RowKey":"` + row + `","N":1}`) }
	_, err = c.AddEntity(ctx, entity("1"), nil)
	check.OK(t, err)
	_, err = c.AddEntity(ctx, entity("1"), nil) // exists: no event
	if err == nil {
		t.Fatal("an entity was inserted twice")
	}
	_, err = c.UpsertEntity(ctx, entity("1"), nil)
	check.OK(t, err)
	_, err = c.SubmitTransaction(ctx, []aztables.TransactionAction{
		{ActionType: aztables.TransactionTypeInsertMerge, Entity: entity("2")},
		{ActionType: aztables.TransactionTypeUpdateReplace, Entity: entity("1"), IfMatch: to.Ptr(azcore.ETagAny)},
	}, nil)
	check.OK(t, err)
	_, err = c.SubmitTransaction(ctx, []aztables.TransactionAction{ // fails as a whole: no event
		{ActionType: aztables.TransactionTypeInsertMerge, Entity: entity("3")},
		{ActionType: aztables.TransactionTypeAdd, Entity: entity("1")},
	}, nil)
	if err == nil {
		t.Fatal("a transaction inserted an entity twice")
	}
	_, err = c.DeleteEntity(ctx, "p q", "1", nil)
	check.OK(t, err)
	_, err = f.tables().DeleteTable(ctx, "Orders", nil)
	check.OK(t, err)
	f.flush()
	table := "/tableServices/default/tables/Orders/"
	one, two := table+"entities/p%20q/1", table+"entities/p%20q/2"
	bySubject := map[string][]string{}
	for _, e := range h.events() {
		kind, subject, _ := strings.Cut(e, " ")
		bySubject[subject] = append(bySubject[subject], kind)
	}
	if diff := cmp.Diff(map[string][]string{
		table: {changes.TableCreated, changes.TableDeleted},
		one:   {changes.EntityInserted, changes.EntityUpdated, changes.EntityUpdated, changes.EntityDeleted},
		two:   {changes.EntityInserted},
	}, bySubject); diff != "" {
		t.Errorf("events by subject, in order (-want +got):\n%s", diff)
	}
	for _, data := range h.members() {
		if data["rowKey"] != "2" {
			continue
		}
		want := map[string]any{"api": "EntityGroupTransaction", "table": "Orders", "partitionKey": "p q", "rowKey": "2",
			"eTag": "<eTag>", "version": "<version>",
			"requestId": "<requestId>", "clientRequestId": "<clientRequestId>", "sequencer": "<sequencer>"}
		if diff := cmp.Diff(want, data); diff != "" {
			t.Errorf("data (-want +got):\n%s", diff)
		}
	}
}

// A subscription gets what it names and its filters select. Without a subscription that names them, changes are not
// recorded.
func TestChangesAreFiltered(t *testing.T) {
	t.Parallel()
	blobs, large := newHook(t), newHook(t)
	f := start(t, []*hook{blobs, large}, nil)
	f.subscribe(blobs, nil)
	f.subscribe(large, func(s *events.Subscription) {
		wanting(changes.MessagePut)(s)
		s.Name = "large"
		s.SubjectBeginsWith = changes.QueueSubject("orders")
		s.AdvancedFilters = []events.AdvancedFilter{{Key: "data.contentLength", OperatorType: "NumberGreaterThan",
			Value: 10.}}
	})
	for _, name := range []string{"orders", "orders-old"} {
		q := f.queues().NewQueueClient(name)
		_, err := q.Create(f.ctx(), nil)
		check.OK(t, err)
		for _, text := range []string{"small", strings.Repeat("x", 20)} {
			_, err = q.EnqueueMessage(f.ctx(), text, nil)
			check.OK(t, err)
		}
	}
	f.flush()
	if got := large.members(); len(got) != 1 || got[0]["contentLength"] != 20. || got[0]["queue"] != "orders" {
		t.Errorf("got %v, want the large message of orders alone", got)
	}
	if got := blobs.got(); len(got) != 0 {
		t.Errorf("a subscription to blobs got %d changes of queues", len(got))
	}
}

// A queue that events are delivered to has no events: each would cause another one.
func TestDestinationQueuesHaveNoEvents(t *testing.T) {
	t.Parallel()
	f := start(t, nil, nil)
	q := f.queues().NewQueueClient("events")
	_, err := q.Create(f.ctx(), nil)
	check.OK(t, err)
	f.subscribe(nil, func(s *events.Subscription) {
		wanting(changes.MessagePut)(s)
		s.EndpointType, s.Endpoint = events.StorageQueue, "events"
	})
	other := f.queues().NewQueueClient("orders")
	_, err = other.Create(f.ctx(), nil)
	check.OK(t, err)
	_, err = other.EnqueueMessage(f.ctx(), "hello", nil)
	check.OK(t, err)
	for range 2 { // what the first delivery caused would be delivered by the second
		f.flush()
	}
	got, err := q.PeekMessages(f.ctx(), &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr(int32(32))})
	check.OK(t, err)
	if len(got.Messages) != 1 {
		t.Fatalf("%d messages, want the event of one", len(got.Messages))
	}
	text, err := base64.StdEncoding.DecodeString(*got.Messages[0].MessageText)
	check.OK(t, err)
	var e struct{ Type string }
	check.OK(t, json.Unmarshal(text, &e))
	if e.Type != changes.MessagePut {
		t.Errorf("event of type %q", e.Type)
	}
}

// A subscription with an unknown type is refused.
func TestUnknownTypesAreRefused(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := start(t, []*hook{h}, nil)
	s := events.Subscription{Name: "sub", Account: auth.DevelopmentAccount, Endpoint: h.URL,
		IncludedEventTypes: []string{"Lazuli.Storage.MessagePeeked"}}
	if _, err := f.stack.Events().Add(t.Context(), s); !errors.Is(err, events.ErrInvalid) {
		t.Errorf("error %v, want ErrInvalid", err)
	}
}
