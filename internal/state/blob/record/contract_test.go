package record

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// inTransaction runs fn on an empty database.
func inTransaction(t *testing.T, fn func(tx *store.Tx) error) {
	t.Helper()
	db := check.Must(store.Open(filepath.Join(check.MemoryDir(t), "blobs.db"),
		store.Options{Buckets: Buckets(), Ephemeral: true}))(t)
	defer db.Close()
	check.OK(t, db.Update(fn))
}

// Each key is parsed as what it was made of, and one byte less is no key.
func TestKeysAreParsed(t *testing.T) {
	t.Parallel()
	it := Item{7, "a/b"}
	type parsed []any
	for name, c := range map[string]struct {
		key   []byte
		parse func(k []byte) (parsed, error)
		want  parsed
		least []byte // the shortest key
	}{
		"pending": {PendingKey(it), func(k []byte) (parsed, error) { i, err := ParsePendingKey(k); return parsed{i}, err },
			parsed{it}, PendingKey(Item{7, "a"})},
		"blob": {BlobKey(it, 9), func(k []byte) (parsed, error) { i, s, err := ParseBlobKey(k); return parsed{i, s}, err },
			parsed{it, Slot(9)}, BlobKey(Item{7, "a"}, 9)},
		"block": {BlockKey(5, "id"),
			func(k []byte) (parsed, error) { s, i, err := ParseBlockKey(k); return parsed{s, i}, err },
			parsed{uint64(5), "id"}, BlockKey(5, "i")},
		"piece": {PieceKey(5, 6), func(k []byte) (parsed, error) { c, e, err := ParsePieceKey(k); return parsed{c, e}, err },
			parsed{uint64(5), int64(6)}, PieceKey(5, 6)},
		"garbage": {GarbageKey(GarbageNode, 6),
			func(k []byte) (parsed, error) { g, i, err := ParseGarbageKey(k); return parsed{g, i}, err },
			parsed{GarbageNode, uint64(6)}, GarbageKey(GarbageNode, 6)},
		"trash": {TrashKey(3, "d/e", 4),
			func(k []byte) (parsed, error) { r, p, d, err := ParseTrashKey(k); return parsed{r, p, d}, err },
			parsed{Inode(3), "d/e", uint64(4)}, TrashKey(3, "d", 4)},
		"deleted container": {DeletedContainerKey("acc", "box", 4), func(k []byte) (parsed, error) {
			a, c, d, err := ParseDeletedContainerKey(k)
			return parsed{a, string(c), d}, err
		}, parsed{"acc", "box", ticks.Ticks(4)}, DeletedContainerKey("", "b", 4)},
	} {
		if got, err := c.parse(c.key); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
		if _, err := c.parse(c.least); err != nil {
			t.Errorf("%s: the shortest key: %v", name, err)
		}
		if got, err := c.parse(c.least[:len(c.least)-1]); !errors.Is(err, ErrKey) {
			t.Errorf("%s: a byte less is %v, %v", name, got, err)
		}
	}
	if a, b := TagsKey("acc", it), append(append([]byte("acc\x00"), PendingKey(it)...), 255, 255, 255, 255, 255, 255, 255,
		255); string(a) != string(b) {
		t.Errorf("the key of tags is %x, want %x", a, b)
	}
	if n := (Item{TreeBit, "7 bytes"}).Inode(); n != 0 {
		t.Errorf("an item of 7 bytes is the inode %d", n)
	}
	if n := (Item{1, "8 bytes."}).Inode(); n != 0 {
		t.Errorf("an item of a flat container is the inode %d", n)
	}
	if n := Inode(77).Item().Inode(); n != 77 {
		t.Errorf("the inode 77 is %d", n)
	}
}

