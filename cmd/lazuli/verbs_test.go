package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/help"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// longRunning are the verbs that run until they are stopped, or start servers; their own tests have their errors.
var longRunning = []string{"lazuli", "lazuli serve", "lazuli open", "lazuli durable serve",
	"lazuli worker", "lazuli bench",
	// These write what they make for later runs.
	"lazuli cluster init", "lazuli cluster export", "lazuli cluster import"}

// clients are the verbs that talk to an account or to the admin listener of a server, with arguments that are valid.
func clients(t *testing.T, m *Main) (list []*cobra.Command, args map[*cobra.Command][]string) {
	t.Helper()
	args = map[*cobra.Command][]string{}
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	whole := map[string][]string{ // where the words of the usage line do not say
		"lazuli blob get":        {"blob", "get", "abc/blob", filepath.Join(folder, "new")},
		"lazuli durable raise":   {"durable", "raise", "abc", "event", "{}"},
		"lazuli durable start":   {"durable", "start", "abc", "{}"},
		"lazuli export":          {"export", filepath.Join(folder, "archive")},
		"lazuli logs query":      {"logs", "query", "--service", "blob"},
		"lazuli queue purge":     {"queue", "purge", "abc", "--all"},
		"lazuli queue requeue":   {"queue", "requeue", "abc-poison"},
		"lazuli schedule create": {"schedule", "create", "abc", "00:01:00", "--queue", "abc"},
	}
	check.OK(t, os.WriteFile(file, []byte(`{"PartitionKey":"a","RowKey":"b"}`), 0o600))
	words := map[string]string{"CONTAINER": "abc", "CONTAINER/BLOB": "abc/blob", "CONTAINER[/BLOB]": "abc/blob",
		"[CONTAINER[/PREFIX]]": "abc", "QUEUE": "abc", "TABLE": "Abc", "FILE": file, "[FILE]": file, "BODY": "x",
		"PARTITION-KEY": "a", "ROW-KEY": "b", "[PARTITION-KEY": "a", "ROW-KEY]": "b", "[PREFIX]": "a", "FOLDER": folder,
		"[FOLDER]": folder, "PLACE": filepath.Join(folder, "place")}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			walk(c)
		}
		path := cmd.CommandPath()
		if _, words, _ := strings.Cut(cmd.Use, " "); words != strings.ToUpper(words) && path != "lazuli help" &&
			!strings.Contains(words, "--") {
			t.Errorf("%s: the usage line has small letters for what is to be given: %s", path, cmd.Use)
		}
		if !cmd.Runnable() || cmd.Hidden || slices.Contains(longRunning, path) || strings.HasPrefix(path, "lazuli demo") ||
			strings.HasPrefix(path, "lazuli func ") ||
			cmd.Flags().Lookup("connection-string") == nil && cmd.Flags().Lookup("admin-port") == nil &&
				cmd.InheritedFlags().Lookup("admin-port") == nil || cmd.HasSubCommands() && !help.Places(cmd) {
			return
		}
		line := strings.Fields(path)[1:]
		for _, word := range strings.Fields(cmd.Use)[1:] {
			if word == "..." {
				continue
			}
			value, ok := words[word]
			if !ok {
				value = "abc"
			}
			line = append(line, value)
		}
		if given, ok := whole[path]; ok {
			line = given
		}
		list, args[cmd] = append(list, cmd), line
	}
	walk(newRootCommand(m))
	if len(list) < 35 {
		t.Fatalf("%d verbs are clients", len(list))
	}
	return list, args
}

// sentence reports whether a message is one for people: no dump, no stack.
func sentence(text string) bool {
	return strings.HasPrefix(text, "lazuli: ") && !strings.Contains(text, "goroutine ") &&
		!strings.Contains(text, "panic") && !strings.Contains(text, "-----") && strings.Count(text, "\n") <= 2
}

