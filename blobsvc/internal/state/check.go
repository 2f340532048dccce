package state

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/content"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Audit is the result of [Check].
type Audit struct {
	Containers, DeletedContainers, Blobs, Snapshots, Versions, UncommittedBlocks int64
	// Extents are the files of content; Bytes their size, of which Live bytes are referred to, Dead bytes are of records
	// without references, Torn bytes do not belong to a record, and the rest are headers.
	Extents                 int
	Bytes, Live, Dead, Torn int64
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
//   - pending copies have a job, and jobs a blob that waits;
//   - pending records count the uncommitted blocks, whose ids are of one length;
//   - the tag index has the blobs with tags and no others, the list of deleted blobs the deleted and no others;
//   - every slice is in an intact record of an extent, whose checksum is the recorded one.
//
// It changes nothing. An error means that the check could not run to its end.
func Check(path, extents string, report func(error), progress func(read int64)) (a Audit, err error) {
	restored := extent.NewRestorer(extents, nil, true)
	db, err := store.Open(path, store.Options{Buckets: Buckets(), ReadOnly: true, Attachments: restored})
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	content, err := extent.Open(extents, extent.Options{ReadOnly: true, Restored: restored})
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	if err := db.Check(report); err != nil {
		return a, err
	}
	err = db.View(func(tx *store.Tx) error {
		c := newChecker(tx, report, &a)
		c.progress = progress
		return c.run(content)
	})
	return a, err
}

// Audit checks a service that runs, for tests: no request may be under way.
func (s Maintenance) Audit(report func(error)) (a Audit, err error) {
	if err := s.db.Check(report); err != nil {
		return a, err
	}
	err = s.db.View(func(tx *store.Tx) error { return newChecker(tx, report, &a).run(s.extents) })
	return a, err
}

// checker is one check under way.
type checker struct {
	progress func(read int64) // called with the bytes of content that were read; may be nil
	read     int64

	tx     *store.Tx
	report func(error)
	audit  *Audit
	// live maps the generation of each container to its account; garbage has kind and ID of records that are to be
	// removed.
	live    map[generation]string
	garbage map[[2]uint64]bool
	// references counts the blobs that refer to each content, sets the blocks of each pending record.
	references map[uint64]uint64
	sets       map[uint64]int64
	// expiring has the keys of blobs that are looked at when they expire.
	expiring map[string]bool
	// trash has the inodes that can be restored.
	trash map[inode]bool
	// above has the directories of directories.
	above  map[inode]inode
	newest uint64 // the highest number that a record has
	places int    // calls of placeOf
	names  *Names
}

func newChecker(tx *store.Tx, report func(error), a *Audit) *checker {
	return &checker{tx: tx, report: report, audit: a, live: map[generation]string{}, garbage: map[[2]uint64]bool{},
		references: map[uint64]uint64{}, sets: map[uint64]int64{}, expiring: map[string]bool{}, trash: map[inode]bool{},
		above: map[inode]inode{}, names: &Names{tx: tx}}
}

func (c *checker) errorf(format string, args ...any) {
	c.report(fmt.Errorf("blob service: "+format, args...))
}

func (c *checker) run(content *extent.Store) error {
	// The order matters. What later checks ask for is collected first: containers, garbage, expiry entries and the
	// trash before the records of blobs, pending records and copies before blocks, and blobs before the pieces of
	// contents.
	c.each(containersBucket, c.container)
	c.each(deletedContainersBucket, c.deletedContainer)
	c.each(garbageBucket, c.garbageKey)
	c.each(expiringBucket, c.expiry)
	c.each(trashBucket, c.trashed)
	c.each(namesBucket, c.name)
	c.each(blobsBucket, c.blob)
	c.each(pendingBucket, c.pending)
	c.each(copiesBucket, c.copying)
	c.each(blocksBucket, c.block)
	c.each(changesBucket, func(k, v []byte) error { _, err := DecodeEvent(k, v); return err })
	c.each(eventsBucket, func(k, v []byte) error {
		e, err := eventlog.ParseEntry(k, v)
		if err == nil && e.Change == nil {
			_, err = DecodeEvent(k, v)
		}
		return err
	})
	c.each(subscriptionsBucket, func(k, _ []byte) error {
		return eventlog.CheckSubscription(c.tx, subscriptionsBucket, k)
	})
	for set, n := range c.sets {
		if n != 0 {
			c.errorf("block set %d: the pending record counts %d blocks more than there are", set, n)
		}
	}
	c.each(contentBucket, c.pieces)
	for id, n := range c.references {
		if n != 0 {
			c.errorf("content %d: %d blobs refer to it more than it counts", id, n)
		}
	}
	c.cycles()
	if v := c.tx.Get(metaBucket, nextKey); c.newest > 0 && (len(v) != 8 || binary.BigEndian.Uint64(v) <= c.newest) {
		c.errorf("the counter of numbers is behind %d", c.newest)
	}
	c.each(tagsBucket, c.tag)
	c.each(deletedBlobsBucket, c.deleted)
	return c.slices(content)
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
	account, name, err := parseContainerKey(k)
	if err != nil {
		return err
	}
	if err := CheckContainerName(name); err != nil {
		return err
	}
	rec, err := decodeContainer(v)
	if err != nil {
		return err
	}
	if rec.Deleted != 0 {
		return errors.New("the container is there and deleted")
	}
	c.audit.Containers++
	if rec.generation.isTree() {
		var root Blob
		if err := loadBlob(c.tx, rec.generation.root().item(), baseSlot, &root); err != nil || !root.IsDirectory() ||
			root.Node.parent != 0 || root.Node.name != string(k) {
			c.errorf("container %q has no root directory", k)
		}
	}
	return c.claim(rec.generation, account)
}

// deletedContainer checks a deleted container that can be restored: its contents are all there.
func (c *checker) deletedContainer(k, v []byte) error {
	account, name, deleted, err := parseDeletedContainerKey(k)
	if err != nil {
		return err
	}
	rec, err := decodeContainer(v)
	if err != nil {
		return err
	}
	if rec.Deleted != deleted || rec.KeptDays <= 0 || rec.Lease != (Lease{}) {
		return errors.New("the container was not deleted then, has no end, or a lease")
	}
	c.audit.DeletedContainers++
	return errors.Join(CheckContainerName(string(name)), c.claim(rec.generation, account))
}

// claim notes whose a generation is.
func (c *checker) claim(gen generation, account string) error {
	if c.live[gen] != "" || gen == 0 {
		return fmt.Errorf("generation %d is used twice", gen)
	}
	c.live[gen] = account
	c.number(uint64(gen &^ treeBit))
	return nil
}

func (c *checker) garbageKey(k, _ []byte) error {
	kind, id, err := parseGarbageKey(k)
	c.garbage[[2]uint64{uint64(kind), id}] = true
	return err
}

func (c *checker) isGarbage(kind byte, id uint64) bool { return c.garbage[[2]uint64{uint64(kind), id}] }

// hasOwner checks that a generation belongs to a container or is to be removed.
func (c *checker) hasOwner(gen generation) error {
	if !(gen == treeBit) && c.live[gen] == "" && !c.isGarbage(garbageContainer, uint64(gen)) {
		return fmt.Errorf("no container has generation %d", gen)
	}
	return nil
}

func (c *checker) blob(k, v []byte) error {
	it, slot, err := parseBlobKey(k)
	if err != nil {
		return err
	}
	var b Blob
	if err := decodeBlob(v, &b); err != nil {
		return err
	}
	b.slot = slot
	gen, name := it.gen, it.name
	switch {
	case b.IsSnapshot():
		c.audit.Snapshots++
	case slot == baseSlot:
		c.audit.Blobs++
		if b.Version != 0 && c.tx.Get(blobsBucket, blobKey(it, Slot(b.Version))) != nil {
			c.errorf("blob %s: its version %s is there twice", c.names.item(it), b.Version.ISO())
		}
	case Slot(b.Version) != slot:
		c.errorf("blob %s: version %s is in another slot", c.names.item(it), b.Version.ISO())
	default:
		c.audit.Versions++
	}
	if slot != baseSlot && b.Lease != (Lease{}) {
		c.errorf("blob %s: a snapshot or version has a lease", c.names.item(it))
	}
	if b.content.id != 0 {
		c.references[b.content.id]++
	}
	if b.Deleted != 0 && c.tx.Get(deletedBlobsBucket, purgeKey(b.purgeAt(), k)) == nil {
		c.errorf("blob %s is deleted and will never be removed", c.names.item(it))
	}
	if b.Expires != 0 && slot == baseSlot && !c.isGarbage(garbageContainer, uint64(gen)) && !c.expiring[string(k)] {
		c.errorf("blob %s has an expiry time without an entry in the expiry index", c.names.item(it))
	}
	if b.Copy.Status == CopyPending && b.Deleted == 0 && !c.isGarbage(garbageContainer, uint64(gen)) &&
		c.tx.Get(copiesBucket, pendingKey(it)) == nil {
		c.errorf("blob %s waits for a copy that nothing brings", c.names.item(it))
	}
	if len(b.Tags) > 0 && slot == baseSlot && b.Deleted == 0 && !c.isGarbage(garbageContainer, uint64(gen)) &&
		!c.indexed(it) {
		c.errorf("blob %s has tags that are not indexed", c.names.item(it))
	}
	c.number(b.content.id)
	if it.inTree() {
		if slot == baseSlot && b.IsDirectory() && b.Node.parent != 0 {
			c.above[it.inode()] = b.Node.parent
		}
		return errors.Join(c.linked(it, &b), c.layout(&b))
	}
	return errors.Join(c.hasOwner(gen), c.layout(&b), CheckBlobName(name))
}

// layout checks that a blob's pieces make up its length.
func (c *checker) layout(b *Blob) error {
	at := int64(0)
	err := b.content.walk(c.tx, 0, b.Length, b.Length, func(p *content.Piece) error {
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
		case p.Start < at || p.Start > at && b.Kind != PageBlob:
			return fmt.Errorf("the piece at %d does not follow the one that ends at %d", p.Start, at)
		}
		at = p.End()
		return nil
	})
	if err != nil {
		return err
	}
	if at > b.Length || at < b.Length && b.Kind != PageBlob {
		return fmt.Errorf("the pieces end at %d, the blob at %d", at, b.Length)
	}
	return nil
}