// The generation of a container is read without the rest of the record, and is that of the record.
func TestGenerationOf(t *testing.T) {
	t.Parallel()
	inTransaction(t, func(tx *store.Tx) error {
		for _, g := range []Generation{1, 127, 128, 1 << 40, TreeBit | 5, math.MaxUint64} {
			PutContainer(tx, "acc", "box", &Container{Generation: g, Changed: 3})
			if got, err := GenerationOf(tx, "acc", "box"); got != g || err != nil {
				t.Errorf("generation %d is read as %d, %v", g, got, err)
			}
		}
		if _, err := GenerationOf(tx, "acc", "other"); !errors.Is(err, ErrContainerNotFound) {
			t.Errorf("of a container that is missing: %v", err)
		}
		whole := (&Container{Generation: 300}).Encode()
		for _, bad := range [][]byte{{}, whole[:2], whole[:3], {2, ctGen, 5}, {Version, ctChanged, 5}} {
			tx.Put(ContainersBucket, ContainerKey("acc", "bad"), bad)
			if g, err := GenerationOf(tx, "acc", "bad"); !errors.Is(err, ErrMalformed) {
				t.Errorf("of the record %x: %d, %v", bad, g, err)
			}
		}
		return nil
	})
}

// somePieces returns n pieces of 10 bytes with k slices each, no two of which are the same.
func somePieces(n, k int) (list []content.Piece) {
	for i := range n {
		p := content.Piece{Length: 10, Block: fmt.Sprint("block ", i)}
		for j := range k {
			length := int64(10 / k)
			if j == k-1 {
				length = 10 - int64(k-1)*length
			}
			p.Slices = append(p.Slices, extent.Slice{Extent: uint64(n), Offset: int64(i*1000 + j*10), Length: max(length, 1)})
		}
		list = append(list, p)
	}
	return list
}

// A content has its pieces, whether they are in the blob's record or in records of their own, and a walk visits those
// that have bytes of a range: at each boundary of a piece and of a record.
func TestWalksOfAContent(t *testing.T) {
	t.Parallel()
	inTransaction(t, func(tx *store.Tx) error {
		for _, c := range []struct {
			pieces, slices int
			inline         bool
		}{{0, 0, true}, {1, 1, true}, {16, 2, true}, {17, 1, false}, {16, 3, false}, {1, 10, true}, {128, 1, false},
			{129, 1, false}, {300, 10, false}} {
			neighbour, _ := LayOut(tx, somePieces(40, 1)) // the records of the next content follow
			list, length := LayOut(tx, somePieces(c.pieces, c.slices))
			behind, _ := LayOut(tx, somePieces(40, 1))
			if length != int64(10*c.pieces) || (list.ID == 0) != c.inline || neighbour.ID == behind.ID {
				t.Errorf("%+v: %d bytes, the id %d", c, length, list.ID)
			}
			for _, off := range []int64{0, 1, 9, 10, 11, 160, 169, 170, 1279, 1280, 1281, length - 1, length} {
				for _, n := range []int64{0, 1, 9, 10, 11, 20, length, math.MaxInt64 - off} {
					for _, limit := range []int64{length, length - 5} {
						wantWalked(t, tx, list, off, n, limit)
					}
				}
			}
			stop := errors.New("stop")
			if err := list.Walk(tx, 0, 1, length, func(*content.Piece) error { return stop }); c.pieces > 0 &&
				!errors.Is(err, stop) {
				t.Errorf("%+v: an error of the caller: %v", c, err)
			}
		}
		return nil
	})
}

// wantWalked fails the test unless a walk visits the pieces of somePieces that have bytes of a range.
func wantWalked(t *testing.T, tx *store.Tx, list PieceList, off, n, limit int64) {
	t.Helper()
	var got, want []int64
	check.OK(t, list.Walk(tx, off, n, limit, func(p *content.Piece) error {
		if p.Block != fmt.Sprint("block ", p.Start/10) || p.Length != 10 {
			t.Errorf("the piece at %d is %+v", p.Start, p)
		}
		got = append(got, p.Start)
		return nil
	}))
	for at := off - off%10; at < limit && off < limit && n > 0 && at-off < n; at += 10 {
		want = append(want, at)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d bytes from %d of %d: pieces at %v, want %v", n, off, limit, got, want)
	}
}

