package fsck

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/printable"
	"github.com/lazuli-storage/lazuli/internal/state/blob/offline"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	queuestate "github.com/lazuli-storage/lazuli/internal/state/queue"
	tablestate "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// contents reports the files that are not what the manifest says. With Options.Repair, files that were swapped go back
// to their places, other files are set aside, and what is missing or older is accepted.
func (c *check) contents(problems []datadir.Problem) error {
	if !c.o.Repair {
		for _, p := range problems {
			c.found(Error, p.File, "%s: %s may be lost", p.What, p.Lost)
		}
		return nil
	}
	// Files that are each other's are swapped, as by a copy in the wrong order: putting them back loses nothing.
	swapped := map[string]string{}
	for _, p := range problems {
		if p.Is != "" {
			swapped[p.File] = p.Is
		}
	}
	// Each pair comes twice in the list. The deletes below keep the second from swapping them back.
	for _, p := range problems {
		c.found(Warning, p.File, "%s", p.What)
		c.shortLogs = append(c.shortLogs, p.File)
		c.of = c.shardOf(p.File) // setAside works on the files of this shard
		path := filepath.Join(c.dir.Path(), p.File)
		switch other := swapped[p.File]; {
		case other != "" && swapped[other] == p.File:
			if err := swap(path, filepath.Join(c.dir.Path(), other)); err != nil {
				return err
			}
			delete(swapped, p.File)
			delete(swapped, other)
			c.repaired("%s and %s: were swapped, and are in their places again", p.File, other)
		// What belongs to another folder cannot be used here, and is kept: it may be all that is left of the other one.
		case p.Foreign && other == "" && exists(path):
			if err := c.setAside(p.File); err != nil {
				return err
			}
			c.lost("%s: %s", p.File, p.Lost)
			c.repaired("%s: is another file, and is in %s", p.File, c.aside())
		// An older file of this folder is accepted; what was written after it is lost.
		case !p.Foreign:
			c.lost("%s: %s, what was in it beyond that", p.File, p.Lost)
		}
	}
	return nil
}

// shardOf returns the shard that a file belongs to, by its path in the data folder.
func (c *check) shardOf(file string) datadir.Shard {
	for n := range c.dir.Shards() {
		if of := c.dir.Shard(n); n > 0 && strings.HasPrefix(file, of.Name("")) {
			return of
		}
	}
	return c.dir.Shard(0)
}

