package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// run runs the command and returns its exit code and all that it prints.
func runCommand(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	var out bytes.Buffer
	m := Main{Args: args, Stdout: &out, Stderr: &out}
	code = m.Run(context.Background())
	return code, out.String()
}

func TestFaultCommand(t *testing.T) {
	seed := filepath.Join(t.TempDir(), "seed.yaml")
	if err := os.WriteFile(seed, []byte("faults:\n- {name: seeded, operation: Get Blob, delay: 1ms, count: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port", "0", "--seed", seed}
	r := start(t, Main{Args: append(args, "--faults")})
	address := strings.TrimPrefix(r.wait(t, `Admin +(http://\S+)`)[1], "http://")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	r.wait(t, "Ready")
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"ls", exitOK, `{"operation":"Get Blob","count":3,"delay":"1ms"}`},
		{"add --operation PutBlob --error ServerBusy --retry-after 2s", exitOK, "fault-1\n"},
		{"add --name mine --service queue --throttle-requests 10 --throttle-per container", exitOK, "mine\n"},
		{"add --name mine --unanswered", exitFailure, "a fault rule of that name exists"},
		{"add --operation Fly --unanswered", exitFailure, "matches no operation"},
		{"add", exitFailure, "no action"},
		{"ls --json", exitOK, `"throttle":{"requests":10,"per":"container"}`},
		{"rm fault-1 other", exitFailure, "there is no fault rule of that name: other"},
		{"rm", exitUsage, "give the name of a rule"},
		{"rm --all", exitOK, ""},
		{"ls", exitOK, "no fault rules\n"},
	} {
		command := append([]string{"fault"}, strings.Fields(tc.args)...)
		if code, output := runCommand(t, append(command, "--admin-port", port)...); code != tc.code || !strings.Contains(output, tc.want) {
			t.Errorf("lazuli fault %s: exit code %d, want %d; output %q, want it to contain %q", tc.args, code, tc.code, output, tc.want)
		}
	}
	r.cancel()
	r.end(t)
}

// Rules are refused where the server was not asked to allow them.
func TestFaultsMustBeAllowed(t *testing.T) {
	args := []string{"--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port", "0"}
	r := start(t, Main{Args: args})
	address := strings.TrimPrefix(r.wait(t, `Admin +(http://\S+)`)[1], "http://")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	r.wait(t, "Ready")
	if code, output := runCommand(t, "fault", "add", "--unanswered", "--admin-port", port); code != exitFailure || !strings.Contains(output, "--faults") {
		t.Errorf("exit code %d, output %q", code, output)
	}
	r.cancel()
	r.end(t)
	seed := filepath.Join(t.TempDir(), "seed.yaml")
	if err := os.WriteFile(seed, []byte("faults:\n- {unanswered: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, output := runCommand(t, append(args, "--seed", seed)...); code != exitUsage || !strings.Contains(output, "--faults") {
		t.Errorf("a seed with rules: exit code %d, output %q", code, output)
	}
}
