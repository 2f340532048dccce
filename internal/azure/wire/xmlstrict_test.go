package wire

import (
	"encoding/xml"
	"errors"
	"testing"
)

func TestParseXMLRefusesUnknownElements(t *testing.T) {
	t.Parallel()
	type document struct {
		XMLName xml.Name `xml:"Doc"`
		Name    string
		List    []struct {
			Key *string `xml:"K"`
		} `xml:"Set>Item"`
		Kind  string   `xml:"kind,attr"`
		Other struct{} `xml:"-"`
	}
	for _, tc := range []struct {
		name, body string
		ok         bool
	}{
		{"known elements",
			`<?xml version="1.0"?><Doc kind="x" more="y"><!-- c --><Name>n</Name><Set><Item><K>1</K></Item><Item/></Set></Doc>`,
			true},
		{"nothing", `<Doc/>`, true},
		{"declared as ASCII", `<?xml version="1.0" encoding="US-ASCII"?><Doc/>`, true},
		{"with a byte order mark", "\ufeff<?xml version=\"1.0\" encoding=\"UTF-8\"?><Doc/>", true},
		{"declared as Latin-1", `<?xml version="1.0" encoding="iso-8859-1"?><Doc/>`, false},
		{"unknown at the top", `<Doc><Nam/></Doc>`, false},
		{"another case", `<Doc><name/></Doc>`, false},
		{"unknown on a path", `<Doc><Set><Itm/></Set></Doc>`, false},
		{"unknown in a list", `<Doc><Set><Item><L/></Item></Set></Doc>`, false},
		{"inside of text", `<Doc><Name>n<b/></Name></Doc>`, false},
		{"an attribute's name", `<Doc><kind>x</kind></Doc>`, false},
		{"a field that is left out", `<Doc><Other/></Doc>`, false},
		{"two roots", `<Doc/><Doc/>`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var d document
			if err := ParseXML([]byte(tc.body), &d); (err == nil) != tc.ok || err != nil &&
				!errors.Is(err, ErrInvalidXMLDocument) {
				t.Errorf("%s: %v", tc.body, err)
			}
		})
	}
}
