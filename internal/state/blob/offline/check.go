package offline

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/lease"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// Audit is the result of [Check].
type Audit struct {
	Containers, DeletedContainers, Blobs, Snapshots, Versions, UncommittedBlocks int64
	// Extents are the files of content; Bytes their size, of which Live bytes are referred to, Dead bytes are of records
	// without references, Torn bytes do not belong to a record, and the rest are headers.
	Extents                 int
	Bytes, Live, Dead, Torn int64
	// RemoteExtents are only in the tier of content and were not read; Remote is their size in bytes. Unneeded are objects
	// that no extent needs, which the server removes by itself.
	RemoteExtents, Unneeded int
	Remote                  int64
}

// CheckOptions configure [Check].
type CheckOptions struct {
	// Report is called for every violation of an invariant.
	Report func(error)
	// Note is set for the folder of a node of a cluster. It gets a sentence on what the folder lacks and the node gets
	// from the other nodes: that is no violation. Nil stands for a single server, which must have everything.
	Note func(string)
	// Progress is called with the bytes of content that were read; nil is nothing.
	Progress func(read int64)
	// Tier has content that is not in the folder any more: each object must be there, with its size. Nil leaves out what
	// is there. Objects compares the checksum of each object as well, and reads the records that are only there.
	Tier    *tier.Options
	Objects bool
}

// Check opens the state of a stopped service and reports every violation of an invariant:
//
//   - the database's own structure;
//   - every key and record is of its form, and belongs to a container or to the garbage;
//   - a deleted container has an end, and everything that it had;
//   - a version is in the slot of its time, and the current one in no other;
//   - pieces of a blob are in order and within its length, without gaps except in page blobs;
//   - contents are counted right, and none is without a blob that refers to it;
//   - every directory and file of a tree is where its record says, in a directory that exists, or is to be removed, or
//     can be restored, and no directory is its own ancestor;
//   - the counter of numbers is past those that records have;
//   - accounts that were added while the server runs have keys, or are being removed;
//   - pending copies have a job, and jobs a blob that waits;
//   - pending records count the uncommitted blocks, whose ids are of one length;
//   - the tag index has the blobs with tags and no others, the list of deleted blobs the deleted and no others;
//   - every slice is in an intact record of an extent, whose checksum is the recorded one.
//
// It changes nothing. An error means that the check could not run to its end.
func Check(path, extents string, o CheckOptions) (a Audit, err error) {
	restored := extent.NewRestorer(extents, nil, true)
	db, err := store.Open(path, store.Options{Buckets: record.Buckets(), ReadOnly: true, Attachments: restored})
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	node := db
	if o.Note == nil {
		node = nil
	}
	content, away, err := openExtents(extents, restored, o.Tier, node)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	if err := db.Check(o.Report); err != nil {
		return a, err
	}
	err = db.View(func(tx *store.Tx) error {
		c := newChecker(tx, o.Report, &a)
		c.progress = o.Progress
		c.note = o.Note
		c.tier, c.objects = away, o.Objects
		// A checkpoint is written a chunk at a time: of one that was interrupted, records may lack what they refer to.
		if o.Note != nil && db.Unfinished() {
			o.Note("a checkpoint was interrupted: the node applies the changes again that it gets from the other nodes; " +
				"whether records fit to each other was not checked")
			// records is needed all the same: slices takes from it what the records refer to.
			c.report = func(error) {}
			if err := c.records(); err != nil {
				return err
			}
			c.report = o.Report
			return c.slices(content)
		}
		return c.run(content)
	})
	return a, err
}

// openExtents opens the content of a folder that is checked, and its tier, nil for none. node is the database of the
// node of a cluster, nil for a single server.
func openExtents(extents string, restored *extent.Restorer, o *tier.Options, node *store.DB) (content *extent.Store,
	away *tier.Tier, err error) {
	files := extent.Options{ReadOnly: true, Restored: restored, Mirrored: node != nil}
	if o != nil {
		looking := *o
		looking.ReadOnly = true
		if away, err = tier.New(looking); err != nil {
			return nil, nil, err
		}
		files.Tier = away
	}
	if content, err = extent.Open(extents, files); err != nil {
		return nil, nil, err
	}
	switch {
	case node != nil:
		err = node.View(func(tx *store.Tx) error { return replica.LookAtTier(tx, content, away) })
	case away != nil:
		err = away.Attach(context.Background(), content)
	}
	if err != nil {
		return nil, nil, errors.Join(err, content.Close())
	}
	return content, away, nil
}

