package blob

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

func TestAssemble(t *testing.T) {
	t.Parallel()
	block := func(id string, n int64) content.Piece {
		return content.Piece{Block: id, Length: n, Slices: []extent.Slice{{Extent: uint64(n), Length: n}}}
	}
	committed := []content.Piece{block("a", 1), block("b", 2)}
	uncommitted := map[string]content.Piece{"b": block("b", 20), "c": block("c", 30)}
	for _, tc := range []struct {
		name string
		refs []BlockRef
		want []int64 // lengths, which tell the blocks apart
		err  error
	}{
		{name: "nothing", refs: nil, want: nil},
		{name: "committed", refs: []BlockRef{{FromCommitted, "a"}}, want: []int64{1}},
		{name: "committed beats uncommitted when asked", refs: []BlockRef{{FromCommitted, "b"}}, want: []int64{2}},
		{name: "uncommitted", refs: []BlockRef{{FromUncommitted, "b"}, {FromUncommitted, "c"}}, want: []int64{20, 30}},
		{name: "latest is uncommitted first", refs: []BlockRef{{FromLatest, "b"}}, want: []int64{20}},
		{name: "latest falls back to committed", refs: []BlockRef{{FromLatest, "a"}}, want: []int64{1}},
		{name: "one block twice", refs: []BlockRef{{FromLatest, "c"}, {FromLatest, "a"}, {FromLatest, "c"}},
			want: []int64{30, 1, 30}},
		{name: "not committed", refs: []BlockRef{{FromCommitted, "c"}}, err: ErrBlockList},
		{name: "not uncommitted", refs: []BlockRef{{FromUncommitted, "a"}}, err: ErrBlockList},
		{name: "nowhere", refs: []BlockRef{{FromLatest, "a"}, {FromLatest, "z"}}, err: ErrBlockList},
		{name: "too long", refs: make([]BlockRef, MaxCommittedBlocks+1), err: ErrBlockListTooLong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := assemble(tc.refs, committed,
				func(id string) (content.Piece, bool, error) { p, ok := uncommitted[id]; return p, ok, nil })
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			var lengths []int64
			for _, p := range got {
				lengths = append(lengths, p.Length)
			}
			if diff := cmp.Diff(tc.want, lengths); diff != "" {
				t.Error(diff)
			}
		})
	}
}
