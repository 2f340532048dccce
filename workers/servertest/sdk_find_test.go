package servertest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/findtool"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// findAccount is an account whose things have names that need quoting everywhere.
func findAccount(t *testing.T) findtool.Account {
	t.Helper()
	a := lazulitest.Start(t).Account(t)
	ctx := t.Context()
	for _, name := range []string{"o'brien", "100% sure", "größe", "order-1", "order-2", "a+b c"} {
		for _, box := range []string{"alpha", "orders"} {
			_, _ = a.Storage.Blobs.CreateContainer(ctx, box, nil)
			_, err := a.Storage.Blobs.UploadBuffer(ctx, box, name+"/x.txt", nil, nil)
			check.OK(t, err)
		}
		_, _ = a.Storage.Tables.CreateTable(ctx, "Orders", nil)
		for _, keys := range [][2]string{{name, "r"}, {"p", name}, {name, name}} {
			entity, err := json.Marshal(map[string]string{"PartitionKey": keys[0], "RowKey": keys[1]})
			check.OK(t, err)
			_, err = a.Storage.Tables.NewClient("Orders").AddEntity(ctx, entity, nil)
			check.OK(t, err)
		}
		_, _ = a.Storage.Queues.CreateQueue(ctx, "orders", nil)
		_, err := a.Storage.Queues.NewQueueClient("orders").EnqueueMessage(ctx,
			base64.StdEncoding.EncodeToString([]byte(`{"customer": "`+name+`"}`)), nil)
		check.OK(t, err)
	}
	return findtool.Account{Blobs: a.Storage.Blobs.ServiceClient(), Queues: a.Storage.Queues, Tables: a.Storage.Tables}
}

// short writes what was found in the order of the search.
func short(list []findtool.Found) (texts []string) {
	for _, f := range list {
		name := f.Name
		if f.Kind == findtool.Message {
			name = f.Text
		}
		texts = append(texts, strings.TrimSpace(fmt.Sprintf("%s %s %s %s|%s", f.Kind, f.In, name, f.PartitionKey, f.RowKey)))
	}
	return texts
}

func TestFind(t *testing.T) {
	t.Parallel()
	a := findAccount(t)
	for _, name := range []string{"o'brien", "100% sure", "größe", "a+b c"} {
		got, err := findtool.Find(t.Context(), a, name, "", findtool.Usual)
		check.OK(t, err)
		want := []string{"entity Orders  " + name + "|" + name, "entity Orders  " + name + "|r",
			"blob alpha " + name + "/x.txt |", "blob orders " + name + "/x.txt |",
			`message orders {"customer": "` + name + `"} |`, "entity Orders  p|" + name}
		if list := short(got.Found); !slices.Equal(list, want) || got.Stopped != "" || got.Next != "" || got.Rows < 6 {
			t.Errorf("%s: %q, %+v", name, list, got)
		}
	}
	got, err := findtool.Find(t.Context(), a, "ORDERS", "", findtool.Usual)
	check.OK(t, err)
	want := []string{"container  orders |", "queue  orders |", "table  Orders |"}
	if list := short(got.Found); !slices.Equal(list, want) {
		t.Errorf("names: %q", list)
	}
	all, err := findtool.Find(t.Context(), a, "order-1", "", findtool.Usual)
	check.OK(t, err)
	message := all.Found[slices.IndexFunc(all.Found, func(f findtool.Found) bool { return f.Kind == findtool.Message })]
	got, err = findtool.Find(t.Context(), a, strings.ToUpper(message.Name), "", findtool.Usual)
	check.OK(t, err)
	if len(got.Found) != 1 || got.Found[0].Name != message.Name {
		t.Errorf("by the ID of a message: %+v", got.Found)
	}
	if got, err := findtool.Find(t.Context(), a, "nothing of that name", "", findtool.Usual); err != nil ||
		len(got.Found) != 0 || got.Stopped != "" {
		t.Errorf("nothing: %+v, %v", got, err)
	}
	for _, text := range []string{"", " ", strings.Repeat("x", findtool.MaxText+1), "\xff", "a\x00"} {
		if _, err := findtool.Find(t.Context(), a, text, "", findtool.Usual); !errors.Is(err, findtool.ErrText) {
			t.Errorf("%.10q: %v", text, err)
		}
	}
	for _, after := range []string{"x", base64.RawURLEncoding.EncodeToString([]byte(`{"Stage": 99}`)),
		base64.RawURLEncoding.EncodeToString([]byte(`{"Stage":3,"Name":"Orders","Token":"no"}`))} {
		if _, err := findtool.Find(t.Context(), a, "x", after, findtool.Usual); !errors.Is(err, findtool.ErrAfter) {
			t.Errorf("%s: %v", after, err)
		}
	}
}

// A search that stops at a bound again and again finds the same, once each, as one that never stops.
func TestFindGoesOn(t *testing.T) {
	t.Parallel()
	a := findAccount(t)
	for _, text := range []string{"o", "p", "g"} {
		whole, err := findtool.Find(t.Context(), a, text, "", findtool.Bounds{Results: 5000, Rows: 1e6, Bytes: 1 << 30,
			Time: time.Minute})
		check.OK(t, err)
		for name, b := range map[string]findtool.Bounds{
			"results": {Results: 1, Rows: 1e6, Bytes: 1 << 30, Time: time.Minute},
			"rows":    {Results: 100, Rows: 1, Bytes: 1 << 30, Time: time.Minute},
			"bytes":   {Results: 100, Rows: 1e6, Bytes: 1, Time: time.Minute},
			"time":    {Results: 100, Rows: 1e6, Bytes: 1 << 30, Time: time.Nanosecond},
		} {
			var all []findtool.Found
			after := ""
			for calls := 0; ; calls++ {
				part, err := findtool.Find(t.Context(), a, text, after, b)
				check.OK(t, err)
				if len(part.Found) > max(b.Results, 1) && name == "results" {
					t.Errorf("%d results", len(part.Found))
				}
				all = append(all, part.Found...)
				if after = part.Next; after == "" {
					break
				}
				if part.Stopped == "" || part.Where == "" || calls > 300 {
					t.Fatalf("%s: call %d: %+v", name, calls, part)
				}
			}
			if got, want := short(all), short(whole.Found); !slices.Equal(got, want) {
				t.Errorf("%s, by %s:\n%q\nwant\n%q", text, name, got, want)
			}
		}
	}
}

// The instances of a task hub are found by their IDs, and its histories are not.
func TestFindInstance(t *testing.T) {
	t.Parallel()
	a := lazulitest.Start(t).Account(t)
	for _, table := range []string{"ShopInstances", "ShopHistory", "Instances", "OtherInstances"} {
		_, err := a.Storage.Tables.CreateTable(t.Context(), table, nil)
		check.OK(t, err)
		entity, err := json.Marshal(aztables.Entity{PartitionKey: "a^0b^4c", RowKey: "x"})
		check.OK(t, err)
		_, err = a.Storage.Tables.NewClient(table).AddEntity(t.Context(), entity, nil)
		check.OK(t, err)
	}
	got, err := findtool.Find(t.Context(), findtool.Account{Tables: a.Storage.Tables}, "a/b'", "", findtool.Usual)
	check.OK(t, err)
	if list := short(got.Found); !slices.Equal(list, []string{"workflow instance Shop a/b'c |"}) {
		t.Errorf("%q", list)
	}
}
