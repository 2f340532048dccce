package rig

import "github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lines"

// Words say what the words of a report mean for the items of a demonstration. One without a meaning does not occur.
type Words struct {
	// Item names what the demonstration counts.
	Item string
	// Done and NotYet are where an item is after and before the work, half is what is allowed in between, while a message
	// asks for the rest.
	Done, NotYet, Half string
	// Nothing may ever be lost. At the end nothing may be orphaned or changed.
	Lost, Orphaned, Changed string
}

// columns are the titles of what the items can be at a kill, and cells the numbers.
func (v Words) columns() (titles string) {
	for _, w := range [][2]string{{"half", v.Half}, {"lost", v.Lost}, {"orphaned", v.Orphaned}} {
		if w[1] != "" {
			titles += "\t" + w[0]
		}
	}
	return titles
}

func (v Words) cells(c Crash) (list []any) {
	for _, w := range []struct {
		means string
		n     int
	}{{v.Half, c.Both}, {v.Lost, c.Lost}, {v.Orphaned, c.Orphaned}} {
		if w.means != "" {
			list = append(list, w.n)
		}
	}
	return list
}

// legend explains the words of a table.
func (v Words) legend(p *lines.Printer, frozen bool) {
	p.Line("\nWords:")
	for _, w := range []struct{ word, means string }{
		{"hit", "hit 12: the worker was killed when it reached the step for the 12th time"},
		{"items", v.Item},
		{"put", "messages that ask for them; some are put twice, since a queue may deliver a message twice"},
		{"done", v.Done}, {"not yet", v.NotYet + "; at the end: stuck"},
		{"half", andAtTheEnd(v.Half, "; allowed while a message asks for the rest, and not at the end")},
		{"lost", andAtTheEnd(v.Lost, "; never allowed")}, {"orphaned", andAtTheEnd(v.Orphaned, "; not allowed at the end")},
		{"changed", andAtTheEnd(v.Changed, "; never allowed")},
		{"left", "messages in the queue at the kill; those that the worker had are hidden until its lease ends"},
		{"ok", "items that are done, and right, at the end of the round"},
		{"took", "time from the restart until no message was left; most of it waits for the leases of the killed worker"},
	} {
		if w.means != "" {
			p.Entry(w.word, w.means)
		}
	}
	if frozen {
		p.Entry("(frozen)", "the worker was stopped with so many messages in its hands, and went on with expired leases "+
			"after another one had finished the work")
	}
	p.Entry("+", "the worker that continued was killed too, at a second step")
}

func andAtTheEnd(means, more string) string {
	if means == "" {
		return ""
	}
	return means + more
}
