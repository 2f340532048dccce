package arrow_test

import (
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/arrow"
	"github.com/lazuli-storage/lazuli/internal/test/arrowread"
)

var fields = []arrow.Field{{Name: "s"}, {Name: "b", Kind: arrow.Bool}, {Name: "i32", Kind: arrow.Int32},
	{Name: "i64", Kind: arrow.Int64},
	{Name: "u64", Kind: arrow.Uint64}, {Name: "d", Kind: arrow.Double}, {Name: "ms", Kind: arrow.TimestampMillis},
	{Name: "us", Kind: arrow.TimestampMicros},
	{Name: "dec", Kind: arrow.Decimal, Precision: 20, Scale: 3}, {Name: "m", Kind: arrow.StringMap}}

func full(w *arrow.Writer, n int64) map[string]any {
	w.Column(0).String("täxt")
	w.Column(1).Bool(n%2 == 0)
	w.Column(2).Int(-n)
	w.Column(3).Int(-n << 40)
	w.Column(4).Int(n << 40)
	w.Column(5).Double(float64(n) / 4)
	w.Column(6).Int(n)
	w.Column(7).Int(n + 1)
	decimal := big.NewInt(-n)
	w.Column(8).Decimal(decimal)
	w.Column(9).Map([]arrow.Pair{{Key: "k", Value: "v"}, {Key: "l", Value: ""}})
	w.EndRow()
	return map[string]any{"s": "täxt", "b": n%2 == 0, "i32": -n, "i64": -n << 40, "u64": uint64(n) << 40,
		"d": float64(n) / 4, "ms": n, "us": n + 1,
		"dec": decimal, "m": map[string]string{"k": "v", "l": ""}}
}

func empty(w *arrow.Writer) map[string]any {
	w.EndRow()
	return map[string]any{}
}

func TestStream(t *testing.T) {
	t.Parallel()
	w := arrow.NewWriter(fields)
	stream := w.AppendSchema(nil, []arrow.Pair{{Key: "NextMarker", Value: "x"}, {Key: "", Value: ""}})
	var rows []map[string]any
	for batch := range 3 {
		for n := range int64(10 * batch) { // the first one has no rows
			rows = append(rows, full(w, n+1))
			if n%3 == 1 {
				rows = append(rows, empty(w))
			}
		}
		if batch == 2 {
			rows = append(rows, empty(w))
		}
		if w.Rows() > 0 && w.Size() == 0 {
			t.Error("rows of no size")
		}
		stream = w.AppendBatch(stream)
		if w.Rows() != 0 || w.Size() > 4*4 {
			t.Errorf("%d rows, %d bytes are left behind a batch", w.Rows(), w.Size())
		}
	}
	got := arrowread.Read(t, arrow.AppendEnd(stream))
	big := cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })
	if d := cmp.Diff(rows, got.Rows, big); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]string{"NextMarker": "x", "": ""}, got.Metadata); d != "" {
		t.Error(d)
	}
	types := [][3]int{{5}, {6}, {2, 32, 1}, {2, 64, 1}, {2, 64, 0}, {3, 2}, {10, 1}, {10, 2}, {7, 20, 3}, {17}}
	if d := cmp.Diff(types, got.Types); d != "" {
		t.Error(d)
	}
}

func TestDecimalBeyond128Bits(t *testing.T) {
	t.Parallel()
	limit := new(big.Int).Lsh(big.NewInt(1), 127)
	for _, tc := range []struct {
		n  *big.Int
		ok bool
	}{{new(big.Int).Sub(limit, big.NewInt(1)), true}, {limit, false},
		{new(big.Int).Neg(new(big.Int).Sub(limit, big.NewInt(1))), true}, {new(big.Int).Neg(limit), false}} {
		w := arrow.NewWriter([]arrow.Field{{Name: "dec", Kind: arrow.Decimal, Precision: 38}})
		if ok := w.Column(0).Decimal(tc.n); ok != tc.ok {
			t.Fatalf("%d: %v", tc.n, ok)
		}
		if !tc.ok {
			continue
		}
		w.EndRow()
		got := arrowread.Read(t, arrow.AppendEnd(w.AppendBatch(w.AppendSchema(nil, nil))))
		if n := got.Rows[0]["dec"].(*big.Int); n.Cmp(tc.n) != 0 {
			t.Errorf("%d became %d", tc.n, n)
		}
	}
}
