package record

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// fields are the places of a value that a record stores, each with a setter.
type fields struct {
	names []string
	set   []func(n int)
}

// collect notes the fields of a value, also inside of structures, except some by their path.
func (f *fields) collect(v reflect.Value, path string, except []string) {
	if slices.Contains(except, path) {
		return
	}
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				f.collect(v.Field(i), path+"."+field.Name, except)
			}
		}
		return
	}
	f.names = append(f.names, path)
	f.set = append(f.set, func(n int) { fill(v, n) })
}

// fill sets a value that depends on n, and is its zero value for 0.
func fill(v reflect.Value, n int) {
	switch {
	case n == 0:
		v.SetZero()
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(int64(n))
	case v.CanUint():
		v.SetUint(uint64(n))
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprint("text ", n))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(v.Index(i), i+1)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	}
}

// eachField stores a value with all fields, and then with each field without a value, and with another one. It must be
// what is read again, and a record that is cut anywhere must be no record, or another value. together are fields that
// say that others are there: they are never without a value.
func eachField[T any](t *testing.T, value *T, encode func(*T) []byte, decode func([]byte) (T, error), except,
	together []string) {
	t.Helper()
	var all fields
	all.collect(reflect.ValueOf(value).Elem(), "", except)
	for _, set := range all.set {
		set(1)
	}
	compare := func(what string) (record []byte) {
		t.Helper()
		record = encode(value)
		got, err := decode(record)
		if err != nil || !reflect.DeepEqual(&got, value) {
			t.Errorf("%s: read again it is\n%+v, %v; want\n%+v", what, got, err, *value)
		}
		return record
	}
	full := compare("all fields")
	for n := range full {
		if got, err := decode(full[:n]); err == nil && reflect.DeepEqual(&got, value) {
			t.Errorf("the first %d of %d bytes are the whole value", n, len(full))
		}
	}
	for i, name := range all.names {
		for _, n := range []int{0, 2, 3} {
			if n == 0 && slices.Contains(together, name) {
				continue
			}
			all.set[i](n)
			compare(fmt.Sprint(name, " with the value ", n))
		}
		all.set[i](1)
	}
}

// Each field of each record is stored: a new one is not forgotten, and none hides another.
func TestEachFieldIsStored(t *testing.T) {
	t.Parallel()
	pieces := []content.Piece{
		{Start: 3, Length: 5, Block: "block", Slices: []extent.Slice{{Extent: 1, Offset: 2, Length: 3, CRC: 4},
			{Extent: 5, Offset: 6, Length: 7, CRC: 8}}},
		{Start: 9, Length: 1, Block: "c", Slices: []extent.Slice{{Extent: 9, Offset: 0, Length: 1}}}}
	pieces[1].Seal.IV, pieces[1].Seal.Offset = "iv", 77
	t.Run("blob", func(t *testing.T) {
		// What needs a node, and what is stored in the key or not at all, is left out; a node has a test of its own.
		eachField(t, &Blob{Content: PieceList{pieces: pieces}}, (*Blob).Encode, func(v []byte) (b Blob, err error) {
			err = DecodeBlob(v, &b)
			return b, err
		}, []string{".Cipher", ".Slot", ".Node"}, []string{".Kind", ".Changed", ".Copy.ID", ".Incremental.Source",
			".Headers.DispositionSet"})
	})
	t.Run("head of a blob", func(t *testing.T) {
		var texts Texts
		for name, decode := range map[string]func(v []byte, b *Blob) error{"head": DecodeBlobHead, "texts": texts.BlobHead} {
			whole := Blob{Kind: PageBlob, Length: 7, Content: PieceList{ID: 4, pieces: pieces}, Metadata: []Meta{{"a", "b"}},
				Tier: "Hot", Node: &Node{Owner: "o", Group: "g", Name: "n", Parent: 3}}
			var head Blob
			if err := decode(whole.Encode(), &head); err != nil {
				t.Fatal(err)
			}
			whole.Content.pieces = nil
			if !reflect.DeepEqual(head, whole) {
				t.Errorf("%s: %+v, want %+v", name, head, whole)
			}
		}
	})
	t.Run("node", func(t *testing.T) {
		eachField(t, &Node{}, func(n *Node) []byte { return (&Blob{Kind: BlockBlob, Node: n}).Encode() },
			func(v []byte) (Node, error) {
				var b Blob
				if err := DecodeBlob(v, &b); err != nil || b.Node == nil {
					return Node{}, err
				}
				return *b.Node, nil
			}, nil, []string{".Owner", ".Group", ".Access.List.HasMask"})
	})
	t.Run("container", func(t *testing.T) {
		eachField(t, &Container{}, (*Container).Encode, DecodeContainer, nil, nil)
	})
	t.Run("copy job", func(t *testing.T) {
		eachField(t, &CopyJob{Key: []byte("key")}, (*CopyJob).Encode,
			func(v []byte) (CopyJob, error) { return DecodeCopyJob([]byte("key"), v) }, []string{".Key"}, nil)
	})
	t.Run("uncommitted blocks", func(t *testing.T) {
		eachField(t, &Pending{}, func(p *Pending) []byte { return p.Encode() }, DecodePending, nil, nil)
	})
	t.Run("block", func(t *testing.T) {
		eachField(t, &content.Piece{Slices: pieces[0].Slices}, func(p *content.Piece) []byte { return EncodeBlock(*p) },
			DecodeBlock, []string{".Start", ".Block", ".Slices", ".Seal.Offset"}, []string{".Seal.IV"})
	})
	t.Run("trash", func(t *testing.T) { eachField(t, &Trash{}, (*Trash).Encode, DecodeTrash, nil, nil) })
	t.Run("entry", func(t *testing.T) {
		for _, e := range []Entry{{1, EntryFile}, {1 << 60, EntryDirectory}} {
			record := e.Encode()
			if got, err := DecodeEntry(record); got != e || err != nil {
				t.Errorf("%+v, %v; want %+v", got, err, e)
			}
			for _, bad := range [][]byte{nil, record[:8], append(record, 0), append(record[:8:8], 'x')} {
				if _, err := DecodeEntry(bad); err == nil {
					t.Errorf("%x is an entry", bad)
				}
			}
		}
	})
	t.Run("event", func(t *testing.T) {
		key := eventlog.Key("account", 7)
		event := &Event{Account: "account", Sequence: 7}
		eachField(t, event, (*Event).Encode, func(v []byte) (Event, error) { return DecodeEvent(key, v) },
			[]string{".Account", ".Sequence"}, []string{".EventDetails.Tagged", ".EventDetails.Previous", ".EventDetails.Async",
				".EventDetails.Properties", ".EventDetails.TagsBefore", ".EventDetails.TagsNow"})
	})
}
