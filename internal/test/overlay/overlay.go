// Package overlay builds tests from sources that differ from those on disk: the go command reads other files in their
// place, see -overlay in `go help build`. So code can be broken on purpose, and the sources stay as they are.
package overlay

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Overlay has the files that are read in place of others. The zero value is not valid; see [New].
type Overlay struct {
	dir      string
	replaced map[string]string // by the absolute path of a source; "" leaves it out
}

// New returns an overlay without files. It writes into dir, which the caller removes.
func New(dir string) *Overlay { return &Overlay{dir: dir, replaced: map[string]string{}} }

// Place puts text in the place of a source, which may be new.
func (o *Overlay) Place(source, text string) error {
	absolute, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	// The number keeps files apart that have one name in two folders.
	o.replaced[absolute] = filepath.Join(o.dir, fmt.Sprint(len(o.replaced), "-", filepath.Base(source)))
	return os.WriteFile(o.replaced[absolute], []byte(text), 0o600)
}

// Omit leaves a source out.
func (o *Overlay) Omit(source string) error {
	absolute, err := filepath.Abs(source)
	o.replaced[absolute] = ""
	return err
}

// BuildTests compiles the tests of the package in a folder. The error has what the compiler says.
func (o *Overlay) BuildTests(folder, program string) error {
	list, err := json.Marshal(map[string]any{"Replace": o.replaced})
	if err != nil {
		return err
	}
	file := filepath.Join(o.dir, "overlay.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		return err
	}
	build := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", file, "-o", program, ".")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c %s: %w\n%s", folder, err, out)
	}
	return nil
}
