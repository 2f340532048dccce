package keys

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKeyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys.json")
	made, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Open(path)
	if err != nil || len(read.keys) != 5 || fmt.Sprint(read.keys) != fmt.Sprint(made.keys) ||
		len(read.Get(Master)) < 40 {
		t.Errorf("%v, %v, made %v", read, err, made)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others can read it: %v, %v", info.Mode(), err)
	}
	for text, want := range map[string]string{
		`[]`: "not an object of texts", `{}`: "has no host.master", `{"host.master": ""}`: "host.master is empty",
		`{"host.master": "a", "master": "b"}`:         `"master" is not the name of a key`,
		`{"host.master": "a", "host.function.": "b"}`: `"host.function." is not the name of a key`,
		`{"host.master": 1}`:                          "not an object of texts",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
