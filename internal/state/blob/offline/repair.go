package offline

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Repair puts the records in order that the database of a stopped service still has, after damage took some of them:
// trees (repair_tree.go), and what can be derived from other records (below). It removes no content. What lost its name
// gets a name in a directory lost+found, and a name without a record is reported and given up.
//
// It plans in one read of the database, in memory proportional to the number of files, directories and uncommitted
// blocks, and then writes in batches. Each batch leaves less to repair: Repair can be interrupted and run again.

// RepairOptions configure [Repair]. All fields are needed.
type RepairOptions struct {
	// Doubtful says that records are lost which tell what was deleted. Files without a name may be deleted ones then, and
	// get one in lost+found in place of the one that they had.
	Doubtful bool
	// Before is called once, before the first change, for example to keep a copy of the file.
	Before func() error
	// Note is called for each change; lost means that something could not be kept.
	Note func(what string, lost bool)
}

// Doubtful reports whether records may be lost that tell what was deleted.
func Doubtful(lost []store.Loss) bool {
	return slices.ContainsFunc(lost, func(l store.Loss) bool {
		return l.Changes || l.Bucket == record.GarbageBucket || l.Bucket == record.TrashBucket ||
			l.Bucket == record.DeletedContainersBucket
	})
}

// Repair repairs the records in the file at path.
func Repair(path string, o RepairOptions) (err error) {
	db, err := store.Open(path, store.Options{Buckets: record.Buckets(), ReadOnly: true})
	if err != nil {
		return err
	}
	r := newRepair(o)
	// The plan needs one state of the database, so it is made with the file open for reading alone. Without a change
	// the file is not written to, and there is no need for a copy.
	err = db.View(func(tx *store.Tx) error { return r.plan(tx) })
	if err = errors.Join(err, db.Close()); err != nil || len(r.writes) == 0 {
		return err
	}
	if err := o.Before(); err != nil {
		return err
	}
	if db, err = store.Open(path, store.Options{Buckets: record.Buckets()}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := r.writes.Apply(db); err != nil {
		return err
	}
	// Only after the writes: a note says what was done.
	for _, n := range r.notes {
		o.Note(n.text(), n.lost)
	}
	return nil
}

// repairNote describes a change. The text is made when the plan is complete, since it has paths.
type repairNote struct {
	text func() string
	lost bool
}

// repair is a repair under way.
type repair struct {
	tx     *store.Tx
	o      RepairOptions
	writes store.Writes
	notes  []repairNote

	// next is the first number that no record has.
	next uint64
	// garbage has the records of garbage.
	garbage map[[2]uint64]bool
	// containers has the keys of the containers that exist, by generation.
	containers map[record.Generation][]byte
	// refers counts the blobs that refer to each content, counted what the contents say.
	refers, counted map[uint64]uint64
	// blocks counts the blocks of each set, sets has what the pending records say.
	blocks map[uint64]int64
	sets   map[uint64]bool

	tree treeRepair
}

func newRepair(o RepairOptions) *repair {
	r := &repair{o: o, garbage: map[[2]uint64]bool{}, containers: map[record.Generation][]byte{},
		refers:  map[uint64]uint64{},
		counted: map[uint64]uint64{}, blocks: map[uint64]int64{}, sets: map[uint64]bool{}, next: 1}
	r.tree = newTreeRepair(r)
	return r
}

func (r *repair) note(lost bool, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.notes = append(r.notes, repairNote{func() string { return text }, lost})
}

// used says that a record has a number.
func (r *repair) used(n uint64) { r.next = max(r.next, n+1) }

// draw returns a new number.
func (r *repair) draw() uint64 {
	n := r.next
	r.next++
	return n
}

// plan reads everything and plans the repair. Records are intact by their checksums; one that cannot be decoded is an
// error.
func (r *repair) plan(tx *store.Tx) error {
	r.tx = tx
	if v := tx.Get(record.MetaBucket, record.NextKey); len(v) == 8 {
		r.next = binary.BigEndian.Uint64(v)
	}
	// A lost counter would give out numbers that records have. So all records are read before the first draw, and used
	// moves next past each number.
	counter := r.next
	names := &Names{tx: tx}
	for _, part := range []struct {
		bucket store.Bucket
		read   func(k, v []byte) error
	}{
		{record.ContainersBucket, r.container}, {record.DeletedContainersBucket, r.container}, {record.GarbageBucket,
			r.garbageKey},
		{record.TrashBucket, r.tree.trashed}, {record.PendingBucket, r.pending}, {record.CopiesBucket,
			r.copying}, {record.BlocksBucket, r.block},
		{record.ContentBucket, r.piece}, {record.ChangesBucket, r.event}, {record.EventsBucket,
			r.event}, {record.BlobsBucket, r.blob},
		{record.NamesBucket, r.tree.entry},
	} {
		cur := tx.Cursor(part.bucket)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			if err := part.read(k, v); err != nil {
				return fmt.Errorf("%s: %w", names.Of(part.bucket, k), err)
			}
		}
	}
	if lost := r.next > counter; lost {
		r.note(false, "the counter of numbers was behind, and continues with %d", r.next)
	}
	// The tree comes before what is derived from it: it makes containers and records that the indexes and the numbers
	// of references depend on.
	if err := r.tree.run(); err != nil {
		return err
	}
	r.references()
	if err := r.indexes(); err != nil {
		return err
	}
	if r.next > counter {
		r.writes.Put(record.MetaBucket, record.NextKey, binary.BigEndian.AppendUint64(nil, r.next))
	}
	return nil
}

