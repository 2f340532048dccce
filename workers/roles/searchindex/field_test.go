package searchindex_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/roles/searchindex"
)

func TestParseFields(t *testing.T) {
	t.Parallel()
	got, err := searchindex.ParseFields("Name:text, Town:keyword,Score:number,Born:date")
	ok(t, err)
	if !slices.Equal(got, peopleFields) {
		t.Errorf("got %v", got)
	}
	for _, bad := range []string{"", "Name", "Name:words", "Name:text,Name:keyword", ":text", "A B:text", "_id:text",
		"_all:text", "Na:me:text", "Name:Text"} {
		if got, err := searchindex.ParseFields(bad); !errors.Is(err, searchindex.ErrFields) {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

type address struct {
	Town string `search:"keyword"`
}

type employee struct {
	address
	PartitionKey, RowKey string
	Name                 string    `table:"FullName" search:"text"`
	Hired                time.Time `search:"date"`
	Note                 string
}

func TestFieldsOf(t *testing.T) {
	t.Parallel()
	got, err := searchindex.FieldsOf[employee]()
	ok(t, err)
	if want := []searchindex.Field{{Name: "Town", Type: "keyword"}, {Name: "FullName", Type: "text"},
		{Name: "Hired", Type: "date"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	type none struct{ Name string }
	type hidden struct {
		Name string `table:"-" search:"text"`
	}
	type sealed struct {
		Name string `table:",encrypt" search:"text"`
	}
	type wrong struct {
		Name string `search:"words"`
	}
	_, err1 := searchindex.FieldsOf[none]()
	_, err2 := searchindex.FieldsOf[hidden]()
	_, err3 := searchindex.FieldsOf[sealed]()
	_, err4 := searchindex.FieldsOf[wrong]()
	_, err5 := searchindex.FieldsOf[string]()
	for i, err := range []error{err1, err2, err3, err4, err5} {
		if !errors.Is(err, searchindex.ErrFields) {
			t.Errorf("type %d: %v", i, err)
		}
	}
}

// Each type takes the values that it documents; an entity with others is indexed without the field, and agrees with the
// table.
func TestTypesOfValues(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ok(t, f.index.Close())
	id := uuid.MustParse("11111111-2222-3333-4444-555555555555")
	f.folder += "2"
	f.open(t, []searchindex.Field{{Name: "T", Type: "text"}, {Name: "K", Type: "keyword"}, {Name: "N", Type: "number"},
		{Name: "D", Type: "date"},
		{Name: "PartitionKey", Type: "keyword"}, {Name: "RowKey", Type: "text"}})
	at := time.Date(2020, 2, 29, 12, 0, 0, 100, time.UTC)
	values := []any{"words here", "", true, int32(-5), int64(1 << 60), 2.5, math.NaN(), math.Inf(1), at,
		time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), id, []byte("bytes")}
	for i, v := range values {
		e := &tables.Entity{PartitionKey: "p q", RowKey: string(rune('a' + i)),
			Properties: map[string]any{"T": v, "K": v, "N": v, "D": v}}
		ok(t, f.source.Insert(t.Context(), e))
	}
	ok(t, f.source.Insert(t.Context(),
		&tables.Entity{PartitionKey: "other", RowKey: "none", Properties: map[string]any{}}))
	ok(t, f.index.Build(t.Context()))
	f.settled(t, len(values)+1)
	for text, want := range map[string][]string{
		"T:words":                          {"a"},
		"K:true":                           {"c"},
		`K:"-5"`:                           {"d"},
		`K:"1152921504606846976"`:          {"e"},
		`K:"2.5"`:                          {"f"},
		`K:"2020-02-29T12:00:00.0000001Z"`: {"i"},
		`K:"11111111-2222-3333-4444-555555555555"`: {"l"},
		"N:<0":                              {"d"},
		"N:>1000000000000000000":            {"e"},
		`+D:>"2020-02-29" +D:<"2020-03-01"`: {"i"},
		`PartitionKey:"p q"`:                {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"},
		"RowKey:none":                       {"none"},
	} {
		got := rows(f.find(t, searchindex.Query{Text: text, Size: 100}))
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
