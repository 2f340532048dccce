package demo

import (
	"fmt"
	"strings"
)

// words say what the words of a report mean for the items of a demonstration. One without a meaning does not occur.
type words struct {
	// item names what the demonstration counts.
	item string
	// done and notYet are where an item is after and before the work, half is what is allowed in between, while a message
	// asks for the rest.
	done, notYet, half string
	// lost is what must never be; orphaned and changed must not be at the end.
	lost, orphaned, changed string
}

// columns are the titles of what the items can be at a kill, and cells the numbers.
func (v words) columns() (titles string) {
	for _, w := range [][2]string{{"half", v.half}, {"lost", v.lost}, {"orphaned", v.orphaned}} {
		if w[1] != "" {
			titles += "\t" + w[0]
		}
	}
	return titles
}

func (v words) cells(c Crash) (list []any) {
	for _, w := range []struct {
		means string
		n     int
	}{{v.half, c.Both}, {v.lost, c.Lost}, {v.orphaned, c.Orphaned}} {
		if w.means != "" {
			list = append(list, w.n)
		}
	}
	return list
}

// legend explains the words of a table.
func (v words) legend(p *printer, frozen bool) {
	p.line("\nWords:")
	for _, w := range []struct{ word, means string }{
		{"hit", "hit 12: the worker was killed when it reached the step for the 12th time"},
		{"items", v.item},
		{"put", "messages that ask for them; some are put twice, since a queue may deliver a message twice"},
		{"done", v.done}, {"not yet", v.notYet + "; at the end: stuck"},
		{"half", andAtTheEnd(v.half, "; allowed while a message asks for the rest, and not at the end")},
		{"lost", andAtTheEnd(v.lost, "; never allowed")}, {"orphaned", andAtTheEnd(v.orphaned, "; not allowed at the end")},
		{"changed", andAtTheEnd(v.changed, "; never allowed")},
		{"left", "messages in the queue at the kill; those that the worker had are hidden until its lease ends"},
		{"ok", "items that are done, and right, at the end of the round"},
		{"took", "time from the restart until no message was left; most of it waits for the leases of the killed worker"},
	} {
		if w.means != "" {
			p.entry(w.word, w.means)
		}
	}
	if frozen {
		p.entry("(frozen)", "the worker was stopped with so many messages in its hands, and went on with expired leases "+
			"after another one had finished the work")
	}
	p.entry("+", "the worker that continued was killed too, at a second step")
}

func andAtTheEnd(means, more string) string {
	if means == "" {
		return ""
	}
	return means + more
}

// entry explains a word.
func (p *printer) entry(word, means string) {
	const column = 14
	p.hanging(fmt.Sprintf("  %-*s", column-2, word)+means, strings.Repeat(" ", column))
}
