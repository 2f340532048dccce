package accountarchive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/laketool"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

const (
	manifestName = "manifest.json"
	sumsName     = "SHA256SUMS"

	formatName = "lazuli-account-archive"

	// Version is the version of the archive's format that is written, and the only one that is read.
	Version = 1

	// maxManifest bounds the manifest of an archive that is read: some 200 bytes for each segment, so 60 TiB.
	maxManifest = 256 << 20
)

// ErrArchive is the error for a folder that is not a whole archive: damaged, unfinished, or of another kind.
var ErrArchive = errors.New("not a valid archive")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrArchive, fmt.Errorf(format, args...))
}

// Manifest describes an archive.
type Manifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Source is the address of the account's Blob service, or of another one if it has none.
	Source    string      `json:"source"`
	Selection Selection   `json:"selection"`
	Started   time.Time   `json:"started"`
	Finished  time.Time   `json:"finished,omitzero"`
	Resources []*Resource `json:"resources"`
}

// Kinds of resources.
const (
	KindTable     = "table"
	KindQueue     = "queue"
	KindContainer = "container"
)

// Resource is a table, queue or container.
type Resource struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Metadata is that of a queue or container.
	Metadata map[string]string `json:"metadata,omitempty"`
	// Access is the public access level of a container: "", "blob" or "container".
	Access   string   `json:"publicAccess,omitempty"`
	Policies []Policy `json:"policies,omitempty"`
	// Root is the access control of the root directory, of an account with a hierarchical namespace.
	Root     *laketool.Access `json:"rootAccessControl,omitempty"`
	Segments []Segment        `json:"segments"`
	// Missing are items that could not be exported.
	Missing []Missing `json:"missing,omitempty"`
	// Next is the position at which the export continues. It is absent once the resource is complete.
	Next     *Position `json:"next,omitempty"`
	Complete bool      `json:"complete"`
}

// Policy is a stored access policy.
type Policy struct {
	ID         string    `json:"id"`
	Start      time.Time `json:"start,omitzero"`
	Expiry     time.Time `json:"expiry,omitzero"`
	Permission string    `json:"permission,omitempty"`
}

// Segment is a file of an archive.
type Segment struct {
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Items  int    `json:"items"`
}

// Missing is an item that is not in the archive, and why.
type Missing struct {
	Item   string `json:"item"`
	Reason string `json:"reason"`
}

// Position is the position at which a listing continues: at a marker of the service, behind an item.
type Position struct {
	Marker string `json:"marker,omitempty"`
	After  string `json:"after,omitempty"`
	// PartitionKey and RowKey continue the query of a table.
	PartitionKey string `json:"partitionKey,omitempty"`
	RowKey       string `json:"rowKey,omitempty"`
}

func (m *Manifest) find(kind, name string) *Resource {
	for _, r := range m.Resources {
		if r.Kind == kind && r.Name == name {
			return r
		}
	}
	return nil
}

// Missing returns the number of items that could not be exported.
func (m *Manifest) Missing() (n int) {
	for _, r := range m.Resources {
		n += len(r.Missing)
	}
	return n
}

// load reads the manifest of an archive. whole demands that the export has finished, and checks the manifest's hash. It
// fails with fs.ErrNotExist, or with ErrArchive.
func load(dir string, whole bool) (*Manifest, error) {
	path := filepath.Join(dir, manifestName)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	// Before it is read: the file is of someone else, and is held in memory whole.
	if info.Size() > maxManifest {
		return nil, invalid("%s has %d bytes", path, info.Size())
	}
	data, err := disk.ReadFile(dir, manifestName)
	if err != nil {
		return nil, err
	}
	// The sums are written last, so they are the mark of a finished export, too.
	if whole {
		sums, err := disk.ReadFile(dir, sumsName)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, invalid("the export to %s has not finished; run it again", dir)
		}
		if err != nil {
			return nil, err
		}
		if string(sums) != sumLine(data) {
			return nil, invalid("%s is damaged: its SHA-256 is not that of %s", path, sumsName)
		}
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, invalid("%s: %w", path, err)
	}
	if m.Format != formatName || m.Version != Version {
		return nil, invalid("%s is of format %q, version %d; this program reads %q, version %d", path, m.Format, m.Version,
			formatName, Version)
	}
	// Names in the manifest become paths: check refuses those that lead out of the folder.
	for _, r := range m.Resources {
		if err := r.check(); err != nil {
			return nil, invalid("%s: %w", path, err)
		}
	}
	return &m, nil
}

// check checks what is read from a manifest before it is used.
func (r *Resource) check() error {
	switch r.Kind {
	case KindTable, KindQueue, KindContainer:
	default:
		return fmt.Errorf("%q is no kind of resource", r.Kind)
	}
	for _, s := range r.Segments {
		if !filepath.IsLocal(filepath.FromSlash(s.File)) || strings.Contains(s.File, `\`) {
			return fmt.Errorf("the file %q is not within the archive", s.File)
		}
	}
	return nil
}

// save writes the manifest, as a whole or not at all.
func (m *Manifest) save(dir string) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	return disk.WriteFile(dir, manifestName, data)
}

func (m *Manifest) encode() ([]byte, error) {
	data, err := json.MarshalIndent(m, "", " ")
	return append(data, '\n'), err
}

// finish marks the archive as whole.
func (m *Manifest) finish(dir string, now time.Time) error {
	m.Finished = now
	if err := m.save(dir); err != nil {
		return err
	}
	data, err := m.encode()
	if err != nil {
		return err
	}
	return disk.WriteFile(dir, sumsName, []byte(sumLine(data)))
}

func sumLine(manifest []byte) string {
	sum := sha256.Sum256(manifest)
	return hex.EncodeToString(sum[:]) + "  " + manifestName + "\n"
}
