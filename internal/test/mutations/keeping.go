package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// keeping says where a run has its programs and what it has found, and how long it goes on. Runs on a machine with
// other work are done in parts: the first one builds and learns, and the others go on where the one before has stopped.
type keeping struct {
	folder string    // one that goes when the run ends if it is empty
	until  time.Time // no limit if it is zero
}

// errLater says that the time of a run is over.
var errLater = errors.New("the time is over")

// over reports whether a time has passed; the zero time never does.
func over(until time.Time) bool { return !until.IsZero() && time.Now().After(until) }

// begin returns the folder of a package, and what ends its use.
func (k keeping) begin(name string) (folder string, done func(), err error) {
	if k.folder == "" {
		folder, err = os.MkdirTemp("", "mutations")
		return folder, func() { _ = os.RemoveAll(folder) }, err
	}
	// The tests run in folders of their own.
	if folder, err = filepath.Abs(filepath.Join(k.folder, strings.ReplaceAll(name, "/", "-"))); err != nil {
		return "", nil, err
	}
	return folder, func() {}, os.MkdirAll(folder, 0o700)
}

// result is what a mutant is caught by, nothing if it survived, and whether a test comes to it.
type result struct {
	By      string
	Reached bool
}

// results are those of the mutants that were run, by their numbers.
type results struct {
	path string
	of   map[int]result
}

func openResults(path string) (*results, error) {
	r := &results{path: path}
	return r, readJSON(path, &r.of)
}

func (r *results) add(number int, found result) error {
	if r.of == nil {
		r.of = map[int]result{}
	}
	r.of[number] = found
	return writeJSON(r.path, r.of)
}

// readJSON reads a value, which stays as it is without the file.
func readJSON(path string, value any) error {
	text, err := os.ReadFile(path)
	// The first part of a run has nothing to go on from.
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, value)
}

func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
