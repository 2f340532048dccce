package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lazuli-storage/lazuli/cmd/internal/searchproc"
	"github.com/lazuli-storage/lazuli/cmd/internal/searchserver"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestMain(m *testing.M) {
	if os.Getenv(testHandlerVar) != "" {
		serveTestHandler()
		return
	}
	testscript.Main(parallel{m}, map[string]func(){"lazuli": func() {
		actAsOtherRelease()
		failAsPlanned()
		main()
	}, searchproc.Program: func() { os.Exit(searchserver.Main()) }})
}

// parallel runs tests with more of them at a time: many wait, for processes or elections.
type parallel struct{ *testing.M }

// Run implements testscript.TestingM.
func (p parallel) Run() int {
	check.FilesInMemory()
	check.MoreParallel(8)
	return p.M.Run()
}

// TestScripts runs testdata/script/*.txtar. Beside testscript's own commands there are:
//
//	start NAME ARGS...    runs `lazuli ARGS...` in the background until it is ready; addresses are in $NAME_BLOB, _QUEUE,
//	                      _TABLE and _ADMIN (host:port), ports in $NAME_BLOB_PORT and so on
//	end NAME CODE         sends SIGTERM and wants that exit code; what it printed is in NAME.stdout and NAME.stderr
//	kill9 NAME            kills it
//	get URL STATUS [TEXT] wants that status, and TEXT in the answer
//	until PATTERN ARGS... runs `lazuli ARGS...` again and again until a line of its stdout matches
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start": scriptStart,
			"end":   scriptEnd,
			"kill9": scriptKill,
			"get":   scriptGet,
			"until": scriptUntil,
		},
		Setup: func(e *testscript.Env) error {
			e.Values[processes{}] = make(map[string]*process)
			folders, err := filepath.Abs("internal/azurite/testdata")
			e.Setenv("AZURITE_FOLDERS", folders)
			return err
		},
	})
}

// patience bounds every wait of these tests; nothing takes that long.
const patience = 2 * time.Minute

// processes is the key of a script's processes by name.
type processes struct{}

// process is a program that runs beside the script.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr *output
	exited         chan struct{}
}

// output collects what a process prints.
type output struct {
	mu    sync.Mutex
	b     bytes.Buffer
	grown chan struct{} // closed and replaced at each write
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.grown)
	o.grown = make(chan struct{})
	return o.b.Write(p)
}

func (o *output) text() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String(), o.grown
}

// startProcess runs cmd and returns once what it prints matches ready, or it ended.
func startProcess(cmd *exec.Cmd, ready func(stdout string) bool) (*process, error) {
	p := &process{cmd, &output{grown: make(chan struct{})}, &output{grown: make(chan struct{})}, make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.stdout, p.stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = cmd.Wait(); close(p.exited) }()
	timeout := time.After(patience)
	for {
		text, grown := p.stdout.text()
		if ready(text) {
			return p, nil
		}
		select {
		case <-grown:
		case <-p.exited:
			errText, _ := p.stderr.text()
			return nil, fmt.Errorf("it ended: %s", errText)
		case <-timeout:
			_ = cmd.Process.Kill()
			return nil, fmt.Errorf("not ready; it printed %q", text)
		}
	}
}

// end signals the process and returns its exit code.
func (p *process) end(sig os.Signal) (int, error) {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		return 0, fmt.Errorf("still running after %v", sig)
	}
}

func scriptStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: start NAME ARGS...")
	}
	program := ""
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path := filepath.Join(dir, "lazuli"); program == "" && exists(path) {
			program = path
		}
	}
	name := args[0]
	cmd := exec.Command(program, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "TMPDIR=" + ts.Getenv("TMPDIR")}
	for _, v := range []string{"LAZULI_ACCOUNTS", "AZURITE_ACCOUNTS", "LAZULI_LOCATION"} {
		if text := ts.Getenv(v); text != "" {
			cmd.Env = append(cmd.Env, v+"="+text)
		}
	}
	silent := strings.Contains(strings.Join(args, " "), "--silent")
	p, err := startProcess(cmd, func(out string) bool {
		return strings.Contains(out, "Ready in") || silent && strings.Contains(out, "Admin ")
	})
	ts.Check(err)
	out, _ := p.stdout.text()
	for _, m := range regexp.MustCompile(`(?m)^  (Blob|Queue|Table|Admin) +https?://([^/\s]+)`).FindAllStringSubmatch(out,
		-1) {
		ts.Setenv(name+"_"+strings.ToUpper(m[1]), m[2])
		_, port, _ := net.SplitHostPort(m[2])
		ts.Setenv(name+"_"+strings.ToUpper(m[1])+"_PORT", port)
	}
	ts.Setenv(name+"_PID", strconv.Itoa(cmd.Process.Pid))
	ts.Value(processes{}).(map[string]*process)[name] = p
	ts.Defer(func() { _ = cmd.Process.Kill(); <-p.exited })
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func scriptProcess(ts *testscript.TestScript, name string) *process {
	p := ts.Value(processes{}).(map[string]*process)[name]
	if p == nil {
		ts.Fatalf("%s was not started", name)
	}
	return p
}

func scriptEnd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: end NAME CODE")
	}
	p := scriptProcess(ts, args[0])
	code, err := p.end(syscall.SIGTERM)
	ts.Check(err)
	out, _ := p.stdout.text()
	errs, _ := p.stderr.text()
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".stdout"), []byte(out), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".stderr"), []byte(errs), 0o600))
	if strconv.Itoa(code) != args[1] {
		ts.Fatalf("%s ended with %d, want %s; it printed:\n%s", args[0], code, args[1], errs)
	}
}

func scriptKill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: kill9 NAME")
	}
	_, err := scriptProcess(ts, args[0]).end(os.Kill)
	ts.Check(err)
}

func scriptGet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: get URL STATUS [TEXT]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	status, body, err := fetch(ctx, args[0])
	ts.Check(err)
	if strconv.Itoa(status) != args[1] || len(args) > 2 && !strings.Contains(body, args[2]) {
		ts.Fatalf("got %d %s", status, body)
	}
}

func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN ARGS...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(patience); ; {
		ts.Check(ts.Exec("lazuli", args[1:]...))
		out := ts.ReadFile("stdout")
		if pattern.MatchString(out) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no line matches %s in:\n%s", args[0], out)
		}
	}
}
