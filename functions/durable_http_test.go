package functions

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/functions/internal/keys"
)

// Without a key file every request is served, and the host's clients of workflows need no secret address.
func TestDurableClientAddresses(t *testing.T) {
	t.Parallel()
	h := &Host{origin: "http://localhost:1", durableSecret: "s"}
	if c := h.durableClient(false); c.Query != "" || c.Calls != "http://localhost:1"+durablePath {
		t.Errorf("%+v", c)
	}
	file := filepath.Join(t.TempDir(), "keys.json")
	err := os.WriteFile(file, []byte(`{"host.master": "m", "host.systemKey.durabletask_extension": "a&b"}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if h.keys, err = keys.Open(file); err != nil {
		t.Fatal(err)
	}
	c := h.durableClient(true)
	if c.Query != "code=a%26b" || c.Calls != "http://localhost:1"+durableCalls+"s/" || !c.Messages {
		text, _ := json.Marshal(c)
		t.Errorf("%s", text)
	}
}
