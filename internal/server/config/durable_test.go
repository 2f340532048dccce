package config

import (
	"strings"
	"testing"
)

func TestDurable(t *testing.T) {
	for _, c := range []struct {
		args, environ []string
		says          string // "" for no error
	}{
		{args: []string{"--durable"}},
		// Their hubs are in an account whose key is published.
		{args: []string{"--durable", "--durable-listen=0.0.0.0:8080", "--durable-hubs=default,my-hub"}},
		{args: []string{"--durable", "--durable-hubs=a,,b"}, says: "no name"},
		{args: []string{"--durable", "--durable-listen=0.0.0.0:4001"}, environ: []string{"LAZULI_ACCOUNTS=own:c2VjcmV0"},
			says: "durable-token"},
		{args: []string{"--durable", "--durable-listen=0.0.0.0:4001"}, environ: []string{"LAZULI_DURABLE_TOKEN=secret"}},
		{environ: []string{"LAZULI_DURABLE_TOKEN=secret"}, says: "set durable"},
		{args: []string{"--durable-account=a"}, says: "set durable"},
		{args: []string{"--durable-token=secret"}, says: "unknown flag"},
	} {
		r, err := load(t, c.args, c.environ, "")
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%v %v: %v", c.args, c.environ, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%v %v: %v, want %q in it", c.args, c.environ, err, c.says)
		case c.says == "" && len(c.environ) > 0 && lookup("durable-token").get(&r.Config) != "**redacted**":
			t.Error("the token is shown")
		}
	}
}
