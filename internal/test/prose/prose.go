// Package prose wraps the paragraphs of pages in Markdown at [Columns], so that a page can be read as text and a change
// of it shows the words that changed. It leaves alone what has lines of its own: code, tables, headings, drawings.
package prose

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// Columns is the width of a line of prose, in characters.
const Columns = 100

var (
	item = regexp.MustCompile(`^( *)([-*+]|[0-9]+[.)])( +)\S`)
	// block matches the beginning of a line that is no prose.
	block = regexp.MustCompile("^ *(#|\\||<|```|\\[[^\\]]*\\]: )")
	// marker matches words that begin a list, a quotation, a heading or a table at the beginning of a line.
	marker = regexp.MustCompile(`^([-+*]|[0-9]+[.)]|#+|>.*|\|.*|=+|--+)$`)
)

// paragraph is a paragraph, or the first one of an item of a list.
type paragraph struct {
	first, rest string // before its first line, and before the others
	words       []string
}

// Wrap returns the text of a page with its paragraphs wrapped. A word, a span of code or a link that is longer than a
// line has one of its own.
func Wrap(text string) string {
	var out strings.Builder
	var now *paragraph
	flush := func() {
		if now != nil {
			out.WriteString(now.wrapped())
			now = nil
		}
	}
	// base is the number of columns at which the text of the innermost item begins, code whether the line before is part
	// of an indented block of code.
	fenced, blank, code, base := false, true, false, 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		trimmed := strings.TrimLeft(line, " ")
		indent := len(line) - len(trimmed)
		isFence := strings.HasPrefix(trimmed, "```")
		switch {
		case fenced:
			fenced = !isFence
			out.WriteString(line + "\n")
		case strings.TrimSpace(line) == "":
			flush()
			out.WriteString(line + "\n")
			blank = true
			continue
		case isFence:
			flush()
			fenced = true
			out.WriteString(line + "\n")
		// Code begins four columns to the right of its surroundings, after an empty line: elsewhere such a line continues
		// the paragraph.
		case now == nil && (blank || code) && (indent >= base+4 || strings.HasPrefix(line, "\t")),
			now == nil && base > 0 && code && indent >= 4:
			out.WriteString(line + "\n")
			code, blank = true, false
			continue
		case block.MatchString(line):
			flush()
			if indent == 0 {
				base = 0
			}
			out.WriteString(line + "\n")
		case item.MatchString(line):
			flush()
			m := item.FindStringSubmatch(line)
			before := m[1] + m[2] + m[3]
			base = len(before)
			now = &paragraph{first: before, rest: strings.Repeat(" ", base), words: strings.Fields(line[base:])}
		case now != nil:
			now.words = append(now.words, strings.Fields(line)...)
		default:
			if indent < base {
				base = 0
			}
			before := strings.Repeat(" ", base)
			now = &paragraph{first: before, rest: before, words: strings.Fields(line)}
		}
		blank, code = false, false
	}
	flush()
	return out.String()
}

// wrapped returns the lines of the paragraph. Each has as many words as fit.
func (p *paragraph) wrapped() string {
	var out strings.Builder
	line, width := p.first, utf8.RuneCountInString(p.first)
	begun := false
	for _, word := range atoms(p.words) {
		n := utf8.RuneCountInString(word)
		switch {
		case !begun:
			line, width, begun = line+word, width+n, true
		case width+1+n <= Columns:
			line, width = line+" "+word, width+1+n
		default:
			out.WriteString(line + "\n")
			line, width = p.rest+word, len(p.rest)+n
		}
	}
	return out.String() + line + "\n"
}

// atoms joins words between which a line must not end: spans of code and short links, and words that would mean
// something else at the beginning of a line.
func atoms(words []string) (list []string) {
	for i := 0; i < len(words); i++ {
		word := words[i]
		for last := i + 1; last < len(words) && open(word); last++ {
			// A span that never ends, or a very long one, is broken like other words.
			joined := strings.Join(words[i:last+1], " ")
			if utf8.RuneCountInString(joined) > Columns-20 {
				break
			}
			if !open(joined) {
				word, i = joined, last
				break
			}
		}
		if len(list) > 0 && marker.MatchString(word) {
			list[len(list)-1] += " " + word
			continue
		}
		list = append(list, word)
	}
	return list
}

// open reports whether a span of code or the text of a link begins in the text and does not end in it.
func open(text string) bool {
	if strings.Count(text, "`")%2 == 1 {
		return true
	}
	begin := strings.LastIndex(text, "[")
	return begin >= 0 && !strings.Contains(text[begin:], "]") && strings.Count(text[begin:], "`") == 0
}

// Long returns the numbers of the lines that Wrap would make shorter.
func Long(text string) (numbers []int) {
	wrapped := map[string]bool{}
	for line := range strings.Lines(Wrap(text)) {
		wrapped[line] = true
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > Columns && !wrapped[line] {
			numbers = append(numbers, number)
		}
	}
	return numbers
}
