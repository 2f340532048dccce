package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/serve"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
)

func fetch(ctx context.Context, url string) (int, string, error) {
	return request(ctx, http.MethodGet, url)
}

// request sends a request without a body and returns the status and the body of the answer.
func request(ctx context.Context, method, url string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// fake is a backend whose states the test moves.
type fake struct {
	serve.Backend               // what no test here asks for
	stopping      chan struct{} // closed when Stop is called
	drained       chan struct{} // Stop returns once this is closed, or its context ends
}

var errFakeStops = errors.New("the test's own backend is stopping")

func (f *fake) URL(svc wire.Service, account string) string {
	return "http://127.0.0.1:1/" + account + "?" + svc.String()
}
func (f *fake) Path() string            { return "/somewhere" }
func (f *fake) Shards() int             { return 1 }
func (f *fake) Events() *events.Manager { return nil }

func (f *fake) EventsElsewhere() error { return nil }
func (f *fake) Ready() error {
	select {
	case <-f.stopping:
		return errFakeStops
	default:
		return nil
	}
}

func (f *fake) Stop(ctx context.Context) error {
	close(f.stopping)
	select {
	case <-f.drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run is a Main that runs in this process.
type run struct {
	stdout, stderr *output
	cancel         context.CancelFunc
	code           chan int
}

func start(t *testing.T, m Main) *run {
	t.Helper()
	r := &run{stdout: &output{grown: make(chan struct{})}, stderr: &output{grown: make(chan struct{})},
		code: make(chan int, 1)}
	m.Stdout, m.Stderr = r.stdout, r.stderr
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { // the process's folders are removed afterwards
		r.cancel()
		<-ended
	})
	go func() {
		defer close(ended)
		r.code <- m.Run(ctx)
	}()
	return r
}

// wait returns what was printed once it matches.
func (r *run) wait(t *testing.T, pattern string) []string {
	t.Helper()
	re, timeout := regexp.MustCompile(pattern), time.After(patience)
	for {
		text, grown := r.stdout.text()
		if m := re.FindStringSubmatch(text); m != nil {
			return m
		}
		select {
		case <-grown:
		case code := <-r.code:
			errs, _ := r.stderr.text()
			t.Fatalf("ended with %d: %s", code, errs)
		case <-timeout:
			t.Fatalf("%q never printed; got %q", pattern, text)
		}
	}
}

func (r *run) end(t *testing.T) int {
	t.Helper()
	select {
	case code := <-r.code:
		return code
	case <-time.After(patience):
		t.Fatal("still running")
		return 0
	}
}

func TestLifeOfAServer(t *testing.T) {
	f := &fake{stopping: make(chan struct{}), drained: make(chan struct{})}
	starting := make(chan struct{})
	r := start(t, Main{Args: []string{"--admin-port", "0", "--shutdown-timeout", "30s"},
		start: func(context.Context, *config.Config, *serve.Security, serve.Options) (serve.Backend, error) {
			<-starting
			return f, nil
		}})
	close(starting)
	admin := r.wait(t, `Admin +(http://\S+)`)[1]
	expect := func(path string, want int) {
		t.Helper()
		status, body, err := fetch(t.Context(), admin+path)
		if err != nil || status != want {
			t.Fatalf("%s: got %d %q %v, want %d", path, status, body, err, want)
		}
	}
	expect("/healthz", 200)
	expect("/readyz", 200)
	expect("/metrics", 200)
	expect("/debug/pprof/", 404)

	r.cancel()
	<-f.stopping
	expect("/readyz", 503)
	expect("/healthz", 200)
	close(f.drained)
	if code := r.end(t); code != exitOK {
		t.Errorf("ended with %d", code)
	}
	// Another process may listen there by now, but not this server.
	if _, body, err := fetch(t.Context(), admin+"/readyz"); err == nil && strings.Contains(body, errFakeStops.Error()) {
		t.Error("the admin listener outlives the server")
	}
}

func TestDrainIsBounded(t *testing.T) {
	f := &fake{stopping: make(chan struct{}), drained: make(chan struct{})}
	r := start(t, Main{Args: []string{"--no-admin", "--shutdown-timeout", "10ms"},
		start: func(context.Context, *config.Config, *serve.Security, serve.Options) (serve.Backend, error) {
			return f, nil
		}})
	r.wait(t, "Ready")
	r.cancel()
	if code := r.end(t); code != exitFailure {
		t.Errorf("ended with %d, want %d", code, exitFailure)
	}
}

func TestExitCodes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	failing := func(err error) serve.Starter {
		return func(context.Context, *config.Config, *serve.Security, serve.Options) (serve.Backend, error) {
			return nil, err
		}
	}
	for _, tc := range []struct {
		name string
		args []string
		err  error
		code int
		text string
	}{
		{"success", []string{"version"}, nil, exitOK, ""},
		{"unknown flag", []string{"--frobnicate"}, nil, exitUsage, "unknown flag: --frobnicate"},
		{"unknown verb", []string{"frobnicate"}, nil, exitUsage, `unknown command "frobnicate"`},
		{"surplus argument", []string{"serve", "x"}, nil, exitUsage, `"x"`},
		{"bad value", []string{"--blob-port", "x"}, nil, exitUsage, "--blob-port"},
		{"certificate", []string{"--no-admin", "--cert", "/nonexistent/c.pem", "--key", "/nonexistent/k.pem"}, nil, exitUsage,
			"/nonexistent/c.pem"},
		{"accounts file", []string{"--no-admin", "--accounts-file", "/nonexistent/accounts"}, nil, exitUsage,
			"/nonexistent/accounts"},
		{"admin port taken", []string{"--admin-port", port}, nil, exitPort,
			port + ": address is already in use; stop what uses it, or choose another port with --admin-port"},
		{"service's port taken", []string{"--no-admin"}, server.ErrPortTaken, exitPort, "in use"},
		{"folder locked", []string{"--no-admin"}, datadir.ErrLocked, exitData, "in use"},
		{"folder's format", []string{"--no-admin"}, datadir.ErrFormat, exitData, "format"},
		{"folder's path", []string{"--no-admin"}, &datadir.PathError{Path: "/x", Reason: "no"}, exitData, "/x"},
		{"anything else", []string{"--no-admin"}, errors.New("broken"), exitFailure, "lazuli: broken"},
		{"log file", []string{"--no-admin", "--log-file", "/nonexistent/x"}, nil, exitFailure, "log file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			m := Main{Args: tc.args, Stdout: &stdout, Stderr: &stderr, start: failing(tc.err)}
			if code := m.Run(t.Context()); code != tc.code {
				t.Errorf("got %d, want %d", code, tc.code)
			}
			if !strings.Contains(stderr.String(), tc.text) {
				t.Errorf("got %q, want it to say %q", &stderr, tc.text)
			}
		})
	}
}

