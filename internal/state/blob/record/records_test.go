package record

import (
	"bytes"
	"cmp"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// anyName draws a blob name: any characters but U+0000.
var anyName = rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return r != 0 && r != 0xFFFD }), 1, 40, -1)

func TestKeysRoundTripAndOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type key struct {
			gen  Generation
			name string
			slot Slot
		}
		draw := func(label string) key {
			return key{Generation(rapid.Uint64().Draw(t, label+" generation")), anyName.Draw(t, label+" name"),
				Slot(rapid.Uint64().Draw(t, label+" slot"))}
		}
		a, b := draw("a"), draw("b")
		if rapid.Bool().Draw(t, "same generation") {
			b.gen = a.gen
		}
		if rapid.Bool().Draw(t, "one name begins with the other") {
			b.name = a.name + b.name
		}
		ka, kb := BlobKey(Item{a.gen, a.name}, a.slot), BlobKey(Item{b.gen, b.name}, b.slot)
		it, slot, err := ParseBlobKey(ka)
		if err != nil || (key{it.Generation, it.Name, slot}) != a {
			t.Fatalf("%v became %v %d %v", a, it, slot, err)
		}
		want := cmp.Or(cmp.Compare(a.gen, b.gen), strings.Compare(a.name, b.name), cmp.Compare(a.slot, b.slot))
		if got := bytes.Compare(ka, kb); got != want {
			t.Fatalf("keys of %v and %v compare %d, want %d", a, b, got, want)
		}
	})
}

func TestSuccessorIsTheEndOfAPrefix(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SliceOfN(rapid.Byte(), 1, 10).Draw(t, "prefix")
		other := rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "other")
		next := Successor(prefix)
		if next == nil {
			if bytes.Count(prefix, []byte{0xff}) != len(prefix) {
				t.Fatalf("%x has no successor", prefix)
			}
			return
		}
		inside := bytes.HasPrefix(other, prefix)
		between := bytes.Compare(other, prefix) >= 0 && bytes.Compare(other, next) < 0
		if inside != between {
			t.Fatalf("%x: inside %v, between %x and %x: %v", other, inside, prefix, next, between)
		}
	})
}

func drawSlices(t *rapid.T) []extent.Slice {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) extent.Slice {
		return extent.Slice{Extent: rapid.Uint64().Draw(t, "extent"), Offset: rapid.Int64Range(0, 1<<40).Draw(t, "offset"),
			Length: rapid.Int64Range(1, 1<<20).Draw(t, "length"), CRC: rapid.Uint32().Draw(t, "crc")}
	}), 1, 4).Draw(t, "slices")
}

func drawPieces(t *rapid.T) (list []content.Piece) {
	at := int64(0)
	for range rapid.IntRange(0, 5).Draw(t, "pieces") {
		at += rapid.Int64Range(0, 1000).Draw(t, "gap")
		p := content.Piece{Start: at, Length: rapid.Int64Range(1, 1<<30).Draw(t, "length"),
			Block: rapid.String().Draw(t, "block"), Slices: drawSlices(t)}
		if rapid.Bool().Draw(t, "sealed") {
			p.Seal = encryption.Seal{IV: rapid.StringN(1, 16, -1).Draw(t, "counter"),
				Offset: rapid.Int64Range(0, 1<<40).Draw(t, "place")}
		}
		list = append(list, p)
		at = p.End()
	}
	return list
}

