package blobsvc

import (
	"reflect"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/blob/listing"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// TestUsualBlobIsAsAnyOther: a listing writes most of what it says of a usual blob once. With any one field of the
// record set, also one that is new, an item is what it is without the shortcut.
func TestUsualBlobIsAsAnyOther(t *testing.T) {
	t.Parallel()
	for _, version := range []wire.Version{20150221, 20181109, 20191212, wire.LatestVersion()} {
		o := itemOptions{now: 5_000_000_000, version: version, copies: true, versions: true, policies: true, holds: true,
			permissions: true, accessTimes: true}
		for _, metadata := range []bool{false, true} {
			o.metadata = metadata
			short := blobWriter{page: newPage(), itemOptions: o}
			long := blobWriter{page: newPage(), itemOptions: o}
			shortcuts := 0
			compare := func(what, name string, b *record.Blob) {
				t.Helper()
				short.b, long.b = short.b[:0], long.b[:0]
				one, other := *b, *b
				if short.writeUsual(&listing.Item{Name: name, Blob: &one}) {
					shortcuts++
				} else {
					short.writeAny(&listing.Item{Name: name, Blob: &one})
				}
				long.writeAny(&listing.Item{Name: name, Blob: &other})
				if got, want := string(short.b), string(long.b); got != want {
					t.Fatalf("%s: got  %s\nwant %s", what, got, want)
				}
			}
			usualBlob := record.Blob{Kind: record.BlockBlob, Created: 1_000_000_000, Changed: 2_000_000_000,
				Length: 7, Slot: record.BaseSlot}
			if !usual(&usualBlob) {
				t.Fatal("the record of a blob that was put is not usual")
			}
			for _, name := range []string{"name", "a longer name/with a slash", "a<b", "a&b", "\r", "\x01", "äöü",
				"\ufffe", "\xff", "12345678\x7f", "12345678\""} {
				compare(name, name, &usualBlob)
			}
			eachField(reflect.TypeFor[record.Blob](), nil, func(index []int, name string) {
				b := usualBlob
				if !set(reflect.ValueOf(&b).Elem().FieldByIndex(index)) {
					return
				}
				compare(name, "name", &b)
				compare("after "+name, "name", &usualBlob)
			})
			if shortcuts < 10 {
				t.Errorf("the shortcut was taken %d times", shortcuts)
			}
		}
	}
}

// eachField calls fn for the fields of a struct, and for those of structs in it.
func eachField(typ reflect.Type, index []int, fn func(index []int, name string)) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		at := append(append([]int(nil), index...), i)
		if f.Type.Kind() == reflect.Struct {
			eachField(f.Type, at, fn)
		} else if f.IsExported() {
			fn(at, f.Name)
		}
	}
}

// set changes a value. It reports false for an interface, which it leaves as it is.
func set(v reflect.Value) (ok bool) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("Hot")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Interface:
		return false
	default:
		if v.CanInt() {
			v.SetInt(2)
		} else {
			v.SetUint(2)
		}
	}
	return true
}
