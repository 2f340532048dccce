//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// systemd learns that the services answer, and that they stop.
func TestNotifySystemd(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "notify") // a socket's path has at most about 100 bytes
	check.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket := filepath.Join(folder, "s")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	check.OK(t, err)
	defer l.Close()
	self, err := os.Executable()
	check.OK(t, err)
	cmd := lazuliCommand(self, "--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port",
		"0")
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+socket)
	check.OK(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	receive := func(want string) {
		t.Helper()
		check.OK(t, l.SetReadDeadline(time.Now().Add(patience)))
		b := make([]byte, 100)
		n, err := l.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Fatalf("systemd received %q, %v; want %q", b[:n], err, want)
		}
	}
	receive("READY=1")
	check.OK(t, cmd.Process.Signal(syscall.SIGTERM))
	receive("STOPPING=1")
}
