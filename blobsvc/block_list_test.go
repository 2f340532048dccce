package blobsvc

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

func TestParseBlockList(t *testing.T) {
	t.Parallel()
	id := base64.StdEncoding.EncodeToString([]byte("block"))
	for _, tc := range []struct {
		name, body string
		want       []state.BlockRef
		err        error
	}{
		{name: "all kinds", body: `<?xml version="1.0" encoding="utf-8"?><BlockList><Committed>` + id +
			`</Committed> <Uncommitted>` + id +
			`</Uncommitted><Latest> ` + id + "\n</Latest></BlockList>",
			want: []state.BlockRef{{Source: state.FromCommitted, ID: "block"}, {Source: state.FromUncommitted, ID: "block"},
				{Source: state.FromLatest, ID: "block"}}},
		{name: "empty", body: `<BlockList/>`, want: []state.BlockRef{}},
		{name: "byte order mark", body: "\xef\xbb\xbf<BlockList></BlockList>", want: []state.BlockRef{}},
		{name: "nothing", body: ``, err: wire.ErrInvalidXMLDocument},
		{name: "another root", body: `<Blocks/>`, err: wire.ErrInvalidXMLDocument},
		{name: "another element", body: `<BlockList><Newest>` + id + `</Newest></BlockList>`,
			err: wire.ErrInvalidXMLDocument},
		{name: "an element within", body: `<BlockList><Latest><b/></Latest></BlockList>`, err: wire.ErrInvalidXMLDocument},
		{name: "text between", body: `<BlockList>x</BlockList>`, err: wire.ErrInvalidXMLDocument},
		{name: "unclosed", body: `<BlockList><Latest>` + id + `</Latest>`, err: wire.ErrInvalidXMLDocument},
		{name: "wrong end", body: `<BlockList><Latest>` + id + `</Committed></BlockList>`, err: wire.ErrInvalidXMLDocument},
		{name: "two documents", body: `<BlockList/><BlockList/>`, err: wire.ErrInvalidXMLDocument},
		{name: "a document type", body: `<!DOCTYPE x [<!ENTITY e "x">]><BlockList/>`, err: wire.ErrInvalidXMLDocument},
		{name: "not base64", body: `<BlockList><Latest>%</Latest></BlockList>`, err: state.ErrBlockList},
		{name: "an empty id", body: `<BlockList><Latest/></BlockList>`, err: state.ErrBlockList},
		{name: "an id over 64 bytes", body: `<BlockList><Latest>` + base64.StdEncoding.EncodeToString(make([]byte, 65)) +
			`</Latest></BlockList>`, err: state.ErrBlockList},
		{name: "50,000", body: `<BlockList>` + strings.Repeat(`<Latest>`+id+`</Latest>`, 50_000) + `</BlockList>`,
			want: make([]state.BlockRef, 50_000)},
		{name: "50,001", body: `<BlockList>` + strings.Repeat(`<Latest>`+id+`</Latest>`, 50_001) + `</BlockList>`,
			err: state.ErrBlockListTooLong},
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
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(state.BlockRef{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseBlockList(f *testing.F) {
	f.Add([]byte(`<BlockList><Latest>YQ==</Latest><Committed>YQ==</Committed></BlockList>`))
	f.Add([]byte(`<?xml version="1.0"?><BlockList/>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer workbudget.Default.Start(t, len(body))()
		refs, err := parseBlockList(body)
		if err != nil {
			return
		}
		for _, r := range refs {
			if r.ID == "" || len(r.ID) > maxBlockID || r.Source < state.FromCommitted || r.Source > state.FromLatest {
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
		defer workbudget.Default.Start(t, len(s))()
		if id, ok := parseBlockID(s); ok && (id == "" || len(id) > maxBlockID) {
			t.Fatalf("%q gave an id of %d bytes", s, len(id))
		}
	})
}

func FuzzParseRange(f *testing.F) {
	for _, s := range []string{"bytes=0-", "bytes=0-5", "bytes=5-0", "bytes=-5", "bytes=0-1,2-3",
		"bytes=9223372036854775807-", "bytes=0-9223372036854775808", "bits=0-1"} {
		f.Add(s, int64(10))
	}
	f.Fuzz(func(t *testing.T, s string, length int64) {
		defer workbudget.Default.Start(t, len(s))()
		r, ok := endpoint.ParseRange(s)
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
	t.Parallel()
	for s, want := range map[string]state.Range{"bytes=0-": {Start: 0, End: state.OpenEnd},
		"bytes=5-9": {Start: 5, End: 9}, "bytes=7-7": {Start: 7, End: 7}} {
		if got, ok := endpoint.ParseRange(s); !ok || got != want {
			t.Errorf("%q: %v, %v; want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "bytes", "bytes=", "bytes=-", "bytes=-5", "bytes=5-3", "bytes=+1-2", "bytes=1-2,4-5",
		"bytes= 1-2", "chars=1-2", "bytes=99999999999999999999-"} {
		if r, ok := endpoint.ParseRange(s); ok {
			t.Errorf("%q gave %v", s, r)
		}
	}
}