// Without a server, each verb says within a sentence where it looked, and what to do; with a wrong key, what is wrong.
func TestVerbsWithoutAServer(t *testing.T) {
	server := lazulitest.Start(t)
	closed := "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=a2V5;" +
		"BlobEndpoint=http://127.0.0.1:1/devstoreaccount1;QueueEndpoint=http://127.0.0.1:1/devstoreaccount1;" +
		"TableEndpoint=http://127.0.0.1:1/devstoreaccount1"
	key := strings.Replace(server.ConnectionString(), "AccountKey=Eby8", "AccountKey=AAAA", 1)
	verbs, args := clients(t, &Main{})
	reached := 0
	for _, verb := range verbs {
		path := verb.CommandPath()
		run := func(extra ...string) (int, string, string) {
			var out, errs bytes.Buffer
			if path == "lazuli export" { // an export notes from where it is
				check.OK(t, os.RemoveAll(args[verb][1]))
			}
			m := &Main{Args: append(slices.Clone(args[verb]), extra...), Stdout: &out, Stderr: &errs}
			return m.Run(t.Context()), out.String(), errs.String()
		}
		place := strings.HasPrefix(path, "lazuli backup") || path == "lazuli restore"
		if verb.Flags().Lookup("connection-string") != nil && !place && path != "lazuli sas" &&
			!strings.HasPrefix(path, "lazuli sas ") && path != "lazuli import" && path != "lazuli account show" &&
			path != "lazuli search verify" {
			flags := []string{}
			if verb.Flags().Lookup("yes") != nil {
				flags = append(flags, "--yes")
			}
			code, _, text := run(append(flags, "--connection-string", closed)...)
			if code == exitUsage && sentence(text) { // the words of the usage line do not say what it takes
				continue
			}
			reached++
			if code != exitFailure || !sentence(text) || !strings.Contains(text, "is Lazuli running there?") {
				t.Errorf("%s without a server: %d, %q", path, code, text)
			}
			if code, _, text := run(append(flags, "--connection-string", key)...); code != exitFailure || !sentence(text) ||
				!strings.Contains(text, "403") {
				t.Errorf("%s with a wrong key: %d, %q", path, code, text)
			}
			if code, _, text := run("--connection-string", "nonsense"); code != exitUsage || !sentence(text) {
				t.Errorf("%s with a connection string that is none: %d, %q", path, code, text)
			}
		} else if verb.Flag("admin-port") != nil && path != "lazuli config" && path != "lazuli restore" {
			code, _, text := run("--admin-port", "1")
			if code == exitUsage { // the flags of what is to be made are missing
				continue
			}
			if code != exitFailure || !sentence(text) || !strings.Contains(text, "answers at http://127.0.0.1:1/") ||
				!strings.Contains(text, "--admin-port") {
				t.Errorf("%s without a process: %d, %q", path, code, text)
			}
		}
	}
	if reached < 25 {
		t.Errorf("only %d verbs looked for a server", reached)
	}
}

// Every verb with --json takes -o, refuses another format, and prints an object a line, also of an empty account.
func TestFormats(t *testing.T) {
	t.Setenv(connstr.Variable, lazulitest.Start(t).ConnectionString())
	n := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			walk(c)
		}
		if f := cmd.LocalFlags().Lookup("json"); f == nil || f.Value.Type() != "bool" {
			return
		}
		n++
		if cmd.Flags().ShorthandLookup("o") == nil {
			t.Errorf("%s has --json and no -o", cmd.CommandPath())
		}
	}
	walk(newRootCommand(&Main{}))
	if n < 25 {
		t.Errorf("%d verbs have --json", n)
	}
	for _, line := range []string{"blob ls", "queue ls", "table ls", "durable hubs", "version", "config"} {
		for _, format := range []string{"-o json", "--json", "-o table"} {
			var out, errs bytes.Buffer
			m := &Main{Args: strings.Fields(line + " " + format), Stdout: &out, Stderr: &errs}
			if code := m.Run(t.Context()); code != exitOK {
				t.Errorf("%s %s: %d, %s", line, format, code, &errs)
			}
			if strings.Contains(format, "json") {
				for text := range strings.Lines(out.String()) {
					if !json.Valid([]byte(text)) || text[0] != '{' {
						t.Errorf("%s %s prints %q", line, format, text)
					}
				}
			}
		}
		var out, errs bytes.Buffer
		m := &Main{Args: strings.Fields(line + " -o xml"), Stdout: &out, Stderr: &errs}
		if code := m.Run(t.Context()); code != exitUsage || !strings.Contains(errs.String(), "not table or json") {
			t.Errorf("%s -o xml: %d, %s", line, code, &errs)
		}
	}
}

