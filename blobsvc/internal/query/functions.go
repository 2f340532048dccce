package query

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

// function is a function with an ordinary argument list of least to most arguments; most is -1 for no limit.
type function struct {
	least, most int
	build       func(arguments []expression) expression
}

// functions are the functions without a grammar of their own in the parser.
var functions = map[string]function{
	"CHAR_LENGTH":      {1, 1, charLength},
	"CHARACTER_LENGTH": {1, 1, charLength},
	"LOWER":            {1, 1, func(a []expression) expression { return &textFunction{a[0], bytes.ToLower} }},
	"UPPER":            {1, 1, func(a []expression) expression { return &textFunction{a[0], bytes.ToUpper} }},
	"SUBSTRING":        {2, 3, func(a []expression) expression { return &substring{a} }},
	"COALESCE":         {1, -1, func(a []expression) expression { return &coalesce{a} }},
	"NULLIF":           {2, 2, func(a []expression) expression { return &nullIf{a[0], a[1]} }},
	"TO_STRING":        {2, 2, func(a []expression) expression { return &toString{a[0], a[1]} }},
	"TO_TIMESTAMP":     {1, 1, func(a []expression) expression { return &cast{a[0], timestamp} }},
	"UTCNOW":           {0, 0, nil}, // the parser replaces it by a constant: it has one value in a statement
}

func charLength(a []expression) expression { return &length{a[0]} }

type length struct{ of expression }

func (e *length) eval(r *row) (value, error) {
	v, err := r.argument(e.of)
	if err != nil || v.absent() {
		return nullValue, err
	}
	return intValue(int64(utf8.RuneCount(v.text().b))), nil
}

// textFunction maps text to text.
type textFunction struct {
	of expression
	fn func([]byte) []byte
}

func (e *textFunction) eval(r *row) (value, error) {
	v, err := r.argument(e.of)
	if err != nil || v.absent() {
		return nullValue, err
	}
	return bytesValue(e.fn(v.text().b)), nil
}

// substring implements SUBSTRING(text, start [, length]). The first character has index 0, as in the reference's
// example.
type substring struct{ arguments []expression }

func (e *substring) eval(r *row) (value, error) {
	var a [3]value
	for i, x := range e.arguments {
		v, err := r.argument(x)
		if err != nil || v.absent() {
			return nullValue, err
		}
		if i > 0 {
			if v, err = v.cast(integer); err != nil {
				return v, err
			}
		}
		a[i] = v
	}
	rest := a[0].text().b
	skip := a[1].n
	take := int64(len(rest))
	if len(e.arguments) == 3 {
		if take = a[2].n; take < 0 {
			return value{}, errConversion
		}
	}
	if skip < 0 { // positions before the text count toward the length
		take, skip = max(0, take+skip), 0
	}
	return bytesValue(runes(rest[len(runes(rest, skip)):], take)), nil
}

// runes returns the first n characters of b, or all.
func runes(b []byte, n int64) []byte {
	at := 0
	for ; n > 0 && at < len(b); n-- {
		_, size := utf8.DecodeRune(b[at:])
		at += size
	}
	return b[:at]
}

type trim struct {
	of, cutset        expression
	leading, trailing bool
}

func (e *trim) eval(r *row) (value, error) {
	v, err := e.of.eval(r)
	if err != nil || v.absent() {
		return nullValue, err
	}
	c, err := e.cutset.eval(r)
	if err != nil || c.absent() {
		return nullValue, err
	}
	b, cut := v.text().b, string(c.text().b)
	for e.leading && len(b) > 0 {
		c, size := utf8.DecodeRune(b)
		if !strings.ContainsRune(cut, c) {
			break
		}
		// Each character of the value is searched in the set, and both may be long: the product is the work.
		if err := r.Spend(1 + len(cut)); err != nil {
			return value{}, err
		}
		b = b[size:]
	}
	for e.trailing && len(b) > 0 {
		c, size := utf8.DecodeLastRune(b)
		if !strings.ContainsRune(cut, c) {
			break
		}
		if err := r.Spend(1 + len(cut)); err != nil {
			return value{}, err
		}
		b = b[:len(b)-size]
	}
	return bytesValue(b), nil
}

type coalesce struct{ list []expression }

func (e *coalesce) eval(r *row) (value, error) {
	for _, x := range e.list {
		if v, err := r.argument(x); err != nil || !v.absent() {
			return v, err
		}
	}
	return nullValue, nil
}

type nullIf struct{ of, other expression }

func (e *nullIf) eval(r *row) (value, error) {
	v, err := r.argument(e.of)
	if err != nil || v.absent() {
		return v, err
	}
	o, err := r.argument(e.other)
	if err != nil || o.absent() {
		return v, err
	}
	if c, err := compare(v, o); err != nil || c == 0 {
		return nullValue, err
	}
	return v, nil
}

// like implements LIKE: % matches any text, _ one character, and the character after the escape character itself.
type like struct {
	of, pattern expression
	escape      rune // 0 for none
	// compiled is the last pattern. Nearly every statement has only one.
	compiled []rune
	literal  []bool
	source   string
}

func (e *like) eval(r *row) (value, error) {
	v, err := r.argument(e.of)
	if err != nil || v.absent() {
		return nullValue, err
	}
	p, err := r.argument(e.pattern)
	if err != nil || p.absent() {
		return nullValue, err
	}
	if b := p.text().b; string(b) != e.source || e.compiled == nil {
		e.compile(string(b))
	}
	is, err := e.match(v.text().b, r.Work)
	return boolValue(is), err
}

func (e *like) compile(pattern string) {
	e.source, e.compiled, e.literal = pattern, []rune{}, nil
	escaped := false
	for _, c := range strings.ToValidUTF8(pattern, "\ufffd") {
		if !escaped && e.escape != 0 && c == e.escape {
			escaped = true
			continue
		}
		e.compiled = append(e.compiled, c)
		e.literal = append(e.literal, escaped || c != '%' && c != '_')
		escaped = false
	}
}

// match reports whether text matches pattern. After a mismatch it goes back to the last %, which then matches one
// character more, so the time is at most proportional to the product of the lengths.
func (e *like) match(s []byte, w *budget.Work) (bool, error) {
	at, p := 0, 0
	star, from := -1, 0
	for at < len(s) {
		c, size := utf8.DecodeRune(s[at:])
		switch {
		case p < len(e.compiled) && !e.literal[p] && e.compiled[p] == '%':
			star, from = p, at
			p++
		case p < len(e.compiled) && (!e.literal[p] || e.compiled[p] == c):
			p++
			at += size
		case star >= 0:
			if err := w.Spend(1 + p - star); err != nil { // characters that are compared again
				return false, err
			}
			_, size := utf8.DecodeRune(s[from:])
			from += size
			at, p = from, star+1
		default:
			return false, nil
		}
	}
	for p < len(e.compiled) && !e.literal[p] && e.compiled[p] == '%' {
		p++
	}
	return p == len(e.compiled), nil
}