// A content is garbage when the last of its references is given up, and once only.
func TestReferencesOfAContent(t *testing.T) {
	t.Parallel()
	inTransaction(t, func(tx *store.Tx) error {
		list, _ := LayOut(tx, somePieces(20, 1))
		shared := list.share(tx)
		for i, want := range []struct {
			references uint64
			garbage    bool
		}{{2, false}, {1, false}, {0, true}, {0, false}} {
			if i > 0 {
				shared.Drop(tx)
			}
			key := GarbageKey(GarbageContent, list.ID)
			got := tx.Get(GarbageBucket, key) != nil
			if n := References(tx, list.ID); n != want.references || got != want.garbage {
				t.Errorf("after %d of 2 references were given up: %d, garbage %v; want %+v", i, n, got, want)
			}
			tx.Delete(GarbageBucket, key)
		}
		PieceList{}.Drop(tx)
		if inline := (PieceList{}).share(tx); inline.ID != 0 {
			t.Error("a content without records has an id")
		}
		return nil
	})
}

// Every slice that a record refers to is found, with the key under which MoveAt changes it, and nothing else.
func TestSlicesAreFoundAndMoved(t *testing.T) {
	t.Parallel()
	inTransaction(t, func(tx *store.Tx) error {
		inline, _ := LayOut(tx, somePieces(2, 2))
		PutBlob(tx, Item{1, "inline"}, BaseSlot, &Blob{Kind: BlockBlob, Content: inline, Length: 20})
		long, _ := LayOut(tx, somePieces(130, 2))
		PutBlob(tx, Item{1, "long"}, BaseSlot, &Blob{Kind: BlockBlob, Content: long, Length: 1300})
		block := somePieces(1, 5)[0]
		tx.Put(BlocksBucket, BlockKey(9, "block"), EncodeBlock(block))
		find := func() (found map[extent.Slice][]byte) {
			found = map[extent.Slice][]byte{}
			check.OK(t, EachReference(t.Context(), tx, func(r extent.Ref) bool {
				found[r.Slice] = slices.Clone(r.Key)
				return true
			}))
			return found
		}
		found := find()
		if len(found) != 2*2+130*2+5 {
			t.Errorf("%d slices are found", len(found))
		}
		for x, key := range found {
			to := extent.Slice{Extent: 1 << 40, Offset: x.Offset + int64(x.Extent)*1_000_000, Length: x.Length}
			for _, other := range []extent.Slice{{Extent: x.Extent + 1, Offset: x.Offset, Length: x.Length},
				{Extent: x.Extent, Offset: x.Offset + 1, Length: x.Length},
				{Extent: x.Extent, Offset: x.Offset, Length: x.Length + 1}} {
				check.OK(t, MoveAt(tx, key[0], key[1:], other, extent.Slice{Extent: 66, Length: 1}))
			}
			check.OK(t, MoveAt(tx, key[0], key[1:], x, to))
		}
		for x := range find() {
			if x.Extent != 1<<40 {
				t.Errorf("%+v was not moved", x)
			}
		}
		n := 0
		check.OK(t, EachReference(t.Context(), tx, func(extent.Ref) bool { n++; return n < 100 }))
		if n != 100 {
			t.Errorf("%d slices were visited before the end, want 100", n)
		}

		// What is gone needs no move, and what is damaged is an error.
		var none extent.Slice
		for kind, place := range map[byte]struct {
			bucket store.Bucket
			key    []byte
		}{PlaceBlob: {BlobsBucket, BlobKey(Item{2, "bad"}, BaseSlot)}, PlaceBlock: {BlocksBucket, BlockKey(99, "bad")},
			PlaceContent: {ContentBucket, PieceKey(99, 7)}} {
			check.OK(t, MoveAt(tx, kind, place.key, none, none))
			tx.Put(place.bucket, place.key, []byte{9, 9})
			if err := MoveAt(tx, kind, place.key, none, none); err == nil {
				t.Errorf("%c: a damaged record was moved", kind)
			}
			if err := EachReference(t.Context(), tx, func(extent.Ref) bool { return true }); err == nil {
				t.Errorf("%c: a damaged record has references", kind)
			}
			tx.Delete(place.bucket, place.key)
		}
		if err := MoveAt(tx, 'x', nil, none, none); !errors.Is(err, ErrKey) {
			t.Errorf("another kind of record: %v", err)
		}
		return nil
	})
}