func TestBanner(t *testing.T) {
	show := func(args []string, environ ...string) string {
		f := &fake{stopping: make(chan struct{}), drained: make(chan struct{})}
		close(f.drained)
		ctx, cancel := context.WithCancel(t.Context())
		var stdout bytes.Buffer
		m := Main{Args: append(args, "--no-admin"), Environ: environ, Stdout: &stdout, Stderr: io.Discard,
			start: func(context.Context, *config.Config, *serve.Security, serve.Options) (serve.Backend, error) {
				cancel()
				return f, nil
			}}
		if code := m.Run(ctx); code != exitOK {
			t.Fatalf("ended with %d", code)
		}
		return stdout.String()
	}
	for _, tc := range []struct {
		name string
		out  string
		want []string
		not  []string
	}{
		{"default", show(nil), []string{"Blob   http://127.0.0.1:1/devstoreaccount1?blob",
			"AccountKey=" + auth.DevelopmentKey, "UseDevelopmentStorage=true", "Data   /somewhere\n", "Ready in"},
			[]string{"\x1b", "Note:", "relaxed"}},
		{"silent", show([]string{"--silent"}), nil, []string{"Blob", "Ready"}},
		{"silent with a port to be picked", show([]string{"--silent", "--queue-port", "0"}), []string{"Queue  http://"},
			[]string{"Blob", "Ready"}},
		{"other ports", show([]string{"--blob-port", "0"}), []string{"Connection string\n"},
			[]string{"UseDevelopmentStorage"}},
		{"relaxed", show([]string{"--durability", "relaxed"}), []string{"durability relaxed"}, nil},
		{"in memory", show([]string{"--in-memory"}), []string{"in memory; lost"}, []string{"/somewhere"}},
		{"exposed", show([]string{"--host", "0.0.0.0"}), []string{"Note: other machines can access blob, queue, table"}, nil},
		{"of this machine only", show([]string{"--host", "::1"}), nil, []string{"Also"}},
		{"own account", show([]string{"--host", "0.0.0.0"}, "LAZULI_ACCOUNTS=shop:c2VjcmV0"),
			[]string{"AccountName=shop;AccountKey=<a key of shop>;"}, []string{"c2VjcmV0", "Note:", "UseDevelopmentStorage"}},
		{"two accounts", show(nil, "LAZULI_ACCOUNTS=shop:c2VjcmV0;desk:c2VjcmV0"),
			[]string{"Connection string of shop", "Connection string of desk", "http://127.0.0.1:1/desk?table"},
			[]string{"c2VjcmV0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, text := range tc.want {
				if !strings.Contains(tc.out, text) {
					t.Errorf("no %q in\n%s", text, tc.out)
				}
			}
			for _, text := range tc.not {
				if strings.Contains(tc.out, text) {
					t.Errorf("%q in\n%s", text, tc.out)
				}
			}
		})
	}
	if out := show([]string{"--silent"}); out != "" {
		t.Errorf("silent printed %q", out)
	}
}

