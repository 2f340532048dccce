package languageworker

import (
	"encoding/json"
	"testing"

	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers/durable/durablefunc"
)

func TestPythonOrchestrations(t *testing.T) {
	t.Parallel()
	c := pythonConfig(t, lazulitest.Start(t).ConnectionString(), "durable", map[string]string{
		"host.json": `{"version": "2.0", "extensions": {"durableTask": {"storageProvider": {"partitionCount": 1}}}}`})
	c.Durable = durablefunc.Runtime{}
	r := run(t, c)
	for _, c := range []struct{ path, input, want string }{
		{"start/chain", `["Tokyo", "Ürümqi"]`, `["hello \"Tokyo\"","hello \"\\u00dcr\\u00fcmqi\""]`},
		{"start/fan", "", `["hello {\"n\": 0}","hello {\"n\": 1}","hello {\"n\": 2}",3,3,3,"hello \"the end\""]`},
		{"start/gives_up", "", `[true,"hello \"after\""]`},
		{"raise/waits/go", "", `[true,"{\"from\": \"a client\"}"]`},
		{"start/parent", "", `[["hello \"a\"","hello \"b\""],3]`},
	} {
		t.Run(c.path, func(t *testing.T) {
			response, body := r.get(t, "/api/"+c.path, c.input)
			var got any
			if err := json.Unmarshal([]byte(body), &got); err != nil || response.StatusCode != 200 {
				t.Fatalf("%d %s", response.StatusCode, body)
			}
			if text, err := json.Marshal(got); err != nil || string(text) != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
	response, body := r.get(t, "/api/start/broken", "")
	var status struct{ RuntimeStatus, Output string }
	if err := json.Unmarshal([]byte(body), &status); err != nil || response.StatusCode != 500 ||
		status.RuntimeStatus != "Failed" {
		t.Errorf("an orchestration that fails: %d %s", response.StatusCode, body)
	}
}
