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

func TestMediaType(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, base, parameter string }{
		{"application/json", "application/json", ""},
		{" Application/JSON ; OData = fullmetadata", "application/json", "fullmetadata"},
		{`application/json;odata="fullmetadata"`, "application/json", "fullmetadata"},
		{"application/json;streaming;odata=fullmetadata;", "application/json", "fullmetadata"}, // a parameter without a value
		{"application/json;x=a/b;odata=a;odata=b", "application/json", "a"},                    // package mime refuses both
		{"application/json;;odata=fullmetadata", "application/json", "fullmetadata"},
		{`application/json;x="a;odata=no";odata=yes`, "application/json", "yes"},
		{"", "", ""},
	} {
		base, parameters := MediaType(tt.in)
		if got := MediaParameter(parameters, "odata"); base != tt.base || got != tt.parameter {
			t.Errorf("%s: %q, %q, want %q, %q", tt.in, base, got, tt.base, tt.parameter)
		}
	}
}
