package jsonfile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

func TestPlainJSON(t *testing.T) {
	t.Parallel()
	text := "\xef\xbb\xbf{ // one\n \"a\": \"// no, \\\" comment\", /* two\n */ \"b\": [1, 2, /* x */ ], }"
	var got map[string]any
	plain := plain([]byte(text))
	if err := json.Unmarshal(plain, &got); err != nil || got["a"] != `// no, " comment` || len(got["b"].([]any)) != 2 {
		t.Errorf("%v, %v: %s", got, err, plain)
	}
	if strings.Count(text, "\n") != strings.Count(string(plain), "\n") || len(plain) != len(text) {
		t.Error("lines have moved")
	}
}

func FuzzPlainJSON(f *testing.F) {
	f.Add([]byte(`{"a": 1, /* */ "b": [2,],}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer workbudget.Default.Start(t, len(text))()
		plain := plain(text)
		if len(plain) != len(text) {
			t.Error("the length has changed")
		}
		var r Report
		if s, err := Parse(&r, "f", "", plain); err == nil {
			for _, m := range s.Members {
				s.Text(m.Name, "")
				s.Boolean(m.Name, false)
				s.Duration(m.Name, 0, 0, time.Hour)
				s.Objects(m.Name)
				s.Object(m.Name)
			}
		}
	})
}
