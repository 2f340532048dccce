package state

import (
	"bytes"
	"encoding/binary"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// The buckets of blobs.db. A bucket is one ordered keyspace.
//
//	bucket      key                                          value
//	names       parent inode(8) name                         entry: the inode of a file or directory, and its kind
//	trash       root inode(8) path 0x00 deletion(8)          trashRecord: a deleted file or directory that can be restored
//	containers  account 0x00 container                       containerRecord
//	graves      account 0x00 container 0x00 deleted(8)       containerRecord of a deleted container that can be restored
//	blobs       item 0x00 slot(8)                            blobRecord
//	pending     item 0x00                                    pendingRecord: the uncommitted blocks of a name, in sum
//	blocks      block set(8) block id                        one uncommitted block; the pending record names the set
//	content     content id(8) end offset(8)                  piece list (block, append and page blobs of many pieces)
//	            content id(8) 0(8)                           number of blob records that refer to the content
//	tags        account 0x00 item 0x00 slot(8)               tag index: the tags of blobs that have any
//	deleted     end in ticks(8) key of the blobs bucket      soft-deleted blobs, by the end of their retention
//	garbage     kind(1) generation, inode, set or content(8) account, of a generation: to be removed in the background
//	copies      item 0x00                                    copyJob: a pending copy into that name
//	expiring    time in ticks(8) key of the blobs bucket     account 0x00 container: a blob that may expire then
//	changes     account 0x00 number(8)                       feedEvent: not in the change feed's files yet
//	events      account 0x00 number(8)                       feedEvent, or a foreign event: not yet delivered to all event subscriptions
//	subscribers 'c' account 0x00 name 0x00                   configuration of an event subscription
//	            'p' account 0x00 name 0x00                   its progress
//	accounts    account                                      serviceProperties
//	meta        name                                         counters
//
// Numbers are big-endian, so that byte order is numeric order. 0x00 is below every character that a name may have:
// the order of keys is the order of names by UTF-8 bytes, and within one name the order of slots. A slot is the time of
// a snapshot or version in ticks; the base blob has the highest one, as in Azure's own markers, so that listings show
// snapshots oldest first and the base blob last.
//
// A generation is the number of one creation of a container. Deleting a container removes its record and leaves its
// generation to the garbage: the contents are out of reach at once, and are removed in the background.
//
// An item is generation(8) name in a flat container, and 0x80 and zeros(8) inode(8) in a tree; item.go has what it is
// for.
const (
	namesBucket             store.Bucket = "names"
	trashBucket             store.Bucket = "trash"
	containersBucket        store.Bucket = "containers"
	deletedContainersBucket store.Bucket = "graves"
	blobsBucket             store.Bucket = "blobs"
	pendingBucket           store.Bucket = "pending"
	blocksBucket            store.Bucket = "blocks"
	contentBucket           store.Bucket = "content"
	tagsBucket              store.Bucket = "tags"
	deletedBlobsBucket      store.Bucket = "deleted"
	garbageBucket           store.Bucket = "garbage"
	copiesBucket            store.Bucket = "copies"
	expiringBucket          store.Bucket = "expiring"
	changesBucket           store.Bucket = "changes"
	eventsBucket            store.Bucket = "events"
	subscriptionsBucket     store.Bucket = "subscribers"
	accountsBucket          store.Bucket = "accounts"
	metaBucket              store.Bucket = "meta"
)

// Buckets are the keyspaces that the service needs in the database it is given.
func Buckets() []store.Bucket {
	return []store.Bucket{namesBucket, trashBucket, containersBucket, deletedContainersBucket, blobsBucket, pendingBucket,
		blocksBucket, contentBucket, tagsBucket,
		deletedBlobsBucket, garbageBucket, copiesBucket, expiringBucket, changesBucket, eventsBucket, subscriptionsBucket,
		accountsBucket, metaBucket}
}

// generation is the number of one creation of a container, the first part of the keys of its contents.
type generation uint64

// Slot is the last part of the key of a blob record: the time in ticks of a snapshot or version.
type Slot uint64

// baseSlot is the slot of the base blob: above every snapshot's.
const baseSlot = ^Slot(0)

func containerKey(account, container string) []byte {
	k := make([]byte, 0, len(account)+1+len(container))
	k = append(k, account...)
	k = append(k, 0)
	return append(k, container...)
}

func parseContainerKey(k []byte) (account, container string, err error) {
	a, c, ok := bytes.Cut(k, []byte{0})
	if !ok {
		return "", "", errKey
	}
	return string(a), string(c), nil
}

// prefix is the common prefix of all keys of a container's contents.
func (g generation) prefix() []byte { return setPrefix(uint64(g)) }

// setPrefix is the common prefix of the keys of a block set, a content or a generation.
func setPrefix(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

// namePrefix is the common prefix of all slots of one item.
func namePrefix(it item) []byte {
	k := make([]byte, 8, 8+len(it.name)+1+8)
	binary.BigEndian.PutUint64(k, uint64(it.gen))
	k = append(k, it.name...)
	return append(k, 0)
}

func blobKey(it item, slot Slot) []byte {
	return binary.BigEndian.AppendUint64(namePrefix(it), uint64(slot))
}

// appendNodeKey appends the key of the base record of an inode.
func appendNodeKey(k []byte, n inode) []byte {
	k = binary.BigEndian.AppendUint64(k, uint64(treeBit))
	k = append(binary.BigEndian.AppendUint64(k, uint64(n)), 0)
	return binary.BigEndian.AppendUint64(k, uint64(baseSlot))
}

// parseBlobKey splits a key of the blobs bucket.
func parseBlobKey(k []byte) (it item, slot Slot, err error) {
	gen, name, slot, err := splitBlobKey(k)
	return item{gen, string(name)}, slot, err
}

// splitBlobKey is parseBlobKey with a name that aliases k.
func splitBlobKey(k []byte) (gen generation, name []byte, slot Slot, err error) {
	if len(k) < 8+1+1+8 || k[len(k)-9] != 0 {
		return 0, nil, 0, errKey
	}
	return generation(binary.BigEndian.Uint64(k)), k[8 : len(k)-9], Slot(binary.BigEndian.Uint64(k[len(k)-8:])), nil
}

func pendingKey(it item) []byte { return namePrefix(it) }

// parsePendingKey splits a key of the pending bucket.
func parsePendingKey(k []byte) (it item, err error) {
	if len(k) < 8+1+1 || k[len(k)-1] != 0 {
		return it, errKey
	}
	return item{generation(binary.BigEndian.Uint64(k)), string(k[8 : len(k)-1])}, nil
}

func blockKey(set uint64, id string) []byte {
	k := make([]byte, 8, 8+len(id))
	binary.BigEndian.PutUint64(k, set)
	return append(k, id...)
}

// parseBlockKey splits a key of the blocks bucket.
func parseBlockKey(k []byte) (set uint64, id string, err error) {
	if len(k) < 9 {
		return 0, "", errKey
	}
	return binary.BigEndian.Uint64(k), string(k[8:]), nil
}

// pieceKey is the key of the pieces of a content that end at end; end 0 holds the reference count.
func pieceKey(content uint64, end int64) []byte {
	k := make([]byte, 16)
	binary.BigEndian.PutUint64(k, content)
	binary.BigEndian.PutUint64(k[8:], uint64(end))
	return k
}

func parsePieceKey(k []byte) (content uint64, end int64, err error) {
	if len(k) != 16 {
		return 0, 0, errKey
	}
	return binary.BigEndian.Uint64(k), int64(binary.BigEndian.Uint64(k[8:])), nil
}

func tagsKey(account string, it item) []byte {
	k := make([]byte, 0, len(account)+1+8+len(it.name)+1+8)
	k = append(k, account...)
	k = append(k, 0)
	k = binary.BigEndian.AppendUint64(k, uint64(it.gen))
	k = append(k, it.name...)
	k = append(k, 0)
	return binary.BigEndian.AppendUint64(k, uint64(baseSlot))
}

// The kinds of garbage.
const (
	garbageContainer byte = 'c' // a generation: its blobs, blocks and pending records
	garbageContent   byte = 'p' // a content that no blob refers to: its pieces
	garbageBlocks    byte = 'b' // a block set that was committed or discarded
	garbageNode      byte = 'n' // an inode that is out of reach, with everything below it
)

func garbageKey(kind byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, id)
}

func parseGarbageKey(k []byte) (kind byte, id uint64, err error) {
	if len(k) != 9 {
		return 0, 0, errKey
	}
	return k[0], binary.BigEndian.Uint64(k[1:]), nil
}

// successor returns the first key that does not begin with prefix; nil if none exists.
func successor(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			next := bytes.Clone(prefix[:i+1])
			next[i]++
			return next
		}
	}
	return nil
}

// nextKey is the key of the number that nextID returns next.
var nextKey = []byte("next")

// lastID is the last number that nextID returned.
func lastID(tx *store.Tx) uint64 {
	if v := tx.Get(metaBucket, nextKey); len(v) == 8 {
		return binary.BigEndian.Uint64(v) - 1
	}
	return 0
}

// nextID draws a number that was never drawn before, for generations, block sets, contents and events.
func nextID(tx *store.Tx) uint64 {
	var n uint64 = 1
	if v := tx.Get(metaBucket, nextKey); len(v) == 8 {
		n = binary.BigEndian.Uint64(v)
	}
	tx.Put(metaBucket, nextKey, binary.BigEndian.AppendUint64(nil, n+1))
	return n
}
