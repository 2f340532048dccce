package events_test

import (
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// operateAll makes changes of every type.
func (f *fixture) operateAll() {
	f.Helper()
	f.operate()
	ctx := f.ctx()
	for _, name := range []string{"orders", "orders-poison"} {
		q := f.queues().NewQueueClient(name)
		_, err := q.Create(ctx, nil)
		check.OK(f, err)
		put, err := q.EnqueueMessage(ctx, "hello", nil)
		check.OK(f, err)
		m := put.Messages[0]
		updated, err := q.UpdateMessage(ctx, *m.MessageID, *m.PopReceipt, "again", nil)
		check.OK(f, err)
		_, err = q.DeleteMessage(ctx, *m.MessageID, *updated.PopReceipt, nil)
		check.OK(f, err)
		_, err = q.ClearMessages(ctx, nil)
		check.OK(f, err)
		_, err = q.Delete(ctx, nil)
		check.OK(f, err)
	}
	people := f.tables().NewClient("people")
	_, err := people.CreateTable(ctx, nil)
	check.OK(f, err)
	_, err = people.AddEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"r"}`), nil)
	check.OK(f, err)
	_, err = people.UpdateEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"r","A":1}`),
		&aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeReplace})
	check.OK(f, err)
	_, err = people.DeleteEntity(ctx, "p", "r", nil)
	check.OK(f, err)
	_, err = people.Delete(ctx, nil)
	check.OK(f, err)
}

// fact holds what both schemas say of an event.
type fact struct {
	Type, Subject, Source, Time string
	Data                        any
}

// facts are the events that a hook got, by their IDs, and their types. names are the members of the schema for type,
// source and time.
func (h *hook) facts(names [3]string) (byID map[string]fact, types []string) {
	byID = make(map[string]fact)
	for _, r := range h.got() {
		for _, e := range r.events {
			text := func(name string) string { s, _ := e[name].(string); return s }
			byID[text("id")] = fact{Type: text(names[0]), Subject: text("subject"), Source: text(names[1]), Time: text(names[2]),
				Data: e["data"]}
			types = append(types, text(names[0]))
		}
	}
	slices.Sort(types)
	return byID, slices.Compact(types)
}

// Every type of event is delivered in both schemas, which say the same of it.
func TestEveryTypeInBothSchemas(t *testing.T) {
	t.Parallel()
	grid, cloud := newHook(t), newHook(t)
	f := start(t, []*hook{grid, cloud}, nil)
	f.subscribe(grid, func(s *events.Subscription) { s.Name, s.IncludedEventTypes = "grid", events.AllTypes })
	f.subscribe(cloud, func(s *events.Subscription) {
		s.Name, s.IncludedEventTypes, s.DeliverySchema = "cloud", events.AllTypes, events.CloudEvents
	})
	f.operateAll()
	f.flush()
	gridFacts, gridTypes := grid.facts([3]string{"eventType", "topic", "eventTime"})
	cloudFacts, cloudTypes := cloud.facts([3]string{"type", "source", "time"})
	ofTrees := []string{events.BlobRenamed, events.DirectoryCreated, events.DirectoryDeleted, events.DirectoryRenamed}
	want := slices.DeleteFunc(slices.Sorted(slices.Values(events.AllTypes)), // see TestLakeEvents
		func(t string) bool { return slices.Contains(ofTrees, t) })
	if diff := cmp.Diff(want, gridTypes); diff != "" {
		t.Errorf("types in the Event Grid schema (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, cloudTypes); diff != "" {
		t.Errorf("types as CloudEvents (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(gridFacts, cloudFacts); diff != "" {
		t.Errorf("the schemas differ (-grid +cloud):\n%s", diff)
	}
	for _, r := range grid.got() {
		for _, e := range r.events {
			if e["metadataVersion"] != "1" || e["specversion"] != nil {
				t.Errorf("not of the Event Grid schema: %v", e)
			}
		}
	}
	for _, r := range cloud.got() {
		for _, e := range r.events {
			if e["specversion"] != "1.0" || e["metadataVersion"] != nil {
				t.Errorf("not a CloudEvent: %v", e)
			}
		}
	}
}