// What verbs print as JSON has the members that docs/cli.md names, and all that it does not put in brackets.
func TestMembersOfJSON(t *testing.T) {
	t.Setenv(connstr.Variable, lazulitest.Start(t).ConnectionString())
	page := membersOfJSON(t)
	t.Chdir(t.TempDir())
	check.OK(t, os.WriteFile("file", []byte("text"), 0o600))
	check.OK(t, os.WriteFile("entity", []byte(`{"PartitionKey":"a","RowKey":"b"}`), 0o600))
	run := func(line string) (text string) {
		t.Helper()
		var out, errs bytes.Buffer
		m := &Main{Args: strings.Fields(line), Stdout: &out, Stderr: &errs}
		if code := m.Run(t.Context()); code != exitOK {
			t.Fatalf("%s: %d, %s", line, code, &errs)
		}
		return out.String()
	}
	for line := range strings.Lines(`
		blob create box
		blob put file box/dir/a
		blob put file box/b
		queue create work
		queue create work-poison
		queue put work hello
		table create Table
		table put Table entity
		*account create team --file accounts
		*account rotate team --key 1 --file accounts
		*account ls --file accounts
		*account show team --file accounts
		*account show team --connection-string --file accounts
		*blob ls
		*blob ls box
		*blob ls box/
		*cert --dir certs
		*queue ls
		*queue peek work
		*sas blob box/b --permissions r
		*table ls
		*table explain Table
		*table stats Table
		*version
		*export archive
		*import archive --overwrite
		*queue requeue work-poison
		schedule create nightly 1.00:00:00 --queue work
		*schedule ls
		*queue purge work --all --yes`) {
		line, printsData := strings.CutPrefix(strings.TrimSpace(line), "*")
		if !printsData {
			if line != "" {
				run(line)
			}
			continue
		}
		verb := strings.Fields(line)
		members, ok := page[strings.Join(verb[:min(2, len(verb))], " ")]
		if !ok {
			members = page[verb[0]]
		}
		text := run(line + " --json")
		if text == "" {
			t.Errorf("%s prints nothing", line)
		}
		for object := range strings.Lines(text) {
			var got map[string]json.RawMessage
			check.OK(t, json.Unmarshal([]byte(object), &got))
			for name := range got {
				if _, ok := members[name]; !ok {
					t.Errorf("%s prints the member %s, which docs/cli.md does not name: %s", line, name, object)
				}
			}
			for name, always := range members {
				if _, ok := got[name]; !ok && always {
					t.Errorf("%s prints no %s, which docs/cli.md names: %s", line, name, object)
				}
			}
		}
	}
}

// membersOfJSON reads the table of docs/cli.md: the members of each verb, and whether they are always there.
func membersOfJSON(t *testing.T) map[string]map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/cli.md")
	check.OK(t, err)
	_, text, ok := bytes.Cut(text, []byte("| verb | members of each object |"))
	if !ok {
		t.Fatal("docs/cli.md has no table of members")
	}
	text, _, _ = bytes.Cut(text, []byte("\n\n"))
	page := map[string]map[string]bool{}
	for row := range strings.Lines(string(text)) {
		cells := strings.Split(row, "|")
		if len(cells) != 5 {
			continue
		}
		members := map[string]bool{}
		for name := range strings.FieldsSeq(cells[2]) {
			members[name] = true
		}
		for name := range strings.FieldsSeq(cells[3]) {
			members[name] = false
		}
		for verb := range strings.SplitSeq(cells[1], ",") {
			page[strings.TrimSpace(verb)] = members
		}
	}
	return page
}

// withoutJSON are the verbs that print content or entities as they are, no more than a line that says what was done, or
// the output of a program that runs until it is stopped.
var withoutJSON = []string{
	"account rm", "account set", "account unset", "blob chmod", "blob chown", "blob cp",
	"blob create", "blob get", "blob mv", "blob put", "blob rm", "cluster balance", "cluster convert", "cluster drain",
	"cluster export",
	"cluster import", "cluster init", "cluster leave", "cluster move", "config init", "durable raise", "durable resume",
	"durable rewind", "durable serve", "durable suspend", "durable terminate", "event flush", "event rm",
	"fault rm", "jobs cancel", "open", "queue create", "queue put", "queue rm", "schedule create",
	"schedule pause", "schedule resume", "schedule rm", "search rebuild", "serve",
	"table create", "table get", "table put", "table query", "table rm", "worker", "workers pause",
	"workers resume",
}

// Every other verb has --json, but for scripts for shells, and what runs function apps.
func TestEveryVerbThatPrintsDataHasJSON(t *testing.T) {
	t.Parallel()
	var without []string
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			walk(c)
		}
		if !cmd.Runnable() || cmd.Hidden || cmd.HasSubCommands() && !help.Places(cmd) {
			return
		}
		path := strings.TrimPrefix(cmd.CommandPath(), "lazuli ")
		first, _, _ := strings.Cut(path, " ")
		if cmd.Flags().Lookup("json") == nil && !slices.Contains([]string{"completion", "func"}, first) {
			without = append(without, path)
		}
	}
	walk(newRootCommand(&Main{}))
	slices.Sort(without)
	if diff := cmp.Diff(withoutJSON, without); diff != "" {
		t.Errorf("verbs without --json, want(-) got(+):\n%s", diff)
	}
}

