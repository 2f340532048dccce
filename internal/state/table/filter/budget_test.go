package filter

import (
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// Filters that repeat a piece of their grammar are read and planned with work that grows with their length.
func TestFiltersStayInTheirBudget(t *testing.T) {
	budget := workbudget.Default
	budget.Time = 300 * time.Millisecond // planning multiplies the ranges of keys, up to a bound
	budget.Bytes = 64 << 20
	check := func(text string) {
		t.Helper()
		budget.Check(t, len(text), func() {
			if f, err := Parse(text); err == nil {
				f.Plan(1)
			}
		})
	}
	workbudget.Inputs(maxLength, "a eq 1",
		[]string{" or a eq 1", " and a eq 1", " not", " and not (a eq 1)", "(", "'", "''", "1", "-",
			" and (PartitionKey ne 'a')",
			" and (RowKey gt 'a' or RowKey lt 'b')", " and (PartitionKey eq 'a' or PartitionKey eq 'b' or PartitionKey eq 'c')",
			" or (PartitionKey eq 'a' and RowKey ne 'b')", " "}, "", check)
	for _, n := range []int{2, 5, 10, 30} { // the product of many sums
		sum := " and (" + strings.TrimPrefix(strings.Repeat(" or RowKey ne 'x' and PartitionKey ne 'y'", n), " or ") + ")"
		check("a eq 1" + strings.Repeat(sum, maxLength/len(sum)-1))
	}
}
