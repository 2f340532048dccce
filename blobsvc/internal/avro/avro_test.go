package avro

import (
	"bytes"
	"testing"
)

// The bytes of a small file, written out by hand from the specification.
func TestFileBytes(t *testing.T) {
	t.Parallel()
	marker := Marker([]byte("0123456789abcdef"))
	record := AppendString(AppendLong(nil, -2), "é") // a long and a string
	got := AppendBlock(AppendHeader(nil, `"long"`, marker), 1, record, marker)
	want := []byte("Obj\x01" +
		"\x04" + "\x16avro.schema" + "\x0c\"long\"" + "\x14avro.codec" + "\x08null" + "\x00" + // two entries, zigzag lengths
		"0123456789abcdef" +
		"\x02" + "\x08" + "\x03" + "\x04\xc3\xa9" + // one record of four bytes: -2, a string of two bytes
		"0123456789abcdef")
	if !bytes.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestEmptyMapIsItsEnd(t *testing.T) {
	t.Parallel()
	if got := appendMap(nil, nil); !bytes.Equal(got, []byte{0}) {
		t.Errorf("got %x, want 00", got)
	}
	if got := appendMap(nil, [][2]string{{"a", "b"}}); !bytes.Equal(got, []byte("\x02\x02a\x02b\x00")) {
		t.Errorf("got %q", got)
	}
}
