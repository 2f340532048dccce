package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/test/faultdoors"
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
	if err := os.WriteFile(seed, []byte("faults:\n- {name: seeded, operation: Get Blob, delay: 1ms, count: 3}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port", "0",
		"--seed", seed}
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
		{"create --operation PutBlob --error ServerBusy --retry-after 2s", exitOK, "fault-1\n"},
		{"create --name mine --service queue --throttle-requests 10 --throttle-per container", exitOK, "mine\n"},
		{"create --name mine --unanswered", exitFailure, "a fault rule of that name exists"},
		{"create --operation Fly --unanswered", exitFailure, "matches no operation"},
		{"create", exitUsage, "no action"},
		{"ls --json", exitOK, `"throttle":{"requests":10,"per":"container"}`},
		{"rm fault-1 other", exitFailure, "there is no fault rule of that name: other"},
		{"rm", exitUsage, "give the name of a rule"},
		{"rm --all", exitOK, ""},
		{"ls", exitOK, "there are no fault rules; lazuli fault create makes one\n"},
	} {
		command := append([]string{"fault"}, strings.Fields(tc.args)...)
		if code, output := runCommand(t, append(command, "--admin-port", port)...); code != tc.code ||
			!strings.Contains(output, tc.want) {
			t.Errorf("lazuli fault %s: exit code %d, want %d; output %q, want it to contain %q", tc.args, code, tc.code, output,
				tc.want)
		}
	}
	setsEveryRule(t, port)
	r.cancel()
	r.end(t)
}

// setsEveryRule fails unless every kind of rule can be set by the flags of `lazuli fault create`, and through the admin
// listener.
func setsEveryRule(t *testing.T, port string) {
	t.Helper()
	address := "http://127.0.0.1:" + port + "/admin/faults"
	for _, rule := range faultdoors.Rules {
		want, err := faultrule.Decode([]byte(rule.JSON))
		if err != nil {
			t.Fatal(err)
		}
		for door, set := range map[string]func() string{
			"the command": func() string {
				code, output := runCommand(t, append(append([]string{"fault", "create"}, strings.Fields(rule.Flags)...),
					"--admin-port", port)...)
				return strings.TrimPrefix(fmt.Sprint(code, " ", output), "0 ")
			},
			"the admin listener": func() string {
				resp, err := http.Post(address, "application/json", strings.NewReader(rule.JSON))
				if err != nil {
					return err.Error()
				}
				defer resp.Body.Close()
				text, err := io.ReadAll(resp.Body)
				return fmt.Sprint(string(text), err)
			},
		} {
			said := set()
			code, output := runCommand(t, "fault", "ls", "--json", "--admin-port", port)
			list := make([]faultrule.Status, strings.Count(output, "\n"))
			if err := json.Unmarshal([]byte("["+strings.ReplaceAll(strings.TrimSpace(output), "\n", ",")+"]"),
				&list); code != exitOK || err != nil || len(list) != 1 {
				t.Fatalf("%s through %s: %s; the rules are %s", rule.JSON, door, said, output)
			}
			if want.Name == "" {
				list[0].Name = ""
			}
			if diff := cmp.Diff(want, list[0].Rule); diff != "" {
				t.Errorf("%s through %s:\n%s", rule.JSON, door, diff)
			}
			runCommand(t, "fault", "rm", "--all", "--admin-port", port)
		}
	}
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
	if code, output := runCommand(t, "fault", "create", "--unanswered", "--admin-port", port); code != exitFailure ||
		!strings.Contains(output, "--faults") {
		t.Errorf("exit code %d, output %q", code, output)
	}
	r.cancel()
	r.end(t)
	seed := filepath.Join(t.TempDir(), "seed.yaml")
	if err := os.WriteFile(seed, []byte("faults:\n- {unanswered: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, output := runCommand(t, append(args, "--seed", seed)...); code != exitUsage ||
		!strings.Contains(output, "--faults") {
		t.Errorf("a seed with rules: exit code %d, output %q", code, output)
	}
}
