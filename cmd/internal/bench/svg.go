package bench

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"os"
	"strings"
)

// ReadReport reads what [Report.WriteJSON] wrote to a file.
func ReadReport(name string) (*Report, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s is no report of bench: %w", name, err)
	}
	return r, nil
}

// The measures of a figure, in its own units.
const (
	figureWidth, labelWidth, valueWidth = 760, 150, 170
	barHeight, barGap, groupGap, top    = 14, 2, 12, 46
)

// colours of the targets' bars, which read on a white and on a black page.
var colours = []string{"#2563eb", "#d97706", "#6b7280"}

// WriteSVG draws the rates of all targets, a group of bars for each workload. Workloads differ in their rates by orders
// of magnitude: in each group the longest bar is the highest rate of the group, and the rates stand beside the bars.
func (r *Report) WriteSVG(w io.Writer) error {
	var b strings.Builder
	group := func(n int) int { return n*(barHeight+barGap) + groupGap }
	// The height comes first in the file, so that the groups are measured before they are drawn.
	height := top
	for _, wr := range r.Workloads {
		height += group(len(wr.Results))
	}
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" font-family="system-ui, sans-serif" font-size="12">`+"\n", figureWidth, height+26)
	fmt.Fprintf(&b, "<title>Operations per second: %s</title>\n", html.EscapeString(r.names()))
	b.WriteString("<style>text{fill:#1f2937}@media(prefers-color-scheme:dark){text{fill:#e5e7eb}}</style>\n")
	x := 0
	for i, t := range r.Targets {
		fmt.Fprintf(&b, `<rect x="%d" y="8" width="12" height="12" fill="%s"/><text x="%d" y="18">%s</text>`+"\n", x,
			colours[i%len(colours)], x+18, html.EscapeString(t.Name))
		x += 40 + 8*len(t.Name)
	}
	fmt.Fprintf(&b, `<text x="%d" y="18" text-anchor="end">operations per second</text>`+"\n", figureWidth)
	y := top
	for _, wr := range r.Workloads {
		// Each workload has a scale of its own: their rates differ by a factor of a hundred.
		highest := 0.0
		for _, res := range wr.Results {
			highest = max(highest, res.OpsPerS)
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labelWidth-10,
			y+len(wr.Results)*(barHeight+barGap)/2+3, html.EscapeString(wr.Name))
		for i, res := range wr.Results {
			width := 1.0
			if highest > 0 {
				// At least a line, so that a slow target is not taken for one that is missing.
				width = max(1, res.OpsPerS/highest*(figureWidth-labelWidth-valueWidth))
			}
			text := number(res.OpsPerS)
			if res.Ratio > 0 {
				text += fmt.Sprintf(" (%s is %s)", r.Targets[0].Name, ratio(res.Ratio))
			}
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/><text x="%.1f" y="%d">%s</text>`+
				"\n",
				labelWidth, y, width, barHeight, colours[i%len(colours)], labelWidth+width+6, y+barHeight-3,
				html.EscapeString(text))
			y += barHeight + barGap
		}
		y += groupGap
	}
	fmt.Fprintf(&b, `<text x="0" y="%d" font-size="11">%s, %d processors (%s), %d connections</text>`+"\n</svg>\n",
		height+14,
		r.Started.Format("2 January 2006"), r.Machine.CPUs, html.EscapeString(r.Machine.CPU), r.Connections)
	_, err := io.WriteString(w, b.String())
	return err
}

// names are the names of the targets.
func (r *Report) names() string {
	var list []string
	for _, t := range r.Targets {
		list = append(list, t.Name)
	}
	return strings.Join(list, ", ")
}
