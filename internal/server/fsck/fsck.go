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

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/diskspace"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/queuesvc"
	"github.com/lazuli-storage/lazuli/tablesvc"
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
}

// Check examines the data folder at path, which stays locked meanwhile. The report lists the problems of the folder. An
// error means that the check could not run: [datadir.ErrLocked] if a process uses the folder, [datadir.ErrNotFound] if
// it has no data, [datadir.ErrFormat] if its format is not supported.
func Check(ctx context.Context, path string, o Options) (*Report, error) {
	if o.MaxFindings == 0 {
		o.MaxFindings = 1000
	}
	begun := time.Now()
	dir, problems, err := datadir.Examine(path, o.Repair)
	if err != nil {
		return nil, err
	}
	c := &check{ctx: ctx, dir: dir, o: o, report: Report{Path: dir.Path(), Findings: []Finding{}}}
	if err := c.contents(problems); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	for _, part := range []struct {
		name string
		run  func() error
	}{
		{"data folder", c.names}, {"tables.db", c.tables}, {"blobs.db", c.blobs}, {datadir.ScopesFile, c.scopes},
		{"queues", c.queues}, {"cluster", c.cluster},
	} {
		if err := c.contained(part.name, part.run); err != nil {
			return nil, errors.Join(err, dir.Close())
		}
	}
	if o.Repair {
		if err := dir.Accept(); err != nil {
			return nil, errors.Join(err, dir.Close())
		}
	}
	c.report.Clean = c.report.Errors == 0
	c.report.Took = time.Since(begun)
	return &c.report, dir.Close()
}

// check is the state of one Check.
type check struct {
	ctx context.Context
	dir *datadir.Dir
	o   Options

	asideName string // see aside
	follows   bool   // the database that was repaired last still follows its replicated log
	// lostLast has what the last repair of a database lost.
	lostLast []store.Loss

	report Report
}

