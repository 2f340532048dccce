package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/schedule"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// The moments at which tests kill a standby.
var (
	pointSeeded   = fault.Declare("standby/seeded")
	pointSwapped  = fault.Declare("standby/swapped")
	pointApplying = fault.Declare("standby/applying")
	pointApplied  = fault.Declare("standby/applied")
)

const (
	followName   = "standby"
	followKind   = "lazuli standby, format"
	coverageName = "standby-content"
	coverageKind = "lazuli standby content, format"
	seedFolder   = "seed"

	// batchSize bounds the segments that are fetched for one [Follower.Install], in bytes of their items, unless one cut
	// of the other server is longer.
	batchSize = 256 << 20
	// stalled is the time without a further segment after which the Follower looks for those behind it.
	stalled = 30 * time.Second
)

// Errors of a Follower.
var (
	// ErrNotStandby: the data folder has data of its own.
	ErrNotStandby = errors.New("the data folder has other data than a standby of this archive: start the " +
		"standby on a new folder")
	// ErrPromoted: the data folder was that of a standby.
	ErrPromoted = errors.New("this standby was promoted")
)

// FollowOptions configure [NewFollower].
type FollowOptions struct {
	// Place is the archive of the other server.
	Place backup.Place
	// Log is for messages that a person should see; nil is slog.Default().
	Log *slog.Logger
	// Metrics, if set, gets the metrics of the standby.
	Metrics prometheus.Registerer
	// Now is the clock; nil is time.Now. Sleep waits, or returns why it has not; nil is by the system's clock.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// Follower keeps the files of a data folder in step with the archive of another server: a standby. Step reads the
// place, while the files may be read; Install changes the files, while they are closed. Only one of them runs at a
// time.
//
//	the newest base ──> seed ──> the files, as they were at the base
//	segments ──> files in the folder ──> groups up to Until, in all databases; content
//
// The files are always the state of one moment, over all databases: groups that are later than what a segment promises
// to have completely wait for the next one.
type Follower struct {
	o   FollowOptions
	dir string       // of the archive in the data folder
	d   *datadir.Dir // the data folder

	server   string
	state    follow
	have     map[uint64][]extent.Range // ranges of the extents
	advanced time.Time                 // when the last segment was fetched

	mu     sync.Mutex // guards what follows
	status Status
}

// Status is the progress of a Follower.
type Status struct {
	// Place is the archive that it follows.
	Place string `json:"place"`
	// Timeline and Base are where the files come from, Until the moment of their state: it is zero before the first.
	Timeline string    `json:"timeline"`
	Base     string    `json:"base"`
	Until    time.Time `json:"until,omitzero"`
	// Segments is the number of segments that were applied since the base.
	Segments uint64 `json:"segments"`
	// Problem is why the standby does not follow at the moment; "" if it does.
	Problem string `json:"problem,omitempty"`
}

// follow is the state of a Follower in the folder.
type follow struct {
	Place    string `json:"place"`
	Timeline string `json:"timeline"`
	Base     string `json:"base"`
	// From is the number of the first segment that the base needs, First that of the first one whose file is in the
	// folder, Content that of the first whose content the extents lack, and Next that of the first that was not fetched.
	From    uint64 `json:"from"`
	First   uint64 `json:"first"`
	Content uint64 `json:"content"`
	Next    uint64 `json:"next"`
	// Tail is the sum of the segment before Next, "" for the first.
	Tail string `json:"tail"`
	// Until is the moment of the files, and Complete that up to which the fetched segments are complete.
	Until    int64 `json:"until"`
	Complete int64 `json:"complete"`
	// Seeded is the moment of the base. Without it, Least is the time from which the files are the state of a moment.
	Seeded int64 `json:"seeded"`
	Least  int64 `json:"least,omitempty"`
	// Groups are the last ones that the databases have, by the numbers of the other server.
	Groups map[string]uint64 `json:"groups"`
	// Swapping means that the seed is to replace the files, Applying that the databases may have a part of the groups up
	// to Complete.
	Swapping bool `json:"swapping,omitempty"`
	Applying bool `json:"applying,omitempty"`
	// Filled means that the gaps of the extents were filled, and Promoted that the files are those of a single server.
	Filled   bool      `json:"filled,omitempty"`
	Promoted time.Time `json:"promoted,omitzero"`
}

// NewFollower returns a Follower that is not open.
func NewFollower(o FollowOptions) *Follower {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = func(ctx context.Context, d time.Duration) error {
			schedule.Sleep(ctx, nil, d)
			return ctx.Err()
		}
	}
	f := &Follower{o: o}
	if o.Metrics != nil {
		// Both read Status, which may be called beside Step and Install.
		o.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "lazuli_standby_lag_seconds",
			Help: "Age of the moment whose state the standby serves; 0 before the first, and once it was promoted."},
			func() float64 {
				s := f.Status()
				if s.Until.IsZero() {
					return 0
				}
				return max(0, f.o.Now().Sub(s.Until).Seconds())
			}), prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "lazuli_standby_failing",
			Help: "1 while the standby cannot follow the archive; lazuli standby status says why."}, func() float64 {
			if f.Status().Problem != "" {
				return 1
			}
			return 0
		}))
	}
	return f
}

