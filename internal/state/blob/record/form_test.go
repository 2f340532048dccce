package record

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// rows are records as a listing meets them: rows of the same form, with others between them.
func rows() (records [][]byte) {
	pieces := []content.Piece{{Length: 5, Slices: []extent.Slice{{Extent: 1, Offset: 300, Length: 5, CRC: 4}}}}
	for i := range 60 {
		n := ticks.Ticks(1000 * (i + 1))
		put := Blob{Kind: BlockBlob, Created: n, Changed: n, Length: int64(i), Content: PieceList{pieces: pieces},
			Headers: Headers{ContentType: "text/plain", MD5: fmt.Sprintf("%016d", i)}}
		node := Node{Owner: posix.SuperUser, Group: "g", Access: posix.Of(0o640), Parent: Inode(i/7 + 1),
			Name: fmt.Sprintf("name%d", i*i)}
		of := func(change func(b *Blob, n *Node)) {
			b, n := put, node
			b.Node = &n
			change(&b, &n)
			records = append(records, b.Encode())
		}
		of(func(*Blob, *Node) {})
		of(func(b *Blob, _ *Node) { b.Changed += 3 })
		switch i % 9 {
		case 1:
			of(func(b *Blob, n *Node) {
				n.Directory = true
				b.Headers = Headers{}
				b.Length = 0
				b.Content = PieceList{}
			})
		case 2:
			of(func(b *Blob, _ *Node) { b.Tier = "Cool" })
		case 3:
			of(func(_ *Blob, n *Node) { n.Access = posix.Of(0o777) })
		case 4:
			of(func(b *Blob, _ *Node) { b.Metadata = []Meta{{"a", fmt.Sprint(i / 18)}} })
		case 5:
			of(func(b *Blob, _ *Node) { b.Lake = true; b.Headers.MD5 = "" })
		case 6:
			of(func(b *Blob, _ *Node) { b.Node = nil })
			of(func(b *Blob, _ *Node) { b.Node = nil; b.Headers.MD5 = "another length" })
		case 7:
			of(func(b *Blob, _ *Node) { b.Deleted = n; b.Kind = PageBlob })
			of(func(b *Blob, n *Node) { n.Context = "context"; n.Name = "" })
		}
	}
	return records
}

// shared is what blobs of one form have in common.
func shared(b Blob) Blob {
	b.Created, b.Changed, b.Length, b.Content, b.Headers.MD5 = 0, 0, 0, PieceList{}, ""
	if b.Node != nil {
		n := *b.Node
		n.Parent, n.Name = 0, ""
		b.Node = &n
	}
	return b
}

// A record is the same whether or not it has the form of those before it, and records of one form differ in what Form
// names alone. What a caller does to one blob is not seen in the next one.
func TestForms(t *testing.T) {
	t.Parallel()
	var texts Texts
	forms := map[uint32]Blob{}
	known := 0
	for i, v := range rows() {
		var got, want Blob
		if err := DecodeBlobHead(v, &want); err != nil {
			t.Fatal(err)
		}
		if err := texts.BlobHead(v, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("record %d: %+v, %v; want %+v", i, got, err, want)
		}
		if number := texts.Form(); number != 0 {
			before, ok := forms[number]
			if ok {
				known++
			}
			if forms[number] = shared(want); ok && !reflect.DeepEqual(before, forms[number]) {
				t.Fatalf("record %d has form %d: %+v, before %+v", i, number, want, before)
			}
			if want.Tier != "" || want.Deleted != 0 {
				t.Errorf("record %d has a form: %+v", i, want)
			}
		}
		got.Slot, got.Tier, got.Deleted, got.Headers.ContentType = 7, "Hot", 8, "another"
	}
	if known < 100 {
		t.Errorf("%d records had the form of one before them", known)
	}
}

// Records of which each differs from those before it are soon compared no more, and a row of one form behind them is
// found.
func TestFormsAfterMisses(t *testing.T) {
	t.Parallel()
	var texts Texts
	read := func(b *Blob) uint32 {
		var got Blob
		v := b.Encode()
		if err := texts.BlobHead(v, &got); err != nil {
			t.Fatal(err)
		}
		return texts.Form()
	}
	for i := range 10 * maxMisses {
		read(&Blob{Kind: BlockBlob, Metadata: []Meta{{"a", fmt.Sprint(i)}}})
	}
	if texts.forms.misses != 10*maxMisses || texts.forms.taken > maxMisses {
		t.Errorf("%d misses, %d forms", texts.forms.misses, texts.forms.taken)
	}
	found := 0
	for i := range 20 * maxMisses {
		if read(&Blob{Kind: BlockBlob, Length: int64(i)}) != 0 {
			found++
		}
	}
	if found < 10*maxMisses {
		t.Errorf("%d records of a row have its form", found)
	}
}

// FuzzForms decodes a record, another one, and the first again: whatever their bytes are, the form changes nothing.
func FuzzForms(f *testing.F) {
	records := rows()
	for i := range len(records) - 1 {
		f.Add(records[i], records[i+1])
	}
	md5 := append([]byte{Version, btKind, 1, btMD5, 1, 'a', btMD5, 1, 'b'}, btType, 1, 'c')
	f.Add(md5, append([]byte{Version, btKind, 1}, md5[6:]...))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var texts Texts
		for _, v := range [][]byte{first, first, second, first, second} {
			var got, want Blob
			wantErr := DecodeBlobHead(v, &want)
			err := texts.BlobHead(v, &got)
			// An empty list may have the memory of the last one.
			if len(got.Metadata) == 0 {
				got.Metadata = nil
			}
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("%x after %x: %v, want %v", v, first, err, wantErr)
			} else if err == nil && !reflect.DeepEqual(got, want) {
				t.Fatalf("%x after %x: %+v, want %+v", v, first, got, want)
			}
		}
	})
}
