package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// testHandlerVar makes this test's binary a custom handler.
const testHandlerVar = "LAZULI_TEST_FUNC_HANDLER"

func serveTestHandler() {
	fmt.Println(http.ListenAndServe("127.0.0.1:"+os.Getenv("FUNCTIONS_CUSTOMHANDLER_PORT"),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"Outputs": {"res": {"body": "hello from `+r.URL.Path+`"}}, "Logs": ["called"]}`)
		})))
}

// funcApp writes a function app with one HTTP function.
func funcApp(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"host.json": fmt.Sprintf(
			`{"version": "2.0", "colour": 1, "customHandler": {"description": {"defaultExecutablePath": %q}}}`, self),
		"local.settings.json": `{"Values": {"` + testHandlerVar + `": "1"}}`,
		"Hello/function.json": `{"bindings": [{"type": "httpTrigger", "name": "req", "methods": ["get"]}, {"type": "http", "direction": "out", "name": "res"}]}`,
		"Other/function.json": `{"bindings": [{"type": "queueTrigger", "name": "q", "queueName": "other"}]}`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFuncStart(t *testing.T) {
	lazuli := lazulitest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout, stderr testlog.Buffer
	m := Main{Args: []string{"func", "start", "--dir", funcApp(t), "--port", "0", "--functions", "hello",
		"--connection-string", lazuli.ConnectionString()},
		Environ: os.Environ(), Stdout: &stdout, Stderr: &stderr}
	ended := make(chan int, 1)
	go func() { ended <- m.Run(ctx) }()
	address := regexp.MustCompile(`Hello: \[GET\] (http://\S+)`)
	var found []string
	check.Eventually(t, func() bool {
		found = address.FindStringSubmatch(stdout.String())
		return found != nil
	}, "it does not come up:\n%s\n%s", &stdout, &stderr)
	response, err := http.Get(found[1])
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); string(text) != "hello from /Hello" {
		t.Errorf("got %s", text)
	}
	if !strings.Contains(stdout.String(), "Other: disabled") {
		t.Errorf("printed %s", &stdout)
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"Z] called\n", `host.json: colour is not known`,
		"Executed 'Functions.Hello' (Succeeded, Id="} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &stderr)
		}
	}
}

func TestFuncStartRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no app", []string{"--dir", t.TempDir()}, "has no host.json: it is not the folder of a function app"},
		{"other machines", []string{"--dir", funcApp(t), "--host", "0.0.0.0"},
			"--host is open to everyone who can reach 0.0.0.0, which is not a loopback address: give --keys FILE"},
		{"no such function", []string{"--dir", funcApp(t), "--functions", "none"},
			`no function is called "none"; there are: Hello, Other`},
		{"names with spaces", []string{funcApp(t), "--functions", "Hello", "Other", "none"}, `no function is called "none"`},
		{"connection string", []string{"--dir", funcApp(t), "--connection-string", "nonsense"}, "connection string"},
		{"log format", []string{"--log-format", "xml"}, "not text, json or console"},
		{"folder", []string{"somewhere"}, "somewhere does not exist"},
		{"two folders", []string{"somewhere", "else"}, "give one folder"},
		{"folder twice", []string{"somewhere", "--dir", "else"}, "as the argument or with --dir, not both"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stderr testlog.Buffer
			// Any free port: some of them listen before they look further.
			args := append([]string{"func", "start", "--port", "0"}, c.args...)
			m := Main{Args: args, Stdout: io.Discard, Stderr: &stderr}
			if code := m.Run(t.Context()); code != exitUsage || !strings.Contains(stderr.String(), c.want) {
				t.Errorf("exit code %d: %s", code, &stderr)
			}
		})
	}
}
