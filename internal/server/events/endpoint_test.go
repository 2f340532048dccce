package events

import (
	"net/http"
	"strings"
	"testing"
)

// Errors of deliveries are logged and listed, and the query of an endpoint often has its key.
func TestErrorsDoNotShowTheKeyOfAnEndpoint(t *testing.T) {
	t.Parallel()
	c := newCouriers(&http.Client{}, nil, nil)
	for _, endpoint := range []string{"http://127.0.0.1:1/hook?code=secret", "http://127.0.0.1:x/hook?code=secret",
		"\x01?code=secret"} {
		_, err := c.request(t.Context(), http.MethodPost, endpoint, nil, http.Header{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want an error without the key", endpoint, err)
		}
	}
}
