// Package lines writes texts for a terminal: lines that are broken where they are too long.
package lines

import (
	"fmt"
	"io"
	"strings"
)

// Printer writes lines of less than Width characters, and keeps the first error.
type Printer struct {
	W   io.Writer
	Err error
}

// Width is the maximum number of characters in a line.
const Width = 96

// Line writes a line as it is.
func (p *Printer) Line(format string, args ...any) {
	if p.Err == nil {
		_, p.Err = fmt.Fprintf(p.W, format+"\n", args...)
	}
}

// Paragraph writes text in lines that begin with an indentation; all but the first have two more spaces.
func (p *Printer) Paragraph(indent, text string) { p.Hanging(indent+text, indent+"  ") }

// Hanging writes a line, broken where it is too long; all but the first begin with an indentation.
func (p *Printer) Hanging(line, indent string) {
	for len(line) > Width {
		cut := strings.LastIndexByte(line[:Width+1], ' ')
		if cut <= len(indent) { // one long word
			break
		}
		p.Line("%s", line[:cut])
		line = indent + line[cut+1:]
	}
	p.Line("%s", line)
}

// Entry writes a word, and beside it what it means.
func (p *Printer) Entry(word, means string) {
	const column = 14
	p.Hanging(fmt.Sprintf("  %-*s", column-2, word)+means, strings.Repeat(" ", column))
}