func (c *checker) indexed(it item) bool {
	return c.tx.Get(tagsBucket, tagsKey(c.live[it.gen], it)) != nil
}

func (c *checker) tag(k, _ []byte) error {
	account, rest, ok := bytes.Cut(k, []byte{0})
	if !ok {
		return errKey
	}
	it, slot, err := parseBlobKey(rest)
	if err != nil {
		return err
	}
	if c.isGarbage(garbageContainer, uint64(it.gen)) {
		return nil
	}
	var b Blob
	if err := loadBlob(c.tx, it, slot, &b); err != nil || b.Deleted != 0 || len(b.Tags) == 0 {
		return fmt.Errorf("account %s indexes a blob without tags", account)
	}
	return nil
}

func (c *checker) deleted(k, _ []byte) error {
	if len(k) < 8 {
		return errKey
	}
	var b Blob
	v := c.tx.Get(blobsBucket, k[8:])
	if v == nil {
		return errors.New("the deleted blob does not exist")
	}
	if err := decodeBlob(v, &b); err != nil {
		return err
	}
	if b.Deleted == 0 || !bytes.Equal(k, purgeKey(b.purgeAt(), k[8:])) {
		return errors.New("the blob is not deleted, or not until then")
	}
	return nil
}

func (c *checker) pending(k, v []byte) error {
	it, err := parsePendingKey(k)
	if err != nil {
		return err
	}
	p, err := decodePending(v)
	if err != nil {
		return err
	}
	if err := c.addSet(p); err != nil {
		return err
	}
	if it.inTree() && c.tx.Get(blobsBucket, blobKey(it, baseSlot)) == nil {
		return c.linkedAt(it.inode(), p.parent, p.name)
	}
	return c.hasOwner(it.gen)
}

