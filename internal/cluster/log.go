package cluster

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
)

// nodeLogger is the logger of a node of a cluster. What happens between nodes is logged by this package, once; the
// embedded server repeats it with each attempt to connect.
type nodeLogger struct {
	natsserver.Logger

	mu        sync.Mutex
	strangers map[string]time.Time // when a refused address was logged last
}

// strangerEvery is the interval at which an address is logged from which connections are refused.
const strangerEvery = time.Minute

// stranger logs, once in a while, that a connection of another node failed because the two do not trust each other.
// text is "ADDRESS - rid:N - TLS route handshake error: ...".
func (l *nodeLogger) stranger(text string) {
	address, _, _ := strings.Cut(text, " - ")
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	l.mu.Lock()
	now := time.Now()
	logged := now.Sub(l.strangers[host]) < strangerEvery
	if !logged {
		if l.strangers == nil || len(l.strangers) >= 100 {
			l.strangers = map[string]time.Time{}
		}
		l.strangers[host] = now
	}
	l.mu.Unlock()
	if !logged {
		l.Out.Warn("a connection between nodes was refused: the other node has another secret, or a certificate of "+
			"another authority", "address", address, "err", text)
	}
}

// Warnf implements server.Logger.
func (l *nodeLogger) Warnf(format string, v ...any) {
	l.Out.Debug("nats: " + fmt.Sprintf(format, v...))
}

// Errorf implements server.Logger.
func (l *nodeLogger) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if strings.Contains(text, "handshake error") && (strings.Contains(text, "tls: ") || strings.Contains(text, "x509: ")) {
		l.stranger(text)
		return
	}
	// A front-end, and a node that asks to be taken in, refuse what connects to them.
	for _, part := range []string{"route", "Route", "authentication error", "duplicate name", "Error flushing"} {
		if strings.Contains(text, part) {
			l.Out.Debug("nats: " + text)
			return
		}
	}
	l.Out.Error("nats: " + text)
}