// A shell offers the names of what the account has.
func TestCompletion(t *testing.T) {
	server := lazulitest.Start(t)
	t.Setenv(connstr.Variable, server.ConnectionString())
	for _, line := range []string{"queue create orders", "queue create other", "table create Orders",
		"blob create photos"} {
		m := &Main{Args: strings.Fields(line), Stdout: &bytes.Buffer{}, Stderr: os.Stderr}
		if m.Run(t.Context()) != exitOK {
			t.Fatal(line)
		}
	}
	for line, want := range map[string]string{
		"queue peek|or": "orders", "queue rm|": "orders other", "table query|": "Orders", "blob ls|p": "photos",
		"blob get|": "photos/", "queue rm|orders|": "orders other", "sas queue|or": "orders",
		"queue ls|-o|": "table json",
	} {
		var out bytes.Buffer
		verb, rest, _ := strings.Cut(line, "|")
		m := &Main{Args: append(append([]string{"__complete"}, strings.Fields(verb)...), strings.Split(rest, "|")...),
			Stdout: &out, Stderr: &bytes.Buffer{}}
		if code := m.Run(t.Context()); code != exitOK {
			t.Errorf("%s: %d", line, code)
		}
		offered, _, _ := strings.Cut(out.String(), ":")
		if got := strings.Join(strings.Fields(offered), " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// Every verb answers wrong input with exit code 2 and where its help is: an unknown flag, and, where it has other
// verbs, a misspelt one, with the one that was meant.
func TestVerbsOfWrongInput(t *testing.T) {
	t.Parallel()
	run := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		m := &Main{Args: args, Stdout: &out, Stderr: &errs}
		return m.Run(t.Context()), out.String(), errs.String()
	}
	verbs, parents := 0, 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		line := strings.Fields(cmd.CommandPath())[1:]
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() && c.Name() != "help" {
				walk(c)
			}
		}
		if cmd.Runnable() && !cmd.DisableFlagParsing {
			verbs++
			if code, out, text := run(append(slices.Clone(line), "--nosuchflag")...); code != exitUsage || !sentence(text) ||
				out != "" || !strings.Contains(text, "--help") {
				t.Errorf("%s --nosuchflag: %d, %q, %q", cmd.CommandPath(), code, out, text)
			}
		}
		if !cmd.HasAvailableSubCommands() || help.Places(cmd) || len(line) == 0 {
			return
		}
		parents++
		for _, c := range cmd.Commands() {
			if !c.IsAvailableCommand() || len(c.Name()) < 4 {
				continue
			}
			wrong := c.Name()[:len(c.Name())-2] + c.Name()[len(c.Name())-1:] // a letter is missing
			if code, out, text := run(append(slices.Clone(line), wrong)...); code != exitUsage || !sentence(text) ||
				out != "" || !strings.Contains(text, `did you mean "`) {
				t.Errorf("%s %s: %d, %q, %q", cmd.CommandPath(), wrong, code, out, text)
			}
		}
	}
	root := newRootCommand(&Main{})
	root.InitDefaultHelpCmd()
	walk(root)
	if verbs < 60 || parents < 12 {
		t.Errorf("%d verbs, %d of them with others", verbs, parents)
	}
}

// Every verb that reads or changes an account or a server says something sensible about one that has nothing.
func TestVerbsOfAnEmptyAccount(t *testing.T) {
	server := lazulitest.Start(t)
	verbs, args := clients(t, &Main{})
	asked := 0
	for _, verb := range verbs {
		if verb.Flags().Lookup("connection-string") == nil || verb.Flags().Lookup("admin-port") != nil {
			continue
		}
		asked++
		line := append(slices.Clone(args[verb]), "--connection-string", server.ConnectionString())
		if verb.Flags().Lookup("yes") != nil {
			line = append(line, "--yes")
		}
		var out, errs bytes.Buffer
		m := &Main{Args: line, Stdout: &out, Stderr: &errs}
		code := m.Run(t.Context())
		switch {
		case code == exitOK && strings.HasSuffix(verb.CommandPath(), " ls") && out.Len()+errs.Len() == 0:
			t.Errorf("%s says nothing of an empty account", verb.CommandPath())
		case code != exitOK && !sentence(errs.String()), code != exitOK && code != exitFailure && code != exitUsage:
			t.Errorf("%s: %d, %q", verb.CommandPath(), code, errs.String())
		}
	}
	if asked < 25 {
		t.Errorf("%d verbs were asked", asked)
	}
}