// IsStandby reports whether a data folder is that of a standby that was not promoted.
func IsStandby(d *datadir.Dir) (bool, error) {
	var s follow
	err := sumfile.Read(filepath.Join(d.Archive(), followName), followKind, format, &s)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && s.Promoted.IsZero(), err
}

// Open opens the folder of a standby, or makes one of an empty data folder, and finishes what a killed process has
// begun. The services are closed. Errors: ErrNotStandby, ErrPromoted, those of the disk.
func (f *Follower) Open(d *datadir.Dir) (err error) {
	f.d, f.dir = d, d.Archive()
	if err := disk.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	if f.server, err = loadServer(f.dir); err != nil {
		return err
	}
	err = sumfile.Read(filepath.Join(f.dir, followName), followKind, format, &f.state)
	switch {
	// A folder without the state of a standby must be empty: what it has would be overwritten by the base.
	case errors.Is(err, os.ErrNotExist):
		if _, err := os.Stat(d.Tables()); err == nil {
			return fmt.Errorf("%w (%s)", ErrNotStandby, d.Path())
		}
		f.state = follow{Place: f.o.Place.String()}
		if err := f.save(); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("standby: %w", err)
	case !f.state.Promoted.IsZero():
		return fmt.Errorf("%w, at %s: it is the server now. Start it with --archive %s instead of --standby-of", ErrPromoted,
			f.state.Promoted.Format(time.RFC3339), f.o.Place)
	case f.state.Place != f.o.Place.String():
		return fmt.Errorf("%w; it follows %s", ErrNotStandby, f.state.Place)
	}
	f.advanced = f.o.Now()
	f.have = map[uint64][]extent.Range{}
	if !f.state.Swapping {
		err := sumfile.Read(filepath.Join(f.dir, coverageName), coverageKind, format, &f.have)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("standby: %w", err)
		}
	}
	// A killed process has left files that are the state of no moment.
	if f.state.Swapping || f.state.Applying {
		if err := f.Install(); err != nil {
			return err
		}
	}
	f.publish(nil)
	return nil
}

func (f *Follower) save() error {
	return sumfile.Write(disk.OS, filepath.Join(f.dir, followName), followKind, format, &f.state)
}

// publish makes the state visible to Status; problem is why the last step has failed.
func (f *Follower) publish(problem error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.status.Problem
	f.status = Status{Place: f.o.Place.String(), Timeline: f.state.Timeline,
		Base: f.state.Base, Segments: f.state.Content - f.state.From}
	if f.state.Until > 0 && f.state.Promoted.IsZero() {
		f.status.Until = time.Unix(0, f.state.Until).UTC()
	}
	if problem != nil {
		f.status.Problem = problem.Error()
	}
	switch {
	case problem != nil && before == "": // once, not at each step
		f.o.Log.Error("the standby cannot follow the archive", "from", f.o.Place.String(), "err", problem)
	case problem == nil && before != "":
		f.o.Log.Info("the standby follows the archive again", "from", f.o.Place.String())
	}
}

