package archive

import (
	"bytes"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// What is not a segment is refused, and what is one comes back as it was.
func FuzzSegment(f *testing.F) {
	items := (&item{kind: itemGroup, database: 1, prev: 4, number: 9, at: 77, bytes: []byte("payload")}).appendTo(nil)
	items = (&item{kind: itemContent, extent: 3, offset: 64, bytes: []byte("records")}).appendTo(items)
	items = (&item{kind: itemKeys, bytes: []byte("{}")}).appendTo(items)
	file, _, err := encodeSegment(header{Timeline: "t", Number: 1}, items)
	check.OK(f, err)
	f.Add(file, items)
	f.Fuzz(func(t *testing.T, file, items []byte) {
		workbudget.Default.Check(t, len(file), func() {
			if _, found, _, err := decodeSegment(file); err == nil {
				_ = eachItem(found, func(*item) error { return nil })
			}
		})
		var again []byte
		if err := eachItem(items, func(i *item) error { again = i.appendTo(again); return nil }); err != nil {
			return
		}
		whole, sum, err := encodeSegment(header{Timeline: "t"}, again)
		check.OK(t, err)
		h, found, have, err := decodeSegment(whole)
		check.OK(t, err)
		if h.Timeline != "t" || have != sum || !bytes.Equal(found, again) {
			t.Errorf("%+v, %q, want %q", h, found, again)
		}
	})
}
