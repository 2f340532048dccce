package httpserver

import (
	"io"
	"net/http"
)

// boundHead refuses requests whose head is longer than maxHeader, with the answer that a connection without TLS gives.
func boundHead(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if headSize(r) <= maxHeader {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=us-ascii")
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, tooLongPage)
	})
}

// headSize returns the length of a request's head in bytes, without line ends and what does not vary.
func headSize(r *http.Request) int {
	n := len(r.RequestURI)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}
