package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// The moments at which tests kill a process that writes a backup.
var (
	pointPieces  = fault.Declare("backup/pieces")
	pointWritten = fault.Declare("backup/written")
	pointRemoved = fault.Declare("backup/removed")
)

// writers is the number of pieces that are written at the same time.
const writers = 8

// Options configure [Make].
type Options struct {
	// Keep is the number of the newest backups that are never removed; 0 keeps all. Others are removed when they are older
	// than KeepFor.
	Keep    int
	KeepFor time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Progress is called with the bytes that were read from the source and that were written; nil is nothing.
	Progress func(read, written int64)
}

// Result is what [Make] did.
type Result struct {
	*Manifest
	// Removed are the names of the backups that were removed.
	Removed []string
	// Incomplete are the names of older backups that cannot be restored, since a piece of theirs is missing in the place
	// and the source does not have it any more.
	Incomplete []string
}

// Make writes a backup. open returns the source, once the place is locked and what its newest backup has is known. If
// Make fails, the place has no new backup; Removed may be incomplete then. Errors: ErrLocked, ErrNotPlace, ErrDamaged,
// those of the source and the place.
func Make(ctx context.Context, p Place, open func(context.Context, Held) (Source, error),
	o Options) (r Result, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if _, err := marked(ctx, p); err != nil { // before anything is created
		return r, err
	}
	ctx, unlock, err := p.Lock(ctx)
	if err != nil {
		return r, err
	}
	defer func() {
		if cause := context.Cause(ctx); cause != nil && err != nil {
			err = cause
		}
		err = errors.Join(err, unlock())
	}()
	if err := mark(ctx, p); err != nil {
		return r, err
	}
	names, err := Names(ctx, p)
	if err != nil {
		return r, err
	}
	m := &maker{place: p, o: o, known: map[string]bool{}, had: map[shardWindow]Content{}}
	all := map[string]*Manifest{}
	for _, name := range names {
		if all[name], err = read(ctx, p, name); err != nil {
			return r, fmt.Errorf("%w; remove %s%s, which cannot be restored", err, listFolder, name)
		}
	}
	// What the place has, not what its lists say: a removed piece is written again.
	if err := p.List(ctx, pieceFolder, func(name string) error { m.known[name] = true; return nil }); err != nil {
		return r, err
	}
	found := slices.Collect(maps.Keys(m.known))
	var held Held
	if len(names) > 0 {
		newest := all[names[len(names)-1]]
		held.Origin = newest.Origin
		for shard, part := range newest.parts() {
			for _, c := range part.Contents {
				if m.known[c.Piece.name()] {
					held.Windows = append(held.Windows, HeldWindow{c.Window, c.Ranges, shard})
					m.had[shardWindow{shard, c.Window}] = c
				}
			}
		}
	}
	source, err := open(ctx, held)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	m.list = &Manifest{Time: o.Now().UTC(), Info: source.Info()}
	// The same window of another origin is other content. Nothing that the newest backup has may stand for it.
	if held.Origin == "" || held.Origin != m.list.Origin {
		clear(m.had)
	}
	if err := m.read(ctx, source); err != nil {
		return r, err
	}
	if err := fault.Point(pointPieces); err != nil {
		return r, err
	}
	// A name is a time and must not be used twice: the list of an older backup would be overwritten.
	for m.list.Name = m.list.Time.Format(nameLayout); all[m.list.Name] != nil; {
		m.list.Time = m.list.Time.Add(time.Millisecond)
		m.list.Name = m.list.Time.Format(nameLayout)
	}
	// The list is written after all of its pieces, and makes the backup. Pieces without a list belong to no backup, and
	// a later Make uses or removes them.
	text, err := sumfile.Encode(manifestKind, m.list.format(), m.list)
	if err == nil {
		err = p.Put(ctx, listFolder+m.list.Name, text)
	}
	if err = errors.Join(err, fault.Point(pointWritten)); err != nil {
		return r, err
	}
	r.Manifest, all[m.list.Name] = m.list, m.list
	if r.Removed, err = tidy(ctx, p, all, found, o); err != nil {
		return r, err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		complete := true
		all[name].pieces(func(piece Piece) { complete = complete && m.known[piece.name()] })
		if !complete {
			r.Incomplete = append(r.Incomplete, name)
		}
	}
	return r, nil
}

// shardWindow is a window of the content of a shard.
type shardWindow struct {
	shard  int
	window extent.Window
}

