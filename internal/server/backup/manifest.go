package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// Format is the version of the files of a place.
const Format = 1

// formatShards is the version of the list of a backup with more than one shard: a release that knows no shards would
// restore the first one alone.
const formatShards = 2

// formatPart is the version of the list of a base that has one of several shards: see [Info.Only].
const formatPart = 3

const (
	markName     = "lazuli-backups"
	markKind     = "lazuli backups, format"
	manifestKind = "lazuli backup, format"
	listFolder   = "backups/"
	pieceFolder  = "pieces/"
	lockName     = "lock"
)

// nameLayout is the form of the name of a backup, the time of its moment in UTC.
const nameLayout = "20060102T150405.000Z"

// Errors of this package.
var (
	// ErrNoBackup: the place has no backup, or none of the name.
	ErrNoBackup = errors.New("no such backup")
	// ErrLocked: another process writes to the place.
	ErrLocked = errors.New("another process writes to the backups")
	// ErrNotPlace: the folder or container has other things.
	ErrNotPlace = errors.New("is not empty and has no backups of Lazuli; choose another folder or container")
	// ErrDamaged: a file of the place is missing or is not what was written.
	ErrDamaged = errors.New("the backup is damaged")
)

// Manifest lists what a backup consists of.
type Manifest struct {
	// Name names the backup in its place.
	Name string `json:"name"`
	// Time is the moment of the state.
	Time time.Time `json:"time"`
	Info
	Part
	// Shards are the parts of the shards from number 1 on; the part above is that of shard 0.
	Shards []*Part `json:"shards,omitempty"`
	// Bytes is the size of all pieces, New that of the pieces that no earlier backup had.
	Bytes int64 `json:"bytes"`
	New   int64 `json:"new"`
}

// Part is the part of a backup that belongs to one shard.
type Part struct {
	// Databases are the pieces of the databases, in order, by their names.
	Databases map[string][]Piece `json:"databases"`
	// Keys is the piece with the keys of encryption scopes, if there are any.
	Keys *Piece `json:"keys,omitempty"`
	// Contents are the pieces with the content of blobs.
	Contents []Content `json:"contents"`
}

// parts are the parts of all shards, by their numbers.
func (m *Manifest) parts() []*Part { return append([]*Part{&m.Part}, m.Shards...) }

// format is the version in which the list is written.
func (m *Manifest) format() int {
	switch {
	case m.Only != nil:
		return formatPart
	case len(m.Shards) > 0:
		return formatShards
	}
	return Format
}

// Piece is a file that several backups may share.
type Piece struct {
	// Sum is the SHA-256 of the content in hexadecimal, by which the file is called.
	Sum  string `json:"sum"`
	Size int64  `json:"size"`
}

func (p Piece) name() string { return pieceFolder + p.Sum[:2] + "/" + p.Sum }

// Content is the content of a window of an extent.
type Content struct {
	extent.Window
	Ranges []extent.Range `json:"ranges"`
	Piece  Piece          `json:"piece"`
}

// pieces calls fn with each piece.
func (m *Manifest) pieces(fn func(Piece)) {
	for _, part := range m.parts() {
		for _, name := range Databases {
			for _, p := range part.Databases[name] {
				fn(p)
			}
		}
		if part.Keys != nil {
			fn(*part.Keys)
		}
		for i := range part.Contents {
			fn(part.Contents[i].Piece)
		}
	}
}

// valid reports whether there is a part for each shard, and the names of all pieces are sums.
func (m *Manifest) valid() bool {
	ok := len(m.Shards) == m.shards()-1 && !slices.Contains(m.Shards, nil)
	if !ok {
		return false
	}
	m.pieces(func(p Piece) { ok = ok && len(p.Sum) == 64 && strings.Trim(p.Sum, "0123456789abcdef") == "" })
	return ok
}

// Names returns the names of the backups of a place, the oldest first. Errors: ErrNotPlace, those of the place.
func Names(ctx context.Context, p Place) (names []string, err error) {
	if _, err := marked(ctx, p); err != nil {
		return nil, err
	}
	err = p.List(ctx, listFolder, func(name string) error {
		name = strings.TrimPrefix(name, listFolder)
		if _, err := time.Parse(nameLayout, name); err == nil {
			names = append(names, name)
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// Read reads the list of a backup; name "" is the newest one. Errors: ErrNoBackup, ErrDamaged, ErrNotPlace, those of
// the place.
func Read(ctx context.Context, p Place, name string) (*Manifest, error) {
	names, err := Names(ctx, p)
	if err != nil {
		return nil, err
	}
	if name == "" && len(names) > 0 {
		name = names[len(names)-1]
	}
	if !slices.Contains(names, name) {
		if name == "" {
			return nil, fmt.Errorf("%s: %w: it has no backups yet; lazuli backup makes one", p, ErrNoBackup)
		}
		return nil, fmt.Errorf("%s: %w as %s; lazuli backup ls lists them", p, ErrNoBackup, name)
	}
	return read(ctx, p, name)
}

func read(ctx context.Context, p Place, name string) (*Manifest, error) {
	text, err := p.Get(ctx, listFolder+name)
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	if err := sumfile.Decode(text, manifestKind, formatPart, m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, name, err)
	}
	if !m.valid() {
		return nil, fmt.Errorf("%w: %s names pieces that cannot be", ErrDamaged, name)
	}
	return m, nil
}

// Prepare creates a place and marks it as one of backups, if it is empty. Errors: ErrNotPlace, ErrLocked, those of the
// place.
func Prepare(ctx context.Context, p Place) error {
	if has, err := marked(ctx, p); err != nil || has {
		return err
	}
	ctx, unlock, err := p.Lock(ctx)
	if err != nil {
		return err
	}
	return errors.Join(mark(ctx, p), unlock())
}

// mark marks a place, unless it is marked. The caller has locked it.
func mark(ctx context.Context, p Place) error {
	has, err := marked(ctx, p)
	if err != nil || has {
		return err
	}
	return markAs(ctx, p, kindOf(p))
}

// marked reports whether a place has backups. An empty place has none; another one is ErrNotPlace, and one for another
// number of shards ErrShards.
func marked(ctx context.Context, p Place) (bool, error) { return markedAs(ctx, p, kindOf(p)) }

// markedAs reports whether a place is marked for something.
func markedAs(ctx context.Context, p Place, want kind) (bool, error) {
	text, err := p.Get(ctx, markName)
	if err == nil {
		have, err := readMark(p, text)
		if err == nil && !have.equal(want) {
			err = have.mismatch(p)
		}
		return true, err
	}
	if !errors.Is(err, ErrAbsent) {
		return false, err
	}
	full := errors.New("full")
	err = p.List(ctx, "", func(name string) error {
		if strings.HasPrefix(name, markName) { // which is being written
			return nil
		}
		return full
	})
	if !errors.Is(err, full) {
		return false, err
	}
	// Another process may have marked the place since, and written to it.
	if _, err := p.Get(ctx, markName); err == nil {
		return true, nil
	}
	return false, fmt.Errorf("%s %w", p, ErrNotPlace)
}