func (c *check) found(s Severity, where, format string, args ...any) {
	if s == Error {
		c.report.Errors++
	} else {
		c.report.Warnings++
	}
	if len(c.report.Findings) >= c.o.MaxFindings {
		c.report.Omitted++
		return
	}
	c.report.Findings = append(c.report.Findings, Finding{s, where, fmt.Sprintf(format, args...)})
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

// names are the expected entries of a data folder, except for the logs of the databases, which exist after a crash.
var names = []string{datadir.ManifestFile, "LOCK", "tables.db", "blobs.db", "queues.db", "extents", "queues", "cluster",
	datadir.SnapshotsFolder, datadir.DamagedFolder, diskspace.ReserveFile, datadir.IssuerKeyFile, datadir.ScopesFile,
	datadir.SearchFolder}

// names reports files that do not belong to a data folder.
func (c *check) names() error {
	entries, err := os.ReadDir(c.dir.Path())
	if err != nil {
		return err
	}
	for _, e := range entries {
		base, isLog := e.Name(), false
		for _, beside := range []string{"-log", "-mark"} {
			if name, _, ok := strings.Cut(e.Name(), beside); ok {
				base, isLog = name, true
			}
		}
		// A node keeps damaged files under other names.
		aside, _, _ := strings.Cut(e.Name(), ".damaged-")
		known := slices.Contains(names, e.Name()) || slices.Contains(names, aside) || isLog && strings.HasSuffix(base, ".db")
		if !known {
			c.found(Warning, e.Name(), "is not part of a data folder")
		}
	}
	entries, err = os.ReadDir(c.dir.Extents())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.Name() == extent.ManifestFile || e.Name() == extent.MarksFile {
			continue
		}
		if ext := filepath.Ext(e.Name()); ext != ".extent" && ext != ".open" && ext != ".copy" || e.IsDir() {
			c.found(Warning, filepath.Join("extents", e.Name()), "is no extent")
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
	damaged, err := c.database(c.dir.Tables(), tablesvc.Buckets(), nil)
	if err != nil || absent(c.dir.Tables()) {
		return err
	}
	report := c.unlessReported("tables.db", damaged)
	if c.o.Repair && !c.ofNode() {
		before, note := c.records(c.dir.Tables())
		if err := tablesvc.Repair(c.dir.Tables(), tablesvc.RepairOptions{Before: before, Note: note}); err != nil {
			report(err)
		}
	}
	db, err := tablesvc.Open(c.dir.Tables(), store.Options{ReadOnly: true})
	if err != nil {
		report(err)
		return nil
	}
	defer db.Close()
	if err := db.Check(report); err != nil {
		report(err)
		return nil
	}
	n, err := tablesvc.Check(db, func(f tablesvc.Finding) { c.found(Error, f.Where, "%s", f.Problem) })
	if err != nil {
		report(err)
	}
	c.report.Tables.Tables, c.report.Tables.Entities = n.Tables, n.Entities
	c.report.Tables.Bytes, _ = db.Size() // cannot fail on an open file
	return nil
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
	damaged, err := c.database(c.dir.Blobs(), blobsvc.Buckets(), extent.NewRestorer(c.dir.Extents(), nil, false))
	if err != nil {
		return err
	}
	if absent(c.dir.Blobs()) {
		return c.listedExtents()
	}
	report := c.unlessReported("blobs.db", damaged)
	if err := c.extents(); err != nil {
		report(err)
	}
	if c.o.Repair && !c.ofNode() { // the records of a node are those of its cluster
		before, note := c.records(c.dir.Blobs())
		if err := blobsvc.Repair(c.dir.Blobs(), blobsvc.RepairOptions{Doubtful: blobsvc.Doubtful(c.lostLast),
			Before: before, Note: note}); err != nil {
			report(err)
		}
	}
	var progress func(int64)
	if c.o.Progress != nil {
		total := sizeOf(c.dir.Extents())
		progress = func(read int64) { c.o.Progress(read, total) }
	}
	a, err := blobsvc.CheckWithProgress(c.dir.Blobs(), c.dir.Extents(), report, progress)
	if err != nil {
		report(err)
	}
	c.report.Blobs = Blobs{Containers: a.Containers, DeletedContainers: a.DeletedContainers, Blobs: a.Blobs,
		Snapshots: a.Snapshots, Versions: a.Versions, UncommittedBlocks: a.UncommittedBlocks,
		Extents: a.Extents, Bytes: a.Bytes, LiveBytes: a.Live, DeadBytes: a.Dead, TornBytes: a.Torn,
		HeaderBytes: a.Bytes - a.Live - a.Dead - a.Torn}
	if a.Torn > 0 {
		c.torn()
	}
	return nil
}

// scopes checks the keys of encryption scopes.
func (c *check) scopes() error {
	err := blobsvc.CheckScopes(c.dir.EncryptionScopes())
	if err != nil && c.o.Repair {
		c.found(Warning, datadir.ScopesFile, "%v", err)
		c.lost("%s: the keys of all encryption scopes; content of blobs that they encrypt cannot be read", datadir.ScopesFile)
		c.repaired("%s: cannot be read, and is in %s", datadir.ScopesFile, c.aside())
		return c.setAside(datadir.ScopesFile)
	}
	if err != nil {
		c.found(Error, datadir.ScopesFile, "%v", err)
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
	if path := c.dir.QueueState(); absent(path) && (exists(path) || exists(c.dir.Queues())) {
		err = c.noQueueFile()
	} else {
		damaged, err = c.database(path, queuesvc.Buckets(), nil)
	}
	if err == nil && len(c.report.Repaired) > repairs && !c.follows {
		err = c.withoutLog()
	}
	if err != nil || absent(c.dir.QueueState()) {
		return err
	}
	report := c.unlessReported("queues.db", damaged)
	lost := 0
	db, err := queuesvc.OpenFolder(c.dir.QueueState(), c.dir.Queues(), func(d jetstreamfiles.Damage) {
		switch {
		case d.Torn:
			return
		case c.o.Repair:
			c.found(Warning, "queues", "%v", d)
			c.lost("queues: changes after record %d of their log", d.First)
		default:
			c.found(Error, "queues", "%v", d)
		}
		lost++
	})
	if err != nil && !damaged && c.queueLogUnusable(err) {
		// What the file has is complete up to a point. Only the end of the log may have had more.
		lost++
		db, err = store.Open(c.dir.QueueState(), store.Options{Buckets: queuesvc.Buckets(), ReadOnly: true})
	}
	if err != nil {
		report(err)
		return nil
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
	warn := func(err error) { c.found(Warning, "queues.db", "%v", err); lost++ }
	if err := c.queueRecords(db, warn); err != nil || lost == 0 {
		return err
	}
	if err := c.repairQueues(db); err != nil {
		return err
	}
	fresh, err := store.Open(c.dir.QueueState(), store.Options{Buckets: queuesvc.Buckets(), ReadOnly: true})
	if err != nil {
		report(err)
		return nil
	}
	return errors.Join(c.queueRecords(fresh, report), fresh.Close())
}

// queueRecords checks and counts the records of queues.
func (c *check) queueRecords(db *store.DB, report func(error)) error {
	counts, err := queuesvc.Check(db, report)
	if err != nil {
		report(err)
	}
	c.report.Queues = Queues{Queues: counts.Queues, Messages: counts.Messages, Bytes: counts.Bytes}
	return nil
}

// noQueueFile reports that the file of the Queue service is missing or empty.
func (c *check) noQueueFile() error {
	if !c.o.Repair {
		c.found(Error, "queues.db", "is missing or empty, and its log in queues may have a part of what it had")
		return nil
	}
	c.found(Warning, "queues.db", "is missing or empty")
	c.repaired("queues.db: what is left of it is in %s", c.aside())
	return c.setAside("queues.db")
}

// withoutLog sets the log of the queues aside: their file was repaired, or set aside, and no longer says from where on
// it needs the log. A log from which nothing was removed yet stays if there is no file: a start makes the file from it.
func (c *check) withoutLog() error {
	if !exists(c.dir.Queues()) {
		return nil
	}
	first := uint64(0)
	found, err := queuesvc.ReadLog(c.dir.Queues(), func(m jetstreamfiles.Record) error {
		first = cmp.Or(first, m.Sequence)
		return nil
	})
	whole := err == nil && first == 1 && !slices.ContainsFunc(found, func(d jetstreamfiles.Damage) bool { return !d.Torn })
	switch {
	case whole && absent(c.dir.QueueState()):
		c.lost("queues.db: queues and messages that its log does not have, if there were any")
		c.repaired("queues.db: a start makes it again from its log")
		return nil
	case absent(c.dir.QueueState()):
		c.lost("queues.db: all queues and messages")
	default:
		c.lost("queues: changes that only their log had")
	}
	c.repaired("queues: what is left of their log is in %s; a start makes a new one", c.aside())
	return c.setAside("queues")
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
	c.found(severity, "queues", "%v: changes that only the log had are lost", err)
	if c.o.Repair {
		c.lost("queues: changes that only their log had")
	}
	return true
}

// repairQueues makes a file of what can be read of the queues, without a log. The damaged log and the file that needs
// it are moved aside.
func (c *check) repairQueues(db *store.DB) error {
	fresh := c.dir.QueueState() + "-repair"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := db.Extract(fresh)
	if err == nil {
		_, note := c.records(c.dir.QueueState())
		err = queuesvc.Repair(fresh, note)
	}
	if err != nil {
		return fmt.Errorf("repair the queues: %w", err)
	}
	if err := disk.MkdirAll(c.aside(), 0o700); err != nil {
		return err
	}
	// The old file is of no use without its log: the log goes first.
	for _, path := range []string{c.dir.Queues(), c.dir.QueueState(), c.dir.QueueState() + "-mark"} {
		to := filepath.Join(c.aside(), filepath.Base(path))
		if exists(to) { // from the repair of the file before: the damaged one is kept
			to += "-repaired"
		}
		if err := os.Rename(path, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(fresh, c.dir.QueueState()); err != nil {
		return err
	}
	c.repaired("queues: kept everything that is intact, in a file that needs no log; the former files are in %s", c.aside())
	return errors.Join(disk.SyncDir(c.aside()), disk.SyncDir(c.dir.Path()))
}
