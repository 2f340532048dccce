package roles_test

import (
	"net/http"
	"strings"
	"sync"
)

// between is a transport that does something once, after the first answer to a request whose path has a certain part.
type between struct {
	after string
	do    func()
	once  sync.Once
	next  http.Transport
}

func (b *between) Do(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil && strings.Contains(r.URL.Path, b.after) {
		b.once.Do(b.do)
	}
	return answer, err
}
