package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// With --json, each line is an object whose members have names in camel case, and which has no zero time.
func TestJSONLines(t *testing.T) {
	t.Setenv(connstr.Variable, lazulitest.Start(t).ConnectionString())
	accounts := t.TempDir() + "/accounts"
	for _, tc := range []struct{ args, stdin, member, want string }{
		{"table|create|People", "", "", ""},
		{"table|put|People", `{"PartitionKey":"a","RowKey":"b","Age":7}`, "", ""},
		{"queue|put|orders|one|--create", "", "", ""},
		{"blob|put|-|photos/cat.txt|--create", "a cat", "", ""},
		{"account|create|shop|--file|" + accounts, "", "", ""},
		{"table|ls|--json", "", "name", "People"},
		{"table|stats|People|--json", "", "entities", "1"},
		{"table|explain|People|--json", "", "plan", "TableScan"},
		{"queue|ls|--json", "", "messages", "1"},
		{"blob|ls|--json", "", "name", "photos"},
		{"blob|ls|photos|--json", "", "size", "5"},
		{"blob|stat|photos/cat.txt|--json", "", "contentMD5", "wdDkSwnVrFL5D0Y/5BD8iA=="},
		{"account|ls|--file|" + accounts + "|--json", "", "name", "shop"},
	} {
		var out, errs bytes.Buffer
		m := &Main{Args: strings.Split(tc.args, "|"), Stdout: &out, Stderr: &errs}
		root := newRootCommand(m)
		root.SetArgs(m.Args)
		root.SetIn(strings.NewReader(tc.stdin))
		root.SetOut(&out)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("lazuli %s: %v", tc.args, err)
		}
		if tc.member == "" {
			continue
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		var object map[string]any
		if err := json.Unmarshal([]byte(lines[0]), &object); err != nil || len(lines) != 1 {
			t.Errorf("lazuli %s prints %q: %v", tc.args, &out, err)
			continue
		}
		var got bytes.Buffer
		_ = json.NewEncoder(&got).Encode(object[tc.member])
		if strings.Trim(got.String(), "\"\n") != tc.want {
			t.Errorf("lazuli %s: %s is %s, want %s, in %s", tc.args, tc.member, &got, tc.want, &out)
		}
		for name, value := range object {
			if name[:1] != strings.ToLower(name[:1]) || value == "0001-01-01T00:00:00Z" {
				t.Errorf("lazuli %s: %s is %v", tc.args, name, value)
			}
		}
	}
}
