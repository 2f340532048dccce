package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/workbench"
)

// startServer starts a server that ends by a signal. stop waits for its end.
func startServer(m *workbench.Meter, end os.Signal, cmd *exec.Cmd) (stop func(), err error) {
	log, err := os.Create(filepath.Join(cmd.Dir, "server.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	m.Processor = func() time.Duration {
		return bench.ProcessorTime(os.Getpid()) + processorOfAll(cmd.Process.Pid)
	}
	return func() {
		_ = cmd.Process.Signal(end)
		_ = cmd.Wait()
	}, nil
}

// processorOfAll returns the processor time of a process and of the processes that it has started, also of ended ones.
func processorOfAll(pid int) (total time.Duration) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents, times := map[int]int{}, map[int]time.Duration{}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		// proc_pid_stat(5): the parent is the 2nd field after the name, the times the 12th to 15th, in hundredths.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parents[id], _ = strconv.Atoi(fields[1])
		for _, field := range fields[11:15] {
			n, _ := strconv.Atoi(field)
			times[id] += time.Duration(n) * 10 * time.Millisecond
		}
	}
	for id := range parents {
		for up := id; up > 1; up = parents[up] {
			if up == pid {
				total += times[id]
				break
			}
		}
	}
	return total
}

// freePort returns a port of this machine that nothing listens to.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// eventually calls ready until it returns no error, for half a minute.
func eventually(ctx context.Context, ready func() error) error {
	for began := time.Now(); ; {
		err := ready()
		if err == nil || ctx.Err() != nil || time.Since(began) > 30*time.Second {
			return errors.Join(err, ctx.Err())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// idleFor returns an Idle that waits for a random time up to most, since a worker that polls may be at any point of its
// interval.
func idleFor(most time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(5*time.Millisecond + rand.N(most)):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func command(name string, arguments ...any) *exec.Cmd {
	list := make([]string, len(arguments))
	for i, a := range arguments {
		list[i] = fmt.Sprint(a)
	}
	return exec.Command(name, list...)
}