// The path of an inode is that by which it is reached. There is no path if an entry, a directory or the container is
// missing, or means another one.
func TestPathOf(t *testing.T) {
	t.Parallel()
	put := func(tx *store.Tx, n, parent Inode, name string) {
		node := &Node{Parent: parent, Name: name, Owner: "o", Group: "g"}
		PutBlob(tx, n.Item(), BaseSlot, &Blob{Kind: BlockBlob, Node: node})
		if parent != 0 {
			tx.Put(NamesBucket, EntryKey(parent, name), Entry{n, EntryDirectory}.Encode())
		}
	}
	key := string(ContainerKey("acc", "box"))
	for _, c := range []struct {
		name   string
		change func(tx *store.Tx)
		path   string
		bad    bool
	}{
		{"all is there", func(*store.Tx) {}, "acc box a/b/c", false},
		{"no record", func(tx *store.Tx) { tx.Delete(BlobsBucket, BlobKey(Inode(4).Item(), BaseSlot)) }, "", false},
		{"no directory", func(tx *store.Tx) { tx.Delete(BlobsBucket, BlobKey(Inode(3).Item(), BaseSlot)) }, "", false},
		{"no entry", func(tx *store.Tx) { tx.Delete(NamesBucket, EntryKey(3, "c")) }, "", false},
		{"an entry of another inode", func(tx *store.Tx) {
			tx.Put(NamesBucket, EntryKey(2, "b"), Entry{9, EntryDirectory}.Encode())
		}, "", false},
		{"no container", func(tx *store.Tx) { tx.Delete(ContainersBucket, []byte(key)) }, "", false},
		{"another container", func(tx *store.Tx) { PutContainer(tx, "acc", "box", &Container{Generation: TreeBit | 8}) }, "",
			false},
		{"a damaged entry", func(tx *store.Tx) { tx.Put(NamesBucket, EntryKey(2, "b"), []byte{1}) }, "", true},
		{"a damaged record", func(tx *store.Tx) { tx.Put(BlobsBucket, BlobKey(Inode(3).Item(), BaseSlot), []byte{9}) }, "",
			true},
		{"a record without a node", func(tx *store.Tx) { PutBlob(tx, Inode(3).Item(), BaseSlot, &Blob{Kind: BlockBlob}) }, "",
			true},
		{"a damaged container", func(tx *store.Tx) { tx.Put(ContainersBucket, []byte(key), []byte{9}) }, "", true},
		{"a root without a container", func(tx *store.Tx) { put(tx, 1, 0, "box") }, "", true},
		{"a circle", func(tx *store.Tx) { put(tx, 2, 4, "a") }, "", true},
	} {
		inTransaction(t, func(tx *store.Tx) error {
			PutContainer(tx, "acc", "box", &Container{Generation: TreeBit | 1})
			put(tx, 1, 0, key)
			put(tx, 2, 1, "a")
			put(tx, 3, 2, "b")
			put(tx, 4, 3, "c")
			c.change(tx)
			account, container, path, ok, err := PathOf(tx, 4)
			got := ""
			if ok {
				got = account + " " + container + " " + path
			}
			if (err != nil) != c.bad || err == nil && got != c.path {
				t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.path)
			}
			return nil
		})
	}
}