// CheckOpen checks the state of a service that runs, for tests: no request may be under way.
func CheckOpen(db *store.DB, extents *extent.Store, report func(error)) (a Audit, err error) {
	if err := db.Check(report); err != nil {
		return a, err
	}
	err = db.View(func(tx *store.Tx) error { return newChecker(tx, report, &a).run(extents) })
	return a, err
}

// checker is one check under way.
type checker struct {
	note     func(string)     // see [Check]
	progress func(read int64) // called with the bytes of content that were read; may be nil
	read     int64
	tier     *tier.Tier // nil without one
	objects  bool       // see [CheckOptions]

	tx     *store.Tx
	report func(error)
	audit  *Audit
	// live maps the generation of each container to its account; garbage has kind and ID of records that are to be
	// removed.
	live    map[record.Generation]string
	garbage map[[2]uint64]bool
	// references counts the blobs that refer to each content, sets the blocks of each pending record.
	references map[uint64]uint64
	sets       map[uint64]int64
	// expiring has, by the keys of blobs, when they are looked at for the last time whether they have expired.
	expiring map[string]ticks.Ticks
	// trash has the inodes that can be restored.
	trash map[record.Inode]bool
	// above has the directories of directories.
	above  map[record.Inode]record.Inode
	newest uint64 // the highest number that a record has
	places int    // calls of placeOf
	names  *Names
}

func newChecker(tx *store.Tx, report func(error), a *Audit) *checker {
	return &checker{tx: tx, report: report, audit: a, live: map[record.Generation]string{}, garbage: map[[2]uint64]bool{},
		references: map[uint64]uint64{}, sets: map[uint64]int64{}, expiring: map[string]ticks.Ticks{},
		trash: map[record.Inode]bool{}, above: map[record.Inode]record.Inode{}, names: &Names{tx: tx}}
}

func (c *checker) errorf(format string, args ...any) {
	c.report(fmt.Errorf("blob service: "+format, args...))
}

func (c *checker) run(content *extent.Store) error {
	if err := c.records(); err != nil {
		return err
	}
	return c.slices(content)
}

// records checks everything but the content of extents.
func (c *checker) records() error {
	// The order matters. What later checks ask for is collected first: containers, garbage, expiry entries and the
	// trash before the records of blobs, pending records and copies before blocks, and blobs before the pieces of
	// contents.
	c.each(record.ContainersBucket, c.container)
	c.each(record.DeletedContainersBucket, c.deletedContainer)
	c.each(record.GarbageBucket, c.garbageKey)
	c.each(record.ExpiringBucket, c.expiry)
	c.each(record.TrashBucket, c.trashed)
	c.each(record.NamesBucket, c.name)
	c.each(record.BlobsBucket, c.blob)
	c.each(record.PendingBucket, c.pending)
	c.each(record.CopiesBucket, c.copying)
	c.each(record.BlocksBucket, c.block)
	c.each(record.ChangesBucket, func(k, v []byte) error { _, err := record.DecodeEvent(k, v); return err })
	c.each(record.EventsBucket, func(k, v []byte) error {
		e, err := eventlog.ParseEntry(k, v)
		if err == nil && e.Change == nil {
			_, err = record.DecodeEvent(k, v)
		}
		return err
	})
	c.each(record.SubscriptionsBucket, func(k, _ []byte) error {
		return eventlog.CheckSubscription(c.tx, record.SubscriptionsBucket, k)
	})
	for set, n := range c.sets {
		if n != 0 {
			c.errorf("block set %d: the pending record counts %d blocks more than there are", set, n)
		}
	}
	c.each(record.ContentBucket, c.pieces)
	for id, n := range c.references {
		if n != 0 {
			c.errorf("content %d: %d blobs refer to it more than it counts", id, n)
		}
	}
	c.cycles()
	if v := c.tx.Get(record.MetaBucket, record.NextKey); c.newest > 0 && (len(v) != 8 ||
		binary.BigEndian.Uint64(v) <= c.newest) {
		c.errorf("the counter of numbers is behind %d", c.newest)
	}
	c.each(record.MetaBucket, func(k, v []byte) error {
		if _, ok := record.ParseTieredKey(k); ok {
			_, err := record.DecodeTiered(v)
			return err
		}
		name, ok := record.ParseAccountKey(k)
		if !ok {
			return nil
		}
		if _, err := record.DecodeAccount(v); err != nil {
			return fmt.Errorf("account %q: %w", name, err)
		}
		return nil
	})
	c.each(record.TagsBucket, c.tag)
	c.each(record.DeletedBlobsBucket, c.deleted)
	return nil
}