// uploadToken is a token of the development account that may make containers and blobs.
func uploadToken(t *testing.T) string {
	t.Helper()
	key, err := azblob.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	if err != nil {
		t.Fatal(err)
	}
	q, err := sas.AccountSignatureValues{Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: time.Now().Add(time.Hour),
		Permissions:   "cw",
		ResourceTypes: "co"}.SignWithSharedKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return q.Encode()
}

// A request that does not end holds the first signal's stop, and not the second's.
func TestSignals(t *testing.T) {
	program := buildProgram(t)
	for _, tc := range []struct {
		name    string
		timeout string
		twice   bool
		code    int
	}{
		{"one signal drains, then cancels", "50ms", false, exitOK},
		{"a second one exits at once", "1h", true, 128 + int(syscall.SIGTERM)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(program, "--location", t.TempDir(), "--blob-port", "0", "--queue-port", "0", "--table-port", "0",
				"--admin-port", "0", "--shutdown-timeout", tc.timeout)
			p, err := startProcess(cmd, func(out string) bool { return strings.Contains(out, "Ready") })
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); <-p.exited }()
			out, _ := p.stdout.text()
			addr := regexp.MustCompile(`Blob +http://([^/]+)`).FindStringSubmatch(out)[1]
			admin := regexp.MustCompile(`Admin +(\S+)`).FindStringSubmatch(out)[1]
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			// An upload whose body does not come: once the server asks for it, it is in flight, and stays so.
			answers := bufio.NewReader(conn)
			token := uploadToken(t)
			for _, part := range []struct{ head, answer string }{
				{"PUT /devstoreaccount1/box?restype=container&" + token + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
					"201"},
				{"PUT /devstoreaccount1/box/b?" + token + " HTTP/1.1\r\nHost: x\r\nx-ms-blob-type: BlockBlob\r\n" +
					"Expect: 100-continue\r\nContent-Length: 10\r\n\r\n", "100"},
			} {
				if _, err := io.WriteString(conn, part.head); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(answers, nil)
				if err != nil || !strings.HasPrefix(resp.Status, part.answer) {
					t.Fatalf("got %v, %v; want %s", resp, err, part.answer)
				}
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if tc.twice {
				for deadline := time.Now().Add(patience); ; {
					status, _, err := fetch(t.Context(), admin+"/readyz")
					if err == nil && status == http.StatusServiceUnavailable {
						break
					}
					if time.Now().After(deadline) {
						t.Fatal("the first signal was not taken")
					}
				}
			}
			sig := os.Signal(syscall.Signal(0)) // nothing more
			if tc.twice {
				sig = syscall.SIGTERM
			}
			code, err := p.end(sig)
			if err != nil || code != tc.code {
				errs, _ := p.stderr.text()
				t.Errorf("got %d %v, want %d; it printed %s", code, err, tc.code, errs)
			}
		})
	}
}

// On an empty folder the services answer within a second of the start. The best start counts, since the machine may be
// busy with other tests: what takes a second by itself takes it every time.
func TestReadyWithinASecond(t *testing.T) {
	best := time.Hour
	for deadline := time.Now().Add(patience / 2); best > time.Second && time.Now().Before(deadline); {
		began := time.Now()
		r := start(t, Main{Args: []string{"--location", t.TempDir(), "--blob-port", "0", "--queue-port", "0", "--table-port",
			"0", "--admin-port", "0"}})
		r.wait(t, "Ready in")
		best = min(best, time.Since(began))
		r.cancel()
		if code := r.end(t); code != exitOK {
			t.Fatalf("ended with %d", code)
		}
	}
	t.Logf("ready after %v", best)
	if best > time.Second {
		t.Errorf("ready after %v at best", best)
	}
}

