package story

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// The measures of a drawing, in pixels.
const (
	rowHeight   = 26
	lineHeight  = 17 // the distance of two lines of a text
	topHeight   = 76
	timeWidth   = 76  // the column of times
	laneWidth   = 118 // the distance of two lanes
	letterWidth = 7   // the width of a letter of a text
)

// textWidth is the number of letters of a line: a wide drawing is shown so small that it cannot be read.
const textWidth = 58

// style has the colours of drawings, in the light and in the dark.
const style = `
.back{fill:#fff}.text{fill:#1b1b1f}.dim{fill:#5c5f66}.rail{stroke:#c3c7cf;stroke-dasharray:3 3}
.arrow{stroke:#1f5fbf;fill:#1f5fbf}.kill{fill:#b3261e;stroke:#b3261e}.well{fill:#14691b}.box{fill:#eef1f6}
@media (prefers-color-scheme:dark){.back{fill:#16181d}.text{fill:#e6e8ec}.dim{fill:#a7adb8}.rail{stroke:#4a4f59}
.arrow{stroke:#8ab4f8;fill:#8ab4f8}.kill{fill:#f2a29b;stroke:#f2a29b}.well{fill:#8fd694}.box{fill:#262a32}}
text{font:13px system-ui,sans-serif}.head{font-weight:600}.small{font-size:11px}`

// SVG draws the story: a lane for each that takes part, and an arrow for each request, from above to below. Without
// times, requests are in the order of byCause: the drawing is the same for each run that did the same.
func (s *Story) SVG(times bool) string {
	events, left := s.Events, timeWidth
	if !times {
		events, left = s.byCause(), 24
	}
	lanes := lanes(events)
	texts := left + len(lanes)*laneWidth
	full := texts + textWidth*letterWidth + 24
	at := func(name string) int {
		return left + slices.IndexFunc(lanes, func(l lane) bool { return l.name == name })*laneWidth + laneWidth/2
	}
	// Rows first, in a buffer: the heads need the height of all rows for their lines, and come before them in the file so
	// that arrows are above the lines.
	var rows strings.Builder
	y := topHeight
	for _, e := range events {
		if times {
			fmt.Fprintf(&rows, `<text class="dim" x="%d" y="%d" text-anchor="end">%.3f s</text>`+"\n", timeWidth-10, y+4,
				e.At.Seconds())
		}
		class := "text"
		switch {
		case e.Kill:
			class = "kill"
			fmt.Fprintf(&rows, `<path class="kill" stroke-width="3" d="M%d %dl14 14m0 -14l-14 14"/>`+"\n", at(e.From)-7, y-7)
		case e.State:
			class = "dim"
		case e.To == "":
			fmt.Fprintf(&rows, `<circle class="arrow" cx="%d" cy="%d" r="4"/>`+"\n", at(e.From), y)
		default:
			from, to := at(e.From), at(e.To)
			tip := 8
			if from > to {
				// The arrow ends before the line of the lane, on the side from which it comes.
				tip = -8
			}
			fmt.Fprintf(&rows, `<path class="arrow" stroke-width="1.5" d="M%d %dH%dm0 -4l%d 4l%d 4z"/>`+"\n", from, y, to-tip,
				tip, -tip)
		}
		// The text may need several lines; the next row begins below the last.
		y += writeLines(&rows, class, texts, y+4, e.text(), textWidth) + rowHeight - lineHeight
	}
	class := "well head"
	if !s.Well {
		class = "kill head"
	}
	// The lines of the lanes end at the last event. The sentence about the end below is about the whole, not a moment.
	rails := y - rowHeight/2
	y += writeLines(&rows, class, left, y+rowHeight/2, "At the end: "+s.End, (full-left)/letterWidth-4) + rowHeight
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" role="img">`+"\n", full, y)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style>\n", html.EscapeString(s.heading()), style)
	fmt.Fprintf(&b, `<rect class="back" width="%d" height="%d"/>`+"\n", full, y)
	for _, l := range lanes {
		x, name := at(l.name), 37
		fmt.Fprintf(&b, `<rect class="box" x="%d" y="14" width="%d" height="36" rx="4"/>`+"\n", x-laneWidth/2+5,
			laneWidth-10)
		if l.kind != "" {
			name = 30
			fmt.Fprintf(&b, `<text class="dim small" x="%d" y="44" text-anchor="middle">%s</text>`+"\n", x, l.kind)
		}
		fmt.Fprintf(&b, `<text class="text head" x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", x, name,
			html.EscapeString(l.name))
		fmt.Fprintf(&b, `<line class="rail" x1="%d" y1="54" x2="%[1]d" y2="%d"/>`+"\n", x, rails)
	}
	b.WriteString(rows.String())
	b.WriteString("</svg>\n")
	return b.String()
}

// writeLines writes a text in lines of at most width letters, and returns their height.
func writeLines(b *strings.Builder, class string, x, y int, text string, width int) (height int) {
	for line := ""; text != ""; height += lineHeight {
		line, text = text, ""
		if len(line) > width {
			if end := strings.LastIndexByte(line[:width+1], ' '); end > 0 {
				line, text = line[:end], line[end+1:]
			}
		}
		fmt.Fprintf(b, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, y+height, html.EscapeString(line))
	}
	return height
}

func (s *Story) heading() string { return s.Title + ": the story of " + s.Item }

// Page is a page with the drawings of stories. It has no scripts, and loads nothing.
func Page(title string, stories []*Story) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>%[1]s</title>
<style>body{font:16px system-ui,sans-serif;margin:1.5rem;background:#fff;color:#1b1b1f}
section{overflow-x:auto}h2{font-size:1.1rem}
@media (prefers-color-scheme:dark){body{background:#16181d;color:#e6e8ec}}</style></head>
<body><main><h1>%[1]s</h1>
`, html.EscapeString(title))
	for _, s := range stories {
		fmt.Fprintf(&b, "<section tabindex=\"0\" aria-label=\"%[1]s\"><h2>%[1]s</h2>\n%s</section>\n",
			html.EscapeString(s.heading()), s.SVG(true))
	}
	b.WriteString("</main></body></html>\n")
	return b.String()
}
