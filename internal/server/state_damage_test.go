package server

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A snapshot of which a file is damaged does not replace the state: it is refused, nothing is removed, and requests are
// served.
func TestDamagedSnapshotsAreRefused(t *testing.T) {
	t.Parallel()
	accounts, err := auth.NewManagedAccounts(accountprops.Blob{Scopes: []string{"secret"}},
		*auth.Development().Get(auth.DevelopmentAccount))
	check.OK(t, err)
	dir := t.TempDir()
	s, err := Start(Config{Location: dir, Relaxed: true, Accounts: accounts, Log: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	t.Cleanup(func() { check.OK(t, s.Stop(context.Background())) })
	dev := newTenant(t, s.ConnectionString())
	dev.fill(t, "before")
	check.OK(t, s.Save(t.Context(), "one", false))
	dev.fill(t, "after")

	kinds := map[string]int{}
	check.OK(t, filepath.WalkDir(filepath.Join(dir, "snapshots", "one"),
		func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			check.OK(t, err)
			damaged := bytes.ReplaceAll(text, []byte("before"), []byte("cefore")) // everywhere: databases keep former pages
			if e.Name() == "encryption-scopes.json" {
				damaged = bytes.Replace(text, []byte("secret"), []byte("sacret"), 1)
			}
			if e.Name() == "meta.inf" {
				damaged = bytes.Replace(text, []byte("queues"), []byte("quaues"), 1)
			}
			if bytes.Equal(damaged, text) || e.Name() == "index.db" { // which JetStream makes again
				return nil
			}
			if ext := filepath.Ext(path); ext == ".blk" || ext == ".extent" {
				kinds[ext]++
			}
			kinds[e.Name()]++
			check.OK(t, os.WriteFile(path, damaged, 0o600))
			if err := s.Restore(t.Context(), "one"); err == nil {
				t.Errorf("a snapshot with damage in %s is restored", path)
			}
			if a, b := dev.has(t, "before"), dev.has(t, "after"); a != "bqt" || b != "bqt" {
				t.Errorf("damage in %s: before has %q, after %q", path, a, b)
			}
			return os.WriteFile(path, text, 0o600)
		}))
	for _, kind := range []string{"tables.db", "blobs.db", "encryption-scopes.json", ".blk", ".extent", "meta.inf"} {
		if kinds[kind] == 0 {
			t.Errorf("no file of the kind %s was damaged: %v", kind, kinds)
		}
	}
	check.OK(t, s.Restore(t.Context(), "one"))
	if a, b := dev.has(t, "before"), dev.has(t, "after"); a != "bqt" || b != "" {
		t.Errorf("the intact snapshot: before has %q, after %q", a, b)
	}
}