// number notes a number that a record has.
func (c *checker) number(n uint64) { c.newest = max(c.newest, n) }

func (c *checker) each(bucket store.Bucket, fn func(k, v []byte) error) {
	cur := c.tx.Cursor(bucket)
	for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
		if err := fn(k, v); err != nil {
			c.errorf("%s: %w", c.names.Of(bucket, k), err)
		}
	}
}

func (c *checker) container(k, v []byte) error {
	account, name, err := record.ParseContainerKey(k)
	if err != nil {
		return err
	}
	if err := record.CheckContainerName(name); err != nil {
		return err
	}
	rec, err := record.DecodeContainer(v)
	if err != nil {
		return err
	}
	if rec.Deleted != 0 {
		return errors.New("the container is there and deleted")
	}
	c.audit.Containers++
	c.root(rec.Generation, k)
	return c.claim(rec.Generation, account)
}

// root checks that a tree has its root directory, which has the key of its container.
func (c *checker) root(gen record.Generation, key []byte) {
	if !gen.IsTree() {
		return
	}
	var root record.Blob
	if err := record.LoadBlob(c.tx, gen.Root().Item(), record.BaseSlot, &root); err != nil || !root.IsDirectory() ||
		root.Node.Parent != 0 || root.Node.Name != string(key) {
		c.errorf("container %q has no root directory", key)
	}
}

// deletedContainer checks a deleted container that can be restored: its contents are all there.
func (c *checker) deletedContainer(k, v []byte) error {
	account, name, deleted, err := record.ParseDeletedContainerKey(k)
	if err != nil {
		return err
	}
	rec, err := record.DecodeContainer(v)
	if err != nil {
		return err
	}
	if rec.Deleted != deleted || rec.KeptDays <= 0 || rec.Lease != (lease.Lease{}) {
		return errors.New("the container was not deleted then, has no end, or a lease")
	}
	c.audit.DeletedContainers++
	c.root(rec.Generation, record.ContainerKey(account, string(name)))
	return errors.Join(record.CheckContainerName(string(name)), c.claim(rec.Generation, account))
}

// claim notes whose a generation is.
func (c *checker) claim(gen record.Generation, account string) error {
	if c.live[gen] != "" || gen == 0 {
		return fmt.Errorf("generation %d is used twice", gen)
	}
	c.live[gen] = account
	c.number(uint64(gen &^ record.TreeBit))
	return nil
}

func (c *checker) garbageKey(k, _ []byte) error {
	kind, id, err := record.ParseGarbageKey(k)
	c.garbage[[2]uint64{uint64(kind), id}] = true
	return err
}

func (c *checker) isGarbage(kind byte, id uint64) bool { return c.garbage[[2]uint64{uint64(kind), id}] }

// hasOwner checks that a generation belongs to a container or is to be removed.
func (c *checker) hasOwner(gen record.Generation) error {
	if !(gen == record.TreeBit) && c.live[gen] == "" && !c.isGarbage(record.GarbageContainer, uint64(gen)) {
		return fmt.Errorf("no container has generation %d", gen)
	}
	return nil
}

