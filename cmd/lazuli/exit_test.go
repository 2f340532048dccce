package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A verb that a signal ends says what became of its work, and exits as shells expect: 128 and the number of the signal.
func TestInterrupted(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	check.OK(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	account := "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=a2V5;BlobEndpoint=http://" +
		silent.Addr().String() + "/devstoreaccount1"
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	check.OK(t, os.WriteFile(file, []byte("content"), 0o600))
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"blob", "put", file, "abc/blob"}, "lazuli: interrupted: the blob was not written\n"},
		{[]string{"blob", "get", "abc/blob", filepath.Join(folder, "new")}, "lazuli: interrupted: no file was written\n"},
		{[]string{"export", filepath.Join(folder, "archive")},
			"lazuli: interrupted: run the command again to continue\n"},
		{[]string{"blob", "ls"}, "lazuli: interrupted\n"},
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		ended := make(chan struct{})
		go func() { // the signal comes while the request waits
			defer close(ended)
			c, err := silent.Accept()
			cancel(signalled{syscall.SIGTERM})
			if err == nil {
				_ = c.Close()
			}
		}()
		var out bytes.Buffer
		m := Main{Args: append(tc.args, "--connection-string", account), Stdout: &out, Stderr: &out}
		if code := m.Run(ctx); code != exitSignal+int(syscall.SIGTERM) || !strings.HasSuffix(out.String(), tc.want) {
			t.Errorf("%s: exit code %d, %q, want %q", tc.args, code, out.String(), tc.want)
		}
		<-ended
	}
	if _, err := os.Stat(filepath.Join(folder, "new")); err == nil {
		t.Error("blob get left a file")
	}
}
