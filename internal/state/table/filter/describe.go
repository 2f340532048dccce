package filter

import (
	"bytes"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
)

// String returns the range for people, as a filter on keys where possible: PartitionKey eq 'Sales' and RowKey ge
// '0001' and RowKey lt '0002'. A range across partitions that begins or ends within one names that key:
// from ('Sales','0001') or after it, to ('Sales','0002') or before it.
func (r Range) String() string {
	lo, hi := splitBound(r.Start), splitBound(r.End)
	if r.Point {
		if lo.after { // no key begins there: this key ends there
			lo.row = append(bytes.Clone(lo.row), 0)
		}
		return "PartitionKey eq " + quote(lo.partition) + " and RowKey eq " + quote(lo.row)
	}
	if lo.inside && (hi.inside || hi.behind) && bytes.Equal(hi.partition, lo.partition) {
		terms := append([]string{"PartitionKey eq " + quote(lo.partition)}, lo.rows("gt", "ge")...)
		if hi.inside {
			terms = append(terms, hi.rows("le", "lt")...)
		}
		return strings.Join(terms, " and ")
	}
	var terms []string
	switch {
	case lo.inside && lo.after:
		terms = append(terms, "after "+lo.pair())
	case lo.inside && len(lo.row) > 0:
		terms = append(terms, "from "+lo.pair())
	case lo.inside:
		terms = append(terms, "PartitionKey ge "+quote(lo.partition))
	case lo.behind:
		terms = append(terms, "PartitionKey gt "+quote(lo.partition))
	}
	switch {
	case hi.inside && hi.after:
		terms = append(terms, "to "+hi.pair())
	case hi.inside && len(hi.row) > 0:
		terms = append(terms, "to before "+hi.pair())
	case hi.inside:
		terms = append(terms, "PartitionKey lt "+quote(hi.partition))
	case hi.behind:
		terms = append(terms, "PartitionKey le "+quote(hi.partition))
	}
	if len(terms) == 0 {
		return "all"
	}
	return strings.Join(terms, " and ")
}

// bound is one end of a range, parsed.
type bound struct {
	partition, row []byte // encoded
	inside         bool   // at a RowKey, or before the first
	behind         bool   // behind the partition
	after          bool   // directly after the RowKey
}

func splitBound(key []byte) bound {
	text := key[min(len(key), entity.TableIDLen):]
	i := bytes.IndexByte(text, separator)
	switch n := len(text); {
	case n == 0:
		return bound{} // the beginning or end of the table
	case i >= 0:
		b := bound{partition: text[:i], row: text[i+1:], inside: true}
		b.row, b.after = bytes.CutSuffix(b.row, []byte{0})
		return b
	case text[n-1] == afterSeparator:
		return bound{partition: text[:n-1], behind: true}
	}
	return bound{partition: text, inside: true}
}

func (b bound) pair() string { return "(" + quote(b.partition) + "," + quote(b.row) + ")" }

// rows returns the condition on RowKey that a bound expresses, with one of two operators: for a bound after the key,
// and at it. Below the first key there is no condition.
func (b bound) rows(after, at string) []string {
	switch {
	case b.after:
		return []string{"RowKey " + after + " " + quote(b.row)}
	case len(b.row) > 0:
		return []string{"RowKey " + at + " " + quote(b.row)}
	}
	return nil
}

func quote(part []byte) string {
	return "'" + strings.ReplaceAll(string(entity.DecodeKeyPart(part)), "'", "''") + "'"
}
