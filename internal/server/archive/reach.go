package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// Errors of reading an archive.
var (
	// ErrUnreachable: the archive does not have the moment. The error says what it has.
	ErrUnreachable = errors.New("the archive does not have this moment")
	// ErrDamaged: a segment is missing or is not what was written. The error says up to when the archive can be used.
	ErrDamaged = errors.New("the archive is damaged")
)

// Reach is a time to whose moments an archive can restore.
type Reach struct {
	// Timeline names the sequence of segments; "" if it is about all shards of more than one.
	Timeline string    `json:"timeline,omitempty"`
	From     time.Time `json:"from"`
	Until    time.Time `json:"until"`
	// Bases are the names of the backups, the oldest first, of several shards those of one after the other.
	Bases    []string `json:"bases"`
	Segments int      `json:"segments"`
	// Missing is the first segment after Until that is not in the place although later ones are; "" if it has the end.
	Missing string `json:"missing,omitempty"`
}

// readBases returns the backups of a place that are in an archive, the oldest first.
func readBases(ctx context.Context, p backup.Place) (bases []*backup.Manifest, err error) {
	names, err := backup.Names(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		m, err := backup.Read(ctx, p, name)
		if err != nil {
			return nil, err
		}
		if m.Log != nil {
			bases = append(bases, m)
		}
	}
	slices.SortStableFunc(bases, func(a, b *backup.Manifest) int { return a.Log.At.Compare(b.Log.At) })
	return bases, nil
}

// Reachable returns to which moments the archive in a place can restore, the oldest first. Errors: those of
// [ReachableShards].
func Reachable(ctx context.Context, p backup.Place) (list []Reach, err error) {
	shards, err := ReachableShards(ctx, p)
	if err != nil {
		return nil, err
	}
	return Common(shards), nil
}

// ReachableShards is Reachable of each shard. It looks at the names of segments, and opens few of them. Errors: those
// of the place, [backup.ErrDamaged].
func ReachableShards(ctx context.Context, p backup.Place) (shards [][]Reach, err error) {
	count, err := backup.Shards(ctx, p)
	if err != nil {
		return nil, err
	}
	if count == 1 {
		list, err := reachable(ctx, p)
		return [][]Reach{list}, err
	}
	for n := range count {
		list, err := reachable(ctx, backup.Shard(p, n, count))
		if err != nil {
			return nil, fmt.Errorf("shard %d: %w", n, err)
		}
		for i := range list {
			if list[i].Missing != "" {
				list[i].Missing = backup.ShardFolder(n) + list[i].Missing
			}
		}
		shards = append(shards, list)
	}
	return shards, nil
}

// Common returns the moments that all shards have.
func Common(shards [][]Reach) (list []Reach) {
	list = shards[0]
	for _, of := range shards[1:] {
		list = common(list, of)
	}
	return list
}

// common returns the moments that are in both lists.
func common(a, b []Reach) (list []Reach) {
	for _, x := range a {
		for _, y := range b {
			r := Reach{From: x.From, Until: x.Until, Bases: slices.Concat(x.Bases, y.Bases), Segments: x.Segments + y.Segments,
				Missing: cmp.Or(x.Missing, y.Missing)}
			if y.From.After(r.From) {
				r.From = y.From
			}
			if y.Until.Before(r.Until) {
				r.Until = y.Until
			}
			if !r.From.After(r.Until) {
				list = append(list, r)
			}
		}
	}
	return list
}