// container reads a container, also a deleted one.
func (r *repair) container(k, v []byte) error {
	rec, err := record.DecodeContainer(v)
	if err != nil {
		return err
	}
	key := bytes.Clone(k)
	if rec.Deleted != 0 {
		account, name, _, err := record.ParseDeletedContainerKey(k)
		if err != nil {
			return err
		}
		key = record.ContainerKey(account, string(name))
	}
	r.used(uint64(rec.Generation &^ record.TreeBit))
	r.containers[rec.Generation] = key
	if rec.Generation.IsTree() {
		r.tree.roots[rec.Generation.Root()] = string(key)
	}
	return nil
}

func (r *repair) garbageKey(k, _ []byte) error {
	kind, id, err := record.ParseGarbageKey(k)
	r.used(id &^ uint64(record.TreeBit))
	r.garbage[[2]uint64{uint64(kind), id}] = true
	return err
}

func (r *repair) isGarbage(kind byte, id uint64) bool { return r.garbage[[2]uint64{uint64(kind), id}] }

func (r *repair) pending(k, v []byte) error {
	it, err := record.ParsePendingKey(k)
	if err != nil {
		return err
	}
	p, err := record.DecodePending(v)
	if err != nil {
		return err
	}
	r.used(p.Set)
	r.sets[p.Set] = true
	if it.InTree() {
		r.tree.uncommitted(it.Inode(), p)
	}
	return nil
}

func (r *repair) copying(k, v []byte) error {
	job, err := record.DecodeCopyJob(k, v)
	if err == nil {
		r.used(job.Chunks().Set)
		r.sets[job.Chunks().Set] = true
	}
	return err
}

func (r *repair) block(k, _ []byte) error {
	set, _, err := record.ParseBlockKey(k)
	r.used(set)
	r.blocks[set]++
	return err
}

func (r *repair) piece(k, _ []byte) error {
	id, end, err := record.ParsePieceKey(k)
	r.used(id)
	n := r.counted[id]
	if end == 0 {
		n = record.References(r.tx, id)
	}
	r.counted[id] = n
	return err
}

func (r *repair) event(k, _ []byte) error {
	_, n, err := eventlog.ParseKey(k)
	r.used(n)
	return err
}

func (r *repair) blob(k, v []byte) error {
	it, slot, err := record.ParseBlobKey(k)
	if err != nil {
		return err
	}
	var b record.Blob
	if err := record.DecodeBlobHead(v, &b); err != nil {
		return err
	}
	if b.Content.ID != 0 {
		r.used(b.Content.ID)
		r.refers[b.Content.ID]++
	}
	if it.InTree() {
		return r.tree.record(it.Inode(), slot, &b)
	}
	return nil
}