// A record of a content that is damaged is an error of each that reads it, and the seals of encrypted pieces are kept.
func TestRecordsOfAContent(t *testing.T) {
	t.Parallel()
	inTransaction(t, func(tx *store.Tx) error {
		sealed := somePieces(20, 1)
		for i := range sealed {
			sealed[i].Seal.IV, sealed[i].Seal.Offset = fmt.Sprint("iv ", i), int64(i)
		}
		list, length := LayOut(tx, sealed)
		n := 0
		check.OK(t, list.Walk(tx, 0, length, length, func(p *content.Piece) error {
			if p.Seal.IV != fmt.Sprint("iv ", n) || p.Seal.Offset != int64(n) {
				t.Errorf("piece %d has the seal %+v", n, p.Seal)
			}
			n++
			return nil
		}))
		for _, key := range [][]byte{PieceKey(list.ID, length), append(PieceKey(list.ID, length), 0)} {
			was := slices.Clone(tx.Get(ContentBucket, key))
			tx.Put(ContentBucket, key, []byte{9})
			// The walk comes to both: to the record that has the last byte, and to the key behind it.
			if err := list.Walk(tx, 0, length+1, length+1, func(*content.Piece) error { return nil }); err == nil {
				t.Errorf("a damaged record at %x was read", key)
			}
			if _, err := list.Extract(tx, 0, length+1, length+1); err == nil {
				t.Errorf("a damaged record at %x was extracted", key)
			}
			if _, err := list.Cut(tx, 0, length+1); err == nil {
				t.Errorf("a damaged record at %x was cut", key)
			}
			if err := EachReference(t.Context(), tx, func(extent.Ref) bool { return true }); err == nil {
				t.Errorf("a damaged record at %x has references", key)
			}
			if tx.Delete(ContentBucket, key); was != nil {
				tx.Put(ContentBucket, key, was)
			}
		}
		return nil
	})
}

// A range has the keys with its prefix, and nothing before or behind them.
func TestRange(t *testing.T) {
	t.Parallel()
	inTransaction(t, func(tx *store.Tx) error {
		for _, k := range []string{"a", "b", "ba", "bb", "c"} {
			tx.Put(NamesBucket, []byte(k), []byte("value of "+k))
		}
		for _, c := range []struct{ from, want string }{{"", ""}, {"b", "b ba bb "}, {"b\x00", "ba bb "}, {"bb", "bb "},
			{"bc", ""}, {"c", ""}} {
			var r Range
			r.Within(tx, NamesBucket, []byte("b"))
			got := ""
			for r.Seek([]byte(c.from)); r.Key != nil; r.Next() {
				if string(r.Value) != "value of "+string(r.Key) {
					t.Errorf("%s has %q", r.Key, r.Value)
				}
				got += string(r.Key) + " "
			}
			if got != c.want || r.Value != nil {
				t.Errorf("from %q: %q, want %q; behind it is the value %q", c.from, got, c.want, r.Value)
			}
		}
		return nil
	})
}

// An address names the base blob, a snapshot or a version, and one never for another.
func TestAddressOfARecord(t *testing.T) {
	t.Parallel()
	inTransaction(t, func(tx *store.Tx) error {
		it := Item{1, "blob"}
		put := func(slot Slot, version, changed ticks.Ticks) {
			PutBlob(tx, it, slot, &Blob{Kind: BlockBlob, Version: version, Created: changed})
		}
		put(5, 0, 5)        // a snapshot
		put(6, 6, 6)        // a previous version
		put(BaseSlot, 7, 7) // the current version
		for _, c := range []struct {
			address Address
			want    ticks.Ticks // 0 for none
		}{{Address{}, 7}, {Address{Snapshot: 5}, 5}, {Address{Version: 6}, 6}, {Address{Version: 7}, 7},
			{Address{Snapshot: 6}, 0}, {Address{Version: 5}, 0}, {Address{Version: 8}, 0}, {Address{Snapshot: 7}, 0}} {
			var b Blob
			err := c.address.Load(tx, it, &b)
			if c.want == 0 && !errors.Is(err, ErrBlobNotFound) || c.want != 0 && (err != nil || b.Created != c.want) {
				t.Errorf("%+v is %v, %v; want %v", c.address, b.Created, err, c.want)
			}
		}
		tx.Put(BlobsBucket, BlobKey(it, 6), []byte{9})
		for _, a := range []Address{{Version: 6}, {Snapshot: 6}} {
			if err := a.Load(tx, it, new(Blob)); err == nil || errors.Is(err, ErrBlobNotFound) {
				t.Errorf("%+v, of a damaged record: %v", a, err)
			}
		}
		return nil
	})
}