// reachable is Reachable of one shard.
func reachable(ctx context.Context, p backup.Place) (list []Reach, err error) {
	bases, err := readBases(ctx, p)
	if err != nil {
		return nil, err
	}
	numbers := map[string][]uint64{}
	if err := p.List(ctx, logFolder, func(name string) error {
		if timeline, n, ok := parseName(name); ok {
			numbers[timeline] = append(numbers[timeline], n)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	// Places list names in an order of their own.
	for _, n := range numbers {
		slices.Sort(n)
	}
	ends := map[string]uint64{} // first missing segment of the last Reach, by timeline
	for _, m := range bases {
		all := numbers[m.Log.Timeline]
		// The run of segments from the base on.
		i, _ := slices.BinarySearch(all, m.Log.Segment)
		next := m.Log.Segment
		for i < len(all) && all[i] == next {
			i, next = i+1, next+1
		}
		// A base within the time that an earlier one reaches adds nothing to it.
		if n := len(list); n > 0 && list[n-1].Timeline == m.Log.Timeline && ends[m.Log.Timeline] == next {
			list[n-1].Bases = append(list[n-1].Bases, m.Name)
			continue
		}
		r := Reach{Timeline: m.Log.Timeline, From: m.Log.At, Until: m.Log.At, Bases: []string{m.Name},
			Segments: int(next - m.Log.Segment)}
		if i < len(all) {
			r.Missing = segmentName(m.Log.Timeline, next)
		}
		until, err := untilOf(ctx, p, m.Log, next)
		if err != nil {
			return nil, err
		}
		if until.After(r.Until) {
			r.Until = until
		}
		ends[m.Log.Timeline] = next
		list = append(list, r)
	}
	return list, nil
}

// untilOf returns the time up to which the segments of a timeline before next have everything.
func untilOf(ctx context.Context, p backup.Place, from *backup.LogPosition, next uint64) (until time.Time, err error) {
	// Only the last segment is opened: it says up to when all before it have everything.
	if next > from.Segment {
		h, _, _, err := readSegment(ctx, p, from.Timeline, next-1)
		if err != nil {
			return until, err
		}
		until = time.Unix(0, h.Until)
	}
	text, err := p.Get(ctx, logFolder+from.Timeline+"/"+headName)
	if errors.Is(err, backup.ErrAbsent) {
		return until, nil
	}
	var end head
	if err == nil {
		err = sumfile.Decode(text, headKind, format, &end)
	}
	if err != nil {
		return until, err
	}
	if t := time.Unix(0, end.Until); end.Next == next && t.After(until) {
		until = t
	}
	return until, nil
}

// missingError is an ErrDamaged: there is no such segment, which may not have been sent yet.
type missingError struct{ error }

// Unwrap returns the error with the name of the segment.
func (e missingError) Unwrap() error { return e.error }

// readSegment reads a segment and checks that it is the one of its name. Errors: ErrDamaged, those of the place.
func readSegment(ctx context.Context, p backup.Place, timeline string, number uint64) (h header, items []byte,
	sum string, err error) {
	name := segmentName(timeline, number)
	file, err := p.Get(ctx, name)
	switch {
	case errors.Is(err, backup.ErrAbsent):
		return h, nil, "", missingError{fmt.Errorf("%w: %s: segment %s is missing", ErrDamaged, p, name)}
	case errors.Is(err, backup.ErrDamaged):
		return h, nil, "", fmt.Errorf("%w: %w", ErrDamaged, err)
	case err != nil:
		return h, nil, "", err
	}
	h, items, sum, err = decodeSegment(file)
	if err == nil && (h.Timeline != timeline || h.Number != number) {
		err = errors.New("it is another segment")
	}
	if err != nil {
		return h, nil, "", fmt.Errorf("%w: %s: segment %s: %w", ErrDamaged, p, name, err)
	}
	return h, items, sum, nil
}

// Moment is the state of a moment as a [backup.Sharded]. Its own methods give shard 0. Close it.
type Moment struct {
	*stretch
	shards []*stretch
	info   backup.Info
}

var _ backup.Sharded = (*Moment)(nil)

// Open reads from a place what a moment needs, into folders that it creates in temp and that Close removes. progress
// is called with the bytes of the bases that were read. Errors: ErrUnreachable, ErrDamaged, those of the place.
func Open(ctx context.Context, p backup.Place, at time.Time, temp string, progress func(int64)) (_ *Moment, err error) {
	count, err := backup.Shards(ctx, p)
	if err != nil {
		return nil, err
	}
	m := &Moment{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if count == 1 {
		of, err := openStretch(ctx, p, at, temp, progress)
		if err != nil {
			return nil, err
		}
		m.stretch, m.shards, m.info = of, []*stretch{of}, of.Source.Info()
		return m, nil
	}
	total := &sum{progress: progress, shards: make([]int64, count)}
	for n := range count {
		of, err := openStretch(ctx, backup.Shard(p, n, count), at, temp, total.of(n))
		if err == nil {
			m.shards = append(m.shards, of)
			err = of.checkShard(n, count)
		}
		if err != nil {
			return nil, fmt.Errorf("shard %d: %w", n, err)
		}
	}
	// What the bases have in common, and the map of all shards in place of what each is alone.
	m.stretch, m.info = m.shards[0], m.shards[0].Source.Info()
	m.info.Map, m.info.Only, m.info.Log = m.info.Only.Map, nil, nil
	return m, nil
}

// sum adds the progress of the shards.
type sum struct {
	progress func(int64)
	shards   []int64
}

// of returns the function that is called with the progress of a shard; nil if nothing is called.
func (s *sum) of(shard int) func(int64) {
	if s.progress == nil {
		return nil
	}
	return func(read int64) {
		s.shards[shard] = read
		all := int64(0)
		for _, n := range s.shards {
			all += n
		}
		s.progress(all)
	}
}

// Info implements [backup.Source].
func (m *Moment) Info() backup.Info { return m.info }

// Shard implements [backup.Sharded].
func (m *Moment) Shard(number int) backup.Source { return m.shards[number] }

// Base returns the name of the backup that the moment begins with, of several shards the oldest, and the number of
// segments after it, of all shards.
func (m *Moment) Base() (name string, segments int) {
	for n, of := range m.shards {
		if n == 0 || of.base.Name < name {
			name = of.base.Name
		}
		segments += of.count
	}
	return name, segments
}

// Close implements [backup.Source]. It removes the folders.
func (m *Moment) Close() (err error) {
	for _, of := range m.shards {
		err = errors.Join(err, of.Close())
	}
	return err
}

// stretch is the state of one shard: a base and the log after it.
type stretch struct {
	backup.Source
	base  *backup.Manifest
	at    int64
	dir   string // has the items of each segment
	count int
}

// checkShard returns an ErrDamaged unless the base is that of a shard of a number of shards.
func (m *stretch) checkShard(number, count int) error {
	only := m.base.Only
	if only == nil || only.Shard != number || only.Map == nil || only.Map.Shards() != count {
		return fmt.Errorf("%w: the base %s is not of this shard, or not of %d shards", ErrDamaged, m.base.Name, count)
	}
	return nil
}

// openStretch is Open of one shard.
func openStretch(ctx context.Context, p backup.Place, at time.Time, temp string,
	progress func(int64)) (_ *stretch, err error) {
	bases, err := readBases(ctx, p)
	if err != nil {
		return nil, err
	}
	var base *backup.Manifest
	for _, m := range bases {
		if !m.Log.At.After(at) {
			base = m
		}
	}
	if base == nil {
		if len(bases) == 0 {
			return nil, fmt.Errorf("%w: %s has no base of an archive", ErrUnreachable, p)
		}
		return nil, fmt.Errorf("%w: the oldest is %s", ErrUnreachable, bases[0].Log.At.Format(time.RFC3339Nano))
	}
	dir, err := os.MkdirTemp(temp, "lazuli-archive-")
	if err != nil {
		return nil, err
	}
	m := &stretch{Source: backup.Stored(p, base, progress), base: base, at: at.UnixNano(), dir: dir}
	if err := m.fetch(ctx, p); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// fetch reads the segments from the base to the moment.
func (m *stretch) fetch(ctx context.Context, p backup.Place) error {
	from := m.base.Log
	until, prev := from.At.UnixNano(), ""
	for next := from.Segment; until < m.at; next++ {
		h, items, sum, err := readSegment(ctx, p, from.Timeline, next)
		if err == nil && prev != "" && h.Prev != prev {
			err = fmt.Errorf("%w: %s: segment %s does not follow the one before it", ErrDamaged, p,
				segmentName(from.Timeline, next))
		}
		if err != nil {
			return m.endOfLog(ctx, p, next, until, err)
		}
		if err := os.WriteFile(m.path(m.count), items, 0o600); err != nil {
			return err
		}
		m.count++
		until, prev = max(until, h.Until), sum
	}
	return nil
}

// endOfLog decides about a segment that cannot be read: nil if there is nothing up to the moment.
func (m *stretch) endOfLog(ctx context.Context, p backup.Place, next uint64, until int64, cause error) error {
	timeline := m.base.Log.Timeline
	reach := time.Unix(0, until).UTC().Format(time.RFC3339Nano)
	// A segment that is missing at the end was not sent yet; one that others follow is lost.
	missing, later := true, false
	if err := p.List(ctx, logFolder+timeline+"/", func(name string) error {
		if _, n, ok := parseName(name); ok {
			missing = missing && n != next
			later = later || n > next
		}
		return nil
	}); err != nil {
		return err
	}
	if !errors.Is(cause, ErrDamaged) {
		return cause
	}
	if !missing || later {
		return fmt.Errorf("%w; from the base %s it can be used up to %s", cause, m.base.Name, reach)
	}
	end, err := untilOf(ctx, p, &backup.LogPosition{Timeline: timeline, Segment: next}, next)
	if err != nil {
		return err
	}
	if !end.Before(time.Unix(0, m.at)) {
		return nil
	}
	if end.UnixNano() > until {
		reach = end.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Errorf("%w: the newest after the base %s is %s", ErrUnreachable, m.base.Name, reach)
}

func (m *stretch) path(i int) string { return filepath.Join(m.dir, fmt.Sprint(i)) }

// each calls fn with the items of a kind. Groups are those up to the moment.
func (m *stretch) each(ctx context.Context, kind byte, fn func(*item) error) error {
	for i := range m.count {
		items, err := os.ReadFile(m.path(i))
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		err = eachItem(items, func(i *item) error {
			if i.kind != kind || i.at > m.at {
				return nil
			}
			return fn(i)
		})
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	return nil
}

// Database implements [backup.Source]: the parts of the base, and then those of the groups.
func (m *stretch) Database(ctx context.Context, name string, emit func(part []byte) error) error {
	if err := m.Source.Database(ctx, name, emit); err != nil {
		return err
	}
	// The base may have some of the groups of the first segments: they are passed over, and what follows has no gap.
	last := m.base.Log.Groups[name]
	return m.each(ctx, itemGroup, func(i *item) error {
		if backup.Databases[i.database] != name || i.number <= last {
			return nil
		}
		if i.prev > last {
			return fmt.Errorf("group %d of %s follows group %d", i.number, name, last)
		}
		last = i.number
		return emit(i.bytes)
	})
}

// Keys implements [backup.Source]. The file may have more keys than the moment.
func (m *stretch) Keys(ctx context.Context) ([]byte, error) {
	keys, err := m.Source.Keys(ctx)
	if err != nil {
		return nil, err
	}
	err = m.each(ctx, itemKeys, func(i *item) error {
		keys = slices.Clone(i.bytes)
		return nil
	})
	return keys, err
}

// Contents implements [backup.Source]: the content of the base, and then what was written after it.
func (m *stretch) Contents(ctx context.Context, held func(extent.Window) []extent.Range,
	emit func(extent.Content) error) error {
	if err := m.Source.Contents(ctx, held, emit); err != nil {
		return err
	}
	return m.each(ctx, itemContent, func(i *item) error {
		return emit(extent.Content{Window: extent.Window{Extent: i.extent, Number: i.offset / extent.WindowSize},
			Ranges: []extent.Range{{From: i.offset, To: i.offset + int64(len(i.bytes))}}, Records: i.bytes})
	})
}

// Close implements [backup.Source]. It removes the folder.
func (m *stretch) Close() error { return errors.Join(m.Source.Close(), os.RemoveAll(m.dir)) }
