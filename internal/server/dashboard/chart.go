package dashboard

import (
	"fmt"
	"slices"
	"strings"
)

// hourChart draws two counts of the last sixty minutes, one value a minute and the oldest first.
type hourChart struct {
	What         string // a title: "Calls"
	Names        [2]string
	Lines        [2]string // of points in a view of 59 by 60 units
	Sums         [2]int64
	Top          int64
	SecondIsGood bool
}

// newHourChart makes the chart; nil counts are those of a source that has none.
func newHourChart(what string, names [2]string, counts [2][]int64) *hourChart {
	c := &hourChart{What: what, Names: names, Top: 1}
	for _, list := range counts {
		if len(list) > 0 {
			c.Top = max(c.Top, slices.Max(list))
		}
	}
	for i, list := range counts {
		var points []string
		for x, n := range list {
			points = append(points, fmt.Sprintf("%d,%d", x, 58-n*56/c.Top))
			c.Sums[i] += n
		}
		c.Lines[i] = strings.Join(points, " ")
	}
	return c
}

// Empty reports whether nothing happened.
func (c *hourChart) Empty() bool { return c.Sums[0] == 0 && c.Sums[1] == 0 }
