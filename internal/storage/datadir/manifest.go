package datadir

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Format is the version of the layout, and of all files in the folder.
const Format = 1

// ManifestFile is the name of the file that lists what the folder must contain.
const ManifestFile = "MANIFEST"

const (
	// manifestHead begins the manifest; the version follows.
	manifestHead = "lazuli data folder, format "
	// manifestSum begins its last line; the checksum of everything before follows.
	manifestSum = "crc32c "
	// buildFile was in the folders of development builds, which had no manifest.
	buildFile = "FORMAT"
)

// The moments at which tests kill a process that writes the manifest.
var (
	pointWritten = fault.Declare("manifest/written")
	pointRenamed = fault.Declare("manifest/renamed")
)

// manifest lists the files that hold data. It is replaced as a whole, durably: when the folder is opened, when a file was created, and when the folder
// is closed.
type manifest struct {
	// Folder is the identity of the folder, and Number the number of this version of the manifest.
	Folder string `json:"folder"`
	Number uint64 `json:"number"`
	// Open means that a process has had the folder open: files may hold more than the manifest says, and there may be others.
	Open bool `json:"open"`
	// Files are the files by their paths.
	Files map[string]entry `json:"files"`
}

// entry is what the manifest says about a file.
type entry struct {
	// ID is the identity that the file has in itself; "" for a file without one.
	ID string `json:"id,omitempty"`
	// View means that other files, or other nodes, can make it again.
	View bool `json:"view,omitempty"`
	// Generation rises while the file is in use: a file of a lower one is older.
	Generation uint64 `json:"generation,omitempty"`
	// Exact means that nothing had the file open: it has exactly this size and checksum. Otherwise it may have changed since.
	Exact bool   `json:"exact"`
	Size  int64  `json:"size"`
	Sum   uint32 `json:"sum"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (m *manifest) encode() ([]byte, error) {
	p := append([]byte(manifestHead+strconv.Itoa(Format)), '\n')
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	p = append(append(p, text...), '\n')
	return fmt.Appendf(p, "%s%08x\n", manifestSum, crc32.Checksum(p, castagnoli)), nil
}

// decodeManifest parses a manifest. Errors: ErrFormat, ErrManifest.
func decodeManifest(p []byte) (*manifest, error) {
	head, rest, _ := bytes.Cut(p, []byte("\n"))
	number, ok := strings.CutPrefix(string(head), manifestHead)
	version, err := strconv.Atoi(number)
	if !ok || err != nil || version < 1 {
		return nil, fmt.Errorf("%w: its first line is damaged", ErrManifest)
	}
	if version > Format {
		return nil, fmt.Errorf("%w: it has format %d, and this program supports format %d; "+
			"use the newer release that wrote it, or choose another folder with --location", ErrFormat, version, Format)
	}
	at := bytes.LastIndex(p, []byte(manifestSum))
	if at < 0 || string(p[at:]) != fmt.Sprintf("%s%08x\n", manifestSum, crc32.Checksum(p[:at], castagnoli)) {
		return nil, fmt.Errorf("%w: its checksum does not match", ErrManifest)
	}
	m := &manifest{}
	if err := json.Unmarshal(rest[:at-len(head)-1], m); err != nil || m.Files == nil {
		return nil, fmt.Errorf("%w: %v", ErrManifest, err)
	}
	return m, nil
}

// readManifest reads the manifest of a folder. It returns nil for a folder without data.
//
// Errors: ErrFormat, ErrManifest, or an error of the operating system.
func readManifest(path string) (*manifest, error) {
	p, err := os.ReadFile(filepath.Join(path, ManifestFile))
	if err == nil {
		return decodeManifest(p)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the data folder's manifest: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(path, buildFile)); err == nil {
		return nil, fmt.Errorf("%w: %s was written by a development build before the first release; choose another folder with --location", ErrFormat, path)
	}
	for _, p := range parts {
		if _, err := os.Lstat(filepath.Join(path, p.name)); err == nil {
			return nil, fmt.Errorf("%w: it is missing, and there is %s", ErrManifest, p.name)
		}
	}
	return nil, nil
}

// write replaces the manifest of a folder, durably.
func (m *manifest) write(path string) error {
	m.Number++
	p, err := m.encode()
	if err != nil {
		return err
	}
	name := filepath.Join(path, ManifestFile)
	f, err := disk.OS.OpenFile(name+partSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write the data folder's manifest: %w", err)
	}
	_, err = f.WriteAt(p, 0)
	if err = errors.Join(err, f.Sync(), f.Close(), fault.Point(pointWritten)); err == nil {
		err = os.Rename(name+partSuffix, name)
	}
	if err == nil {
		err = fault.Point(pointRenamed)
	}
	if err != nil {
		return fmt.Errorf("write the data folder's manifest: %w", err)
	}
	return syncFolder(path)
}

// newManifest returns the manifest of a new folder.
func newManifest() *manifest {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return &manifest{Folder: hex.EncodeToString(id), Open: true, Files: map[string]entry{}}
}

// syncFolder makes the folder's entries durable.
func syncFolder(path string) error {
	if err := disk.SyncDir(path); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}
