package main

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/accountverb"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
)

// runVerb runs one verb by itself and returns what it printed.
func runVerb(t *testing.T, cmd *cobra.Command, in string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(in))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func mustRun(t *testing.T, cmd *cobra.Command, args ...string) string {
	t.Helper()
	out, err := runVerb(t, cmd, "", args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return out
}

// clearEnviron keeps the tester's own settings out.
func clearEnviron(t *testing.T) {
	for _, name := range []string{accountverb.FileVariable, "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_KEY",
		"AZURE_STORAGE_ACCOUNT"} {
		t.Setenv(name, "")
	}
}

func TestAccountVerbs(t *testing.T) {
	clearEnviron(t)
	file := filepath.Join(t.TempDir(), "accounts")
	account := func(args ...string) string {
		return mustRun(t, accountverb.NewCommand(nil), append(args, "--file", file)...)
	}
	account("add", "first")
	account("add", auth.DevelopmentAccount)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	before := account("show", "first")
	if strings.Count(before, "\n") != 2 {
		t.Fatalf("show prints %d lines, want 2 keys", strings.Count(before, "\n"))
	}
	if listing := account("list"); !strings.Contains(listing, "first") ||
		!strings.Contains(listing, auth.DevelopmentAccount) || strings.Contains(listing, "==") {
		t.Errorf("list prints\n%s", listing)
	}
	account("rotate", "first", "--key", "2")
	after := account("show", "first")
	old, renewed := strings.Split(before, "\n"), strings.Split(after, "\n")
	if old[0] != renewed[0] || old[1] == renewed[1] {
		t.Error("rotate does not replace the second key alone")
	}
	account("rotate", auth.DevelopmentAccount, "--key", "2")
	if list, err := auth.LoadAccounts(file); err != nil || len(list) != 2 || len(list[1].Keys) != 2 {
		t.Errorf("accounts %v, %v", list, err)
	}
	if _, err := runVerb(t, accountverb.NewCommand(nil), auth.DevelopmentKey+"\n", "add", "given", "--keys-stdin",
		"--file", file); err != nil {
		t.Error(err)
	}
	if out := account("show", "given"); out != "key1 "+auth.DevelopmentKey+"\n" {
		t.Errorf("a key from standard input: %q", out)
	}
	account("set", "first", "blob-versioning=true", "container-soft-delete-days=7")
	account("rotate", "first", "--key", "1")
	if listing := account("list"); !strings.Contains(listing, " blob-versioning=true container-soft-delete-days=7\n") {
		t.Errorf("list prints\n%s", listing)
	}
	if out := account("set", "first", "blob-versioning=false",
		"encryption-scopes=one,two"); out != "first: blob-versioning=false encryption-scopes=one,two "+
		"container-soft-delete-days=7\n" {
		t.Errorf("set prints %q", out)
	}
	if out := account("unset", "first", "encryption-scopes",
		"blob-versioning"); out != "first: container-soft-delete-days=7\n" {
		t.Errorf("unset prints %q", out)
	}
	if out := account("unset", "first", "container-soft-delete-days"); out != "first: no settings\n" {
		t.Errorf("unset prints %q", out)
	}
	account("remove", "given", "--yes")
	for _, bad := range [][]string{{"add", "first"}, {"add", "Bad-Name"}, {"show", "given"}, {"remove", "given"},
		{"rotate", "first"}, {"rotate", "first", "--key", "3"},
		{"set", "first"}, {"set", "first", "blob-version=true"}, {"set", "first", "blob-versioning"},
		{"set", "first", "blob-versioning=maybe"}, {"set", "given", "blob-versioning=true"},
		{"set", "first", "blob-versioning=false", "blob-immutability=true"}, {"unset", "first", "nothing"},
		{"unset", "first"}} {
		if out, err := runVerb(t, accountverb.NewCommand(nil), "", append(bad, "--file", file)...); err == nil {
			t.Errorf("%v: %s", bad, out)
		}
	}
	if _, err := runVerb(t, accountverb.NewCommand(nil), "", "list"); exitCode(err) != exitUsage {
		t.Errorf("without a file: %v", err)
	}
}

func TestSASVerb(t *testing.T) {
	clearEnviron(t)
	file := filepath.Join(t.TempDir(), "accounts")
	mustRun(t, accountverb.NewCommand(nil), "add", "first", "--file", file)
	for _, tc := range []struct {
		name string
		args []string
		want string // prefix of what is printed
		has  map[string]string
	}{
		{"container", []string{"container", "c", "--permissions", "rl"}, "http://127.0.0.1:10000/devstoreaccount1/c?",
			map[string]string{"sr": "c", "sp": "rl"}},
		{"blob", []string{"blob", "c/a b", "--permissions", "r", "--content-type", "text/html", "--https-only"},
			"https://127.0.0.1:10000/devstoreaccount1/c/a%20b?",
			map[string]string{"sr": "b", "rsct": "text/html", "spr": "https"}},
		{"queue by policy", []string{"queue", "q", "--policy", "p"}, "http://127.0.0.1:10001/devstoreaccount1/q?",
			map[string]string{"si": "p", "se": ""}},
		{"table", []string{"table", "Tab", "--permissions", "r", "--startpk", "A", "--expiry", "7d"},
			"http://127.0.0.1:10002/devstoreaccount1/Tab?", map[string]string{"tn": "Tab", "spk": "A"}},
		{"account", []string{"account", "--account", "first", "--accounts-file", file, "--key-number", "2", "--services", "q",
			"--resource-types", "sco", "--permissions", "rp", "--expiry", "2030-01-31"},
			"http://127.0.0.1:10001/first?", map[string]string{"ss": "q", "srt": "sco", "se": "2030-01-31"}},
		{"an endpoint", []string{"container", "c", "--permissions", "r", "--endpoint",
			"https://devstoreaccount1.blob.localhost:10000/"}, "https://devstoreaccount1.blob.localhost:10000/c?", nil},
		{"token alone", []string{"container", "c", "--permissions", "r", "--token"}, "sv=" + auth.SASVersion + "&", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := mustRun(t, newSASCommand(), tc.args...)
			if !strings.HasPrefix(out, tc.want) || !strings.Contains(out, "sig=") {
				t.Fatalf("printed %s, want %s...", out, tc.want)
			}
			_, query, _ := strings.Cut(strings.TrimSpace(out), "?")
			q, err := url.ParseQuery(query)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range tc.has {
				if q.Get(name) != want {
					t.Errorf("%s=%s, want %s", name, q.Get(name), want)
				}
			}
		})
	}
	for name, args := range map[string][]string{
		"no permissions": {"container", "c"}, "no name": {"container"},
		"a blob for a container":      {"container", "c/b", "--permissions", "r"},
		"a container for a blob":      {"blob", "c", "--permissions", "r"},
		"time":                        {"queue", "q", "--permissions", "r", "--expiry", "tomorrow"},
		"services":                    {"account", "--permissions", "r", "--resource-types", "s"},
		"endpoint":                    {"queue", "q", "--permissions", "r", "--endpoint", "nowhere"},
		"a row without its partition": {"table", "Tab", "--permissions", "r", "--endrk", "A"},
		"key number":                  {"queue", "q", "--permissions", "r", "--key-number", "3"},
	} {
		if out, err := runVerb(t, newSASCommand(), "", args...); err == nil {
			t.Errorf("%s: %s", name, out)
		}
	}
	if _, err := runVerb(t, newSASCommand(), "", "queue", "q", "--permissions", "r", "--account", "unknown"); err == nil {
		t.Error("a key from nowhere")
	}
	t.Setenv("AZURE_STORAGE_KEY", auth.DevelopmentKey)
	mustRun(t, newSASCommand(), "queue", "q", "--permissions", "r", "--account", "unknown")
}

func TestCertVerb(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	out := mustRun(t, newCertCommand(), "--dir", dir, "--host", "nas.local")
	if !strings.Contains(out, "lazuli --cert "+filepath.Join(dir, "cert.pem")) || !strings.Contains(out, "(new") {
		t.Errorf("printed\n%s", out)
	}
	if out := mustRun(t, newCertCommand(), "--dir", dir, "--host", "nas.local"); !strings.Contains(out, "(kept") {
		t.Errorf("again:\n%s", out)
	}
	if _, err := runVerb(t, newCertCommand(), "", "--dir", dir, "--host", "example.com"); exitCode(err) != exitUsage {
		t.Errorf("a name of the Internet: %v", err)
	}
}
