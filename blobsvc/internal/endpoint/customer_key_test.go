package endpoint

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Customer-provided keys are accepted over https, and over plain HTTP only from the same machine.
func TestKeysNeedHTTPS(t *testing.T) {
	t.Parallel()
	for remote, ok := range map[string]bool{"127.0.0.1:5": true, "[::1]:5": true, "": true, "10.0.0.5:5": false,
		"[fe80::1]:5": false} {
		hr, err := http.NewRequest(http.MethodGet, "http://x/a/b", nil)
		if err != nil {
			t.Fatal(err)
		}
		hr.RemoteAddr = remote
		hr.Header = http.Header{"X-Ms-Encryption-Key": {"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="},
			"X-Ms-Encryption-Algorithm":  {"AES256"},
			"X-Ms-Encryption-Key-Sha256": {"cs1oiVOBbCgFNcJFc7fzkorTsI8XDFUyYSfRl6W69tw="}}
		c := &Call{Request: &wire.Request{HTTP: hr}}
		if err := c.readKeys(); ok != (err == nil || !strings.Contains(err.Error(), "https")) {
			t.Errorf("from %q: %v", remote, err)
		}
	}
}
