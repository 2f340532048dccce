package tablesvc

import (
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/state/table/filter"
)

// The explain mode: a request with headerExplain is answered with the cost of its query. docs/tables.md describes the
// headers, internal/sdk/tabletool reads them.
const (
	headerExplain  = "X-Lazuli-Explain"
	headerPlan     = "x-lazuli-plan"
	headerRanges   = "x-lazuli-ranges"
	headerScanned  = "x-lazuli-entities-scanned"
	headerReturned = "x-lazuli-entities-returned"
)

// maxRangesHeader bounds headerRanges, in bytes. Ranges that do not fit are left out; headerPlan has their number.
const maxRangesHeader = 4 << 10

// explains reports whether the request asks for the explain mode.
func (c *call) explains() bool {
	text := c.Header(headerExplain)
	if text == "" {
		return false
	}
	wanted, err := strconv.ParseBool(text)
	return err == nil && wanted
}

// explain adds the headers of the explain mode.
func (c *call) explain(p filter.Plan, scanned, returned int) {
	residual := "no"
	if !p.Exact {
		residual = "yes"
	}
	c.Set(headerPlan, p.Kind.String()+"; ranges="+strconv.Itoa(len(p.Ranges))+"; residual="+residual)
	c.Set(headerRanges, rangesHeader(p.Ranges))
	c.SetInt(headerScanned, int64(scanned))
	c.SetInt(headerReturned, int64(returned))
}

// rangesHeader returns a JSON array of ranges as text.
func rangesHeader(ranges []filter.Range) string {
	b := []byte{'['}
	for i, r := range ranges {
		mark := len(b)
		if i > 0 {
			b = append(b, ',')
		}
		if b = entity.AppendQuoted(b, r.String()); len(b) >= maxRangesHeader {
			b = b[:mark]
			break
		}
	}
	return string(append(b, ']'))
}