// The small rules of a blob's properties.
func TestPropertiesOfABlob(t *testing.T) {
	t.Parallel()
	b := Blob{Kind: BlockBlob, Changed: 3}
	b.EndCopy(CopyFailed, 9)
	if b.Copy.Status != CopyFailed || b.Copy.Completed != 9 || b.Changed != 9 {
		t.Errorf("a copy that has failed: %+v", b)
	}
	if none, some := (&Headers{}).Base64MD5(), (&Headers{MD5: "abc"}).Base64MD5(); none != "" || some != "YWJj" {
		t.Errorf("Content-MD5 is %q and %q", none, some)
	}
	var texts Texts
	if got := texts.Joined("prefix/", []byte("name")); got != "prefix/name" {
		t.Errorf("joined: %q", got)
	}
	for _, kind := range []Kind{BlockBlob, PageBlob, AppendBlob} {
		if got, ok := ParseKind(kind.String()); got != kind || !ok {
			t.Errorf("%v is %v", kind, got)
		}
	}
	if _, ok := ParseKind(""); ok || Kind(0).String() != "" || Kind(4).String() != "" {
		t.Error("another kind of blob has a name")
	}
	for _, c := range []struct {
		p                     Protection
		deletable, changeable error
	}{{Protection{}, nil, nil}, {Protection{Until: 5}, nil, ErrImmutable},
		{Protection{Until: 6}, ErrImmutable, ErrImmutable}, {Protection{Hold: true}, ErrLegalHold, ErrLegalHold},
		{Protection{Until: 6, Hold: true}, ErrLegalHold, ErrLegalHold}} {
		if d, ch := c.p.CheckDeletable(5), c.p.CheckChangeable(); !errors.Is(d, c.deletable) ||
			!errors.Is(ch, c.changeable) || (d == nil) != (c.deletable == nil) || (ch == nil) != (c.changeable == nil) {
			t.Errorf("%+v: %v and %v, want %v and %v", c.p, d, ch, c.deletable, c.changeable)
		}
	}
	// A node's list may have a mask without named entries.
	node := Node{Owner: "o", Group: "g"}
	node.Access.HasMask, node.Access.Mask = true, 5
	var again Blob
	check.OK(t, DecodeBlob((&Blob{Kind: BlockBlob, Node: &node}).Encode(), &again))
	if !reflect.DeepEqual(*again.Node, node) {
		t.Errorf("a mask alone is read as %+v", again.Node)
	}
}