// references corrects the numbers of references to contents, and of uncommitted blocks. What nothing refers to is left
// to the background.
func (r *repair) references() {
	corrected := 0
	for id, counted := range r.counted {
		switch n := r.refers[id]; {
		// As drop does with the last reference: the number goes, and the background removes the pieces.
		case n == 0 && !r.isGarbage(record.GarbageContent, id):
			r.writes.Delete(record.ContentBucket, record.PieceKey(id, 0))
			r.writes.Put(record.GarbageBucket, record.GarbageKey(record.GarbageContent, id), []byte{record.Version})
			corrected++
		case n != counted && n > 0:
			r.writes.Put(record.ContentBucket, record.PieceKey(id, 0), binary.AppendUvarint(nil, n))
			corrected++
		}
	}
	for set := range r.blocks {
		if !r.sets[set] && !r.isGarbage(record.GarbageBlocks, set) {
			r.writes.Put(record.GarbageBucket, record.GarbageKey(record.GarbageBlocks, set), []byte{record.Version})
			r.note(true, "%d uncommitted blocks whose file is not known", r.blocks[set])
		}
	}
	if corrected > 0 {
		r.note(false, "the numbers of references to %d contents", corrected)
	}
}

// indexes makes the entries again that blobs need in the indexes of tags, of deleted blobs and of expiry times, removes
// those that lead to nothing, and corrects the numbers of uncommitted blocks.
func (r *repair) indexes() error {
	made, gone := 0, 0
	put := func(bucket store.Bucket, key, value []byte) {
		if r.tx.Get(bucket, key) == nil {
			r.writes.Put(bucket, key, value)
			made++
		}
	}
	// An entry need not have the time of the record: expireEntry puts one for an hour later when it cannot delete the
	// blob yet. One before that time is of an earlier expiry time, and goes without effect when it is due.
	expiring := map[string]ticks.Ticks{}
	cur := r.tx.Cursor(record.ExpiringBucket)
	for k, _ := cur.Seek(nil); k != nil; k, _ = cur.Next() {
		if len(k) > 8 {
			expiring[string(k[8:])] = record.ExpiryTime(k) // the keys are in the order of times
		}
	}
	var b record.Blob
	cur = r.tx.Cursor(record.BlobsBucket)
	for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
		it, slot, err := record.ParseBlobKey(k)
		if err == nil {
			err = record.DecodeBlobHead(v, &b)
		}
		if err != nil {
			return err
		}
		if b.Deleted != 0 {
			put(record.DeletedBlobsBucket, record.PurgeKey(b.PurgeAt(), k), []byte{record.Version})
		}
		if slot != record.BaseSlot || b.Deleted != 0 || b.Expires == 0 && len(b.Tags) == 0 {
			continue
		}
		in := r.containers[it.Generation]
		if it.InTree() {
			in = r.tree.containerOf(it.Inode())
		}
		// No container, not even a deleted one, has the blob: it is out of reach, and needs no entry.
		if in == nil {
			continue
		}
		if b.Expires != 0 && expiring[string(k)] < b.Expires {
			put(record.ExpiringBucket, record.ExpiryKey(b.Expires, k), in)
		}
		if account, _, err := record.ParseContainerKey(in); err == nil && len(b.Tags) > 0 {
			put(record.TagsBucket, record.TagsKey(account, it), []byte{record.Version})
		}
	}
	for _, index := range []struct {
		bucket store.Bucket
		blob   func(k []byte) []byte
	}{
		{record.DeletedBlobsBucket, func(k []byte) []byte { return k[min(8, len(k)):] }},
		{record.TagsBucket, func(k []byte) []byte { _, rest, _ := bytes.Cut(k, []byte{0}); return rest }},
	} {
		cur := r.tx.Cursor(index.bucket)
		for k, _ := cur.Seek(nil); k != nil; k, _ = cur.Next() {
			if r.tx.Get(record.BlobsBucket, index.blob(k)) == nil {
				r.writes.Delete(index.bucket, k)
				gone++
			}
		}
	}
	if err := r.counts(); err != nil {
		return err
	}
	if made+gone > 0 {
		r.note(false, "%d entries of indexes were made again, %d that led to nothing are removed", made, gone)
	}
	return nil
}

// counts corrects the numbers of blocks in pending records.
func (r *repair) counts() error {
	names := &Names{tx: r.tx}
	cur := r.tx.Cursor(record.PendingBucket)
	for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
		p, err := record.DecodePending(v)
		if err != nil {
			return err
		}
		if n := r.blocks[p.Set]; n != p.Count {
			r.note(n < p.Count, "%s: %d of %d are left", names.Of(record.PendingBucket, k), n, p.Count)
			p.Count = n
			if it, err := record.ParsePendingKey(k); err == nil && it.InTree() {
				p = r.tree.moved(it.Inode(), p)
			}
			r.writes.Put(record.PendingBucket, k, p.Encode())
		}
	}
	return nil
}
