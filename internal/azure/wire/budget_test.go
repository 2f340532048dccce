package wire

import (
	"encoding/xml"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// Addresses, headers and documents that repeat a piece of their grammar take work that grows with their length.
func TestParsersStayInTheirBudget(t *testing.T) {
	workbudget.Inputs(MaxURI, "/devstoreaccount1/", []string{"/", "%41", "?", "&", "a=b&", "a=%41&", "../", "\\"}, "",
		func(uri string) {
			workbudget.Default.Check(t, len(uri), func() {
				hr := httptest.NewRequest("GET", "http://h/", nil)
				hr.RequestURI = uri
				_, _ = Parse(Blob, hr, nil, time.Now(), Options{})
			})
		})
	hr := httptest.NewRequest("GET", "http://h/devstoreaccount1/a", nil)
	size := 0
	for i := range maxStorageHeaders {
		name := "X-Ms-Meta-A" + strconv.Itoa(i)
		hr.Header[name] = []string{"v"}
		size += len(name) + 1
	}
	workbudget.Default.Check(t, size, func() {
		r, err := Parse(Blob, hr, nil, time.Now(), Options{})
		if err == nil {
			_, err = r.Metadata()
		}
		if err != nil {
			t.Error(err)
		}
	})
	type document struct {
		XMLName xml.Name `xml:"Doc"`
		List    []struct{ Text string }
	}
	workbudget.Inputs(1<<20, "<Doc>",
		[]string{"<List><Text>x</Text></List>", "<List>", "<List/>", "x", "&lt;", "<!-- -->", "<?a b?>",
			`<List a="b" c="d"/>`, `<List xmlns:a="b"/>`}, "</Doc>", func(body string) {
			workbudget.Default.Check(t, len(body), func() { _ = ParseXML([]byte(body), new(document)) })
		})
}

// FuzzParseXML: any document is read or refused, and nothing is read of what the type does not have.
func FuzzParseXML(f *testing.F) {
	f.Add([]byte("<?xml version=\"1.0\"?><Doc><List><Text>x</Text></List></Doc>"))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer workbudget.Default.Start(t, len(body))()
		type document struct {
			XMLName xml.Name `xml:"Doc"`
			List    []struct{ Text string }
		}
		_ = ParseXML(body, new(document))
	})
}
