package table

import (
	"errors"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
)

// TestMutationMatrix is the table in the comment of Mutation.
func TestMutationMatrix(t *testing.T) {
	t.Parallel()
	old := entity.NewRecord(100, 0).Append("A", entity.Int32Value(1)).Append("B", entity.Int32Value(1))
	sent := entity.NewRecord(50, 0).Append("B", entity.Int32Value(2))
	replaced := entity.NewRecord(101, 0).Append("B", entity.Int32Value(2))
	merged := entity.NewRecord(101, 0).Append("A", entity.Int32Value(1)).Append("B", entity.Int32Value(2))
	created := entity.NewRecord(50, 0).Append("B", entity.Int32Value(2))
	anyTag, same, stale, broken := Condition{Kind: AnyVersion}, Condition{ThisVersion, 100}, Condition{ThisVersion, 99},
		Condition{Kind: NoVersion}
	for _, tc := range []struct {
		name      string
		change    Change
		old       entity.Record
		condition Condition
		want      entity.Record
		err       error
	}{
		{"Insert, no entity", Insert, nil, Condition{}, created, nil},
		{"Insert, entity exists", Insert, old, Condition{}, nil, ErrEntityExists},
		{"Update, no entity", Update, nil, anyTag, nil, ErrEntityNotFound},
		{"Update, any", Update, old, anyTag, replaced, nil},
		{"Update, same", Update, old, same, replaced, nil},
		{"Update, stale", Update, old, stale, nil, ErrConditionNotMet},
		{"Update, no tag", Update, old, broken, nil, ErrConditionNotMet},
		{"Merge, no entity", Merge, nil, same, nil, ErrEntityNotFound},
		{"Merge, any", Merge, old, anyTag, merged, nil},
		{"Merge, same", Merge, old, same, merged, nil},
		{"Merge, stale", Merge, old, stale, nil, ErrConditionNotMet},
		{"InsertOrReplace, no entity", InsertOrReplace, nil, Condition{}, created, nil},
		{"InsertOrReplace, entity exists", InsertOrReplace, old, Condition{}, replaced, nil},
		{"InsertOrMerge, no entity", InsertOrMerge, nil, Condition{}, created, nil},
		{"InsertOrMerge, entity exists", InsertOrMerge, old, Condition{}, merged, nil},
		{"Remove, no entity", Remove, nil, anyTag, nil, ErrEntityNotFound},
		{"Remove, any", Remove, old, anyTag, nil, nil},
		{"Remove, same", Remove, old, same, nil, nil},
		{"Remove, stale", Remove, old, stale, nil, ErrConditionNotMet},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := string(tc.old)
			m := Mutation{Change: tc.change, Record: append(entity.Record(nil), sent...), Condition: tc.condition}
			got, err := m.next(tc.old, 50) // earlier than the old timestamp: the new one must be later all the same
			if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) || string(got) != string(tc.want) {
				t.Errorf("got %x, %v; want %x, %v", got, err, tc.want, tc.err)
			}
			if string(tc.old) != before || string(m.Record) != string(sent) {
				t.Error("the input was changed")
			}
		})
	}
}
