package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/printable"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/offline"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	queuestate "github.com/lazuli-storage/lazuli/internal/state/queue"
	tablestate "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/diskspace"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// Options configure Check. The zero value is valid.
type Options struct {
	// MaxFindings is the maximum length of Report.Findings; 0 means 1000.
	MaxFindings int
	// Repair makes Check rebuild files that cannot be opened, or that have damaged records, from their intact data before
	// it checks them. The old files are moved to a folder inside the data folder; nothing is deleted.
	Repair bool
	// Progress is called with the bytes of content of blobs that were read, of those in the folder; nil is nothing.
	Progress func(read, total int64)
	// Tier and Objects are those of [offline.CheckOptions]; Dir is set by Check.
	Tier    *tier.Options
	Objects bool
}

// Check examines the data folder at path, which stays locked meanwhile. The report lists the problems of the folder. An
// error means that the check could not run: [datadir.ErrLocked] if a process uses the folder, [datadir.ErrNotFound] if
// it has no data, [datadir.ErrFormat] if its format is not supported.
func Check(ctx context.Context, path string, o Options) (*Report, error) {
	if o.MaxFindings == 0 {
		o.MaxFindings = 1000
	}
	begun := time.Now()
	// Locked until the end: a server that starts meanwhile would change what is read.
	dir, problems, err := datadir.Examine(path, o.Repair)
	if err != nil {
		return nil, err
	}
	c := &check{ctx: ctx, dir: dir, of: dir.Shard(0), o: o, report: Report{Path: dir.Path(), Findings: []Finding{}}}
	if n := dir.Shards(); n > 1 {
		c.report.Shards = n
	}
	if ahead := dir.Ahead(begun); ahead > 0 {
		c.found(Warning, "data folder", "it was written by a clock that was %s ahead of this one: expiry and "+
			"retention may last longer by as much", ahead.Round(time.Second))
	}
	if err := c.contents(problems); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	// A node of a cluster may have a part of the shards. What is wrong with its identity is found below.
	id, _ := peering.ReadIdentity(dir.Cluster())
	for n := range dir.Shards() {
		if !id.Has(n) {
			continue
		}
		if err := c.shard(dir.Shard(n)); err != nil {
			return nil, errors.Join(err, dir.Close())
		}
	}
	c.of = dir.Shard(0)
	if err := c.contained("cluster", c.cluster); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	if o.Repair {
		// Last: the manifest then describes the repaired files. After a failure the old one still says that something is
		// wrong.
		if err := dir.Accept(); err != nil {
			return nil, errors.Join(err, dir.Close())
		}
	}
	c.report.Clean = c.report.Errors == 0
	c.report.Took = time.Since(begun)
	return &c.report, dir.Close()
}

// shard examines one shard.
func (c *check) shard(of datadir.Shard) error {
	c.of, c.counted = of, Queues{}
	// In this order, since later parts need what earlier ones found: blobs name the scopes that must exist.
	for _, part := range []struct {
		name string
		run  func() error
	}{
		{"data folder", c.names}, {"tables.db", c.tables}, {"blobs.db", c.blobs}, {datadir.ScopesFile, c.scopes},
		{"queues", c.queues},
	} {
		// A panic on damaged data becomes a finding of its part, and the other parts are checked.
		if err := c.contained(of.Name(part.name), part.run); err != nil {
			return err
		}
	}
	c.report.Queues.Queues += c.counted.Queues
	c.report.Queues.Messages += c.counted.Messages
	c.report.Queues.Bytes += c.counted.Bytes
	return nil
}

// check is the state of one Check.
type check struct {
	ctx context.Context
	dir *datadir.Dir
	of  datadir.Shard // the one that is examined
	o   Options

	asideName string // see aside
	follows   bool   // the database that was repaired last still follows its replicated log
	// shortLogs are the files of the queues' logs that a repair has found missing, or shorter than at the last stop.
	shortLogs []string
	// lostLast has what the last repair of a database lost.
	lostLast []store.Loss

	// counted is the result of the last count of the records of queues.
	counted Queues

	report Report
}

func (c *check) found(s Severity, where, format string, args ...any) {
	switch s {
	case Error:
		c.report.Errors++
	case Warning:
		c.report.Warnings++
	case Note:
		c.report.Notes++
	}
	if len(c.report.Findings) >= c.o.MaxFindings {
		c.report.Omitted++
		return
	}
	c.report.Findings = append(c.report.Findings,
		Finding{s, printable.Line(where), printable.Line(fmt.Sprintf(format, args...))})
}

