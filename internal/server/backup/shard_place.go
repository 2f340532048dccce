package backup

import (
	"context"
	"errors"
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// The archive of a data folder with more than one shard has a part for each shard, in a folder of its own. Each part is
// a place by itself, with the bases and the log of the shard:
//
//	lazuli-backups              says that this is such an archive, and of how many shards
//	owner/                      to whom all of it belongs
//	shards/00/lazuli-backups    says of which shard the part is
//	shards/00/backups/          bases, which have the state of this shard alone
//	shards/00/pieces/, log/
//	shards/01/...
//
// The marks have formatMark, which former releases refuse, as they would take a part for the whole.

// formatMark is the version of the marks of an archive with more than one shard, and of its parts.
const formatMark = 2

// ErrShards means that a place has the archive of a folder with another number of shards, or a part of one.
var ErrShards = errors.New("is not a place for this number of shards")

// kind says what a place is for: the zero value is for backups, and for the archive of a folder with one shard.
type kind struct {
	// Shards is the number of shards of the folder, and Shard that of the shard to which the part of the archive belongs;
	// nil in the mark of the whole.
	Shards int  `json:"shards,omitempty"`
	Shard  *int `json:"shard,omitempty"`
}

func (k kind) equal(o kind) bool {
	if k.Shard == nil || o.Shard == nil {
		return k.Shards == o.Shards && k.Shard == nil && o.Shard == nil
	}
	return k.Shards == o.Shards && *k.Shard == *o.Shard
}

func (k kind) format() int {
	if k.Shards == 0 {
		return Format
	}
	return formatMark
}

// mismatch is the error for a place that is for something else.
func (k kind) mismatch(p Place) error {
	switch {
	case k.Shard != nil:
		return fmt.Errorf("%s %w: it has the part of shard %d of an archive with %d shards; give the place that has all of it",
			p, ErrShards, *k.Shard, k.Shards)
	case k.Shards > 0:
		return fmt.Errorf("%s %w: it has the archive of the log of a folder with %d shards, and no other backups; see `lazuli "+
			"backup log ls` and `lazuli restore --to-time`", p, ErrShards, k.Shards)
	}
	return fmt.Errorf("%s %w: it has backups, or the archive of a folder with one shard", p, ErrShards)
}

// shardPlace is the part of a shard in the place of an archive.
type shardPlace struct {
	Place
	folder string // ends with a slash
	kind   kind
}

// Shard returns the part of a shard in the place of an archive with a number of shards, which [PrepareShards] has made.
func Shard(p Place, number, shards int) Place {
	return shardPlace{p, ShardFolder(number), kind{shards, &number}}
}

// ShardFolder returns the prefix of the names of the files in a shard's part.
func ShardFolder(number int) string { return fmt.Sprintf("shards/%02d/", number) }

func (s shardPlace) String() string { return s.Place.String() + "/" + s.folder[:len(s.folder)-1] }

func (s shardPlace) Get(ctx context.Context, name string) ([]byte, error) {
	return s.Place.Get(ctx, s.folder+name)
}

func (s shardPlace) Put(ctx context.Context, name string, content []byte) error {
	return s.Place.Put(ctx, s.folder+name, content)
}

func (s shardPlace) Create(ctx context.Context, name string, content []byte) error {
	return s.Place.Create(ctx, s.folder+name, content)
}

func (s shardPlace) List(ctx context.Context, prefix string, fn func(name string) error) error {
	return s.Place.List(ctx, s.folder+prefix, func(name string) error { return fn(name[len(s.folder):]) })
}

func (s shardPlace) Remove(ctx context.Context, name string) error {
	return s.Place.Remove(ctx, s.folder+name)
}

// kindOf returns what a place has to be for.
func kindOf(p Place) kind {
	if s, ok := p.(shardPlace); ok {
		return s.kind
	}
	return kind{}
}

// PrepareShards is [Prepare] for the archive of a folder with more than one shard. Errors: ErrShards, those of Prepare.
func PrepareShards(ctx context.Context, p Place, shards int) error {
	missing, err := unmarked(ctx, p, shards)
	if err != nil || len(missing) == 0 {
		return err
	}
	ctx, unlock, err := p.Lock(ctx)
	if err != nil {
		return err
	}
	// Another process may have marked them meanwhile.
	if missing, err = unmarked(ctx, p, shards); err == nil {
		for _, k := range missing {
			place := p
			if k.Shard != nil {
				place = Shard(p, *k.Shard, shards)
			}
			err = errors.Join(err, markAs(ctx, place, k))
		}
	}
	return errors.Join(err, unlock())
}

// unmarked returns the marks that the place of an archive and its parts lack. That of the place comes first: a process
// that was killed has left a place that is not taken for that of something else.
func unmarked(ctx context.Context, p Place, shards int) (missing []kind, err error) {
	whole := kind{Shards: shards}
	has, err := markedAs(ctx, p, whole)
	if err != nil {
		return nil, err
	}
	if !has {
		missing = append(missing, whole)
	}
	for n := range shards {
		part := Shard(p, n, shards)
		has, err := marked(ctx, part)
		if err != nil {
			return nil, err
		}
		if !has {
			missing = append(missing, kindOf(part))
		}
	}
	return missing, nil
}

// markAs writes the mark of a place.
func markAs(ctx context.Context, p Place, k kind) error {
	text, err := sumfile.Encode(markKind, k.format(), k)
	if err != nil {
		return err
	}
	return p.Put(ctx, markName, text)
}

// Shards returns the number of shards of the archive in a place: 1 if it says nothing else. Errors: ErrShards for a
// part of an archive, ErrNotPlace, those of the place.
func Shards(ctx context.Context, p Place) (int, error) {
	text, err := p.Get(ctx, markName)
	if errors.Is(err, ErrAbsent) {
		_, err := marked(ctx, p)
		return 1, err
	}
	if err != nil {
		return 0, err
	}
	have, err := readMark(p, text)
	switch {
	case err != nil:
		return 0, err
	case have.Shard != nil:
		return 0, have.mismatch(p)
	}
	return max(have.Shards, 1), nil
}

// readMark parses the mark of a place.
func readMark(p Place, text []byte) (k kind, err error) {
	if isSealed(text) {
		return k, fmt.Errorf("%s %w", p, ErrSealed)
	}
	return k, sumfile.Decode(text, markKind, formatMark, &k)
}
