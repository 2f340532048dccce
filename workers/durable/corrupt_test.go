package durable_test

import (
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// A history that is damaged while its owner has it in memory: the owner goes on from memory, and the next one, which
// has to read the history, fails the instance. A damaged sentinel refuses the owner's next checkpoint, and the instance
// fails at once. Others go on.
func TestHistoryIsDamagedWhileItIsCached(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	r := registry(t, workflows{"two": func(ctx *durable.Context) (any, error) {
		for _, name := range []string{"first", "second"} {
			if err := ctx.WaitForSingleEvent(name, -1).Await(nil); err != nil {
				return nil, err
			}
			ctx.SetCustomStatus("got " + name)
		}
		return "done", nil
	}}, nil)
	b := h.backend()
	w := b.NewWorker(r)
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := b.Client()
	damage := func(row string) {
		t.Helper()
		if _, err := h.account.Tables.NewClient("TestHistory").UpdateEntity(t.Context(), []byte(row),
			&aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeMerge}); err != nil {
			t.Fatal(err)
		}
	}
	raise := func(id, name string) {
		t.Helper()
		if err := c.RaiseEvent(t.Context(), id, name, ""); err != nil {
			t.Fatal(err)
		}
	}
	all := []string{"row", "sentinel", "sound"}
	for _, id := range all {
		start(t, c, "two", hub.StartOptions{InstanceID: id})
	}
	for _, id := range all {
		eventually(t, func() bool { i, err := c.Get(t.Context(), id); return err == nil && i.Status == "Running" })
	}
	damage(`{"PartitionKey":"row","RowKey":"0000000000000001","Event":"AAAA","Event@odata.type":"Edm.Binary"}`)
	damage(`{"PartitionKey":"sentinel","RowKey":"sentinel","Length":"many"}`)
	for _, id := range all {
		raise(id, "first")
	}
	if i := ended(t, c, "sentinel", "Failed"); !strings.Contains(i.FailureMessage, "sentinel") {
		t.Errorf("the failure says %q, want the sentinel in it", i.FailureMessage)
	}
	for _, id := range []string{"row", "sound"} {
		eventually(t, func() bool { i, err := c.Get(t.Context(), id); return err == nil && i.CustomStatus == `got first` })
	}
	if err := w.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.run(r)
	for _, id := range []string{"row", "sound"} {
		raise(id, "second")
	}
	if i := ended(t, c, "row", "Failed"); !strings.Contains(i.FailureMessage, "0000000000000001") {
		t.Errorf("the failure says %q, want the row in it", i.FailureMessage)
	}
	ended(t, c, "sound", "Completed")
}

// An instance whose row or payload is damaged does not hide the others from queries.
func TestQueryWithDamagedInstances(t *testing.T) {
	t.Parallel()
	h := newHub(t, lazulitest.Start(t), nil)
	c := h.run(registry(t, workflows{"large": func(*durable.Context) (any,
		error) {
		return strings.Repeat("x", 50_000), nil
	}}, nil))
	for _, id := range []string{"blob", "row", "sound"} {
		start(t, c, "large", hub.StartOptions{InstanceID: id})
		ended(t, c, id, "Completed")
	}
	rows := h.account.Tables.NewClient("TestInstances")
	if _, err := rows.UpdateEntity(t.Context(), []byte(`{"PartitionKey":"row","RowKey":"","Checkpoint":"many"}`),
		&aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeMerge}); err != nil {
		t.Fatal(err)
	}
	for _, key := range h.rowsOf("blob") {
		if blob, ok := strings.CutPrefix(key, "blob "); ok && strings.HasPrefix(blob, "blob/") {
			if _, err := h.account.Blobs.DeleteBlob(t.Context(), "test-largemessages", blob, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	page, err := c.Query(t.Context(), hub.Query{Payloads: true})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, i := range page.Instances {
		got[i.ID] = i.Status + " " + i.FailureType
	}
	if diff := cmp.Diff(map[string]string{"blob": "Completed Unreadable", "row": "Unknown Unreadable",
		"sound": "Completed "}, got); diff != "" {
		t.Errorf("the instances (-want +got):\n%s", diff)
	}
}