// maker is one Make.
type maker struct {
	place Place
	o     Options
	list  *Manifest
	had   map[shardWindow]Content // of the newest backup of the same origin

	mu            sync.Mutex      // guards what follows
	known         map[string]bool // by the names of their files
	taken, stored int64
}

func (m *maker) read(ctx context.Context, s Source) error {
	writes, ctx := errgroup.WithContext(ctx)
	writes.SetLimit(writers)
	err := m.readAll(ctx, s, writes)
	return cmp.Or(writes.Wait(), err) // a write that failed ends the read
}

func (m *maker) readAll(ctx context.Context, s Source, writes *errgroup.Group) error {
	for n := range m.list.shards() {
		part := &m.list.Part
		if n > 0 {
			part = &Part{}
			m.list.Shards = append(m.list.Shards, part)
		}
		of, err := shardOf(s, n)
		if err == nil {
			err = m.readShard(ctx, n, part, of, writes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readShard reads one shard into its part of the list.
func (m *maker) readShard(ctx context.Context, shard int, list *Part, s Source, writes *errgroup.Group) error {
	list.Databases = map[string][]Piece{}
	for _, name := range Databases {
		err := s.Database(ctx, name, func(part []byte) error {
			list.Databases[name] = append(list.Databases[name], m.put(ctx, writes, part))
			return ctx.Err()
		})
		if err != nil {
			return fmt.Errorf("read the %s: %w", name, err)
		}
	}
	keys, err := s.Keys(ctx)
	if err != nil {
		return err
	}
	if keys != nil {
		piece := m.put(ctx, writes, keys)
		list.Keys = &piece
	}
	// Content that the last backup has is not read again: the source leaves its records out, and the piece of that
	// backup is named once more.
	held := func(w extent.Window) []extent.Range { return m.had[shardWindow{shard, w}].Ranges }
	return s.Contents(ctx, held, func(c extent.Content) error {
		out := Content{Window: c.Window, Ranges: c.Ranges, Piece: m.had[shardWindow{shard, c.Window}].Piece}
		switch {
		case c.Records != nil:
			out.Piece = m.put(ctx, writes, c.Records)
		case out.Piece.Sum == "":
			return fmt.Errorf("%w: content that no backup has was left out", ErrBroken)
		default:
			m.list.Bytes += out.Piece.Size
		}
		list.Contents = append(list.Contents, out)
		return ctx.Err()
	})
}

// put writes a piece, unless the place has it.
func (m *maker) put(ctx context.Context, writes *errgroup.Group, content []byte) Piece {
	piece := Piece{sumOf(m.place, content), int64(len(content))}
	m.mu.Lock()
	// It is noted before it is written, so that the same content is not written a second time meanwhile. If the write
	// fails, Make fails and no list refers to the piece.
	known := m.known[piece.name()]
	m.known[piece.name()] = true
	m.list.Bytes += piece.Size
	m.taken += piece.Size
	m.mu.Unlock()
	if !known {
		m.list.New += piece.Size
		writes.Go(func() error {
			if err := m.place.Put(ctx, piece.name(), content); err != nil {
				return err
			}
			m.mu.Lock()
			m.stored += piece.Size
			m.mu.Unlock()
			return nil
		})
	}
	if m.o.Progress != nil {
		m.mu.Lock()
		read, stored := m.taken, m.stored
		m.mu.Unlock()
		m.o.Progress(read, stored)
	}
	return piece
}

// tidy removes from the place and from all the backups that need not be kept, and then those of the found pieces that
// no backup has.
func tidy(ctx context.Context, p Place, all map[string]*Manifest, found []string, o Options) (removed []string,
	err error) {
	// Lists are removed before their pieces. A failure in between leaves pieces without a list, which the next Make
	// removes, and not a list that cannot be restored.
	names := slices.Sorted(maps.Keys(all))
	if o.Keep > 0 && len(names) > o.Keep {
		for _, name := range names[:len(names)-o.Keep] {
			if o.KeepFor > 0 && all[name].Time.After(o.Now().Add(-o.KeepFor)) {
				continue
			}
			if err := p.Remove(ctx, listFolder+name); err != nil {
				return removed, err
			}
			delete(all, name)
			removed = append(removed, name)
		}
	}
	if err := fault.Point(pointRemoved); err != nil {
		return removed, err
	}
	used := map[string]bool{}
	for _, m := range all {
		m.pieces(func(piece Piece) { used[piece.name()] = true })
	}
	for _, name := range found {
		if !used[name] && err == nil {
			err = p.Remove(ctx, name)
		}
	}
	return removed, err
}