func (c *checker) expiry(k, v []byte) error {
	if len(k) <= 8 {
		return errKey
	}
	c.expiring[string(k[8:])] = true
	_, _, err := parseBlobKey(k[8:])
	_, _, err2 := parseContainerKey(v)
	return errors.Join(err, err2)
}

func (c *checker) copying(k, v []byte) error {
	it, err := parsePendingKey(k)
	if err != nil {
		return err
	}
	job, err := decodeCopyJob(k, v)
	if err != nil {
		return err
	}
	if err := c.addSet(job.chunks()); err != nil {
		return err
	}
	var b Blob
	if err := loadBlob(c.tx, it, baseSlot, &b); !c.isGarbage(garbageContainer, uint64(it.gen)) &&
		(err != nil || b.Deleted != 0 || b.Copy.ID != job.ID) {
		return fmt.Errorf("no blob waits for copy %s", job.ID)
	}
	return c.hasOwner(it.gen)
}

// addSet expects the blocks of a set.
func (c *checker) addSet(p pendingRecord) error {
	if _, twice := c.sets[p.set]; twice {
		return fmt.Errorf("block set %d is used twice", p.set)
	}
	c.sets[p.set] = p.count
	c.number(p.set)
	return nil
}

func (c *checker) block(k, v []byte) error {
	set, _, err := parseBlockKey(k)
	if err != nil {
		return err
	}
	c.audit.UncommittedBlocks++
	p, err := decodeBlock(v)
	if err != nil {
		return err
	}
	if _, ok := c.sets[set]; ok {
		c.sets[set]--
	} else if !c.isGarbage(garbageBlocks, set) {
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
	id, end, err := parsePieceKey(k)
	if err != nil {
		return err
	}
	c.number(id)
	if end == 0 {
		n := references(c.tx, id)
		if n == 0 {
			return errRecord
		}
		c.references[id] -= n
		return nil
	}
	list, err := decodePieces(v)
	if err != nil {
		return err
	}
	if len(list) == 0 || list[len(list)-1].End() != end {
		return errRecord
	}
	if references(c.tx, id) == 0 && !c.isGarbage(garbageContent, id) {
		return fmt.Errorf("nothing refers to content %d", id)
	}
	return nil
}

// slices reads all extents and compares their records with the references in the metadata.
func (c *checker) slices(content *extent.Store) error {
	refs := map[uint64][]extent.Slice{}
	err := eachReference(context.Background(), c.tx, func(r extent.Ref) bool {
		refs[r.Slice.Extent] = append(refs[r.Slice.Extent], r.Slice)
		return true
	})
	if err != nil {
		return err
	}
	for _, st := range content.Stats() {
		want := refs[st.ID]
		delete(refs, st.ID)
		sort.Slice(want, func(i, j int) bool { return want[i].Offset < want[j].Offset })
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
		used := make([]bool, len(records))
		for _, x := range want {
			i, _ := slices.BinarySearchFunc(records, x.Offset, func(r extent.Slice, off int64) int {
				if r.Offset+r.Length <= off {
					return -1
				}
				return 1
			})
			if i == len(records) || records[i].Offset > x.Offset || records[i].Offset+records[i].Length < x.Offset+x.Length {
				c.errorf("extent %016x has no intact record at offset %d of %d bytes; %s needs it", x.Extent, x.Offset, x.Length,
					c.placeOf(x))
				continue
			}
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
		c.errorf("extent %016x is missing; %d slices refer to it, the first of %s", id, len(list), c.placeOf(list[0]))
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
	_ = eachReference(context.Background(), c.tx, func(r extent.Ref) bool { // it was read before
		if r.Slice.Extent != x.Extent || r.Slice.Offset != x.Offset {
			return true
		}
		bucket := map[byte]store.Bucket{placeBlob: blobsBucket, placeBlock: blocksBucket,
			placeContent: contentBucket}[r.Key[0]]
		place = c.names.Of(bucket, r.Key[1:])
		return false
	})
	return place
}

// References calls yield for every slice that the records in the file at path refer to.
func References(path string, yield func(extent.Ref) bool) error {
	db, err := store.Open(path, store.Options{Buckets: Buckets(), ReadOnly: true})
	if err != nil {
		return err
	}
	err = db.View(func(tx *store.Tx) error { return eachReference(context.Background(), tx, yield) })
	return errors.Join(err, db.Close())
}
