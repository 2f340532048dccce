package wire

import "testing"

func TestBoundary(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"multipart/mixed; boundary=batch_1":                     "batch_1",
		"Multipart/Mixed;Boundary=batch_1":                      "batch_1",
		`multipart/mixed; boundary="a b; c"`:                    "a b; c",
		`multipart/mixed; charset="utf-8"; boundary=x ; more=y`: "x",
		"multipart/mixed; boundary================1114621032==": "===============1114621032==", // the client for Python
		"multipart/mixed; boundary=ab/cd+ef:gh==":               "ab/cd+ef:gh==",               // object_store's
		"multipart/mixed":                                       "",
		"multipart/mixed; boundary=":                            "",
		`multipart/mixed; boundary="`:                           "",
		"multipart/form-data; boundary=x":                       "",
		"multipart/mixed; boundary":                             "",
		"":                                                      "",
	} {
		if got, ok := Boundary(in); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %t, want %q", in, got, ok, want)
		}
	}
}
