package searchproc

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"time"
)

// gate lets the program read the account's tables without the account's key: a listener on a loopback address that
// forwards to an in-process transport what comes with the token.
type gate struct {
	listener net.Listener
	server   *http.Server
}

func openGate(to http.RoundTripper, tablesURL, token string) (*gate, error) {
	target, err := url.Parse(tablesURL)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	next := forward(target, "", to, func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	})
	g := &gate{listener, &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: Guard(token,
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				http.Error(w, "an index reads its table", http.StatusMethodNotAllowed)
				return
			}
			next.ServeHTTP(w, r)
		}))}}
	go func() { _ = g.server.Serve(listener) }()
	return g, nil
}

// Guard passes requests with the token on to next.
func Guard(token string, next http.Handler) http.Handler {
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			http.Error(w, "the token is missing", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// address returns the URL of the account's tables; empty without a gate.
func (g *gate) address() string {
	if g == nil {
		return ""
	}
	return "http://" + g.listener.Addr().String()
}

func (g *gate) close() error {
	if g == nil {
		return nil
	}
	return g.server.Close()
}