// swap exchanges two files with what is beside them.
func swap(a, b string) error {
	const between = ".swapping"
	for _, beside := range []string{"", "-log0", "-log1", "-mark"} {
		for _, move := range [][2]string{{a + beside, a + beside + between}, {b + beside, a + beside},
			{a + beside + between, b + beside}} {
			if err := os.Rename(move[0], move[1]); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return disk.SyncDir(filepath.Dir(a))
}

// setAside moves a file, with what is beside it, to the folder for damaged files.
func (c *check) setAside(name string) error {
	if err := disk.MkdirAll(c.aside(), 0o700); err != nil {
		return err
	}
	path := filepath.Join(c.dir.Path(), name)
	for _, beside := range []string{"", "-log0", "-log1", "-mark"} {
		err := os.Rename(path+beside, filepath.Join(c.aside(), filepath.Base(name)+beside))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return errors.Join(disk.SyncDir(c.aside()), disk.SyncDir(filepath.Dir(path)))
}

// database reads a database and its log byte by byte, before anything opens it, and repairs it if Options.Repair is
// set. It reports whether the file is still damaged. The file does not exist, or is empty, if nothing of it is left.
// attachments receives what else the log of a repaired database has, and may be nil.
func (c *check) database(path string, buckets []store.Bucket, attachments store.Attachments) (damaged bool, err error) {
	name := c.of.Name(filepath.Base(path))
	c.lostLast = nil
	if absent(path) {
		return true, c.noDatabase(path)
	}
	severity := Error
	if c.o.Repair {
		severity = Warning // repaired damage is a warning
	}
	var problems []*store.DamageError
	err = store.Examine(path, buckets, func(d *store.DamageError) { problems = append(problems, d) })
	if len(problems) > 0 {
		c.named(name, func(of func(store.Bucket, []byte) string) {
			for _, d := range problems {
				text := d.Problem
				if d.Key != nil {
					text = of(d.Bucket, d.Key) + ": " + text
				}
				c.found(severity, d.File, "%s", text)
			}
		})
	}
	if err != nil {
		if !c.o.Repair { // no meta page, or it cannot be read
			c.found(Error, name, "%v", err)
			return true, nil
		}
		c.found(Warning, name, "%v", err)
		if c.ofNode() {
			return true, c.leaveToNodes(name)
		}
		c.lost("%s: everything in it: it cannot be read", name)
		c.repaired("%s: cannot be read, and is in %s; a start makes a new one", name, c.aside())
		return true, c.setAside(name)
	}
	if len(problems) == 0 || !c.o.Repair {
		return len(problems) > 0, nil
	}
	if c.ofNode() {
		return true, c.leaveToNodes(name)
	}
	r, err := store.Repair(path, buckets, c.aside(), attachments, func(*store.DamageError) {})
	if err != nil {
		return true, fmt.Errorf("repair %s: %w", name, err)
	}
	c.losses(name, r.Lost)
	c.lostLast = r.Lost
	c.repaired("%s: kept %d values, %d records of the log among them; the damaged files are in %s", name, r.Kept,
		r.LogRecords, r.Aside)
	c.follows = r.Follows
	if r.Kept == 0 && !r.Follows {
		return false, os.Remove(path) // a start makes a new one
	}
	return false, nil
}

// records returns what the repair of the records of a database calls: before the first change, which keeps a copy of
// the file, and for each change.
func (c *check) records(path string) (before func() error, note func(what string, lost bool)) {
	name := c.of.Name(filepath.Base(path))
	before = func() error {
		kept := filepath.Join(c.aside(), filepath.Base(path))
		if exists(kept) {
			return nil
		}
		return errors.Join(disk.MkdirAll(c.aside(), 0o700), disk.CopyFile(disk.OS, path, kept))
	}
	return before, func(what string, lost bool) {
		c.found(Warning, name, "%s", what)
		if lost {
			c.lost("%s: %s", name, what)
		} else {
			c.repaired("%s: %s", name, what)
		}
	}
}

// ofNode reports whether the folder is that of a node of a cluster.
func (c *check) ofNode() bool { return exists(filepath.Join(c.dir.Path(), datadir.NodeFile)) }

// leaveToNodes sets a database of a node aside. What is intact in it would be less than the other nodes have.
func (c *check) leaveToNodes(name string) error {
	c.repaired("%s: is in %s; the node gets it from the other nodes when it starts", name, c.aside())
	return c.setAside(name)
}

// absent reports that a database is missing or empty.
func absent(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Size() == 0
}

// beside returns the files that a database has while it is open, as far as they exist.
func beside(path string) (names []string) {
	for _, suffix := range []string{"-log0", "-log1", "-mark"} {
		if exists(path + suffix) {
			names = append(names, filepath.Base(path)+suffix)
		}
	}
	return names
}

// noDatabase reports what is left of a database that is missing or empty, and sets it aside if Options.Repair is set.
// The manifest says whether there should be a database.
func (c *check) noDatabase(path string) error {
	name, left := c.of.Name(filepath.Base(path)), beside(path)
	if len(left) == 0 && !exists(path) {
		return nil
	}
	if len(left) > 0 {
		severity := Error
		if c.o.Repair {
			severity = Warning
		}
		if c.o.Repair && !c.ofNode() {
			c.lost("%s: everything in it, and the changes that only its log had", name)
		}
		c.found(severity, name, "is missing or empty, and there are %s", strings.Join(left, ", "))
	}
	if !c.o.Repair {
		return nil
	}
	if c.ofNode() {
		return c.leaveToNodes(name)
	}
	c.repaired("%s: its remains are in %s; the next start makes a new one", name, c.aside())
	return c.setAside(name)
}

// losses reports what a repair of a database could not keep.
func (c *check) losses(name string, lost []store.Loss) {
	c.named(name, func(of func(store.Bucket, []byte) string) {
		for _, l := range lost {
			c.lost("%s: %s", name, lossText(l, of))
		}
	})
}

// named calls fn once with a function that names for people what keys of a database belong to.
func (c *check) named(name string, fn func(of func(store.Bucket, []byte) string)) {
	called := false
	once := func(of func(store.Bucket, []byte) string) { called = true; fn(of) }
	path := filepath.Join(c.dir.Path(), name)
	switch path { // an error is that of a file that cannot be opened
	case c.of.Tables():
		_ = tablestate.Describe(path, once)
	case c.of.Blobs():
		_ = offline.Describe(path, func(n *offline.Names) { once(n.Of) })
	case c.of.QueueState():
		_ = queuestate.Describe(path, once)
	}
	if !called {
		fn(func(b store.Bucket, key []byte) string { return fmt.Sprintf("%s, key %q", b, key) })
	}
}

// lossText describes a loss in a sentence without a full stop.
func lossText(l store.Loss, name func(store.Bucket, []byte) string) string {
	number := strconv.Itoa(l.Values)
	switch {
	case l.Values == 0:
		number = "an unknown number"
	case l.About:
		number = "about " + number
	}
	switch {
	case l.Changes && l.Values == 0:
		return "changes that were acknowledged last, if the log had more of them; their number is not known"
	case l.Changes:
		return number + " groups of changes that were acknowledged last"
	case l.To == nil && l.From != nil && !l.About:
		return name(l.Bucket, l.From)
	}
	text := fmt.Sprintf("%s records of %s", number, l.Bucket)
	if l.Values == 0 {
		text = fmt.Sprintf("%s of records of %s", number, l.Bucket)
	}
	if l.From != nil {
		text += ", from " + name(l.Bucket, l.From)
	}
	if l.To != nil {
		text += ", up to and without " + name(l.Bucket, l.To)
	}
	return text
}

// unlessReported returns a function that reports errors of a file. Of damage that was reported before it says once that
// it has ended the check of the file, and of what the file refers to.
func (c *check) unlessReported(where string, damaged bool) func(error) {
	said := false
	return func(err error) {
		if damaged && (errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrFormat)) {
			if !said {
				c.found(Warning, where, "the damage ended the check: the intact data of the file, and the data to "+
					"which it refers, "+
					"was not checked, and is not counted")
			}
			said = true
			return
		}
		c.found(Error, where, "%v", err)
	}
}

// extents repairs extents that a server would refuse to open if Options.Repair is set, and reports them otherwise.
func (c *check) extents() error {
	refs := func(yield func(extent.Ref) bool) error { return offline.References(c.of.Blobs(), yield) }
	if err := c.listedExtents(); err != nil {
		return err
	}
	if !c.o.Repair {
		return nil // the check of the blobs finds them
	}
	// Content that only the log of the database has is not damaged.
	if err := replica.Recover(c.of.Blobs(), c.of.Extents()); err != nil {
		return err
	}
	n, err := extent.Repair(c.of.Extents(), filepath.Join(c.aside(), "extents"), refs,
		func(what string) { c.found(Warning, c.of.Name("extents"), "%s", what) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if n > 0 {
		c.lost("%s: content in %d damaged extents; the blobs with content there are listed", c.of.Name("extents"), n)
		c.repaired("%d extents: kept the intact data; copies of the damaged files are in %s", n,
			filepath.Join(c.aside(), "extents"))
	}
	return err
}

// listedExtents compares the extents with their list, and accepts what is there if Options.Repair is set. A node of a
// cluster keeps no list.
func (c *check) listedExtents() error {
	if c.ofNode() {
		return nil
	}
	problems, err := extent.Verify(c.of.Extents())
	if err != nil {
		return err
	}
	for _, p := range problems {
		severity := Error
		if c.o.Repair {
			severity = Warning
		}
		c.found(severity, c.of.Name("extents/"+p.File), "%s", p.What)
	}
	if !c.o.Repair {
		return nil
	}
	return extent.Accept(c.of.Extents(), filepath.Join(c.aside(), "extents"),
		func(what string) { c.repaired("%s: %s", c.of.Name("extents"), what) },
		func(what string) {
			c.lost("%s: %s; the blobs with content there are listed", c.of.Name("extents"), what)
		})
}

// aside returns the folder for the files of the shard that this run replaces.
func (c *check) aside() string {
	if c.asideName == "" {
		c.asideName = time.Now().UTC().Format("20060102T150405.000Z")
	}
	aside := filepath.Join(c.dir.Damaged(), c.asideName)
	if c.of.Number > 0 {
		aside = filepath.Join(aside, filepath.FromSlash(c.of.Name("")))
	}
	return aside
}

// lost notes that a repair could not keep something.
func (c *check) lost(format string, args ...any) {
	c.report.Lost = append(c.report.Lost, printable.Line(fmt.Sprintf(format, args...)))
}

func (c *check) repaired(format string, args ...any) {
	c.report.Repaired = append(c.report.Repaired, printable.Line(fmt.Sprintf(format, args...)))
}
