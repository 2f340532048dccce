// Package statusline gives answers a reason phrase of their own. net/http has one phrase for each status and no way to
// change it, while Azure Storage sends the first line of an error's message, which client libraries print.
package statusline

import (
	"net/http"
	"strings"
)

// Reasoner is a ResponseWriter whose answer can have a reason phrase other than that of its status.
type Reasoner interface {
	// SetReason sets the phrase that is sent if the answer has the status. It is called before WriteHeader; "" is the
	// status's own phrase.
	SetReason(status int, phrase string)
}

// maxPhrase bounds a phrase in bytes: some messages quote what the client has sent.
const maxPhrase = 512

// SetReason makes the first line of message the phrase of the answer on w, if it has the status and if w, or a writer
// that it unwraps to, is a [Reasoner]. What is no printable ASCII becomes a question mark.
func SetReason(w http.ResponseWriter, status int, message string) {
	for {
		switch next := w.(type) {
		case Reasoner:
			next.SetReason(status, phrase(message))
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = next.Unwrap()
		default:
			return
		}
	}
}

// phrase returns the reason phrase of an error's message.
func phrase(message string) string {
	line, _, _ := strings.Cut(message, "\n")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, strings.TrimSpace(line[:min(len(line), maxPhrase)]))
}