func TestBlobRecordRoundTrip(t *testing.T) {
	t.Parallel()
	text := rapid.String()
	rapid.Check(t, func(t *rapid.T) {
		b := Blob{
			Kind:    rapid.SampledFrom([]Kind{BlockBlob, PageBlob, AppendBlob}).Draw(t, "kind"),
			Created: ticks.Ticks(rapid.Int64Range(1, 1<<62).Draw(t, "created")),
			Changed: ticks.Ticks(rapid.Int64Range(1, 1<<62).Draw(t, "changed")),
			Length:  rapid.Int64Range(0, 1<<50).Draw(t, "length"),
			Content: PieceList{ID: rapid.Uint64().Draw(t, "content"), pieces: drawPieces(t)},
			Headers: Headers{ContentType: text.Draw(t, "type"), Encoding: text.Draw(t, "encoding"),
				Language: text.Draw(t, "language"), CacheControl: text.Draw(t, "cache"), MD5: text.Draw(t, "md5"),
				DispositionSet: rapid.Bool().Draw(t, "disposition set")},
			Lease: lease.Lease{State: lease.Leased, ID: text.Draw(t, "lease"), Duration: rapid.Int64Range(-1, 60).Draw(t,
				"duration"),
				Until: ticks.Ticks(rapid.Int64Range(0, 1<<62).Draw(t, "until"))},
			Tier: text.Draw(t, "tier"), TierChanged: 7, RehydrateTo: text.Draw(t, "rehydrate"),
			Sequence: rapid.Int64Range(0, 1<<62).Draw(t, "sequence"), Blocks: rapid.Int64Range(0, 50000).Draw(t, "blocks"),
			Replaced: ticks.Ticks(rapid.Int64Range(0, 1<<62).Draw(t, "replaced")),
			Sealed:   rapid.Bool().Draw(t, "sealed"),
			Deleted:  ticks.Ticks(rapid.Int64Range(0, 1<<62).Draw(t, "deleted")),
			KeptDays: rapid.Int64Range(0, 365).Draw(t, "days"),
			Version:  ticks.Ticks(rapid.Int64Range(0, 1<<62).Draw(t, "version")),
			Protection: Protection{Until: ticks.Ticks(rapid.Int64Range(0, 1<<62).Draw(t, "until")),
				Locked: rapid.Bool().Draw(t, "locked"),
				Hold:   rapid.Bool().Draw(t, "hold")},
			Encryption: encryption.ID{KeySHA256: text.Draw(t, "key"), Scope: text.Draw(t, "scope")},
		}
		if b.Headers.DispositionSet {
			b.Headers.Disposition = text.Draw(t, "disposition")
		}
		for range rapid.IntRange(0, 3).Draw(t, "metadata") {
			b.Metadata = append(b.Metadata, Meta{Name: text.Draw(t, "name"), Value: text.Draw(t, "value")})
			b.Tags = append(b.Tags, Tag{text.Draw(t, "key"), text.Draw(t, "value")})
		}
		if rapid.Bool().Draw(t, "copied") {
			b.Copy = CopyState{"id", text.Draw(t, "source"), "success", 1, 2, 3, text.Draw(t, "description")}
		}
		var got Blob
		if err := DecodeBlob(b.Encode(), &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, b) {
			t.Fatalf("got  %+v\nwant %+v", got, b)
		}
		if err := DecodeBlobHead(b.Encode(), &got); err != nil {
			t.Fatal(err)
		}
		b.Content.pieces = nil
		if !reflect.DeepEqual(got, b) {
			t.Fatalf("head %+v\nwant %+v", got, b)
		}
	})
}

func TestContainerRecordRoundTrip(t *testing.T) {
	t.Parallel()
	c := Container{Generation: 300, Changed: 5, Metadata: []Meta{{Name: "a", Value: "b"}}, Access: "blob", Scope: "s",
		OnlyScope: true,
		Lease:     lease.Lease{State: lease.Breaking, ID: "x", Until: 9}, Deleted: 8, KeptDays: 7, Immutable: true}
	c.Policies = []StoredPolicy{{ID: "p", Start: "s", Expiry: "e", Permissions: "rw"}, {ID: "bare", Bare: true}}
	got, err := DecodeContainer(c.Encode())
	if err != nil || !reflect.DeepEqual(got, c) {
		t.Fatalf("got %+v, %v\nwant %+v", got, err, c)
	}
}

func FuzzDecodeRecords(f *testing.F) {
	b := Blob{Kind: BlockBlob, Length: 5,
		Content: PieceList{pieces: []content.Piece{{Length: 5, Block: "id", Slices: []extent.Slice{{Extent: 1, Length: 5}}}}}}
	f.Add(b.Encode())
	f.Add(encodePieces(b.Content.pieces))
	f.Add(DeletedContainerKey("account", "box", 1<<60))
	f.Add([]byte("01D60F8BB59A4652"))
	f.Add([]byte{Version, btPieces, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, v []byte) {
		var b Blob
		if DecodeBlob(v, &b) == nil && len(v) > 1 {
			var again Blob
			if err := DecodeBlob(b.Encode(), &again); err != nil {
				t.Fatalf("%x decodes, but not its own encoding: %v", v, err)
			}
		}
		_, _ = DecodePieces(v)
		_, _ = DecodePending(v)
		_, _ = DecodeBlock(v)
		_, _ = DecodeContainer(v)
		_, _, _ = ParseBlobKey(v)
		if account, name, deleted, err := ParseDeletedContainerKey(v); err == nil &&
			!bytes.Equal(DeletedContainerKey(account, string(name), deleted), v) {
			t.Fatalf("%x is the key of %q, %q, %d, whose key is another", v, account, name, deleted)
		}
		if at, ok := ParseDeletedVersion(string(v)); ok &&
			!strings.EqualFold((&Container{Deleted: at}).DeletedVersion(), string(v)) {
			t.Fatalf("%q is version %d, which is written differently", v, at)
		}
		_, _, _ = ParseBlockKey(v)
		_, _, _ = ParsePieceKey(v)
	})
}
