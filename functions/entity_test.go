package functions

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/functions/internal/entity"
	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/tables"
)

// What a function returns with the types beside it is read by the typed client, and what the typed client writes
// reaches a function without loss.
func TestEntitiesOfFunctions(t *testing.T) {
	t.Parallel()
	a := lazulitest.Start(t).Default(t)
	type everything struct {
		PartitionKey, RowKey string
		Text                 string
		Flag                 bool
		Small                int32
		Most, Least          int64
		Whole, Half          float64
		Up                   float64
		At                   time.Time
		ID                   uuid.UUID
		Content              []byte
		Tags                 map[string]int `table:",json"`
		Mail                 string         `table:"Renamed"`
	}
	want := everything{
		"it's", "r'1", "2020 Grüße", true, math.MinInt32, math.MaxInt64, math.MinInt64, 5, 0.1, math.Inf(1),
		time.Date(2026, 11, 22, 10, 5, 0, 1234567*100, time.UTC),
		uuid.MustParse("c9da6455-213d-42c9-9a79-3e9149a57833"), []byte{0, 255}, map[string]int{"a": 1}, "ada@example.org",
	}
	typed, err := tables.New[everything](a.Tables, "Typed", tables.CreateIfMissing())
	if err != nil {
		t.Fatal(err)
	}
	if err := typed.Insert(t.Context(), &want); err != nil {
		t.Fatal(err)
	}
	// A function passes on the service's JSON.
	raw, err := entityio.Get(t.Context(), a.Tables.NewClient("Typed"), want.PartitionKey, want.RowKey)
	if err != nil {
		t.Fatal(err)
	}
	e, err := entity.New(raw.JSON, nil)
	if err != nil {
		t.Fatal(err)
	}
	written, err := tables.New[tables.Entity](a.Tables, "Written", tables.CreateIfMissing())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // The second attempt of an invocation finds the entity of the first.
		if err := entity.Insert(t.Context(), written, e); err != nil {
			t.Fatal(err)
		}
	}
	copied, err := tables.New[everything](a.Tables, "Written")
	if err != nil {
		t.Fatal(err)
	}
	got, err := copied.Get(t.Context(), tables.Key{PartitionKey: want.PartitionKey, RowKey: want.RowKey})
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	// What a function reads has numbers as numbers.
	var members map[string]json.RawMessage
	if err := json.Unmarshal(entity.Plain(raw.JSON), &members); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Most": "9223372036854775807", "Whole": "5.0", "Up": `"Infinity"`,
		"Renamed": `"ada@example.org"`, "Small": "-2147483648"} {
		if string(members[name]) != value {
			t.Errorf("%s is %s, want %s", name, members[name], value)
		}
	}
	if len(members) != 2+12+1 { // keys, properties, and Text; no Timestamp
		t.Errorf("%d members: %v", len(members), members)
	}
	e.Properties["Text"] = "other"
	if err := entity.Insert(t.Context(), written, e); err == nil {
		t.Error("another entity under the key counts as written")
	}
}
