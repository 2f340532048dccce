package durable_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// The row of a workflow that goes on is written a little later, also when nothing follows, and before a stop at the
// latest; what it says of its checkpoint then is what the history has.
func TestRowsFollowTheirHistories(t *testing.T) {
	t.Parallel()
	lazuli := lazulitest.Start(t)
	h := newHub(t, lazuli, nil)
	r := registry(t, workflows{"waits": func(ctx *durable.Context) (any, error) {
		if err := ctx.CallActivity("nothing").Await(nil); err != nil {
			return nil, err
		}
		return nil, ctx.WaitForSingleEvent("go", -1).Await(nil)
	}}, activities{"nothing": func(activityContext) (any, error) { return nil, nil }})
	b := h.backend()
	w := b.NewWorker(r)
	check.OK(t, w.Start(t.Context()))
	stop := sync.OnceFunc(func() { check.OK(t, w.Shutdown(t.Context())) })
	defer stop()
	c := b.Client()
	checkpoints := func(table, id string) any {
		t.Helper()
		for _, row := range h.rows(table) {
			key := strings.TrimRight(row["RowKey"].(string), " ")
			if row["PartitionKey"] == id && (key == "" || key == "sentinel") {
				return row["Checkpoint"]
			}
		}
		return nil
	}
	follows := func(id string) bool {
		row := checkpoints("TestInstances", id)
		return row != nil && row == checkpoints("TestHistory", id)
	}
	start(t, c, "waits", hub.StartOptions{InstanceID: "one"})
	check.Eventually(t, func() bool {
		i, err := c.Get(t.Context(), "one")
		return err == nil && i.Status == "Running" && follows("one") && checkpoints("TestHistory", "one") == float64(2)
	}, "the row follows the history")
	for _, id := range []string{"two", "three"} {
		start(t, c, "waits", hub.StartOptions{InstanceID: id})
		check.Eventually(t, func() bool { return checkpoints("TestHistory", id) != nil }, "%s has begun", id)
	}
	stop()
	for _, id := range []string{"one", "two", "three"} {
		if !follows(id) {
			t.Errorf("after the stop the row of %s is at checkpoint %v, its history at %v", id,
				checkpoints("TestInstances", id), checkpoints("TestHistory", id))
		}
	}
}

// rows returns the rows of a table of the hub.
func (h *testHub) rows(table string) (list []map[string]any) {
	h.t.Helper()
	pager := h.options.Storage.Tables.NewClient(table).NewListEntitiesPager(
		&aztables.ListEntitiesOptions{Format: to.Ptr(aztables.MetadataFormatNone)})
	for pager.More() {
		page, err := pager.NextPage(h.t.Context())
		check.OK(h.t, err)
		for _, text := range page.Entities {
			row := map[string]any{}
			check.OK(h.t, json.Unmarshal(text, &row))
			list = append(list, row)
		}
	}
	return list
}
