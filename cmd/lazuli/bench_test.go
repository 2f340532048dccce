package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// runBench runs `lazuli bench` in process and returns its exit code and output.
func runBench(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	m := Main{Args: append([]string{"bench"}, args...), Stdout: &out, Stderr: &errs}
	code = m.Run(context.Background())
	return code, out.String(), errs.String()
}

func TestBenchList(t *testing.T) {
	code, out, _ := runBench(t, "--list")
	if code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{"entity-insert", "queue-get-delete", "blob-get-64m", "list-10000", "(extra)"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

func TestBenchMistakes(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"preload", []string{"--preload", "rows=1"}, "preload"},
		{"workload", []string{"--workload", "nothing"}, "no workload matches"},
		{"duration", []string{"--duration", "0s"}, "duration must be positive"},
		{"connections", []string{"--connections", "0"}, "connections must be"},
		{"connection string", []string{"--connection-string", "AccountName=a"}, "connection string"},
		{"restart of a server that is not ours", []string{"--restart", "--connection-string", "UseDevelopmentStorage=true"},
			"restart"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, _, stderr := runBench(t, tt.args...)
			if code != exitUsage || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, %q; want %d and %q", code, stderr, exitUsage, tt.want)
			}
		})
	}
}