// contained runs one part of the check. A checker may panic on damage: contained reports that as a finding.
func (c *check) contained(where string, run func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			c.found(Error, where, "damaged so badly that the check ended with: %v", v)
			err = nil
		}
	}()
	if err := c.ctx.Err(); err != nil {
		return err
	}
	return run()
}

// names are the expected entries of a data folder, except for the logs of the databases, which exist after a crash. The
// folder of a shard has the first ones alone.
var names = []string{"tables.db", "blobs.db", "queues.db", "extents", datadir.ScopesFile, store.MarksFile,
	datadir.ManifestFile, "LOCK", "queues", "cluster", "shards",
	datadir.SnapshotsFolder, datadir.DamagedFolder, diskspace.ReserveFile, datadir.IssuerKeyFile,
	datadir.SearchFolder, datadir.ArchiveFolder, datadir.TierFolder,
	datadir.HistoryFile, datadir.HistoryFile + sumfile.PartSuffix}

// namesOfShard is the number of the names that the folder of a shard has.
const namesOfShard = 6

// names reports files that do not belong to a data folder.
func (c *check) names() error {
	entries, err := os.ReadDir(c.of.Path())
	names := names
	if c.of.Number > 0 {
		names = names[:namesOfShard]
		if errors.Is(err, fs.ErrNotExist) { // the manifest says what of it should be there
			return nil
		}
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		base, isLog := strings.CutPrefix(e.Name(), "mark-")
		for _, beside := range []string{"-log", "-mark"} {
			if name, _, ok := strings.Cut(e.Name(), beside); ok {
				base, isLog = name, true
			}
		}
		// A node keeps damaged files under other names.
		aside, _, _ := strings.Cut(e.Name(), ".damaged-")
		known := slices.Contains(names, e.Name()) || slices.Contains(names, aside) || isLog && strings.HasSuffix(base, ".db")
		if !known {
			c.found(Warning, c.of.Name(e.Name()), "is not part of a data folder")
		}
	}
	entries, err = os.ReadDir(c.of.Extents())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.Name() == extent.ManifestFile || e.Name() == extent.MarksFile {
			continue
		}
		if ext := filepath.Ext(e.Name()); ext != ".extent" && ext != ".open" && ext != ".copy" || e.IsDir() {
			c.found(Warning, c.of.Name("extents/"+e.Name()), "is no extent")
		}
	}
	return nil
}

// exists reports whether there is a file, or a folder that is not empty.
func exists(path string) bool {
	st, err := os.Stat(path)
	if err != nil || !st.IsDir() {
		return err == nil
	}
	entries, _ := os.ReadDir(path)
	return len(entries) > 0
}

func (c *check) tables() error {
	damaged, err := c.database(c.of.Tables(), tablestate.Buckets(), nil)
	if err != nil || absent(c.of.Tables()) {
		return err
	}
	report := c.unlessReported(c.of.Name("tables.db"), damaged)
	if c.o.Repair && !c.ofNode() {
		before, note := c.records(c.of.Tables())
		if err := tablestate.Repair(c.of.Tables(), tablestate.RepairOptions{Before: before, Note: note}); err != nil {
			report(err)
		}
	}
	db, err := tablestate.OpenFile(c.of.Tables(), store.Options{ReadOnly: true})
	if err != nil {
		report(err)
		return nil
	}
	defer db.Close()
	if err := db.Check(report); err != nil {
		report(err)
		return nil
	}
	problem := func(f tablestate.Finding) { c.found(Error, f.Where, "%s", f.Problem) }
	// A checkpoint is written a chunk at a time: of one that was interrupted, records may lack what they refer to.
	if c.isView(c.of.Tables()) && db.Unfinished() {
		c.found(Note, c.of.Name("tables.db"), "a checkpoint was interrupted: the node applies the changes again that it "+
			"gets from the other nodes; whether records fit to each other was not checked")
		problem = func(tablestate.Finding) {}
	}
	n, err := tablestate.Check(db, tablestate.Values{Properties: properties.Check, Policies: properties.CheckPolicies},
		problem)
	if err != nil {
		report(err)
	}
	c.report.Tables.Tables += n.Tables
	c.report.Tables.Entities += n.Entities
	size, _ := db.Size() // cannot fail on an open file
	c.report.Tables.Bytes += size
	return nil
}

