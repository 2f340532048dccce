package entity

import (
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// Bodies that repeat a piece of their grammar take work that grows with their length.
func TestParsersStayInTheirBudget(t *testing.T) {
	const size = 2 << 20
	workbudget.Inputs(size, `{"a":1`,
		[]string{`,"b":1`, `,"b@odata.type":"Edm.String"`, `,"odata.x":[[[[]]]]`, `,"odata.x":[`, `{`, `\u00e4`, `"`, ` `,
			`,"c":null`, `1`}, `}`, func(body string) {
			workbudget.Default.Check(t, len(body), func() { _, _ = ParseJSON([]byte(body), Rules{}) })
			workbudget.Default.Check(t, len(body), func() { _, _ = ParseTableName([]byte(body)) })
		})
	workbudget.Inputs(size, atomBegin,
		[]string{"<d:a>1</d:a>", `<d:a m:null="true"/>`, "<d:a>", `<d:a xmlns:x="y">`, "&lt;", "<!-- -->", "<![CDATA[x]]>",
			"x"}, atomEnd, func(body string) {
			workbudget.Default.Check(t, len(body), func() { _, _ = ParseAtom([]byte(body), Rules{}) })
		})
}

const (
	atomBegin = `<entry xmlns="http://www.w3.org/2005/Atom" xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" ` +
		`xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"><content type="application/xml"><m:properties>`
	atomEnd = "</m:properties></content></entry>"
)

// FuzzParseAtom: any body is read or refused.
func FuzzParseAtom(f *testing.F) {
	f.Add([]byte(atomBegin + `<d:PartitionKey>p</d:PartitionKey><d:N m:type="Edm.Int32">1</d:N>` + atomEnd))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer workbudget.Default.Start(t, len(body))()
		if p, err := ParseAtom(body, Rules{}); err == nil && CheckSize(p.PartitionKey, p.RowKey, p.Record) != nil {
			t.Error("the entity is too large")
		}
		_, _ = ParseAtomTableName(body)
	})
}