func (c *checker) blob(k, v []byte) error {
	it, slot, err := record.ParseBlobKey(k)
	if err != nil {
		return err
	}
	var b record.Blob
	if err := record.DecodeBlob(v, &b); err != nil {
		return err
	}
	b.Slot = slot
	gen, name := it.Generation, it.Name
	switch {
	case b.IsSnapshot():
		c.audit.Snapshots++
	case slot == record.BaseSlot:
		c.audit.Blobs++
		// The current version has its name as a blob. A second record under its number would be listed twice, and deleting
		// one would leave the other.
		if b.Version != 0 && c.tx.Get(record.BlobsBucket, record.BlobKey(it, record.Slot(b.Version))) != nil {
			c.errorf("blob %s: its version %s is there twice", c.names.item(it), b.Version.ISO())
		}
	// The slot is the version's number: found by another number, the version could not be opened.
	case record.Slot(b.Version) != slot:
		c.errorf("blob %s: version %s is in another slot", c.names.item(it), b.Version.ISO())
	default:
		c.audit.Versions++
	}
	// Leases belong to the base blob; on another record nothing could release one.
	if slot != record.BaseSlot && b.Lease != (lease.Lease{}) {
		c.errorf("blob %s: a snapshot or version has a lease", c.names.item(it))
	}
	if b.Content.ID != 0 {
		c.references[b.Content.ID]++
	}
	// Removal walks this index and not the blobs, so a deleted blob that is not in it stays for good.
	if b.Deleted != 0 && c.tx.Get(record.DeletedBlobsBucket, record.PurgeKey(b.PurgeAt(), k)) == nil {
		c.errorf("blob %s is deleted and will never be removed", c.names.item(it))
	}
	// Blobs of a deleted container are removed with it, and need no entry in an index. The same holds below.
	if b.Expires != 0 && slot == record.BaseSlot && !c.isGarbage(record.GarbageContainer, uint64(gen)) &&
		c.expiring[string(k)] < b.Expires {
		c.errorf("blob %s has an expiry time without an entry in the expiry index", c.names.item(it))
	}
	if b.Copy.Status == record.CopyPending && b.Deleted == 0 && !c.isGarbage(record.GarbageContainer, uint64(gen)) &&
		c.tx.Get(record.CopiesBucket, record.PendingKey(it)) == nil {
		c.errorf("blob %s waits for a copy that nothing brings", c.names.item(it))
	}
	if len(b.Tags) > 0 && slot == record.BaseSlot && b.Deleted == 0 && !c.isGarbage(record.GarbageContainer,
		uint64(gen)) &&
		!c.indexed(it) {
		c.errorf("blob %s has tags that are not indexed", c.names.item(it))
	}
	c.number(b.Content.ID)
	// In a tree, name and parent are checked through the directory that refers to the blob.
	if it.InTree() {
		if slot == record.BaseSlot && b.IsDirectory() && b.Node.Parent != 0 {
			c.above[it.Inode()] = b.Node.Parent
		}
		return errors.Join(c.linked(it, &b), c.layout(&b))
	}
	return errors.Join(c.hasOwner(gen), c.layout(&b), record.CheckBlobName(name))
}

// layout checks that a blob's pieces make up its length.
func (c *checker) layout(b *record.Blob) error {
	at := int64(0)
	err := b.Content.Walk(c.tx, 0, b.Length, b.Length, func(p *content.Piece) error {
		var sum int64
		for _, x := range p.Slices {
			sum += x.Length
		}
		switch {
		case sum != p.Length:
			return fmt.Errorf("the piece at %d is %d bytes long and has %d", p.Start, p.Length, sum)
		case !p.Seal.Fits(b.Encryption):
			return fmt.Errorf("the piece at %d is not encrypted as the blob is", p.Start)
		// Only page blobs have gaps, which are zeros.
		case p.Start < at || p.Start > at && b.Kind != record.PageBlob:
			return fmt.Errorf("the piece at %d does not follow the one that ends at %d", p.Start, at)
		}
		at = p.End()
		return nil
	})
	if err != nil {
		return err
	}
	if at > b.Length || at < b.Length && b.Kind != record.PageBlob {
		return fmt.Errorf("the pieces end at %d, the blob at %d", at, b.Length)
	}
	return nil
}

func (c *checker) indexed(it record.Item) bool {
	return c.tx.Get(record.TagsBucket, record.TagsKey(c.live[it.Generation], it)) != nil
}

func (c *checker) tag(k, _ []byte) error {
	account, rest, ok := bytes.Cut(k, []byte{0})
	if !ok {
		return record.ErrKey
	}
	it, slot, err := record.ParseBlobKey(rest)
	if err != nil {
		return err
	}
	if c.isGarbage(record.GarbageContainer, uint64(it.Generation)) {
		return nil
	}
	var b record.Blob
	if err := record.LoadBlob(c.tx, it, slot, &b); err != nil || b.Deleted != 0 || len(b.Tags) == 0 {
		return fmt.Errorf("account %s indexes a blob without tags", account)
	}
	return nil
}

func (c *checker) deleted(k, _ []byte) error {
	if len(k) < 8 {
		return record.ErrKey
	}
	var b record.Blob
	v := c.tx.Get(record.BlobsBucket, k[8:])
	if v == nil {
		return errors.New("the deleted blob does not exist")
	}
	if err := record.DecodeBlob(v, &b); err != nil {
		return err
	}
	if b.Deleted == 0 || !bytes.Equal(k, record.PurgeKey(b.PurgeAt(), k[8:])) {
		return errors.New("the blob is not deleted, or not until then")
	}
	return nil
}

