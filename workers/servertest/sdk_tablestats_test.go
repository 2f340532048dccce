package servertest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/sdk/tabletool"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/tables"
)

func TestTableStats(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	name := a.Table("stats")
	table, err := tables.New[tables.Entity](a.Tables, name)
	if err != nil {
		t.Fatal(err)
	}
	var rows []tables.Entity
	for _, p := range []struct {
		name  string
		count int
		text  string
	}{{"large", 2, strings.Repeat("ä", 100)}, {"many", 50, ""}, {"small", 1, ""}} {
		for i := range p.count {
			rows = append(rows, tables.Entity{PartitionKey: p.name, RowKey: tables.Int64Key(int64(i)),
				Properties: map[string]any{"Text": p.text}})
		}
	}
	if err := table.Bulk(t.Context(), tables.BulkInsert, rows); err != nil {
		t.Fatal(err)
	}
	// By Azure's formula: 4, 2 for each character of the keys, 8 and 2 for each character of the name, 4 and 2 for each
	// character of the text.
	size := func(partition string, text int) int64 {
		return int64(4 + 2*(len(partition)+20) + 8 + 2*len("Text") + 4 + 2*text)
	}
	ignore := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Peak" }, cmp.Ignore())
	for by, want := range map[string][]tabletool.PartitionStats{
		"entities": {{Partition: "many", Entities: 50, Bytes: 50 * size("many", 0), Changed: 50},
			{Partition: "large", Entities: 2, Bytes: 2 * size("large", 100), Changed: 2}},
		"rate": {{Partition: "many", Entities: 50, Bytes: 50 * size("many", 0), Changed: 50},
			{Partition: "large", Entities: 2, Bytes: 2 * size("large", 100), Changed: 2}},
		"bytes": {{Partition: "many", Entities: 50, Bytes: 50 * size("many", 0), Changed: 50},
			{Partition: "large", Entities: 2, Bytes: 2 * size("large", 100), Changed: 2}},
	} {
		got, err := tabletool.ReadStats(t.Context(), a.Tables, name,
			tabletool.StatsOptions{By: by, Top: 2, Since: time.Now().Add(-time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if got.Partitions != 3 || got.Entities != 53 ||
			got.Bytes != 50*size("many", 0)+2*size("large", 100)+size("small", 0) {
			t.Errorf("by %s: %+v", by, got)
		}
		if d := cmp.Diff(want, got.Top, ignore); d != "" {
			t.Errorf("by %s (-want +got):\n%s", by, d)
		}
		if got.Top[0].Peak < 1 || got.Top[0].Peak > got.Top[0].Changed {
			t.Errorf("by %s: peak %d", by, got.Top[0].Peak)
		}
	}
	later, err := tabletool.ReadStats(t.Context(), a.Tables, name,
		tabletool.StatsOptions{By: "rate", Top: 1, Since: time.Now().Add(time.Hour)})
	if err != nil || later.Top[0].Changed != 0 || later.Top[0].Peak != 0 {
		t.Errorf("outside of the window: %+v, %v", later, err)
	}
	if _, err := tabletool.ReadStats(t.Context(), a.Tables, name, tabletool.StatsOptions{By: "luck", Top: 1}); err == nil {
		t.Error("an unknown order is accepted")
	}
}

func TestTableTypeHints(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	name := a.Table("types")
	table, err := tables.New[tables.Entity](a.Tables, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Insert(t.Context(),
		&tables.Entity{PartitionKey: "p", RowKey: "1",
			Properties: map[string]any{"Age": int32(5), "Long": int64(5), "Name": "x", "Score": 1.0}}); err != nil {
		t.Fatal(err)
	}
	for filter, want := range map[string]string{
		"Age eq 5":                           "",
		"Long eq 5":                          "",
		"Age eq 5L":                          "Age is Int32 in the first entities, and 5L is Int64",
		"5.0 lt Age and Name eq 'Age eq 5L'": "Age is Int32 in the first entities, and 5.0 is Double",
		"Name eq 5":                          "Name is String",
		"not (Score gt 1)":                   "Score is Double in the first entities, and 1 is Int32",
		"Missing eq 5 and PartitionKey eq 'it''s'":           "",
		"Name eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'": "is Guid",
	} {
		hints, err := tabletool.TypeHints(t.Context(), a.Tables, name, filter)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && len(hints) > 0 || want != "" && (len(hints) != 1 || !strings.Contains(hints[0], want)) {
			t.Errorf("%s: hints %q, want %q", filter, hints, want)
		}
	}
}

func TestTableStatsOnAzure(t *testing.T) {
	t.Parallel()
	client := fill(t, testaccount.Open(t), 2, 3)
	for filter, want := range map[string]string{
		"PartitionKey eq 'p0' and RowKey eq '0001'":                                                  "",
		"PartitionKey eq 'p0' and (RowKey eq '0001' or RowKey eq '0002')":                            "partition scan",
		"(PartitionKey eq 'p0' and RowKey eq '0001') or (PartitionKey eq 'p1' and RowKey eq '0001')": "table scan",
		"PartitionKey eq 'p0' and (RowKey lt '0001' or RowKey gt '0001')":                            "partition scan",
	} {
		e, err := tabletool.Explain(t.Context(), client, filter, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.OnAzure(); want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", filter, got, want)
		}
	}
}