// isView reports whether a database is that of a node, which other nodes can make again.
func (c *check) isView(path string) bool {
	s, err := store.ReadState(path)
	return err == nil && s.Replicated
}

// sizeOf returns the size of the files in a folder.
func sizeOf(folder string) (n int64) {
	entries, _ := os.ReadDir(folder) // a folder that cannot be read is reported by the check
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

func (c *check) blobs() error {
	damaged, err := c.database(c.of.Blobs(), record.Buckets(), extent.NewRestorer(c.of.Extents(), nil, false))
	if err != nil {
		return err
	}
	if absent(c.of.Blobs()) {
		return c.listedExtents()
	}
	report := c.unlessReported(c.of.Name("blobs.db"), damaged)
	if err := c.extents(); err != nil {
		report(err)
	}
	if c.o.Repair && !c.ofNode() { // the records of a node are those of its cluster
		before, note := c.records(c.of.Blobs())
		if err := offline.Repair(c.of.Blobs(), offline.RepairOptions{Doubtful: offline.Doubtful(c.lostLast),
			Before: before, Note: note}); err != nil {
			report(err)
		}
	}
	var progress func(int64)
	if c.o.Progress != nil {
		total := sizeOf(c.of.Extents())
		progress = func(read int64) { c.o.Progress(read, total) }
	}
	o := offline.CheckOptions{Report: report, Progress: progress, Objects: c.o.Objects}
	if c.o.Tier != nil {
		o.Tier = c.o.Tier.OfShard(c.dir.Tier(), c.of.Number, c.dir.Shards())
	}
	if c.isView(c.of.Blobs()) {
		o.Note = func(what string) { c.found(Note, c.of.Name("blobs.db"), "%s", what) }
	}
	a, err := offline.Check(c.of.Blobs(), c.of.Extents(), o)
	if err != nil {
		report(err)
	}
	c.report.Blobs.add(&Blobs{Containers: a.Containers, DeletedContainers: a.DeletedContainers, Blobs: a.Blobs,
		Snapshots: a.Snapshots, Versions: a.Versions, UncommittedBlocks: a.UncommittedBlocks,
		Extents: a.Extents, Bytes: a.Bytes, LiveBytes: a.Live, DeadBytes: a.Dead, TornBytes: a.Torn,
		HeaderBytes:   a.Bytes - a.Live - a.Dead - a.Torn,
		RemoteExtents: a.RemoteExtents, RemoteBytes: a.Remote})
	if err := c.tierNotes(a); err != nil {
		report(err)
	}
	if a.Torn > 0 {
		c.torn()
	}
	return nil
}

// tierNotes says what of the content is in an object store, and was not read.
func (c *check) tierNotes(a offline.Audit) error {
	where := c.of.Name("extents")
	if a.Unneeded > 0 {
		c.found(Note, where, "%d objects of the tier of content are not needed any more: the server removes them by itself",
			a.Unneeded)
	}
	if a.RemoteExtents == 0 {
		return nil
	}
	if c.o.Tier != nil {
		c.found(Note, where, "%d extents, %d bytes, are only in the tier of content: their objects exist and have their "+
			"sizes, and were not read; --objects reads them", a.RemoteExtents, a.Remote)
		return nil
	}
	place, err := tier.PlaceOf(tier.Options{}.OfShard(c.dir.Tier(), c.of.Number, c.dir.Shards()).Dir)
	c.found(Note, where, "%d extents, %d bytes, are only in the tier of content, %s, and were not looked at: give it with "+
		"--content-tier", a.RemoteExtents, a.Remote, cmp.Or(place, "which is not known here"))
	return err
}

// scopes checks the keys of encryption scopes.
func (c *check) scopes() error {
	err := encryption.CheckScopes(c.of.EncryptionScopes())
	name := c.of.Name(datadir.ScopesFile)
	if err != nil && c.o.Repair {
		c.found(Warning, name, "%v", err)
		c.lost("%s: the keys of all encryption scopes; content of blobs that they encrypt cannot be read", name)
		c.repaired("%s: cannot be read, and is in %s", name, c.aside())
		return c.setAside(name)
	}
	if err != nil {
		c.found(Error, name, "%v", err)
	}
	return nil
}

// cluster checks the files of a node of a cluster: its streams, Raft logs and snapshots. The server that would read
// them needs the other nodes.
func (c *check) cluster() error {
	id, err := peering.ReadIdentity(c.dir.Cluster())
	if errors.Is(err, peering.ErrNoIdentity) {
		return nil
	}
	if err != nil {
		c.found(Error, "cluster", "%v", err)
		return nil
	}
	c.report.Node = id.Node
	damaged, err := jetstreamfiles.VerifyTree(filepath.Join(c.dir.Cluster(), id.Cluster))
	if err != nil {
		return fmt.Errorf("check the streams of node %s: %w", id.Node, err)
	}
	for _, d := range damaged {
		c.found(Error, "cluster", "%v; node %s leaves the cluster when it starts: run `lazuli cluster leave %[2]s` on "+
			"another node then", d, id.Node)
	}
	return nil
}

// queues checks the file of the Queue service, and its log.
func (c *check) queues() (err error) {
	repairs := len(c.report.Repaired)
	damaged, err := false, error(nil)
	if path := c.of.QueueState(); absent(path) && (exists(path) || exists(c.logFolder())) {
		err = c.noQueueFile()
	} else {
		damaged, err = c.database(path, queuestate.Buckets(), nil)
	}
	if err == nil && len(c.report.Repaired) > repairs && !c.follows {
		err = c.withoutLog()
	}
	if err != nil || absent(c.of.QueueState()) {
		return err
	}
	report := c.unlessReported(c.of.Name("queues.db"), damaged)
	lost := 0
	log := c.of.Log(queuestate.LogName)
	db, err := queuestate.OpenLog(c.of.QueueState(), c.dir.Queues(), log, func(d jetstreamfiles.Damage) {
		switch {
		case d.Torn:
			return
		case c.o.Repair:
			c.found(Warning, c.logName(), "%v", d)
			c.lost("%s: changes after record %d of their log", c.logName(), d.First)
		default:
			c.found(Error, c.logName(), "%v", d)
		}
		lost++
	})
	if err != nil && !damaged && c.queueLogUnusable(err) {
		// What the file has is complete up to a point. Only the end of the log may have had more.
		lost++
		db, err = store.Open(c.of.QueueState(), store.Options{Buckets: queuestate.Buckets(), ReadOnly: true})
	}
	if err != nil {
		report(err)
		return nil
	}
	if c.shortLog() {
		lost++ // its records alone do not show that: a log that was cut at its beginning, or its end, is whole
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Check(report); err != nil {
		report(err)
		return nil
	}
	if !c.o.Repair || c.ofNode() {
		return c.queueRecords(db, report)
	}
	// What is wrong before the repair is a warning. What the repaired file still has is an error.
	warn := func(err error) { c.found(Warning, c.of.Name("queues.db"), "%v", err); lost++ }
	if err := c.queueRecords(db, warn); err != nil || lost == 0 {
		return err
	}
	if err := c.repairQueues(db); err != nil {
		return err
	}
	fresh, err := store.Open(c.of.QueueState(), store.Options{Buckets: queuestate.Buckets(), ReadOnly: true})
	if err != nil {
		report(err)
		return nil
	}
	return errors.Join(c.queueRecords(fresh, report), fresh.Close())
}

// queueValues check what the state of the queues does not know.
var queueValues = queuestate.Values{Properties: properties.Check, Policies: properties.CheckPolicies}

// queueRecords checks and counts the records of queues.
func (c *check) queueRecords(db *store.DB, report func(error)) error {
	counts, err := queuestate.Check(db, queueValues, report)
	if err != nil {
		report(err)
	}
	c.counted = Queues{Queues: counts.Queues, Messages: counts.Messages, Bytes: counts.Bytes}
	return nil
}

// logName names the log of the shard's queues for people, by its path in the data folder: that of its stream, or with
// one shard that of the whole JetStream folder.
func (c *check) logName() string {
	if c.dir.Shards() == 1 {
		return "queues"
	}
	return "queues/jetstream/$G/streams/" + replog.StreamOf(c.of.Log(queuestate.LogName))
}

// logFolder is the path of what logName names.
func (c *check) logFolder() string {
	return filepath.Join(c.dir.Path(), filepath.FromSlash(c.logName()))
}

// shortLog reports whether a repair has found a file of the shard's log missing, or shorter than at the last stop.
func (c *check) shortLog() bool {
	return slices.ContainsFunc(c.shortLogs, func(name string) bool { return strings.HasPrefix(name, c.logName()+"/") })
}

// noQueueFile reports that the file of the Queue service is missing or empty.
func (c *check) noQueueFile() error {
	if !c.o.Repair {
		c.found(Error, c.of.Name("queues.db"), "is missing or empty, and its log in %s may have a part of what it had",
			c.logName())
		return nil
	}
	name := c.of.Name("queues.db")
	c.found(Warning, name, "is missing or empty")
	c.repaired("%s: its remains are in %s", name, c.aside())
	return c.setAside(name)
}

// withoutLog sets the log of the queues aside: their file was repaired, or set aside, and no longer says from where on
// it needs the log. A log from which nothing was removed yet stays if there is no file: a start makes the file from it.
func (c *check) withoutLog() error {
	if !exists(c.logFolder()) {
		return nil
	}
	first := uint64(0)
	found, err := queuestate.ReadLog(c.dir.Queues(), c.of.Log(queuestate.LogName), func(m jetstreamfiles.Record) error {
		first = cmp.Or(first, m.Sequence)
		return nil
	})
	whole := err == nil && first == 1 && !slices.ContainsFunc(found, func(d jetstreamfiles.Damage) bool { return !d.Torn })
	switch {
	case whole && absent(c.of.QueueState()):
		c.lost("%s: queues and messages that its log does not have, if there were any", c.of.Name("queues.db"))
		c.repaired("%s: a start makes it again from its log", c.of.Name("queues.db"))
		return c.forgetLogEnd()
	case absent(c.of.QueueState()):
		c.lost("%s: all queues and messages", c.of.Name("queues.db"))
	default:
		c.lost("%s: changes that only their log had", c.logName())
	}
	c.repaired("%s: the remains of their log are in %s; the next start makes a new one", c.logName(), c.aside())
	return c.setAside(c.logName())
}

// forgetLogEnd sets aside what says where a log of the queues that has lost its end has ended. JetStream would number
// new messages from there on, and the log would have a gap, which the start refuses. It makes the files again.
func (c *check) forgetLogEnd() error {
	if !c.shortLog() {
		return nil
	}
	return filepath.WalkDir(c.logFolder(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() != "index.db" {
			return err
		}
		name, err := filepath.Rel(c.dir.Path(), path)
		return errors.Join(err, c.setAside(name))
	})
}

// queueLogUnusable reports that the log of the queues does not fit to their file: it is missing, or ends or begins
// elsewhere.
func (c *check) queueLogUnusable(err error) bool {
	if !errors.Is(err, store.ErrOtherLog) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, replog.ErrPurged) &&
		!errors.Is(err, replog.ErrDamaged) {
		return false
	}
	severity := Error
	if c.o.Repair {
		severity = Warning
	}
	c.found(severity, c.logName(), "%v: changes that only the log had are lost", err)
	if c.o.Repair {
		c.lost("%s: changes that only their log had", c.logName())
	}
	return true
}

// lostRecords returns the keys of the records that the last repair of a database has lost, by bucket. Ranges of records
// of unknown number are not among them.
func (c *check) lostRecords() map[string][][]byte {
	keys := map[string][][]byte{}
	for _, l := range c.lostLast {
		if l.Values == 1 && l.From != nil && l.To == nil {
			keys[string(l.Bucket)] = append(keys[string(l.Bucket)], l.From)
		}
	}
	return keys
}

// repairQueues makes a file of what can be read of the queues, without a log. The damaged log and the file that needs
// it are moved aside.
func (c *check) repairQueues(db *store.DB) error {
	fresh := c.of.QueueState() + "-repair"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := db.Extract(fresh)
	if err == nil {
		_, note := c.records(c.of.QueueState())
		err = queuestate.Repair(fresh, queueValues, c.lostRecords(), note)
	}
	if err != nil {
		return fmt.Errorf("repair the queues: %w", err)
	}
	if err := disk.MkdirAll(c.aside(), 0o700); err != nil {
		return err
	}
	// The old file is of no use without its log: the log goes first.
	for _, path := range []string{c.logFolder(), c.of.QueueState(), c.of.QueueState() + "-mark",
		store.Witness(c.of.QueueState())} {
		to := filepath.Join(c.aside(), filepath.Base(path))
		if exists(to) { // from the repair of the file before: the damaged one is kept
			to += "-repaired"
		}
		if err := os.Rename(path, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(fresh, c.of.QueueState()); err != nil {
		return err
	}
	c.repaired("%s: kept everything that is intact, in a file that needs no log; the former files are in %s",
		c.of.Name("queues"), c.aside())
	return errors.Join(disk.SyncDir(c.aside()), disk.SyncDir(c.of.Path()))
}
