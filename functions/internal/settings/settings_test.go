package settings

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonfile"
)

func TestExpandSettings(t *testing.T) {
	t.Parallel()
	s := &Settings{Values: []string{"A=1", "Path=/bin"}}
	for _, c := range []struct {
		text, want string
		keep, bad  bool
	}{
		{text: "x%A%y%path%", want: "x1y/bin"}, {text: "100%", want: "100%"}, {text: "%B%", bad: true},
		{text: "%B% %A%", keep: true, want: "%B% 1"}, {text: "50% of %A%", keep: true, want: "50% of 1"},
	} {
		got, err := s.Expand(c.text, c.keep)
		if (err != nil) != c.bad || got != c.want {
			t.Errorf("%s: %q, %v", c.text, got, err)
		}
	}
}

// The section ConnectionStrings goes before other settings, in the file and as environment variables.
func TestConnectionStrings(t *testing.T) {
	t.Parallel()
	var r jsonfile.Report
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), []byte(`{"Values": {"A": "value", "Twice": "1", "Twice": "2"},
		"ConnectionStrings": {"A": "section", "B": {"ConnectionString": "of an object",
			"ProviderName": "System.Data.SqlClient"},
		"AzureWebJobsC": "prefixed", "D": "file"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := Read(&r, dir, []string{"C=value", "ConnectionStrings__D=environment"})
	for name, want := range map[string]string{"A": "section", "b": "of an object", "C": "prefixed", "D": "environment",
		"Twice": "2"} {
		if got, err := s.Connection(name); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
	}
	if len(r.Errs)+len(r.Warnings) > 0 {
		t.Errorf("%+v", r)
	}
	if got, _ := s.Get("ConnectionStrings__A"); got != "section" {
		t.Errorf("a function's process does not see it: %v", s.Values)
	}
}