// Status returns what the standby has. It may be called at any time.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// Consistent reports whether the files are the state of a moment, so that they may be served.
func (f *Follower) Consistent() bool {
	return f.state.Until > 0 && !f.state.Swapping && !f.state.Applying
}

// Step reads what the place has and the folder lacks. It reports whether there is something for Install. An error is
// shown by Status, too, and a later Step goes on.
func (f *Follower) Step(ctx context.Context) (ready bool, err error) {
	switch {
	case f.state.Swapping, f.state.Filled: // what is there comes first, or nothing is to come any more
	case f.state.Timeline == "":
		err = f.seed(ctx, "")
	default:
		err = f.fetch(ctx)
	}
	if ctx.Err() == nil {
		f.publish(err)
	}
	return f.pending(), err
}

// pending reports whether there is something for Install.
func (f *Follower) pending() bool {
	return f.state.Swapping || f.state.Timeline != "" && f.state.Complete > max(f.state.Until, f.state.Least-1)
}

// seed makes the files of the newest base of a timeline in a folder of its own; "" is the current one of the place.
func (f *Follower) seed(ctx context.Context, timeline string) (err error) {
	if timeline == "" {
		if timeline, err = currentTimeline(ctx, f.o.Place); err != nil {
			return err
		}
	}
	bases, err := readBases(ctx, f.o.Place)
	if err != nil {
		return err
	}
	var base *backup.Manifest
	for _, m := range bases {
		if timeline == "" || m.Log.Timeline == timeline {
			base = m
		}
	}
	if base == nil {
		return fmt.Errorf("%s has no base of its current history yet: the other server makes one after its start with "+
			"--archive", f.o.Place)
	}
	folder := filepath.Join(f.dir, seedFolder)
	if err := os.RemoveAll(folder); err != nil { // of a process that was killed
		return err
	}
	d, err := datadir.Open(folder)
	if err != nil {
		return err
	}
	have := map[uint64][]extent.Range{}
	err = backup.FillStandby(ctx, d, backup.Stored(f.o.Place, base, nil), have)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	if err := sumfile.Write(disk.OS, filepath.Join(folder, coverageName), coverageKind, format, have); err != nil {
		return err
	}
	if err := errors.Join(f.dropSegments(), fault.Point(pointSeeded)); err != nil {
		return err
	}
	f.state = follow{Place: f.state.Place, Timeline: base.Log.Timeline, Base: base.Name, From: base.Log.Segment,
		First: base.Log.Segment, Content: base.Log.Segment, Next: base.Log.Segment, Until: f.state.Until,
		Groups: base.Log.Groups, Swapping: true}
	if from := base.Log.From; from.IsZero() {
		f.state.Least = base.Log.At.UnixNano()
	} else {
		f.state.Seeded = from.UnixNano()
	}
	f.advanced = f.o.Now()
	return f.save()
}

// currentTimeline returns the timeline to which the owner of a place writes; "" if it has not said so.
func currentTimeline(ctx context.Context, p backup.Place) (name string, err error) {
	o, err := OwnerOf(ctx, p)
	if err != nil || o.Epoch == 0 {
		return "", err
	}
	text, err := p.Get(ctx, timelineName(o.Epoch))
	if errors.Is(err, backup.ErrAbsent) {
		return "", nil
	}
	if err == nil {
		err = sumfile.Decode(text, timelineKind, format, &name)
	}
	return name, err
}

func (f *Follower) segment(number uint64) string {
	return filepath.Join(f.dir, fmt.Sprintf("segment-%016x", number))
}

