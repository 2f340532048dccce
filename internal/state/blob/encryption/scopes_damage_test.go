package encryption

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDamagedScopeFile flips each bit of the file of keys: it is refused, or has the same keys.
func TestDamagedScopeFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "scopes.json")
	declared := func(string) []string { return []string{"one", "two"} }
	s, err := OpenScopes(path, declared)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Declare("account"); err != nil {
		t.Fatal(err)
	}
	want := string(sumOf(s.keys))
	if s, err = OpenScopes(path, declared); err != nil || string(sumOf(s.keys)) != want {
		t.Fatalf("the file does not read back: %v", err)
	}
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for bit := range 8 * len(p) {
		p[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, p, 0o600); err != nil {
			t.Fatal(err)
		}
		p[bit/8] ^= 1 << (bit % 8)
		s, err := OpenScopes(path, declared)
		if err != nil {
			refused++
		} else if string(sumOf(s.keys)) != want {
			t.Errorf("bit %d of byte %d changes the keys unnoticed", bit%8, bit/8)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused: the test shows nothing")
	}
}

// A file of an earlier release, without a checksum, is read.
func TestScopeFileWithoutChecksum(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "scopes.json")
	if err := os.WriteFile(path, []byte(`{"account/one": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	s, err := OpenScopes(path, func(string) []string { return []string{"one"} })
	if err != nil || len(s.keys["account/one"]) != 32 {
		t.Errorf("%v", err)
	}
}