// What ends a walk: a key without what it must have, a chunk without an offset, a context that is cancelled.
func TestKeysAndContextsThatEndAWalk(t *testing.T) {
	t.Parallel()
	if _, err := DecodeEvent([]byte("short"), (&Event{Kind: EventCreated}).Encode()); err == nil {
		t.Error("an event under a key that is too short")
	}
	inTransaction(t, func(tx *store.Tx) error {
		job := CopyJob{Set: 5}
		for _, at := range []int64{0, 10} {
			id := string(IDPrefix(uint64(at)))
			tx.Put(BlocksBucket, BlockKey(5, id), EncodeBlock(content.Piece{Length: 10, Slices: []extent.Slice{{Length: 10}}}))
		}
		tx.Put(BlocksBucket, BlockKey(6, string(IDPrefix(0))), EncodeBlock(content.Piece{Length: 1}))
		list, err := job.Arrived(tx)
		if err != nil || len(list) != 2 || list[0].Start != 0 || list[1].Start != 10 {
			t.Errorf("the chunks are %+v, %v", list, err)
		}
		tx.Put(BlocksBucket, BlockKey(5, "7 bytes"), EncodeBlock(content.Piece{Length: 1}))
		if _, err := job.Arrived(tx); !errors.Is(err, ErrKey) {
			t.Errorf("a chunk without an offset: %v", err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range 1024 {
			tx.Put(BlocksBucket, BlockKey(7, fmt.Sprint("block ", i)), EncodeBlock(content.Piece{Length: 1}))
		}
		if err := EachReference(cancelled, tx, func(extent.Ref) bool { return true }); !errors.Is(err, context.Canceled) {
			t.Errorf("a walk that was cancelled: %v", err)
		}
		return nil
	})
}

// A base blob is there until it is deleted or has expired; a snapshot or version until it is deleted.
func TestGetOfAnAddress(t *testing.T) {
	t.Parallel()
	inTransaction(t, func(tx *store.Tx) error {
		it := Item{1, "blob"}
		PutBlob(tx, it, 5, &Blob{Kind: BlockBlob, Created: 5})
		PutBlob(tx, it, 6, &Blob{Kind: BlockBlob, Created: 6, Deleted: 7, KeptDays: 1})
		PutBlob(tx, it, BaseSlot, &Blob{Kind: BlockBlob, Created: 7, Expires: 100})
		for _, c := range []struct {
			a    Address
			now  ticks.Ticks
			want error
		}{{Address{}, 99, nil}, {Address{}, 100, ErrBlobNotFound}, {Address{Snapshot: 5}, 99, nil},
			{Address{Snapshot: 5}, 100, ErrBlobNotFound}, {Address{Snapshot: 6}, 99, ErrSoftDeleted},
			{Address{Snapshot: 4}, 99, ErrBlobNotFound}} {
			var b Blob
			if err := c.a.Get(tx, it, c.now, &b); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%+v at %d: %v, want %v", c.a, c.now, err, c.want)
			}
		}
		return nil
	})
}

// The difference of two states of a page blob, compared with their pages one by one: pages of other bytes are written,
// and those that are gone or marked since are cleared.
func TestDiffPagesAgainstEachPage(t *testing.T) {
	t.Parallel()
	const size = 6
	// page is what a state has at an offset: 0 for nothing, n for the bytes of a write, -n for a mark.
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var pages [2][size]int
		var states [2][]content.Piece
		for s := range states {
			for at := 0; at < size; {
				n, what := 1+rng.IntN(3), rng.IntN(5)-1
				n = min(n, size-at)
				p := content.Piece{Start: int64(at), Length: int64(n)}
				switch {
				case what > 0: // the bytes of a write lie as they were written
					p.Slices = []extent.Slice{{Extent: uint64(what), Offset: int64(100 + at), Length: int64(n)}}
				case what < 0:
					what = -1 - rng.IntN(2)
					p.Block = fmt.Sprint(what)
				}
				for i := range n {
					pages[s][at+i] = what
				}
				if at += n; what != 0 {
					states[s] = append(states[s], p)
				}
			}
		}
		off, end := int64(rng.IntN(size)), int64(1+rng.IntN(size))
		var want []Span
		for at := off; at < end; at++ {
			switch was, is := pages[0][at], pages[1][at]; {
			case is == 0 && was > 0:
				want = appendSpan(want, Span{at, at + 1, true})
			case is != 0 && was != is:
				want = appendSpan(want, Span{at, at + 1, is < 0})
			}
		}
		if got := DiffPages(states[0], states[1], off, end); !slices.Equal(got, want) {
			t.Fatalf("%v became %v: from %d to %d differ %+v, want %+v", pages[0], pages[1], off, end, got, want)
		}
	}
}
