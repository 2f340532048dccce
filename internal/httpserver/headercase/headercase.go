// Package headercase keeps the case of the names of metadata headers. Azure returns the names of metadata as the client
// wrote them; net/http turns all header names into one form. A connection therefore keeps the names that it reads, and
// requests look them up by their connection's [Names].
package headercase

import (
	"bytes"
	"context"
	"strings"
	"sync"
)

// maxNames bounds the number of names that a connection keeps. A client that uses more loses their case, nothing else.
const maxNames = 256

// Names holds the names that were read from one connection. The zero value is ready for use; it is safe for concurrent
// use.
type Names struct {
	mu    sync.Mutex
	names map[string]string // lower case -> original
}

// maxName bounds the length of a name that is kept, in bytes.
const maxName = 262

// Keep keeps the name of the header whose line this is, if it is one of metadata.
func (n *Names) Keep(line []byte) {
	const prefix = "x-ms-meta-"
	if len(line) < len(prefix) || line[0]|0x20 != 'x' || string(line[6:10]) != "eta-" {
		return
	}
	end := bytes.IndexByte(line[:min(len(line), maxName+1)], ':')
	if end < 0 {
		return
	}
	name := string(line[:end])
	lower := strings.ToLower(name)
	if !strings.HasPrefix(lower, prefix) || name == lower && n.names == nil {
		return
	}
	n.keep(lower, name)
}

// Set keeps a name as if it had been read.
func (n *Names) Set(name string) { n.keep(strings.ToLower(name), name) }

func (n *Names) keep(lower, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names == nil {
		n.names = make(map[string]string)
	}
	if len(n.names) < maxNames || n.names[lower] != "" {
		n.names[lower] = name
	}
}

// Original returns the name as it was last written on the connection; lower, its form in lower case, if it was not.
func (n *Names) Original(lower string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, ok := n.names[lower]; ok {
		return name
	}
	return lower
}

type contextKey struct{}

// NewContext returns a context for the requests of one connection, for [Original].
func NewContext(ctx context.Context, n *Names) context.Context {
	return context.WithValue(ctx, contextKey{}, n)
}

// Original returns a header's name as the client wrote it, if its connection knows it; else lower, its form in lower
// case.
func Original(ctx context.Context, lower string) string {
	if n, ok := ctx.Value(contextKey{}).(*Names); ok {
		return n.Original(lower)
	}
	return lower
}