// A token of the development issuer opens what its holder's group may open, and nothing opens it without.
func TestDevelopmentTokens(t *testing.T) {
	r := start(t, Main{Args: []string{"--in-memory", "--oauth", "dev", "--oauth-roles",
		"developers:Storage Blob Data Contributor:" + auth.DevelopmentAccount,
		"--oauth-groups", "ada:developers", "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port",
		"0"}})
	blob := r.wait(t, `Blob +(http://\S+)`)[1]
	admin := r.wait(t, `Admin +(http://\S+)`)[1]
	r.wait(t, "Ready")
	call := func(method, url string, header ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	tokenOf := func(client string) string {
		t.Helper()
		status, body := call("GET", admin+
			"/oauth/msi/token?api-version=2019-08-01&resource=https://storage.azure.com/&client_id="+client, "X-Identity-Header",
			"any")
		token := regexp.MustCompile(`"access_token": ?"([^"]+)"`).FindStringSubmatch(body)
		if status != http.StatusOK || token == nil {
			t.Fatalf("no token: %d %s", status, body)
		}
		return token[1]
	}
	token := tokenOf("ada")
	for _, tc := range []struct {
		name, authorization string
		want                int
	}{
		{"without a token", "", http.StatusUnauthorized},
		{"with a token of one outside the group", "Bearer " + tokenOf("eve"), http.StatusForbidden},
		{"with a token", "Bearer " + token, http.StatusCreated},
		{"with a broken token", "Bearer " + token[:len(token)-8] + "AAAAAAAA", http.StatusUnauthorized},
	} {
		header := []string{"X-Ms-Version", "2021-12-02"}
		if tc.authorization != "" {
			header = append(header, "Authorization", tc.authorization)
		}
		if status, body := call("PUT", blob+"/box?restype=container", header...); status != tc.want {
			t.Errorf("%s: got %d %s, want %d", tc.name, status, body, tc.want)
		}
	}
	r.cancel()
	if code := r.end(t); code != exitOK {
		t.Errorf("ended with %d", code)
	}
}

// buildProgram returns a path under which this test binary is the program.
func buildProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lazuli")
	if err := os.Symlink(self, path); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	return path
}

// A server with a seed can be reset to it, and only one that allows it.
func TestSeedAndReset(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "seed.yaml")
	if err := os.WriteFile(file, []byte("queues: {orders: [first]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ports := []string{"--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port", "0", "--seed", file}
	post := func(url string) (int, string) {
		t.Helper()
		resp, err := http.Post(url, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	r := start(t, Main{Args: append([]string{"--location", t.TempDir(), "--durability", "relaxed", "--admin-state"},
		ports...)})
	admin := r.wait(t, `Admin +(http://\S+)`)[1] + "/admin"
	r.wait(t, "Ready")
	for _, tc := range []struct {
		path   string
		status int
		body   string
	}{
		{"/snapshots/empty%20name", 400, "a snapshot's name"},
		{"/snapshots/one", 201, ""},
		{"/snapshots/one", 409, "a snapshot with that name"},
		{"/snapshots/one?replace=true", 201, ""},
		{"/reset?service=disk", 400, "service must be"},
		{"/reset?prefixes=x", 400, "no parameter prefixes"},
		{"/reset?account=nobody", 404, "no such account"},
		{"/reset?service=blob,table", 200, `{"containers":0,"queues":0,"tables":0}`},
		{"/reset", 200, `{"containers":0,"queues":1,"tables":0}`},
		{"/reset?seed=true", 200, `"queues":0`},
		{"/reset", 200, `"queues":1`}, // which the seed had made
		{"/snapshots/one/restore", 200, ""},
		{"/reset", 200, `"queues":1`}, // which the snapshot had
		{"/snapshots/two/restore", 404, "no snapshot"},
		{"/seed", 200, ""},
		{"/reset", 200, `"queues":1`},
	} {
		if status, body := post(admin + tc.path); status != tc.status || !strings.Contains(body, tc.body) {
			t.Errorf("POST %s: %d %s, want %d with %s", tc.path, status, body, tc.status, tc.body)
		}
	}
	r.cancel()
	if code := r.end(t); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	r = start(t, Main{Args: append([]string{"--in-memory"}, ports...)})
	if status, body := post(r.wait(t, `Admin +(http://\S+)`)[1] + "/admin/reset"); status != 403 ||
		!strings.Contains(body, "--admin-state") {
		t.Errorf("without leave: %d %s", status, body)
	}
	r.cancel()
	r.end(t)
}

func TestProgramsOfOneService(t *testing.T) {
	for args, want := range map[string]string{
		"/usr/bin/lazuli serve": "serve", "lazuli": "", "/opt/azurite-blob -l /data": "azurite-blob -l /data",
		"azurite-queue.exe": "azurite-queue", "azurite-tables x": "x",
	} {
		if got := strings.Join(verbOf(strings.Fields(args)), " "); got != want {
			t.Errorf("%s: verb %q, want %q", args, got, want)
		}
	}
}
