package tablesvc

import (
	"errors"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
)

// TestMutationMatrix is the whole table in the comment of mutation.next.
func TestMutationMatrix(t *testing.T) {
	old := entity.NewRecord(100, 0).Append("A", entity.Int32Value(1)).Append("B", entity.Int32Value(1))
	sent := entity.NewRecord(50, 0).Append("B", entity.Int32Value(2))
	replaced := entity.NewRecord(101, 0).Append("B", entity.Int32Value(2))
	merged := entity.NewRecord(101, 0).Append("A", entity.Int32Value(1)).Append("B", entity.Int32Value(2))
	created := entity.NewRecord(50, 0).Append("B", entity.Int32Value(2))
	anyTag, same, stale, broken := condition{kind: anyVersion}, condition{oneVersion, 100}, condition{oneVersion, 99}, condition{kind: noVersion}
	for _, tc := range []struct {
		name      string
		change    change
		old       entity.Record
		condition condition
		want      entity.Record
		err       error
	}{
		{"insert, not there", insert, nil, condition{}, created, nil},
		{"insert, there", insert, old, condition{}, nil, errEntityAlreadyExists},
		{"update, not there", update, nil, anyTag, nil, errNotFound},
		{"update, any", update, old, anyTag, replaced, nil},
		{"update, same", update, old, same, replaced, nil},
		{"update, stale", update, old, stale, nil, errUpdateCondition},
		{"update, no tag", update, old, broken, nil, errUpdateCondition},
		{"merge, not there", merge, nil, same, nil, errNotFound},
		{"merge, any", merge, old, anyTag, merged, nil},
		{"merge, same", merge, old, same, merged, nil},
		{"merge, stale", merge, old, stale, nil, errUpdateCondition},
		{"insertOrReplace, not there", insertOrReplace, nil, condition{}, created, nil},
		{"insertOrReplace, there", insertOrReplace, old, condition{}, replaced, nil},
		{"insertOrMerge, not there", insertOrMerge, nil, condition{}, created, nil},
		{"insertOrMerge, there", insertOrMerge, old, condition{}, merged, nil},
		{"remove, not there", remove, nil, anyTag, nil, errNotFound},
		{"remove, any", remove, old, anyTag, nil, nil},
		{"remove, same", remove, old, same, nil, nil},
		{"remove, stale", remove, old, stale, nil, errUpdateCondition},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := string(tc.old)
			m := mutation{change: tc.change, record: append(entity.Record(nil), sent...), condition: tc.condition}
			got, err := m.next(tc.old, 50) // earlier than the old timestamp: the new one must be later all the same
			if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) || string(got) != string(tc.want) {
				t.Errorf("got %x, %v; want %x, %v", got, err, tc.want, tc.err)
			}
			if string(tc.old) != before || string(m.record) != string(sent) {
				t.Error("the input was changed")
			}
		})
	}
}

func TestParseIfMatch(t *testing.T) {
	at, _ := ticks.Parse("2017-11-10T02:46:53.636692Z")
	for text, want := range map[string]condition{
		"*": {kind: anyVersion},
		`W/"datetime'2017-11-10T02%3A46%3A53.636692Z'"`:  {oneVersion, at},
		`W/"datetime'2017-11-10T02%3a46%3a53.6366920Z'"`: {oneVersion, at},
		`W/"datetime'2017-11-10T02:46:53.636692Z'"`:      {oneVersion, at},
		`"datetime'2017-11-10T02%3A46%3A53.636692Z'"`:    {oneVersion, at},
		`W/"datetime'yesterday'"`:                        {kind: noVersion},
		`"0x8D5"`:                                        {kind: noVersion},
		`""`:                                             {kind: noVersion},
	} {
		if got, err := parseIfMatch(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", `W/`, `"`, `W/"a", W/"b"`, `W/"datetime'2017-11-10T02%3A46%3A53Z'`} {
		if got, err := parseIfMatch(text); !errors.Is(err, errInvalidInput) {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
}
