package record

import (
	"bytes"
	"encoding/binary"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// The buckets of blobs.db. A bucket is one ordered keyspace.
//
//	bucket      key                                          value
//	names       parent inode(8) name                         Entry: the inode of a file or directory, and its kind
//	trash       root inode(8) path 0x00 deletion(8)          Trash: a deleted file or directory that can be restored
//	containers  account 0x00 container                       Container
//	graves      account 0x00 container 0x00 deleted(8)       Container of a deleted container that can be restored
//	blobs       item 0x00 slot(8)                            Blob
//	pending     item 0x00                                    Pending: the uncommitted blocks of a name, in sum
//	blocks      block set(8) block id                        one uncommitted block; the pending record names the set
//	content     content id(8) end offset(8)                  piece list (block, append and page blobs of many pieces)
//	            content id(8) 0(8)                           number of blob records that refer to the content
//	tags        account 0x00 item 0x00 slot(8)               tag index: the tags of blobs that have any
//	deleted     end in ticks(8) key of the blobs bucket      soft-deleted blobs, by the end of their retention
//	garbage     kind(1) generation, inode, set or content(8) account, of a generation: to be removed in the background
//	copies      item 0x00                                    CopyJob: a pending copy into that name
//	expiring    time in ticks(8) key of the blobs bucket     account 0x00 container: a blob that may expire then
//	changes     account 0x00 number(8)                       Event: not in the change feed's files yet
//	events      account 0x00 number(8)                       Event, or a foreign one: not yet delivered to all subscriptions
//	subscribers 'c' account 0x00 name 0x00                   configuration of an event subscription
//	            'p' account 0x00 name 0x00                   its progress
//	accounts    account                                      service properties
//	meta        name                                         counters
//	            "account:" account                           Account: one that was added while the server runs
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
	NamesBucket             store.Bucket = "names"
	TrashBucket             store.Bucket = "trash"
	ContainersBucket        store.Bucket = "containers"
	DeletedContainersBucket store.Bucket = "graves"
	BlobsBucket             store.Bucket = "blobs"
	PendingBucket           store.Bucket = "pending"
	BlocksBucket            store.Bucket = "blocks"
	ContentBucket           store.Bucket = "content"
	TagsBucket              store.Bucket = "tags"
	DeletedBlobsBucket      store.Bucket = "deleted"
	GarbageBucket           store.Bucket = "garbage"
	CopiesBucket            store.Bucket = "copies"
	ExpiringBucket          store.Bucket = "expiring"
	ChangesBucket           store.Bucket = "changes"
	EventsBucket            store.Bucket = "events"
	SubscriptionsBucket     store.Bucket = "subscribers"
	AccountsBucket          store.Bucket = "accounts"
	MetaBucket              store.Bucket = "meta"
)

// Buckets are the keyspaces that the service needs in the database it is given.
func Buckets() []store.Bucket {
	return []store.Bucket{NamesBucket, TrashBucket, ContainersBucket, DeletedContainersBucket, BlobsBucket, PendingBucket,
		BlocksBucket, ContentBucket, TagsBucket,
		DeletedBlobsBucket, GarbageBucket, CopiesBucket, ExpiringBucket, ChangesBucket, EventsBucket, SubscriptionsBucket,
		AccountsBucket, MetaBucket}
}

// Generation is the number of one creation of a container, the first part of the keys of its contents.
type Generation uint64

// Slot is the last part of the key of a blob record: the time in ticks of a snapshot or version.
type Slot uint64

// BaseSlot is the slot of the base blob: above every snapshot's.
const BaseSlot = ^Slot(0)

func ContainerKey(account, container string) []byte {
	k := make([]byte, 0, len(account)+1+len(container))
	k = append(k, account...)
	k = append(k, 0)
	return append(k, container...)
}

func ParseContainerKey(k []byte) (account, container string, err error) {
	a, c, ok := bytes.Cut(k, []byte{0})
	if !ok {
		return "", "", ErrKey
	}
	return string(a), string(c), nil
}

// Prefix is the common prefix of all keys of a container's contents.
func (g Generation) Prefix() []byte { return IDPrefix(uint64(g)) }

