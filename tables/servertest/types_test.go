package servertest

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/tables"
)

// grade is an enumeration that is stored as text.
type grade int

func (g grade) MarshalText() ([]byte, error) {
	if g < 0 || g > 2 {
		return nil, errors.New("no such grade")
	}
	return []byte([]string{"low", "middle", "high"}[g]), nil
}

func (g *grade) UnmarshalText(b []byte) error {
	for i, name := range []string{"low", "middle", "high"} {
		if name == string(b) {
			*g = grade(i)
			return nil
		}
	}
	return errors.New("no such grade: " + string(b))
}

type audit struct {
	CreatedBy string
	CreatedAt time.Time
}

// everything has a field of every type.
type everything struct {
	PartitionKey, RowKey string
	ETag                 azcore.ETag
	Timestamp            time.Time
	Text                 string
	Renamed              string `table:"Other"`
	Ignored              string `table:"-"`
	Flag                 bool
	Small                int32
	Tiny                 int8
	Byte                 uint8
	Large                int64
	Plain                int
	Unsigned             uint32
	Number               float64
	Single               float32
	At                   time.Time
	ID                   uuid.UUID
	Content              []byte
	Grade                grade
	Maybe                *string
	MaybeLarge           *int64
	MaybeAt              *time.Time
	Tags                 map[string]int `table:",json"`
	Zero                 int32          `table:",omitzero"`
	audit
}

func drawEverything(t *rapid.T) everything {
	key := rapid.StringMatching(`[a-zA-Z0-9 '"<>&äß€🙂_-]{1,12}`)
	at := func(name string) time.Time {
		// The whole range of the service, in its precision.
		return time.Unix(rapid.Int64Range(-11644473600, 253402300799).Draw(t, name),
			rapid.Int64Range(0, 9999999).Draw(t, name+" ticks")*100).UTC()
	}
	e := everything{
		PartitionKey: key.Draw(t, "partition"), RowKey: key.Draw(t, "row"), Text: rapid.String().Draw(t, "text"),
		Renamed: rapid.String().Draw(t, "renamed"),
		Flag:    rapid.Bool().Draw(t, "flag"), Small: rapid.Int32().Draw(t, "small"), Tiny: rapid.Int8().Draw(t, "tiny"),
		Byte:  rapid.Uint8().Draw(t, "byte"),
		Large: rapid.Int64().Draw(t, "large"), Plain: rapid.Int().Draw(t, "plain"),
		Unsigned: rapid.Uint32().Draw(t, "unsigned"),
		Number: rapid.OneOf(rapid.Float64(),
			rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 5, 1e300, 5e-324})).Draw(t, "number"),
		Single: rapid.Float32().Draw(t, "single"), At: at("at"),
		ID:      uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")),
		Content: rapid.SliceOf(rapid.Byte()).Draw(t, "content"), Grade: grade(rapid.IntRange(0, 2).Draw(t, "grade")),
		Zero:  rapid.Int32Range(0, 1).Draw(t, "zero"),
		audit: audit{CreatedBy: rapid.String().Draw(t, "by"), CreatedAt: at("created")},
	}
	if rapid.Bool().Draw(t, "some") {
		text, n, when := rapid.String().Draw(t, "maybe"), rapid.Int64().Draw(t, "maybe large"), at("maybe at")
		e.Maybe, e.MaybeLarge, e.MaybeAt, e.Tags = &text, &n, &when, map[string]int{rapid.String().Draw(t, "tag"): 1}
	}
	if e.At.IsZero() {
		e.At = e.At.Add(time.Second)
	}
	return e
}

var sameValue = cmp.Options{
	cmpopts.EquateNaNs(), cmp.AllowUnexported(everything{}),
	cmpopts.IgnoreFields(everything{}, "ETag", "Timestamp", "Ignored"),
	cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) }),
}

