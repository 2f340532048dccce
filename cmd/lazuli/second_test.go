package main

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/server/config"
)

// A second server without flags fails with an error that names the flags to set.
func TestSecondLazuli(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	c.Admin.Port = taken.Addr().(*net.TCPAddr).Port
	if _, err := listenAdmin(c, slog.New(slog.DiscardHandler)); !errors.Is(err, errPortTaken) ||
		!strings.Contains(err.Error(), "run a second Lazuli, use --blob-port 0") {
		t.Error(err)
	}
}
