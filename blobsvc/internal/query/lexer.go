package query

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is the kind of a token.
type tokenKind byte

const (
	tokEnd    tokenKind = iota
	tokName             // an unquoted name or keyword; text as written
	tokQuoted           // "a name"
	tokString           // 'text'
	tokNumber
	tokSymbol // an operator or punctuation
)

type token struct {
	kind tokenKind
	text string
}

// is reports whether t is the keyword or symbol word, which is in upper case.
func (t token) is(word string) bool {
	return t.kind == tokSymbol && t.text == word || t.kind == tokName && strings.EqualFold(t.text, word)
}

// tokenize splits SQL into tokens, the last of which is tokEnd.
func tokenize(s string) ([]token, error) {
	var out []token
	for i := 0; i < len(s); {
		// Bounded before the parser, whose recursion follows the tokens.
		if len(out) == maxTokens {
			return nil, refuse("The query is too long.")
		}
		c := s[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
		case c == '\'' || c == '"':
			text, n, ok := quoted(s[i:])
			if !ok {
				return nil, errSyntax
			}
			kind := tokString
			if c == '"' {
				// Single quotes make a text, double quotes a name that is compared exactly.
				kind = tokQuoted
			}
			out = append(out, token{kind, text})
			i += n
		// A dot begins a number only before a digit; else it is a step of a path.
		case c >= '0' && c <= '9' || c == '.' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			n := numberLength(s[i:])
			out = append(out, token{tokNumber, s[i : i+n]})
			i += n
		default:
			if n := nameLength(s[i:]); n > 0 {
				out = append(out, token{tokName, s[i : i+n]})
				i += n
				continue
			}
			n := symbolLength(s[i:])
			if n == 0 {
				return nil, errSyntax
			}
			out = append(out, token{tokSymbol, s[i : i+n]})
			i += n
		}
	}
	return append(out, token{}), nil
}

// quoted parses the quoted text at the start of s, in which two quotes are one quote. n is the length including the
// quotes.
func quoted(s string) (text string, n int, ok bool) {
	q := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != q {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == q {
			b.WriteByte(q)
			i++
			continue
		}
		return b.String(), i + 1, true
	}
	return "", 0, false
}

func digits(s string, i int) int {
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

func numberLength(s string) int {
	i := digits(s, 0)
	if i < len(s) && s[i] == '.' {
		i = digits(s, i+1)
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if end := digits(s, j); end > j {
			i = end
		}
	}
	return i
}

func nameLength(s string) int {
	for i, r := range s {
		if r == '_' || unicode.IsLetter(r) || i > 0 && unicode.IsDigit(r) {
			continue
		}
		return i
	}
	if !utf8.ValidString(s) {
		return 0
	}
	return len(s)
}

func symbolLength(s string) int {
	for _, two := range [...]string{"<>", "!=", "<=", ">="} {
		if strings.HasPrefix(s, two) {
			return 2
		}
	}
	if strings.IndexByte("=<>+-*/%(),.;[]", s[0]) >= 0 {
		return 1
	}
	return 0
}