func (c *checker) pending(k, v []byte) error {
	it, err := record.ParsePendingKey(k)
	if err != nil {
		return err
	}
	p, err := record.DecodePending(v)
	if err != nil {
		return err
	}
	if err := c.addSet(p); err != nil {
		return err
	}
	if it.InTree() && c.tx.Get(record.BlobsBucket, record.BlobKey(it, record.BaseSlot)) == nil {
		return c.linkedAt(it.Inode(), p.Parent, p.Name)
	}
	return c.hasOwner(it.Generation)
}

func (c *checker) expiry(k, v []byte) error {
	if len(k) <= 8 {
		return record.ErrKey
	}
	c.expiring[string(k[8:])] = record.ExpiryTime(k) // the keys are in the order of times
	_, _, err := record.ParseBlobKey(k[8:])
	_, _, err2 := record.ParseContainerKey(v)
	return errors.Join(err, err2)
}

func (c *checker) copying(k, v []byte) error {
	it, err := record.ParsePendingKey(k)
	if err != nil {
		return err
	}
	job, err := record.DecodeCopyJob(k, v)
	if err != nil {
		return err
	}
	if err := c.addSet(job.Chunks()); err != nil {
		return err
	}
	var b record.Blob
	if err := record.LoadBlob(c.tx, it, record.BaseSlot, &b); !c.isGarbage(record.GarbageContainer,
		uint64(it.Generation)) &&
		(err != nil || b.Deleted != 0 || b.Copy.ID != job.ID) {
		return fmt.Errorf("no blob waits for copy %s", job.ID)
	}
	return c.hasOwner(it.Generation)
}

// addSet expects the blocks of a set.
func (c *checker) addSet(p record.Pending) error {
	if _, twice := c.sets[p.Set]; twice {
		return fmt.Errorf("block set %d is used twice", p.Set)
	}
	c.sets[p.Set] = p.Count
	c.number(p.Set)
	return nil
}

func (c *checker) block(k, v []byte) error {
	set, _, err := record.ParseBlockKey(k)
	if err != nil {
		return err
	}
	c.audit.UncommittedBlocks++
	p, err := record.DecodeBlock(v)
	if err != nil {
		return err
	}
	if _, ok := c.sets[set]; ok {
		c.sets[set]--
	} else if !c.isGarbage(record.GarbageBlocks, set) {
		return fmt.Errorf("nothing refers to block set %d", set)
	}
	var sum int64
	for _, x := range p.Slices {
		sum += x.Length
	}
	if sum != p.Length {
		return fmt.Errorf("the block is %d bytes long and has %d", p.Length, sum)
	}
	if !p.Seal.Fits(p.Encryption) {
		return errors.New("the block is not encrypted as it says")
	}
	return nil
}

func (c *checker) pieces(k, v []byte) error {
	id, end, err := record.ParsePieceKey(k)
	if err != nil {
		return err
	}
	c.number(id)
	if end == 0 {
		n := record.References(c.tx, id)
		if n == 0 {
			return record.ErrMalformed
		}
		c.references[id] -= n
		return nil
	}
	list, err := record.DecodePieces(v)
	if err != nil {
		return err
	}
	if len(list) == 0 || list[len(list)-1].End() != end {
		return record.ErrMalformed
	}
	if record.References(c.tx, id) == 0 && !c.isGarbage(record.GarbageContent, id) {
		return fmt.Errorf("nothing refers to content %d", id)
	}
	return nil
}

