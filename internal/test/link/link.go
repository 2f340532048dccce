// Package link has transports for tests: one that counts requests and holds them back, and one that makes a Lazuli a
// plain service.
package link

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// Plain is a transport of the Azure SDK to a service that does not know Lazuli's extensions of the protocol.
type Plain struct {
	// Next sends the requests.
	Next *http.Client
}

// Do implements policy.Transporter.
func (p Plain) Do(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.DeleteFunc(r.Header, func(name string, _ []string) bool {
		return strings.HasPrefix(strings.ToLower(name), "x-lazuli-")
	})
	return p.Next.Do(r)
}

// Link is a transport of the Azure SDK. It counts the requests with a method.
type Link struct {
	// Next sends the requests.
	Next *http.Client
	// Method is the method of the requests that are counted and held.
	Method string
	// Plain makes the service a plain one; see type Plain.
	Plain bool

	count atomic.Int64
	held  sync.RWMutex
}

// Do implements policy.Transporter.
func (l *Link) Do(r *http.Request) (*http.Response, error) {
	if r.Method == l.Method {
		l.count.Add(1)
		l.held.RLock()
		defer l.held.RUnlock()
	}
	if l.Plain {
		return Plain{l.Next}.Do(r)
	}
	return l.Next.Do(r)
}

// Count returns the number of requests with the method so far, held ones included.
func (l *Link) Count() int64 { return l.count.Load() }

// Hold holds requests with the method back until release is called.
func (l *Link) Hold() (release func()) {
	l.held.Lock()
	return l.held.Unlock
}
