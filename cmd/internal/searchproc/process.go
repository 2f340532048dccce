package searchproc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/buildinfo"
)

// process is a program that runs.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	url    *url.URL
	client *http.Client
	exited chan struct{} // closed after err was set
	err    error
}

// install says what to do when the program is missing.
const install = "install the package lazuli-search, or in a clone: go build -o . ./cmd/lazuli ./cmd/lazuli-search"

// find returns the path of the program: beside this one, or on the PATH.
func find() (string, error) {
	name := Program
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		real, err := filepath.EvalSymlinks(self)
		for _, from := range []string{self, real} {
			path := filepath.Join(filepath.Dir(from), name)
			if info, e := os.Stat(path); err == nil && e == nil && info.Mode().IsRegular() {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w beside lazuli and on the PATH: %s", ErrProgram, install)
	}
	return path, nil
}

// endTime is the time that the program has to close its index.
const endTime = 10 * time.Second

// start starts the program and waits until it serves. x.mu is held.
func (x *Index) start() (*process, error) {
	path, err := find()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(path), exited: make(chan struct{})}
	stdin, err1 := p.cmd.StdinPipe()
	stdout, err2 := p.cmd.StdoutPipe()
	stderr, err3 := p.cmd.StderrPipe()
	if err := errors.Join(err1, err2, err3, p.cmd.Start()); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	p.stdin = stdin
	logged := make(chan struct{})
	go func() {
		relay(stderr, x.config.Log)
		close(logged)
	}()
	answer := make(chan Started, 1)
	go func() {
		var s Started
		if json.NewDecoder(stdout).Decode(&s) == nil {
			answer <- s
		}
		_, _ = io.Copy(io.Discard, stdout)
		<-logged // Wait closes both pipes.
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	c := x.config
	settings := Settings{Version: buildinfo.Current().Version, Token: x.token, Folder: c.Folder, Table: c.Table,
		Fields: c.Fields, Tables: x.gate.address(), ConnectionString: c.ConnectionString, Wait: c.Wait,
		Faults: faultsOfTheIndex(c.Faults)}
	if err := json.NewEncoder(stdin).Encode(settings); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", path, err), p.stop())
	}
	select {
	case s := <-answer:
		if err := s.err(); err != nil {
			return nil, errors.Join(err, p.stop())
		}
		p.url = &url.URL{Scheme: "http", Host: s.Address}
		p.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
		return p, nil
	case <-p.exited:
		return nil, fmt.Errorf("%w: %s: %v", ErrEnded, path, p.err)
	case <-x.closed:
		return nil, errors.Join(errClosed, p.stop())
	}
}

// startError is an error that the program says, of a kind.
type startError struct {
	text string
	kind error // nil: another one
}

func (e startError) Error() string { return e.text }
func (e startError) Unwrap() error { return e.kind }

// err returns the error of a start.
func (s Started) err() error {
	if s.Error == "" {
		return nil
	}
	kinds := map[string]error{KindUsage: ErrSettings, KindNoIndex: ErrNoIndex, KindInUse: ErrInUse}
	return startError{s.Error, kinds[s.Kind]}
}

func (p *process) alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// stop ends the program, and waits for it. An end by itself before is no error.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	alive := p.alive()
	_ = p.stdin.Close()
	if p.client != nil {
		p.client.CloseIdleConnections()
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	select {
	case <-p.exited:
		if alive && p.client != nil && p.err != nil {
			return fmt.Errorf("%s ended with: %w", Program, p.err)
		}
		return nil
	case <-ctx.Done():
		_ = p.cmd.Process.Kill() // It may have just ended.
		<-p.exited
		return fmt.Errorf("%s did not end within %v and was killed", Program, endTime)
	}
}

// relay logs what the program logs: records of slog in JSON, a line each. Other lines are those of a crash.
func relay(from io.Reader, log *slog.Logger) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var record map[string]any
		var level slog.Level
		text := lines.Text()
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			log.Error(Program + ": " + text)
			continue
		}
		name, _ := record[slog.LevelKey].(string)
		message, _ := record[slog.MessageKey].(string)
		_ = level.UnmarshalText([]byte(name)) // else it is INFO
		var args []any
		for _, key := range slices.Sorted(maps.Keys(record)) {
			if key != slog.TimeKey && key != slog.LevelKey && key != slog.MessageKey {
				args = append(args, key, record[key])
			}
		}
		log.Log(context.Background(), level, message, args...)
	}
	_, _ = io.Copy(io.Discard, from) // after a line that is too long
}

// faultsOfTheIndex returns the rules of a fault plan whose points are in the program.
func faultsOfTheIndex(plan string) string {
	rules := slices.DeleteFunc(strings.Split(plan, ","),
		func(rule string) bool { return !strings.HasPrefix(strings.TrimSpace(rule), "search-index/") })
	return strings.Join(rules, ",")
}
