package serve

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/test/check"
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
	if _, err := listenAdmin(c, slog.New(slog.DiscardHandler)); !errors.Is(err, server.ErrPortTaken) ||
		!strings.Contains(err.Error(), "run a second Lazuli, use --blob-port 0") {
		t.Error(err)
	}
}

// The development issuer's tokens outlive a restart on the same data folder, and nothing else.
func TestIssuerKeyStaysWithTheData(t *testing.T) {
	issue := func(location string) auth.KeySet {
		t.Helper()
		c := config.Default()
		c.Location, c.OAuth.Development, c.InMemory = location, true, location == ""
		s, err := newSecurity(&c, slog.Default())
		if err != nil {
			t.Fatal(err)
		}
		return s.issuer.Trust().Keys.(auth.KeySet)
	}
	location := filepath.Join(t.TempDir(), "data")
	first := issue(location)
	if again := issue(location); !reflect.DeepEqual(again, first) {
		t.Error("the same folder has another key")
	}
	if other := issue(""); reflect.DeepEqual(other, first) {
		t.Error("a process in memory has the folder's key")
	}
	if info, err := os.Stat(filepath.Join(location, datadir.IssuerKeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// All nodes of a cluster have one key, whatever their folders, and other clusters have others.
func TestNodesShareTheIssuerKey(t *testing.T) {
	issue := func(secret string) auth.KeySet {
		t.Helper()
		c := config.Default()
		c.Location, c.OAuth.Development = t.TempDir(), true
		c.Cluster.Node, c.Cluster.SecretFile = "n1", filepath.Join(t.TempDir(), "secret")
		check.OK(t, os.WriteFile(c.Cluster.SecretFile, []byte(strings.Repeat(secret, 40)), 0o600))
		return check.Must(newSecurity(&c, slog.Default()))(t).issuer.Trust().Keys.(auth.KeySet)
	}
	first := issue("a")
	if second := issue("a"); !reflect.DeepEqual(second, first) {
		t.Error("two nodes with one secret have different keys")
	}
	if other := issue("b"); reflect.DeepEqual(other, first) {
		t.Error("two clusters have the same key")
	}
}

// The roles use the account that is written first, whatever its name.
func TestRolesUseTheFirstAccountAsWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "accounts")
	if err := os.WriteFile(file, []byte("zulu:a2V5\nalpha:a2V5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, environ := range [][]string{{"LAZULI_ACCOUNTS=zulu:a2V5;alpha:a2V5"}, {"LAZULI_ACCOUNTS_FILE=" + file}} {
		c, err := config.Load(config.Sources{Environ: append(environ, "LAZULI_ROLES=archive")})
		if err != nil {
			t.Fatal(err)
		}
		sec, err := newSecurity(&c.Config, slog.Default())
		if err != nil {
			t.Fatal(err)
		}
		roles, err := newServerRoles(&c.Config, sec)
		if err != nil || roles.account != "zulu" {
			t.Errorf("%s: roles use %+v, %v; want zulu", environ, roles, err)
		}
	}
}
