package blobsvc

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

func TestAssemble(t *testing.T) {
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
		{name: "one block twice", refs: []BlockRef{{FromLatest, "c"}, {FromLatest, "a"}, {FromLatest, "c"}}, want: []int64{30, 1, 30}},
		{name: "not committed", refs: []BlockRef{{FromCommitted, "c"}}, err: errBlockList},
		{name: "not uncommitted", refs: []BlockRef{{FromUncommitted, "a"}}, err: errBlockList},
		{name: "nowhere", refs: []BlockRef{{FromLatest, "a"}, {FromLatest, "z"}}, err: errBlockList},
		{name: "too long", refs: make([]BlockRef, MaxCommittedBlocks+1), err: errBlockListTooLong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := assemble(tc.refs, committed, func(id string) (content.Piece, bool, error) { p, ok := uncommitted[id]; return p, ok, nil })
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

func TestParseBlockList(t *testing.T) {
	id := base64.StdEncoding.EncodeToString([]byte("block"))
	for _, tc := range []struct {
		name, body string
		want       []BlockRef
		err        error
	}{
		{name: "all kinds", body: `<?xml version="1.0" encoding="utf-8"?><BlockList><Committed>` + id + `</Committed> <Uncommitted>` + id +
			`</Uncommitted><Latest> ` + id + "\n</Latest></BlockList>", want: []BlockRef{{FromCommitted, "block"}, {FromUncommitted, "block"}, {FromLatest, "block"}}},
		{name: "empty", body: `<BlockList/>`, want: []BlockRef{}},
		{name: "byte order mark", body: "\xef\xbb\xbf<BlockList></BlockList>", want: []BlockRef{}},
		{name: "nothing", body: ``, err: wire.ErrInvalidXMLDocument},
		{name: "another root", body: `<Blocks/>`, err: wire.ErrInvalidXMLDocument},
		{name: "another element", body: `<BlockList><Newest>` + id + `</Newest></BlockList>`, err: wire.ErrInvalidXMLDocument},
		{name: "an element within", body: `<BlockList><Latest><b/></Latest></BlockList>`, err: wire.ErrInvalidXMLDocument},
		{name: "text between", body: `<BlockList>x</BlockList>`, err: wire.ErrInvalidXMLDocument},
		{name: "unclosed", body: `<BlockList><Latest>` + id + `</Latest>`, err: wire.ErrInvalidXMLDocument},
		{name: "wrong end", body: `<BlockList><Latest>` + id + `</Committed></BlockList>`, err: wire.ErrInvalidXMLDocument},
		{name: "two documents", body: `<BlockList/><BlockList/>`, err: wire.ErrInvalidXMLDocument},
		{name: "a document type", body: `<!DOCTYPE x [<!ENTITY e "x">]><BlockList/>`, err: wire.ErrInvalidXMLDocument},
		{name: "not base64", body: `<BlockList><Latest>%</Latest></BlockList>`, err: errBlockList},
		{name: "an empty id", body: `<BlockList><Latest/></BlockList>`, err: errBlockList},
		{name: "an id over 64 bytes", body: `<BlockList><Latest>` + base64.StdEncoding.EncodeToString(make([]byte, 65)) + `</Latest></BlockList>`, err: errBlockList},
		{name: "50,000", body: `<BlockList>` + strings.Repeat(`<Latest>`+id+`</Latest>`, 50_000) + `</BlockList>`, want: make([]BlockRef, 50_000)},
		{name: "50,001", body: `<BlockList>` + strings.Repeat(`<Latest>`+id+`</Latest>`, 50_001) + `</BlockList>`, err: errBlockListTooLong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseBlockList([]byte(tc.body))
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if len(tc.want) > 100 {
				if len(got) != len(tc.want) {
					t.Fatalf("%d refs, want %d", len(got), len(tc.want))
				}
				return
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(BlockRef{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseBlockList(f *testing.F) {
	f.Add([]byte(`<BlockList><Latest>YQ==</Latest><Committed>YQ==</Committed></BlockList>`))
	f.Add([]byte(`<?xml version="1.0"?><BlockList/>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		refs, err := parseBlockList(body)
		if err != nil {
			return
		}
		for _, r := range refs {
			if r.ID == "" || len(r.ID) > maxBlockID || r.Source < FromCommitted || r.Source > FromLatest {
				t.Fatalf("accepted %+v", r)
			}
		}
	})
}

func FuzzParseBlockID(f *testing.F) {
	for _, s := range []string{"YQ==", "", "=", "YQ", "%", strings.Repeat("A", 88), strings.Repeat("A", 92)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, ok := parseBlockID(s); ok && (id == "" || len(id) > maxBlockID) {
			t.Fatalf("%q gave an id of %d bytes", s, len(id))
		}
	})
}

func FuzzParseRange(f *testing.F) {
	for _, s := range []string{"bytes=0-", "bytes=0-5", "bytes=5-0", "bytes=-5", "bytes=0-1,2-3", "bytes=9223372036854775807-", "bytes=0-9223372036854775808", "bits=0-1"} {
		f.Add(s, int64(10))
	}
	f.Fuzz(func(t *testing.T, s string, length int64) {
		r, ok := parseRange(s)
		if !ok {
			return
		}
		off, n, err := r.Within(max(length, 0))
		if err == nil && (off < 0 || n <= 0 || off+n > length || off+n < off) {
			t.Fatalf("%q within %d: %d+%d", s, length, off, n)
		}
	})
}

func TestParseRange(t *testing.T) {
	for s, want := range map[string]Range{"bytes=0-": {0, OpenEnd}, "bytes=5-9": {5, 9}, "bytes=7-7": {7, 7}} {
		if got, ok := parseRange(s); !ok || got != want {
			t.Errorf("%q: %v, %v; want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "bytes", "bytes=", "bytes=-", "bytes=-5", "bytes=5-3", "bytes=+1-2", "bytes=1-2,4-5", "bytes= 1-2", "chars=1-2", "bytes=99999999999999999999-"} {
		if r, ok := parseRange(s); ok {
			t.Errorf("%q gave %v", s, r)
		}
	}
}

func TestTagQuery(t *testing.T) {
	tags := []Tag{{"project", "lazuli"}, {"stage", "2"}}
	for query, want := range map[string]bool{
		`"project" = 'lazuli'`:                    true,
		`project='lazuli' AND "stage" >= '2'`:     true,
		`project='x' OR stage<'3'`:                true,
		`project='lazuli' AND stage>'2'`:          false,
		`"other" = ''`:                            false,
		`"other" <> 'x'`:                          true,
		`project='x' OR stage='2' AND other='1' `: false,
	} {
		q, ok := ParseTagQuery(query, true)
		if !ok {
			t.Errorf("%s is refused", query)
		} else if got := q.Matches(tags); got != want {
			t.Errorf("%s is %v, want %v", query, got, want)
		}
	}
	for _, query := range []string{"", "project", "project=", "project='x", "project='x' AND", "project='x' project='y'", "= 'x'", "a='x' XOR b='y'"} {
		if _, ok := ParseTagQuery(query, true); ok {
			t.Errorf("%q is accepted", query)
		}
	}
	if _, ok := ParseTagQuery("a='x' OR b='y'", false); ok {
		t.Error("Find Blobs by Tags accepts OR")
	}
}
