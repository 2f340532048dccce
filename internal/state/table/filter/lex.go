package filter

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Error is an error in a filter.
type Error struct {
	// Offset is the position in the filter's text, in bytes from 0.
	Offset int
	// Reason is a phrase without the position.
	Reason string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s at position %d", e.Reason, e.Offset) }

type tokenKind uint8

const (
	endToken tokenKind = iota
	openToken
	closeToken
	wordToken     // a property or an operator
	constantToken // value is set
)

type token struct {
	kind  tokenKind
	at    int
	text  string
	value entity.Value
}

// lexer splits the text into tokens. Its errors are *Error.
type lexer struct {
	text string
	at   int
}

func (l *lexer) fail(at int, format string, args ...any) error {
	return &Error{at, fmt.Sprintf(format, args...)}
}

// next returns the token at the current position and moves past it.
func (l *lexer) next() (token, error) {
	for l.at < len(l.text) && space(l.text[l.at]) {
		l.at++
	}
	t := token{at: l.at}
	if l.at == len(l.text) {
		return t, nil
	}
	switch c := l.text[l.at]; {
	case c == '(':
		l.at++
		t.kind = openToken
		return t, nil
	case c == ')':
		l.at++
		t.kind = closeToken
		return t, nil
	case c == '\'':
		s, err := l.quoted()
		t.kind, t.value = constantToken, entity.StringValue(s)
		return t, err
	case c >= '0' && c <= '9' || c == '-' || c == '.' || c == '+':
		return l.number(t)
	}
	word := l.word()
	if word == "" {
		r, _ := utf8.DecodeRuneInString(l.text[l.at:])
		return t, l.fail(l.at, "unexpected character %q", r)
	}
	if l.at < len(l.text) && l.text[l.at] == '\'' {
		return l.typed(t, word)
	}
	t.kind, t.text = wordToken, word
	switch {
	// Any case, as Azure takes it; names of properties and operators differ by case.
	case strings.EqualFold(word, "true"), strings.EqualFold(word, "false"):
		t.kind, t.value = constantToken, entity.BoolValue(word[0]|0x20 == 't')
		return t, nil
	}
	switch word {
	case "NaN", "INF", "Infinity":
		f, _ := strconv.ParseFloat(strings.ToLower(word[:3]), 64)
		t.kind, t.value = constantToken, entity.DoubleValue(f)
	}
	return t, nil
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// word reads a run of identifier characters, which include the dash, for properties of versions before 2009-04-14.
func (l *lexer) word() string {
	start := l.at
	for l.at < len(l.text) {
		r, size := utf8.DecodeRuneInString(l.text[l.at:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		if r != '_' && (r != '-' || l.at == start) &&
			!unicode.In(r, unicode.L, unicode.Nl, unicode.Nd, unicode.Mn, unicode.Mc, unicode.Pc, unicode.Cf) {
			break
		}
		l.at += size
	}
	return l.text[start:l.at]
}

// quoted reads text between single quotes. A doubled quote is one quote.
func (l *lexer) quoted() (string, error) {
	start := l.at
	l.at++
	from := l.at
	var b strings.Builder
	for {
		i := strings.IndexByte(l.text[l.at:], '\'')
		if i < 0 {
			return "", l.fail(start, "text without closing quote")
		}
		l.at += i + 1
		if l.at < len(l.text) && l.text[l.at] == '\'' {
			b.WriteString(l.text[from:l.at])
			l.at++
			from = l.at
			continue
		}
		b.WriteString(l.text[from : l.at-1])
		// Keys and values are valid UTF-8, so that other text equals none of them, as it would on Azure, which decodes
		// it so.
		return strings.ToValidUTF8(b.String(), "\ufffd"), nil
	}
}

// typed reads the quoted part of datetime'...', guid'...', X'...' and binary'...'.
func (l *lexer) typed(t token, prefix string) (token, error) {
	s, err := l.quoted()
	if err != nil {
		return t, err
	}
	t.kind = constantToken
	switch prefix {
	case "datetime":
		at, ok := ticks.Parse(s)
		if !ok {
			return t, l.fail(t.at, "%q is not a date and time", s)
		}
		t.value = entity.TimeValue(at)
	case "guid":
		g, ok := entity.ParseGUID(s)
		if !ok {
			return t, l.fail(t.at, "%q is not a GUID", s)
		}
		t.value = entity.Value{Type: entity.GUID, Bytes: g[:]}
	case "X", "binary":
		b := make([]byte, 0, len(s)/2)
		for i := 0; i+1 < len(s); i += 2 {
			n, err := strconv.ParseUint(s[i:i+2], 16, 8)
			// ParseUint would take "+f" for a number.
			if err != nil || s[i] == '+' {
				return t, l.fail(t.at, "%q is not hexadecimal", s)
			}
			b = append(b, byte(n))
		}
		if len(s)%2 != 0 {
			return t, l.fail(t.at, "%q has an odd number of digits", s)
		}
		t.value = entity.Value{Type: entity.Binary, Bytes: b}
	default:
		return t, l.fail(t.at, "unknown type %q of a constant", prefix)
	}
	return t, nil
}

// number reads an Int32, an Int64 (with suffix L) or a Double (with a point, an exponent, or the suffix D or F). Azure
// refuses a whole number without suffix that is not an Int32:
// https://github.com/microsoft/AzureStorageExplorer/issues/1382
func (l *lexer) number(t token) (token, error) {
	start := l.at
	if c := l.text[l.at]; c == '-' || c == '+' {
		l.at++
		if strings.HasPrefix(l.text[l.at:], "INF") {
			word := l.word()
			if c == '-' && (word == "INF" || word == "Infinity") {
				f, _ := strconv.ParseFloat("-inf", 64)
				t.kind, t.value = constantToken, entity.DoubleValue(f)
				return t, nil
			}
			return t, l.fail(start, "%q is not a constant", l.text[start:l.at])
		}
	}
	whole := true
scan:
	for l.at < len(l.text) {
		switch c := l.text[l.at]; {
		case c >= '0' && c <= '9':
		case c == '.' || c == 'e' || c == 'E':
			whole = false
		case (c == '-' || c == '+') && (l.text[l.at-1] == 'e' || l.text[l.at-1] == 'E'):
		default:
			break scan
		}
		l.at++
	}
	// The scan takes more than numbers, such as "1.2.3" or "1e": the functions of strconv below refuse those.
	digits := l.text[start:l.at]
	// The whole word, so that "5Lx" is an error at this place and not two tokens.
	suffix := l.word()
	t.kind = constantToken
	switch suffix {
	case "":
	case "L", "l":
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return t, l.fail(start, "%q is not an Int64", digits)
		}
		t.value = entity.Int64Value(n)
		return t, nil
	case "D", "d", "F", "f":
		whole = false
	default:
		return t, l.fail(start, "%q is not a number", digits+suffix)
	}
	if whole {
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil {
			return t, l.fail(start, "%q is not an Int32; the suffix L makes an Int64", digits)
		}
		t.value = entity.Int32Value(int32(n))
		return t, nil
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return t, l.fail(start, "%q is not a Double", digits)
	}
	t.value = entity.DoubleValue(f)
	return t, nil
}

func formatInt(n uint64) string { return strconv.FormatInt(int64(n), 10) }
