package searchindex

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/filelock"
	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
)

// The files of an index's folder. A file with the state of the folder names the generations, each in a folder of its
// own:
//
//	LOCK              locked while a process has the index open
//	state.json        table, fields, and the generations in use
//	generation-ID/    an index of bleve
const (
	lockFile         = "LOCK"
	stateFile        = "state.json"
	generationPrefix = "generation-"
)

// formatVersion is the version of the folder's format and of what is indexed of an entity.
const formatVersion = 1

// maxStateSize bounds the size of the state file.
const maxStateSize = 1 << 20

// state is the content of the state file.
type state struct {
	Version int     `json:"version"`
	Table   string  `json:"table"`
	Fields  []Field `json:"fields"`
	// Serving is the ID of the complete generation, Building that of the one that will replace it; empty if it does not
	// exist.
	Serving  string `json:"serving,omitempty"`
	Building string `json:"building,omitempty"`
	// Rebuild is true from a call of Rebuild until a new generation is begun.
	Rebuild bool `json:"rebuild,omitempty"`
}

// matches reports whether the generations have the content that the configuration asks for.
func (s *state) matches(table string, fields []Field) bool {
	return s.Version == formatVersion && strings.EqualFold(s.Table, table) && slices.Equal(s.Fields, fields)
}

// The errors of Open and OpenFolder besides [ErrFields].
var (
	// ErrInUse means that another process, or another Index of this one, has the folder open.
	ErrInUse = errors.New("searchindex: the folder of the index is in use")
	// ErrNoIndex means that a folder has no index.
	ErrNoIndex = errors.New("searchindex: the folder has no index")
	// ErrNewer means that a newer version has made the folder.
	ErrNewer = errors.New("searchindex: a newer version has made the index; remove its folder to build it again")
)

// folder is a locked folder.
type folder struct {
	path string
	lock *os.File
}

// openFolder locks a folder, which it creates if it does not exist.
func openFolder(path string) (*folder, error) {
	if err := disk.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("searchindex: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("searchindex: %w", err)
	}
	// Before anything is read: two processes that wrote batches to one generation would each overwrite the progress of
	// the other.
	if err := filelock.Try(f); err != nil {
		if errors.Is(err, filelock.ErrBusy) {
			err = fmt.Errorf("%w: %s", ErrInUse, path)
		}
		return nil, errors.Join(err, f.Close())
	}
	return &folder{path, f}, nil
}

func (f *folder) close() error { return filelock.Close(f.lock) }

func (f *folder) generation(id string) string { return filepath.Join(f.path, generationPrefix+id) }

// read returns the state of the folder; the zero state if it has none.
func (f *folder) read() (s state, err error) {
	text, err := secretfile.Read(filepath.Join(f.path, stateFile), maxStateSize)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("searchindex: the state of the index: %w", err)
	}
	// An older release must not rebuild what a newer one made: it would do so at each change of the release, back and
	// forth.
	if s.Version > formatVersion {
		return s, fmt.Errorf("%w: %s", ErrNewer, f.path)
	}
	return s, nil
}

func (f *folder) write(s state) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return secretfile.Write(filepath.Join(f.path, stateFile), append(text, '\n'))
}

// clean removes generations that the state does not name: a process was killed before it removed them.
func (f *folder) clean(s state) error {
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		// Only names of our own form: the folder may have files of an operator.
		if id, ok := strings.CutPrefix(e.Name(), generationPrefix); ok && id != s.Serving && id != s.Building {
			err = errors.Join(err, os.RemoveAll(f.generation(id)))
		}
	}
	return err
}