// dropSegments removes the files of all segments.
func (f *Follower) dropSegments() error {
	list, err := filepath.Glob(filepath.Join(f.dir, "segment-*"))
	for _, path := range list {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// fetch reads the segments that follow.
func (f *Follower) fetch(ctx context.Context) error {
	for size := 0; size < batchSize || f.state.Complete <= f.state.Until; {
		h, items, sum, err := readSegment(ctx, f.o.Place, f.state.Timeline, f.state.Next)
		if err == nil && f.state.Tail != "" && h.Prev != f.state.Tail {
			err = fmt.Errorf("%w: %s: segment %s does not follow the one before it", ErrDamaged, f.o.Place,
				segmentName(f.state.Timeline, f.state.Next))
		}
		if errors.As(err, &missingError{}) {
			return f.atEnd(ctx, err)
		}
		if err != nil {
			return err
		}
		if err := disk.WriteFile(f.dir, filepath.Base(f.segment(f.state.Next)), items); err != nil {
			return err
		}
		size += len(items)
		f.state.Next, f.state.Tail = f.state.Next+1, sum
		f.state.Complete = max(f.state.Complete, h.Until)
		f.advanced = f.o.Now()
		if err := f.save(); err != nil {
			return err
		}
	}
	return nil
}

// atEnd decides about a segment that is missing: it was not sent yet, or it is lost, or the other server has begun
// another timeline.
func (f *Follower) atEnd(ctx context.Context, missing error) error {
	text, err := f.o.Place.Get(ctx, logFolder+f.state.Timeline+"/"+headName)
	var end head
	if err == nil {
		err = sumfile.Decode(text, headKind, format, &end)
	}
	switch {
	case err == nil && end.Next == f.state.Next && end.Until > f.state.Complete:
		// Nothing was written, which is progress. The files stay as they are, unless groups wait.
		f.state.Complete = end.Until
		f.advanced = f.o.Now()
		if f.state.First == f.state.Next && f.state.Content == f.state.Next && end.Until >= f.state.Least {
			f.state.Until = end.Until
		}
		return f.save()
	case err != nil && !errors.Is(err, backup.ErrAbsent):
		return err
	}
	current, err := currentTimeline(ctx, f.o.Place)
	if err != nil {
		return err
	}
	if current != "" && current != f.state.Timeline {
		f.o.Log.Warn("the archive has a gap: the standby begins again with another base", "timeline", current)
		return f.seed(ctx, current)
	}
	if f.o.Now().Sub(f.advanced) < stalled {
		return nil
	}
	// To list a place with a week of segments costs: only when something is wrong.
	f.advanced = f.o.Now()
	lost := false
	if err := f.o.Place.List(ctx, logFolder+f.state.Timeline+"/", func(name string) error {
		_, n, ok := parseName(name)
		lost = lost || ok && n > f.state.Next
		return nil
	}); err != nil {
		return err
	}
	if lost {
		return missing
	}
	return nil
}

// Install changes the files: it swaps them for the seed, or applies what was fetched. The services are closed. After
// an error the files must not be served until Install has succeeded.
func (f *Follower) Install() error {
	var err error
	switch {
	case f.state.Swapping:
		err = f.swap()
	case f.state.Applying || f.pending():
		err = f.apply(f.state.Complete, f.state.Complete)
	}
	f.publish(err)
	return err
}

// swap replaces the files by the seed. A crash in between leaves some in each place, and the next call goes on.
func (f *Follower) swap() error {
	folder := filepath.Join(f.dir, seedFolder)
	if err := f.d.Forget(datadir.Content...); err != nil {
		return err
	}
	names := []string{filepath.Base(f.d.Tables()), filepath.Base(f.d.QueueState()), filepath.Base(f.d.Blobs()),
		filepath.Base(f.d.Extents()), datadir.ScopesFile}
	for _, name := range names {
		from, to := filepath.Join(folder, name), filepath.Join(f.d.Path(), name)
		if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
			continue // it was moved before, or the base has none
		}
		// With the logs and the marks of a process that was killed: they are those of the old file.
		beside, err := filepath.Glob(to + "-*")
		for _, path := range append(beside, to) {
			err = errors.Join(err, os.RemoveAll(path))
		}
		if err = errors.Join(err, os.Rename(from, to)); err != nil {
			return err
		}
	}
	list := filepath.Join(folder, coverageName)
	if _, err := os.Stat(list); err == nil {
		if err := os.Rename(list, filepath.Join(f.dir, coverageName)); err != nil {
			return err
		}
	}
	if err := errors.Join(disk.SyncDir(f.d.Path()), disk.SyncDir(f.dir), fault.Point(pointSwapped),
		os.RemoveAll(folder)); err != nil {
		return err
	}
	clear(f.have)
	if err := sumfile.Read(filepath.Join(f.dir, coverageName), coverageKind, format, &f.have); err != nil {
		return err
	}
	f.state.Swapping, f.state.Until = false, f.state.Seeded
	return f.save()
}

// apply applies the content of the fetched segments, and their groups up to a time. The files are then the state of the
// moment.
func (f *Follower) apply(until, moment int64) error {
	// Noted first, durably: from here on the files are the state of no moment. Groups write keys as they are, so the whole
	// batch can be applied once more.
	f.state.Applying = true
	if err := errors.Join(f.save(), fault.Point(pointApplying)); err != nil {
		return err
	}
	if err := f.applyContent(); err != nil {
		return err
	}
	dbs, err := f.openDatabases()
	if err != nil {
		return err
	}
	first, last, err := f.applyGroups(dbs, until)
	for _, db := range dbs {
		err = errors.Join(err, db.Close())
	}
	if err = errors.Join(err, fault.Point(pointApplied)); err != nil {
		return err
	}
	removed := f.state.First
	f.state.First, f.state.Content, f.state.Groups = first, f.state.Next, last
	f.state.Until, f.state.Applying = max(f.state.Until, moment), false
	if err := f.save(); err != nil {
		return err
	}
	for ; removed < first; removed++ {
		if err := os.Remove(f.segment(removed)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// applyContent puts the content, and the keys of encryption scopes, of the segments whose content was not put.
func (f *Follower) applyContent() error {
	if f.state.Content == f.state.Next {
		return nil
	}
	err := extent.Extend(f.d.Extents(), extent.Options{}, f.have, func(put func(uint64, int64, []byte) error) error {
		return f.each(f.state.Content, func(_ uint64, i *item) error {
			switch i.kind {
			case itemContent:
				return put(i.extent, i.offset, i.bytes)
			case itemKeys:
				return disk.WriteFile(f.d.Path(), datadir.ScopesFile, i.bytes)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	return sumfile.Write(disk.OS, filepath.Join(f.dir, coverageName), coverageKind, format, f.have)
}

// each calls fn with the items of the fetched segments from a number on.
func (f *Follower) each(from uint64, fn func(segment uint64, i *item) error) error {
	for n := from; n < f.state.Next; n++ {
		items, err := os.ReadFile(f.segment(n))
		if err != nil {
			return err
		}
		if err := eachItem(items, func(i *item) error { return fn(n, i) }); err != nil {
			return fmt.Errorf("%w: segment %016x: %w", ErrDamaged, n, err)
		}
	}
	return nil
}

// openDatabases opens the databases, in the order of their numbers in items.
func (f *Follower) openDatabases() (dbs []*store.DB, err error) {
	for _, name := range backup.Databases {
		db, err := backup.OpenDatabase(f.d, name)
		if err != nil {
			for _, open := range dbs {
				err = errors.Join(err, open.Close())
			}
			return nil, err
		}
		dbs = append(dbs, db)
	}
	return dbs, nil
}

// applyGroups applies the groups up to a time. first is the number of the first segment that has a later one, and last
// are the numbers of the last groups of the databases.
func (f *Follower) applyGroups(dbs []*store.DB, until int64) (first uint64, last map[string]uint64, err error) {
	last = map[string]uint64{}
	maps.Copy(last, f.state.Groups)
	first = f.state.Next
	err = f.each(f.state.First, func(segment uint64, i *item) error {
		name := backup.Databases[max(i.database, 0)]
		if i.kind != itemGroup || i.number <= last[name] {
			return nil
		}
		if i.at > until {
			first = min(first, segment)
			return nil
		}
		if i.prev > last[name] {
			return fmt.Errorf("%w: group %d of %s follows group %d", ErrDamaged, i.number, name, last[name])
		}
		last[name] = i.number
		return dbs[i.database].Apply(slices.Clone(i.bytes))
	})
	return first, last, err
}
