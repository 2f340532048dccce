package tables

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// member is one member of a JSON object: the decoded name and the value as it stands in the text.
type member struct {
	name  string
	value []byte
}

// errJSON cannot happen with an answer that the SDK has accepted, which has parsed it as a whole.
var errJSON = errors.New("the service's answer is not the expected JSON")

// appendMembers appends the members of the JSON object b. The SDK has checked the text; this finds the boundaries,
// without another parse into maps, and keeps what the SDK's own values lose: 5.0 is a Double and 5 an Int32.
func appendMembers(list []member, b []byte) ([]member, error) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return list, errJSON
	}
	for i = skipSpace(b, i+1); i < len(b) && b[i] != '}'; i = skipSpace(b, i) {
		end := skipValue(b, i)
		if end > len(b) || b[i] != '"' {
			return list, errJSON
		}
		name, err := unquote(b[i:end])
		if err != nil {
			return list, err
		}
		if i = skipSpace(b, end); i >= len(b) || b[i] != ':' {
			return list, errJSON
		}
		i = skipSpace(b, i+1)
		if end = skipValue(b, i); end > len(b) {
			return list, errJSON
		}
		list = append(list, member{name, b[i:end]})
		if i = skipSpace(b, end); i < len(b) && b[i] == ',' {
			i++
		}
	}
	if i >= len(b) {
		return list, errJSON
	}
	return list, nil
}

// elements calls visit for each element of the JSON array b.
func elements(b []byte, visit func([]byte) error) error {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		return errJSON
	}
	for i = skipSpace(b, i+1); i < len(b) && b[i] != ']'; i = skipSpace(b, i) {
		end := skipValue(b, i)
		if end > len(b) || end == i {
			return errJSON
		}
		if err := visit(b[i:end]); err != nil {
			return err
		}
		if i = skipSpace(b, end); i < len(b) && b[i] == ',' {
			i++
		}
	}
	if i >= len(b) {
		return errJSON
	}
	return nil
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at i. It is beyond the end of b if the value is cut off.
func skipValue(b []byte, i int) int {
	// i is between two tokens, and depth is the number of open objects and arrays. The value ends where depth is 0
	// after a token: braces within a string are not counted, since a string is one token.
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			i++
			if i > len(b) {
				return len(b) + 1
			}
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return i // it closes the object around the value, which is empty: the caller refuses that
			}
			depth--
			i++
		case ',', ':', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			for i < len(b) && !strings.ContainsRune(",:}] \n\r\t", rune(b[i])) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(b) + 1
}

// unquote decodes a JSON string.
func unquote(b []byte) (string, error) {
	if len(b) < 2 || b[0] != '"' {
		return "", errJSON
	}
	inner := b[1 : len(b)-1]
	for _, c := range inner {
		if c == '\\' {
			var s string
			err := json.Unmarshal(b, &s)
			return s, err
		}
	}
	return string(inner), nil
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends a JSON string.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	begun := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[begun:i]...), "\ufffd"...)
				begun = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[begun:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		begun = i
	}
	return append(append(b, s[begun:]...), '"')
}
