// Package sdkerr says in one line what the Azure SDK says in a dozen.
//
// The text of an azcore.ResponseError is the whole response, with its request id and time. In a log or on a terminal
// the line that matters drowns in it, and two failures of the same kind never have the same text.
package sdkerr

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// Text returns err's text with every refused request in it as one line: method, address, status, code and message.
// Addresses have no query, since it can have a signature; also if the server did not respond. The text is "" for nil.
func Text(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	walk(err, func(e error) bool {
		switch e := e.(type) {
		case *azcore.ResponseError:
			text = strings.ReplaceAll(text, e.Error(), line(e))
			return false
		case *url.Error:
			if address, _, ok := strings.Cut(e.URL, "?"); ok {
				text = strings.ReplaceAll(text, e.URL, address)
			}
		}
		return true
	})
	return text
}

// walk calls look for every error in err's tree, and leaves out what is below one for which it returns false.
func walk(err error, look func(error) bool) {
	if err == nil || !look(err) {
		return
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		walk(e.Unwrap(), look)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			walk(inner, look)
		}
	}
}

// message finds a body's first line of text, in the XML of Blob and Queue or the JSON of Table.
var message = lazyregexp.New(`<Message>\s*([^\n<]+)|"message":\s*(?:{[^}]*"value":\s*)?"((?:[^"\\]|\\[^n])+)`)

func line(r *azcore.ResponseError) string {
	text := fmt.Sprint(r.StatusCode)
	if r.ErrorCode != "" {
		text += " " + r.ErrorCode
	}
	if r.RawResponse == nil {
		return text
	}
	if body, err := runtime.Payload(r.RawResponse); err == nil {
		if m := message().FindSubmatch(body); m != nil {
			said := string(m[1]) + string(m[2])
			if plain := ""; json.Unmarshal([]byte(`"`+string(m[2])+`"`), &plain) == nil && plain != "" {
				said = plain
			}
			text += ": " + strings.TrimSpace(said)
		}
	}
	if q := r.RawResponse.Request; q != nil {
		address, _, _ := strings.Cut(q.URL.String(), "?")
		text = fmt.Sprintf("%s %s: %s", q.Method, address, text)
	}
	return text
}

// Short returns err with Text as its text, and nil for nil. errors.Is and errors.As see err.
func Short(err error) error {
	if text := Text(err); err != nil && text != err.Error() {
		return &short{err, text}
	}
	return err
}

type short struct {
	err  error
	text string
}

func (s *short) Error() string { return s.text }
func (s *short) Unwrap() error { return s.err }