// Every value comes back as it was stored: by point read, by query, and as an Entity, whose types are those of the
// service.
func TestRoundTripOfEveryType(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	table := newTable[everything](t, service, "Everything")
	dynamic := newTable[tables.Entity](t, service, "Everything")
	copies := newTable[tables.Entity](t, service, "Copies")
	rapid.Check(t, func(rt *rapid.T) {
		want := drawEverything(rt)
		ctx := t.Context()
		if err := table.InsertOrReplace(ctx, &want); err != nil {
			rt.Fatal(err)
		}
		key := tables.Key{PartitionKey: want.PartitionKey, RowKey: want.RowKey}
		got, err := table.Get(ctx, key)
		if err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(want, got, sameValue); d != "" {
			rt.Fatalf("point read (-want +got):\n%s", d)
		}
		if got.ETag == "" || got.ETag != want.ETag || got.Timestamp.IsZero() {
			rt.Fatalf("ETag %q after the read, %q after the write; Timestamp %v", got.ETag, want.ETag, got.Timestamp)
		}
		queried, err := table.Query(tables.PartitionKey.Eq(key.PartitionKey), tables.RowKey.Eq(key.RowKey)).First(ctx)
		if err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(got, queried, sameValue); d != "" {
			rt.Fatalf("query (-want +got):\n%s", d)
		}
		e, err := dynamic.Get(ctx, key)
		if err != nil {
			rt.Fatal(err)
		}
		types := map[string]any{"Text": want.Text, "Other": want.Renamed, "Flag": want.Flag, "Small": want.Small,
			"Tiny": int32(want.Tiny), "Byte": int32(want.Byte),
			"Large": want.Large, "Plain": int64(want.Plain), "Unsigned": int64(want.Unsigned), "Number": want.Number,
			"At": want.At, "ID": want.ID,
			"CreatedBy": want.CreatedBy}
		for name, v := range types {
			if d := cmp.Diff(v, e.Properties[name], sameValue); d != "" {
				rt.Fatalf("%s (-want +got):\n%s", name, d)
			}
		}
		if _, there := e.Properties["Maybe"]; there != (want.Maybe != nil) {
			rt.Fatalf("Maybe: stored %v", there)
		}
		if _, there := e.Properties["Zero"]; there != (want.Zero != 0) {
			rt.Fatalf("Zero: stored %v", there)
		}
		// What was read as an Entity is written with the same types.
		if err := copies.InsertOrReplace(ctx, &e); err != nil {
			rt.Fatal(err)
		}
		again, err := copies.Get(ctx, key)
		if err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(e.Properties, again.Properties, sameValue); d != "" {
			rt.Fatalf("copy (-want +got):\n%s", d)
		}
	})
}

func TestTypesThatCannotBeStored(t *testing.T) {
	t.Parallel()
	service, err := aztables.NewServiceClientWithNoCredential("http://127.0.0.1:1/a", nil)
	ok(t, err)
	type key struct{ PartitionKey, RowKey string }
	_, err = tables.New[struct{ A int }](service, "People")
	says(t, err, "PartitionKey")
	says(t, err, "RowKey")
	_, err = tables.New[struct {
		key
		C chan int
	}](service, "People")
	says(t, err, "field C")
	_, err = tables.New[struct {
		key
		A string `table:"Name"`
		B string `table:"Name"`
	}](service, "People")
	says(t, err, "field B: the property Name is already the property of the field A")
	_, err = tables.New[struct {
		key
		A string `table:"first name"`
	}](service, "People")
	says(t, err, "field A")
	_, err = tables.New[struct {
		key
		A string `table:",encrpyt"`
	}](service, "People")
	says(t, err, `unknown option "encrpyt"`)
	_, err = tables.New[struct {
		key
		A aztables.EDMInt64
	}](service, "People")
	says(t, err, "use int64")
	_, err = tables.New[struct {
		PartitionKey int
		RowKey       string
	}](service, "People")
	says(t, err, "field PartitionKey")
	_, err = tables.New[struct {
		key
		a string `table:"A"`
	}](service, "People")
	says(t, err, "field a")
	_, err = tables.New[struct {
		key
		Secret string `table:",encrypt"`
	}](service, "People")
	says(t, err, "key")
	_, err = tables.New[key](service, "no-table")
	says(t, err, "table name")
	_, err = tables.New[int](service, "People")
	says(t, err, "not a struct")
}

type computed struct {
	Department string
	Number     int64
	Name       string
	ETag       azcore.ETag
}

func (c computed) PartitionKey() string { return c.Department }
func (c *computed) RowKey() string      { return tables.Int64Key(c.Number) }

func TestComputedKeys(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	table := newTable[computed](t, service, "Computed")
	ctx := t.Context()
	e := computed{Department: "Sales", Number: -7, Name: "Ada"}
	ok(t, table.Insert(ctx, &e))
	got, err := table.Get(ctx, tables.Key{PartitionKey: "Sales", RowKey: tables.Int64Key(-7)})
	ok(t, err)
	if got != e {
		t.Errorf("got %+v, want %+v", got, e)
	}
	// An entity whose key is not the computed one would be written to another place.
	other := newTable[tables.Entity](t, service, "Computed")
	ok(t, other.Insert(ctx, &tables.Entity{PartitionKey: "Sales", RowKey: "x",
		Properties: map[string]any{"Department": "Sales", "Number": 1}}))
	_, err = table.Get(ctx, tables.Key{PartitionKey: "Sales", RowKey: "x"})
	says(t, err, "RowKey")
	// A projection has no key to compute.
	type name struct{ Name string }
	q, err := tables.Project[name](table.Query(tables.PartitionKey.Eq("Sales"), tables.RowKey.Eq(tables.Int64Key(-7))))
	ok(t, err)
	if p, err := q.Plan(); err != nil || p.Select != "PartitionKey,RowKey,Name" {
		t.Errorf("plan %+v, %v", p, err)
	}
	if all := collect(t, q); len(all) != 1 || all[0].Name != "Ada" {
		t.Errorf("projection %+v", all)
	}
	_, err = tables.Project[struct{ Nam string }](table.Query())
	says(t, err, `"Nam"`)
}

