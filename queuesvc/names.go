package queuesvc

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// call is one request to the service: the parsed request and the resource in its path.
type call struct {
	*wire.Request
	// queue and message are decoded; "" if the path is of a higher level.
	queue, message string
	// identity is the authenticated caller.
	identity auth.Identity
}

// resolve parses the path: /<queue>, /<queue>/messages, /<queue>/messages/<id>.
func resolve(_ *Service, r *wire.Request) (*call, frontend.Level, error) {
	c := &call{Request: r}
	if r.RawPath == "" {
		return c, onService, nil
	}
	first, rest, _ := strings.Cut(r.RawPath[1:], "/")
	var err error
	// Unescaped after the path was split: an encoded slash belongs to the name, and is refused with it.
	if c.queue, err = url.PathUnescape(first); err != nil {
		return c, onQueue, wire.ErrInvalidURI
	}
	if err := checkName(c.queue); err != nil {
		return c, onQueue, err
	}
	collection, id, _ := strings.Cut(rest, "/")
	switch {
	case rest == "":
		return c, onQueue, nil
	case collection != "messages" || strings.Contains(id, "/"):
		return c, onQueue, wire.ErrInvalidURI
	// Peek and Get have one path and different operations, which need different permissions: so the level tells them
	// apart.
	case id == "" && r.HTTP.Method == http.MethodGet && strings.EqualFold(r.Query.Get("peekonly"), "true"):
		return c, onPeek, nil
	case id == "":
		return c, onMessages, nil
	}
	if c.message, err = url.PathUnescape(id); err != nil {
		return c, onMessage, wire.ErrInvalidURI
	}
	return c, onMessage, nil
}

// checkName checks a queue's name: 3 to 63 lower-case letters, digits and hyphens, beginning and ending with a letter
// or digit, no two hyphens in a row. https://learn.microsoft.com/rest/api/storageservices/naming-queues-and-metadata
func checkName(s string) error {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case c == '-' && i > 0 && i < len(s)-1 && s[i-1] != '-':
		default:
			return errName
		}
	}
	if n := utf8.RuneCountInString(s); n < 3 || n > 63 {
		return errNameLength
	}
	return nil
}
