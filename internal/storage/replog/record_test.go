package replog

import (
	"encoding/binary"
	"testing"

	"github.com/minio/crc64nvme"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// newer makes a message one of a later version.
func newer(m []byte) []byte {
	m[8] = recordVersion + 1
	binary.BigEndian.PutUint64(m, crc64nvme.Checksum(m[8:]))
	return m
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	t.Parallel()
	h := header{kind: kindRecord, parts: 3, writer: 4, counter: 5, prev: 6, chain: 7, at: 8}
	m := encode(h, []byte("payload"))
	got, payload, err := decode(m)
	if err != nil || got != h || string(payload) != "payload" {
		t.Fatalf("decoded %+v, %q, %v", got, payload, err)
	}
	for bit := range 8 * len(m) {
		m[bit/8] ^= 1 << (bit % 8)
		if _, _, err := decode(m); err == nil {
			t.Errorf("bit %d was not noticed", bit)
		}
		m[bit/8] ^= 1 << (bit % 8)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(header{kind: kindMark}, nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		defer workbudget.Default.Start(t, len(p))()
		if h, payload, err := decode(p); err == nil && string(encode(h, payload)) != string(p) {
			// Bytes 10 and 11 are ignored.
			p[10], p[11] = 0, 0
			binary.BigEndian.PutUint64(p, crc64nvme.Checksum(p[8:]))
			if string(encode(h, payload)) != string(p) {
				t.Errorf("%x is decoded as %+v", p, h)
			}
		}
	})
}

func TestPosition(t *testing.T) {
	t.Parallel()
	want := Position{Seq: 9, Log: 8, Last: 7, Chain: 1 << 63, Resume: 6}
	b, err := want.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	var got Position
	if err := got.UnmarshalBinary(b); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for name, bad := range map[string][]byte{
		"short":            b[1:],
		"last after log":   must(Position{Seq: 9, Log: 6, Last: 7}.AppendBinary(nil)),
		"resume after seq": must(Position{Seq: 9, Resume: 10}.AppendBinary(nil)),
	} {
		if err := got.UnmarshalBinary(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func must(b []byte, _ error) []byte { return b }