// slices reads all extents and compares their records with the references in the metadata.
func (c *checker) slices(content *extent.Store) error {
	lacking, bytes := 0, int64(0)
	// By extent, so that each file is read once, from its beginning to its end.
	refs := map[uint64][]extent.Slice{}
	err := record.EachReference(context.Background(), c.tx, func(r extent.Ref) bool {
		refs[r.Slice.Extent] = append(refs[r.Slice.Extent], r.Slice)
		return true
	})
	if err != nil {
		return err
	}
	if c.tier != nil {
		c.audit.Unneeded, err = c.tier.Check(context.Background(), c.objects, func(id uint64, problem string) {
			c.errorf("extent %016x, in the tier of content: %s; %d slices refer to it", id, problem, len(refs[id]))
		})
		if err != nil {
			return err
		}
	}
	for _, st := range content.Stats() {
		want := refs[st.ID]
		// What remains at the end refers to extents that do not exist.
		delete(refs, st.ID)
		sort.Slice(want, func(i, j int) bool { return want[i].Offset < want[j].Offset })
		// What is only in the tier is read on request: it is as much as all the content.
		if st.Remote && (c.tier == nil || !c.objects) {
			c.audit.RemoteExtents++
			c.audit.Remote += st.Size
			if n := len(want); n > 0 && want[n-1].Offset+want[n-1].Length > st.Size {
				c.errorf("extent %016x has %d bytes; %s needs more", st.ID, st.Size, c.placeOf(want[n-1]))
			}
			continue
		}
		var records []extent.Slice
		_, torn, err := content.Walk(st.ID, func(x extent.Slice) error {
			records = append(records, x)
			if c.read += x.Length; c.progress != nil {
				c.progress(c.read)
			}
			return nil
		})
		if err != nil {
			c.errorf("extent %x: %w", st.ID, err)
			continue
		}
		c.audit.Extents++
		c.audit.Bytes += st.Size
		c.audit.Torn += torn
		// Content that nothing refers to is dead and no error: a delete leaves it until compaction.
		used := make([]bool, len(records))
		for _, x := range want {
			// A slice may be a part of a record, as the copy of a range is, so the search is for the record that contains it.
			i, _ := slices.BinarySearchFunc(records, x.Offset, func(r extent.Slice, off int64) int {
				if r.Offset+r.Length <= off {
					return -1
				}
				return 1
			})
			if i == len(records) || records[i].Offset > x.Offset || records[i].Offset+records[i].Length < x.Offset+x.Length {
				// On a node, content may still have to come from the others: a hole is no loss as long as they have it.
				if absent, err := content.Unwritten(x); c.note != nil && err == nil && absent {
					lacking, bytes = lacking+1, bytes+x.Length
					continue
				}
				c.errorf("extent %016x has no intact record at offset %d of %d bytes; %s needs it", x.Extent, x.Offset, x.Length,
					c.placeOf(x))
				continue
			}
			// Only a slice that is the whole record has the record's checksum; an old reference has none, which is zero.
			if r := records[i]; r.Length == x.Length && x.CRC != 0 && r.CRC != x.CRC {
				c.errorf("extent %016x: the record at offset %d is not the one that was written; %s needs it", x.Extent, x.Offset,
					c.placeOf(x))
			}
			used[i] = true
		}
		for i, r := range records {
			if used[i] {
				c.audit.Live += r.Length
			} else {
				c.audit.Dead += r.Length
			}
		}
	}
	for id, list := range refs {
		if c.note != nil {
			for _, x := range list {
				lacking, bytes = lacking+1, bytes+x.Length
			}
			continue
		}
		c.errorf("extent %016x is missing; %d slices refer to it, the first of %s", id, len(list), c.placeOf(list[0]))
	}
	if lacking > 0 {
		c.note(fmt.Sprintf("%d pieces of content, %d bytes, are not here yet: the node gets them from the other nodes",
			lacking, bytes))
	}
	return nil
}

// maxPlaces is the maximum number of searches for the record that refers to damaged content: each one reads all
// references.
const maxPlaces = 100

// placeOf names a record that refers to a slice.
func (c *checker) placeOf(x extent.Slice) (place string) {
	if c.places++; c.places > maxPlaces {
		return "a blob"
	}
	place = "a blob"
	_ = record.EachReference(context.Background(), c.tx, func(r extent.Ref) bool { // it was read before
		if r.Slice.Extent != x.Extent || r.Slice.Offset != x.Offset {
			return true
		}
		bucket := map[byte]store.Bucket{record.PlaceBlob: record.BlobsBucket, record.PlaceBlock: record.BlocksBucket,
			record.PlaceContent: record.ContentBucket}[r.Key[0]]
		place = c.names.Of(bucket, r.Key[1:])
		return false
	})
	return place
}

// References calls yield for every slice that the records in the file at path refer to.
func References(path string, yield func(extent.Ref) bool) error {
	db, err := store.Open(path, store.Options{Buckets: record.Buckets(), ReadOnly: true})
	if err != nil {
		return err
	}
	err = db.View(func(tx *store.Tx) error { return record.EachReference(context.Background(), tx, yield) })
	return errors.Join(err, db.Close())
}
