package tables

import (
	"context"
	"encoding/hex"
	"reflect"
	"testing"
)

// The test vectors of RFC 3394, sections 4.5 and 4.6, and a wrong key.
func TestKeyWrapVectors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, data, wrapped string }{
		{"000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
			"00112233445566778899AABBCCDDEEFF0001020304050607",
			"A8F9BC1612C68B3FF6E6F4FBE30E71E4769C8B80A32CB8958CD5D17D6B254DA1"},
		{"000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
			"00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F",
			"28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21"},
	} {
		decode := func(s string) []byte {
			b, err := hex.DecodeString(s)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		k, err := NewAESKey("k", decode(c.key))
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.WrapKey(t.Context(), decode(c.data))
		if err != nil || string(got) != string(decode(c.wrapped)) {
			t.Errorf("wrapped %X, %v; want %s", got, err, c.wrapped)
		}
		back, err := k.UnwrapKey(t.Context(), "A256KW", got)
		if err != nil || string(back) != string(decode(c.data)) {
			t.Errorf("unwrapped %X, %v", back, err)
		}
		got[3] ^= 1
		if back, err := k.UnwrapKey(t.Context(), "A256KW", got); err == nil {
			t.Errorf("unwrapped a changed key: %X", back)
		}
	}
}

// FuzzEnvelope: what another program has stored is either the untouched original or an error, and never a panic.
func FuzzEnvelope(f *testing.F) {
	const text = `"attack at dawn"`
	k, err := NewAESKey("k1", make([]byte, 32))
	if err != nil {
		f.Fatal(err)
	}
	key := Key{"p", "r"}
	for _, mode := range []Mode{Authenticated, AzureCompatible} {
		e := &Encryption{Key: k, Mode: mode}
		s := e.sealer(context.Background(), "Table", key)
		sealed, err := s.property("Name", edmString, []byte(text))
		if err != nil {
			f.Fatal(err)
		}
		w, err := newWriter(key)
		if err != nil {
			f.Fatal(err)
		}
		if err := s.metadata(w); err != nil {
			f.Fatal(err)
		}
		var rd reader
		r, err := rd.read(append(w.b, '}'))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(r.properties[0].value, r.properties[1].value, appendBinary(sealed))
	}
	f.Add([]byte(`"{}"`), []byte(`""`), []byte(`""`))
	f.Fuzz(func(t *testing.T, first, second, value []byte) {
		for _, v := range [][]byte{first, second, value} {
			if _, err := unquote(v); err != nil || skipValue(v, 0) != len(v) {
				t.Skip("not JSON: the SDK would have refused it")
			}
		}
		r := &raw{key: key, properties: []rawProperty{{name: metadata1, edm: edmString, value: first},
			{name: metadata2, edm: edmBinary, value: second},
			{name: "Name", edm: edmBinary, value: value}}}
		e := &Encryption{Key: k}
		if err := e.open(t.Context(), "Table", r, false); err == nil {
			if len(r.properties) != 1 || string(r.properties[0].value) != text {
				t.Fatalf("opened to %+v", r.properties)
			}
		}
		r.properties = []rawProperty{{name: metadata1, edm: edmString, value: first},
			{name: metadata2, edm: edmBinary, value: second}, {name: "Name", edm: edmBinary, value: value}}
		// not authenticated: must not panic
		_ = (&Encryption{Key: k, Mode: AzureCompatible}).open(t.Context(), "Table", r, false)
	})
}

func appendBinary(b []byte) []byte {
	text, _ := binaryCodec.append(nil, reflect.ValueOf(b))
	return text
}
