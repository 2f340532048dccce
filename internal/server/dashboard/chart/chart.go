package chart

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
)

// Plot is a chart of some counts over time, one value a step and the oldest first.
type Plot struct {
	What  string // a title: "Calls of the last hour"
	Per   string // what a value is one of, for the description: "in a minute"
	Lines []plotLine
	Top   int64
	Ticks []string // the labels of the left axis, from the top: the whole, the half, 0
	Times []time.Time
	Last  int // the index of the last value, the width of the drawing
	Data  string
	Table []plotRow
}

// plotLine is a line of a plot.
type plotLine struct {
	Name   string
	Sum    string // for the legend: the sum, or of samples the latest value
	Class  string // of the style sheet: first, second, fine, third
	Points []string
}

// plotRow has the values of a part of the time, for those who do not see the drawing.
type plotRow struct {
	At     time.Time
	Values []string
}

// Values are a line's numbers before they are drawn; -1 is not known.
type Values struct {
	Name, Class string
	List        []int64
	// sampled says that the values are states, of which the last one counts, and not counts that add up.
	Sampled bool
}

// plotHeight is the height of a drawing in units; the line of 0 is a unit above the lower edge.
const plotHeight = 60

// New draws lines that end at end. text writes a value for people.
func New(what, per string, end time.Time, step time.Duration, text func(int64) string, lines ...Values) *Plot {
	p := &Plot{What: what, Per: per, Top: 1}
	for _, l := range lines {
		for _, n := range l.List {
			p.Top = max(p.Top, n)
		}
		p.Last = max(p.Last, len(l.List)-1)
	}
	scale := niceTop(p.Top)
	p.Ticks = []string{text(scale), "", "0"}
	if scale%2 == 0 {
		p.Ticks[1] = text(scale / 2)
	}
	// The slot of now has begun; it ends later.
	end = end.Truncate(step)
	at := func(i int) time.Time { return end.Add(-time.Duration(p.Last-i) * step) }
	for _, i := range []int{0, p.Last / 2, p.Last} {
		p.Times = append(p.Times, at(i).UTC())
	}
	type line struct {
		Name   string   `json:"name"`
		Values []string `json:"values"`
	}
	data := struct {
		Start int64  `json:"start"`
		Step  int64  `json:"step"` // milliseconds
		Lines []line `json:"lines"`
	}{at(0).UnixMilli(), step.Milliseconds(), nil}
	for _, v := range lines {
		drawn := plotLine{Name: v.Name, Class: v.Class}
		texts := make([]string, len(v.List))
		sum, part := int64(0), []string(nil)
		// A line breaks where the value is not known.
		flush := func() {
			if len(part) > 0 {
				drawn.Points = append(drawn.Points, strings.Join(part, " "))
			}
			part = nil
		}
		for x, n := range v.List {
			if n < 0 {
				flush()
				texts[x] = "–"
				continue
			}
			texts[x] = text(n)
			part = append(part, fmt.Sprintf("%d,%d", x, plotHeight-1-n*(plotHeight-3)/scale))
			sum += n
		}
		flush()
		if drawn.Sum = text(sum); v.Sampled {
			drawn.Sum = texts[len(texts)-1]
		}
		p.Lines = append(p.Lines, drawn)
		data.Lines = append(data.Lines, line{v.Name, texts})
	}
	// Only numbers and texts: it cannot fail.
	encoded, _ := json.Marshal(data)
	p.Data = string(encoded)
	p.fillTable(lines, at, text)
	return p
}

// tableRows is the number of rows of the table beside a drawing.
const tableRows = 12

// fillTable sums the values up to rows of equal parts of the time; of samples each row has the last one.
func (p *Plot) fillTable(lines []Values, at func(int) time.Time, text func(int64) string) {
	n := p.Last + 1
	part := (n + tableRows - 1) / tableRows
	for from := 0; from < n; from += part {
		row := plotRow{At: at(from).UTC()}
		for _, l := range lines {
			sum := int64(0)
			for _, v := range l.List[min(from, len(l.List)):min(from+part, len(l.List))] {
				if l.Sampled {
					sum = v
				} else {
					sum += v
				}
			}
			if cell := "–"; sum < 0 {
				row.Values = append(row.Values, cell)
			} else {
				row.Values = append(row.Values, text(sum))
			}
		}
		p.Table = append(p.Table, row)
	}
}

// niceTop is the end of an axis: the first of 1, 2, 4, 5, 6, 8 and 10 times a power of ten that is not below n.
func niceTop(n int64) int64 {
	power := int64(math.Pow10(len(strconv.FormatInt(max(n, 1), 10)) - 1))
	for _, m := range []int64{1, 2, 4, 5, 6, 8} {
		if m*power >= n {
			return m * power
		}
	}
	return 10 * power
}

// Empty reports whether nothing happened.
func (p *Plot) Empty() bool {
	for _, l := range p.Lines {
		if l.Sum != "0" && l.Sum != "0 s" && l.Sum != "–" {
			return false
		}
	}
	return true
}

// CountText is a count for an axis.
func CountText(n int64) string { return display.Count(int(n)) }

// SecondsText is a number of seconds for an axis.
func SecondsText(n int64) string {
	if n == 0 {
		return "0 s" // and not 0 ms
	}
	return display.Short(time.Duration(n) * time.Second)
}

// minutes is the number of values of a chart of an hour.
const minutes = 60

// Hour draws two counts of the last sixty minutes up to now, of which the second is drawn as a failure. A
// source without counts has nil.
func Hour(what string, names [2]string, counts [2][]int64) *Plot {
	for i := range counts {
		if len(counts[i]) == 0 {
			counts[i] = make([]int64, minutes)
		}
	}
	return New(what+" of the last hour", "in a minute", time.Now(), time.Minute, CountText,
		Values{names[0], "first", counts[0], false}, Values{names[1], "second", counts[1], false})
}