func TestStoredValuesThatDoNotFit(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	dynamic := newTable[tables.Entity](t, service, "Fit")
	type small struct {
		PartitionKey, RowKey string
		N                    int32
	}
	table := newTable[small](t, service, "Fit")
	ctx := t.Context()
	for row, c := range map[string]struct {
		value any
		says  string
	}{"large": {int64(1 << 40), "field N: the stored number 1099511627776"}, "text": {"5", "field N: a stored Edm.String"},
		"whole": {int64(5), ""}, "absent": {nil, ""}} {
		ok(t, dynamic.Insert(ctx, &tables.Entity{PartitionKey: "p", RowKey: row, Properties: map[string]any{"N": c.value}}))
		got, err := table.Get(ctx, tables.Key{PartitionKey: "p", RowKey: row})
		switch {
		case c.says != "":
			says(t, err, c.says)
		case err != nil || row == "whole" && got.N != 5:
			t.Errorf("%s: %+v, %v", row, got, err)
		}
	}
}

func TestValue(t *testing.T) {
	t.Parallel()
	e := &tables.Entity{Properties: map[string]any{"N": int32(5), "T": "x"}}
	if n, err := tables.Value[int64](e, "N"); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if x, err := tables.Value[float64](e, "N"); x != 5 || err != nil {
		t.Errorf("%v, %v", x, err)
	}
	if _, err := tables.Value[string](e, "Missing"); !errors.Is(err, tables.ErrNoProperty) {
		t.Error(err)
	}
	_, err := tables.Value[int32](e, "T")
	says(t, err, "T is a string")
}

type animal interface{ Sound() string }

type dog struct {
	PartitionKey, RowKey string
	ETag                 azcore.ETag
	Weight               float64
}

func (*dog) Sound() string { return "woof" }

type cat struct {
	PartitionKey, RowKey string
	Lives                int32
}

func (cat) Sound() string { return "meow" }

func TestSeveralTypesInOneTable(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	all := newTable[animal](t, service, "Animals", tables.WithType[dog]("Dog"), tables.WithType[cat]("Cat"))
	dogs := newTable[dog](t, service, "Animals", tables.WithType[dog]("Dog"))
	ctx := t.Context()
	var tom animal = &cat{"house", "tom", 9}
	ok(t, all.Insert(ctx, &tom))
	rex := dog{PartitionKey: "house", RowKey: "rex", Weight: 30}
	ok(t, dogs.Insert(ctx, &rex))
	var got []any
	for _, a := range collect(t, all.Query(tables.PartitionKey.Eq("house"))) {
		got = append(got, a)
	}
	if d := cmp.Diff([]any{&rex, tom}, got, cmpopts.IgnoreFields(dog{}, "ETag")); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if list := collect(t, dogs.Query(tables.PartitionKey.Eq("house")).AllowScan()); len(list) != 1 || list[0] != rex {
		t.Errorf("dogs %+v", list)
	}
	if _, err := dogs.Get(ctx, tables.Key{PartitionKey: "house", RowKey: "tom"}); !errors.Is(err, tables.ErrType) {
		t.Errorf("a cat as a dog: %v", err)
	}
	onlyDogs := newTable[animal](t, service, "Animals", tables.WithType[dog]("Dog"))
	if _, err := onlyDogs.Get(ctx, tables.Key{PartitionKey: "house", RowKey: "tom"}); !errors.Is(err, tables.ErrType) {
		t.Errorf("an unregistered type: %v", err)
	}
	anything := newTable[any](t, service, "Animals", tables.WithType[dog]("Dog"))
	e, err := anything.Get(ctx, tables.Key{PartitionKey: "house", RowKey: "tom"})
	if entity, isEntity := e.(*tables.Entity); err != nil || !isEntity || entity.Properties["Lives"] != int32(9) {
		t.Errorf("%#v, %v", e, err)
	}
	// Writes go through the interface, too, and carry ETags.
	ok(t, all.Update(ctx, tables.Key{PartitionKey: "house", RowKey: "rex"},
		func(a *animal) error { (*a).(*dog).Weight++; return nil }))
	var stale animal = &rex
	if err := all.Replace(ctx, &stale); !errors.Is(err, tables.ErrChanged) {
		t.Errorf("a stale value was written: %v", err)
	}
	_, err = tables.New[animal](service, "Animals")
	says(t, err, "WithType")
	_, err = tables.New[dog](service, "Animals", tables.WithType[cat]("Cat"))
	says(t, err, "interface")
}
