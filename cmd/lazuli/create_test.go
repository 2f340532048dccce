package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/lazulitest"
)

// Each service has a verb that creates what holds its data; a put where it is missing says so.
func TestCreate(t *testing.T) {
	t.Parallel()
	a := lazulitest.Start(t).Default(t)
	run := func(stdin string, args ...string) string {
		t.Helper()
		cmd := newRootCommand(&Main{})
		cmd.SetArgs(append(args, "--connection-string", a.ConnectionString()))
		cmd.SetIn(strings.NewReader(stdin))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		var out bytes.Buffer
		report(&out, cmd.ExecuteContext(t.Context()))
		return out.String()
	}
	entity := `{"PartitionKey":"p","RowKey":"r"}`
	for _, c := range []struct {
		verb, name, hint string
		put              []string
	}{
		{"table", "People", "lazuli table create TABLE", []string{"table", "put", "People"}},
		{"queue", "orders", "lazuli queue create QUEUE", []string{"queue", "put", "orders", "-"}},
		{"blob", "photos", "lazuli blob create CONTAINER", []string{"blob", "put", "-", "photos/a"}},
	} {
		if got := run(entity, c.put...); !strings.Contains(got, "404") || !strings.Contains(got, c.hint) {
			t.Errorf("%v: %q", c.put, got)
		}
		for _, step := range []struct{ says, option string }{{"", ""}, {"AlreadyExists", ""}, {"", "--if-absent"}} {
			got := run("", append([]string{c.verb, "create", c.name}, strings.Fields(step.option)...)...)
			if (got == "") != (step.says == "") || !strings.Contains(got, step.says) {
				t.Errorf("%s create %s: %q", c.verb, step.option, got)
			}
		}
		if got := run(entity, c.put...); got != "" {
			t.Errorf("%v: %q", c.put, got)
		}
		if got := run("", c.verb, "create", "in valid!"); got == "" {
			t.Errorf("%s create takes any name", c.verb)
		}
	}
}