// IDPrefix is the common prefix of the keys of a block set, a content or a generation.
func IDPrefix(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

// NamePrefix is the common prefix of all slots of one item.
func NamePrefix(it Item) []byte {
	k := make([]byte, 8, 8+len(it.Name)+1+8)
	binary.BigEndian.PutUint64(k, uint64(it.Generation))
	k = append(k, it.Name...)
	return append(k, 0)
}

func BlobKey(it Item, slot Slot) []byte {
	return binary.BigEndian.AppendUint64(NamePrefix(it), uint64(slot))
}

// AppendNodeKey appends the key of the base record of an inode.
func AppendNodeKey(k []byte, n Inode) []byte {
	k = binary.BigEndian.AppendUint64(k, uint64(TreeBit))
	k = append(binary.BigEndian.AppendUint64(k, uint64(n)), 0)
	return binary.BigEndian.AppendUint64(k, uint64(BaseSlot))
}

// ParseBlobKey splits a key of the blobs bucket.
func ParseBlobKey(k []byte) (it Item, slot Slot, err error) {
	gen, name, slot, err := SplitBlobKey(k)
	return Item{gen, string(name)}, slot, err
}

// SplitBlobKey is ParseBlobKey with a name that aliases k.
func SplitBlobKey(k []byte) (gen Generation, name []byte, slot Slot, err error) {
	// A name cannot have 0x00, so the byte before the slot ends it, whatever bytes the slot has.
	if len(k) < 8+1+1+8 || k[len(k)-9] != 0 {
		return 0, nil, 0, ErrKey
	}
	return Generation(binary.BigEndian.Uint64(k)), k[8 : len(k)-9], Slot(binary.BigEndian.Uint64(k[len(k)-8:])), nil
}

func PendingKey(it Item) []byte { return NamePrefix(it) }

// ParsePendingKey splits a key of the pending bucket.
func ParsePendingKey(k []byte) (it Item, err error) {
	if len(k) < 8+1+1 || k[len(k)-1] != 0 {
		return it, ErrKey
	}
	return Item{Generation(binary.BigEndian.Uint64(k)), string(k[8 : len(k)-1])}, nil
}

func BlockKey(set uint64, id string) []byte {
	k := make([]byte, 8, 8+len(id))
	binary.BigEndian.PutUint64(k, set)
	return append(k, id...)
}

// ParseBlockKey splits a key of the blocks bucket.
func ParseBlockKey(k []byte) (set uint64, id string, err error) {
	if len(k) < 9 {
		return 0, "", ErrKey
	}
	return binary.BigEndian.Uint64(k), string(k[8:]), nil
}

// PieceKey is the key of the pieces of a content that end at end; end 0 holds the reference count.
func PieceKey(content uint64, end int64) []byte {
	k := make([]byte, 16)
	binary.BigEndian.PutUint64(k, content)
	binary.BigEndian.PutUint64(k[8:], uint64(end))
	return k
}

func ParsePieceKey(k []byte) (content uint64, end int64, err error) {
	if len(k) != 16 {
		return 0, 0, ErrKey
	}
	return binary.BigEndian.Uint64(k), int64(binary.BigEndian.Uint64(k[8:])), nil
}

func TagsKey(account string, it Item) []byte {
	k := make([]byte, 0, len(account)+1+8+len(it.Name)+1+8)
	// The account comes first, since Find Blobs by Tags searches all containers of one.
	k = append(k, account...)
	k = append(k, 0)
	k = binary.BigEndian.AppendUint64(k, uint64(it.Generation))
	k = append(k, it.Name...)
	k = append(k, 0)
	return binary.BigEndian.AppendUint64(k, uint64(BaseSlot))
}

// The kinds of garbage.
const (
	GarbageContainer byte = 'c' // a generation: its blobs, blocks and pending records
	GarbageContent   byte = 'p' // a content that no blob refers to: its pieces
	GarbageBlocks    byte = 'b' // a block set that was committed or discarded
	GarbageNode      byte = 'n' // an inode that is out of reach, with everything below it
)

func GarbageKey(kind byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, id)
}

func ParseGarbageKey(k []byte) (kind byte, id uint64, err error) {
	if len(k) != 9 {
		return 0, 0, ErrKey
	}
	return k[0], binary.BigEndian.Uint64(k[1:]), nil
}

// Successor returns the first key that does not begin with prefix; nil if none exists.
func Successor(prefix []byte) []byte { return appendSuccessor(nil, prefix) }

// appendSuccessor is Successor in the memory of dst.
func appendSuccessor(dst, prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		// Bytes 0xff at the end cannot be raised and are dropped: the one before is raised in their place.
		if prefix[i] != 0xff {
			dst = append(dst, prefix[:i+1]...)
			dst[len(dst)-1]++
			return dst
		}
	}
	return nil
}

// NextKey is the key of the number that NextID returns next.
var NextKey = []byte("next")

// LastID is the last number that NextID returned.
func LastID(tx *store.Tx) uint64 {
	if v := tx.Get(MetaBucket, NextKey); len(v) == 8 {
		return binary.BigEndian.Uint64(v) - 1
	}
	return 0
}

// NextID draws a number that was never drawn before, for generations, block sets, contents and events.
func NextID(tx *store.Tx) uint64 {
	// From 1: 0 stands everywhere for no content, set or inode.
	var n uint64 = 1
	if v := tx.Get(MetaBucket, NextKey); len(v) == 8 {
		n = binary.BigEndian.Uint64(v)
	}
	tx.Put(MetaBucket, NextKey, binary.BigEndian.AppendUint64(nil, n+1))
	return n
}

// DeletedContainerKey is the key of a deleted container.
func DeletedContainerKey(account, container string, deleted ticks.Ticks) []byte {
	return binary.BigEndian.AppendUint64(append(ContainerKey(account, container), 0), uint64(deleted))
}

// ParseDeletedContainerKey splits a key of the bucket of deleted containers. container aliases k.
func ParseDeletedContainerKey(k []byte) (account string, container []byte, deleted ticks.Ticks, err error) {
	a, rest, ok := bytes.Cut(k, []byte{0})
	if !ok || len(rest) < 1+1+8 || rest[len(rest)-9] != 0 {
		return "", nil, 0, ErrKey
	}
	return string(a), rest[:len(rest)-9], ticks.Ticks(binary.BigEndian.Uint64(rest[len(rest)-8:])), nil
}

func PurgeKey(at ticks.Ticks, blob []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(blob)), uint64(at)), blob...)
}

func ExpiryKey(at ticks.Ticks, blob []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(blob)), uint64(at)), blob...)
}

// ExpiryTime is the time of an entry in the expiring bucket, whose key has more than 8 bytes.
func ExpiryTime(key []byte) ticks.Ticks { return ticks.Ticks(binary.BigEndian.Uint64(key)) }
