package state

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/posix"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// The tree of a container is stored twice: a directory has an entry for each name in it, and the record of a file or
// directory has its directory and its name. So each of the two can be made again from the other.
//
//	lost                          repair
//	an entry                      made again from the record of the file or directory
//	the record of a directory     made again at the place of its entry; only the superuser may use it
//	both of a directory           made again in lost+found, with what is in it
//	the record of a file          its name is reported and removed
//	the record of a root          made again
//	a container                   made again from the record of its root, without metadata and policies
//
// A file or directory that has two entries keeps the one that its record has. A directory that is its own ancestor, and
// what can't have its name again, since another file has it, goes to lost+found. A deletion stays one: an entry that
// leads to what is to be removed is removed, and what lost its deleted directory is removed as it would have been.
// Only of what is both in its place and among the files that can be restored, the place counts.

const (
	// LostFound is the directory for what has lost its name. It is in the root directory of the container, as far as that
	// is known.
	LostFound = "lost+found"
	// LostContainer is the container for what has lost its container too. It is in the account that has all the other
	// trees, or else in LostAccount, which the operator can add to the accounts.
	LostContainer = "lost-and-found"
	LostAccount   = "lostandfound"
)

// foundNode is a file or directory whose record, or uncommitted blocks, were found.
type foundNode struct {
	parent inode
	name   string
	dir    bool
	root   bool // parent is 0, and name the key of a container
	// bare is set for a file that has uncommitted blocks and no record.
	bare bool
	// placed is set when an entry leads to it. made and changed say that its record is written by the repair.
	placed, made, changed bool
	// snapshot, unless 0, is the newest snapshot of a file whose record is lost.
	snapshot Slot
}

// foundDeletion is a record by which a file or directory can be restored.
type foundDeletion struct {
	key  []byte
	kind byte
}

// treeRepair is the part of a repair that concerns trees.
type treeRepair struct {
	*repair
	nodes map[inode]*foundNode
	// roots has the keys of the containers, also of deleted ones, by their roots.
	roots map[inode]string
	trash map[inode][]foundDeletion
	// entries has all entries; strays those that lead to an inode whose record has another place, by inode.
	entries map[string]entry
	keys    []string // of entries, in order
	strays  map[inode][]string
	// above has the directories in which entries of directories are.
	above map[inode]inode
	// snapshots has the newest snapshots, with the names that the files had.
	snapshots map[inode]foundNode
	pendings  map[inode]pendingRecord
	// found has the directories for what has lost its name, by root.
	found map[inode]inode
	now   ticks.Ticks
	// last is the directory of the entry before, and lastRemoved what removed says of it.
	last        inode
	lastRemoved bool
}

func newTreeRepair(r *repair) treeRepair {
	return treeRepair{repair: r, nodes: map[inode]*foundNode{}, roots: map[inode]string{},
		trash:   map[inode][]foundDeletion{},
		entries: map[string]entry{}, strays: map[inode][]string{}, above: map[inode]inode{}, snapshots: map[inode]foundNode{},
		pendings: map[inode]pendingRecord{}, found: map[inode]inode{}, now: ticks.Of(time.Now())}
}

func (t *treeRepair) trashed(k, v []byte) error {
	rec, err := decodeTrash(v)
	if err == nil {
		t.used(uint64(rec.inode))
		t.trash[rec.inode] = append(t.trash[rec.inode], foundDeletion{bytes.Clone(k), rec.kind})
	}
	return err
}

// uncommitted reads the sum of the uncommitted blocks of a file.
func (t *treeRepair) uncommitted(n inode, p pendingRecord) {
	t.used(uint64(n))
	t.pendings[n] = p
	if t.nodes[n] == nil {
		t.nodes[n] = &foundNode{parent: p.parent, name: p.name, bare: true}
	}
}

// record reads a record of a file or directory.
func (t *treeRepair) record(n inode, slot Slot, b *Blob) error {
	t.used(uint64(n))
	switch {
	case b.Node == nil || n == 0:
		return errRecord
	case slot != baseSlot: // in the order of their times
		t.snapshots[n] = foundNode{parent: b.Node.parent, name: b.Node.name, snapshot: slot}
	default:
		t.used(uint64(b.Node.parent))
		t.nodes[n] = &foundNode{parent: b.Node.parent, name: b.Node.name, dir: b.Node.Directory, root: b.Node.parent == 0}
	}
	return nil
}

func (t *treeRepair) entry(k, v []byte) error {
	parent, _, err := parseEntryKey(k)
	if err != nil {
		return err
	}
	e, err := decodeEntry(v)
	if err != nil {
		return err
	}
	t.used(uint64(parent))
	t.used(uint64(e.inode))
	t.entries[string(k)] = e
	t.keys = append(t.keys, string(k))
	if e.kind == entryDirectory {
		t.above[e.inode] = parent
	}
	return nil
}

// tell adds a note about the path of an inode.
func (t *treeRepair) tell(lost bool, n inode, format string, args ...any) {
	t.notes = append(t.notes, repairNote{func() string { return t.path(n) + ": " + fmt.Sprintf(format, args...) }, lost})
}

// path is the path of an inode for people.
func (t *treeRepair) path(n inode) string {
	var segments []string
	for range maxNesting {
		node := t.nodes[n]
		switch {
		case node == nil || node.parent == 0 && !node.root:
			segments = append(segments, fmt.Sprintf("the directory %d", uint64(n)))
		case node.root:
			segments = append(segments, strings.Replace(node.name, "\x00", "/", 1))
		default:
			segments, n = append(segments, node.name), node.parent
			continue
		}
		break
	}
	slices.Reverse(segments)
	return strings.Join(segments, "/")
}

func (t *treeRepair) run() error {
	// The steps depend on each other. Every container gets its root, and every root its container, before anything asks
	// which tree an inode is in.
	for n, key := range t.roots {
		if node := t.nodes[n]; node == nil || !node.root {
			t.nodes[n] = &foundNode{name: key, dir: true, root: true, placed: true, made: true}
			t.tell(true, n, "owner, permissions and metadata of the root directory")
		}
	}
	for _, n := range slices.Sorted(maps.Keys(t.nodes)) {
		if node := t.nodes[n]; node.root {
			t.root(n, node)
		}
	}
	// Before the snapshots: a deletion of a file without a record is given up also if a snapshot of the file is left.
	t.deletions()
	// A file whose record is lost is made again from its newest snapshot, and is no longer one of uncommitted blocks
	// alone.
	for n, snapshot := range t.snapshots {
		if node := t.nodes[n]; node == nil || node.bare {
			delete(t.pendings, n)
			t.nodes[n] = &snapshot
		}
	}
	// All entries are looked at before anything gets a place: only then is it known which names are taken, and by what.
	for _, k := range t.keys {
		t.check(k, t.entries[k])
	}
	// The list is of now. Directories that settle makes on the way are settled by it, and lost+found has its place from
	// the start.
	for _, n := range slices.Sorted(maps.Keys(t.nodes)) {
		t.settle(n, t.nodes[n])
	}
	// What settle has not taken as a place is a second entry. Cycles come last, since all steps above change parents.
	for _, n := range slices.Sorted(maps.Keys(t.strays)) {
		for _, k := range t.strays[n] {
			t.unlinkStray(k)
		}
	}
	t.breakCycles()
	return t.write()
}

// root makes the container of a root again.
func (t *treeRepair) root(n inode, node *foundNode) {
	node.placed = true
	if _, ok := t.roots[n]; ok || t.isGarbage(garbageNode, uint64(n)) {
		return
	}
	account, name, err := parseContainerKey([]byte(node.name))
	if err != nil {
		account, name = LostAccount, LostContainer
	}
	free := func(name string) bool { return t.tx.Get(containersBucket, containerKey(account, name)) == nil }
	// The name that the record has may be another container's by now; and where deletions are lost, the container may
	// be a deleted one, which must not appear under its name again.
	if err != nil || t.o.Doubtful || !free(name) || !t.unused(account, name) {
		name = fmt.Sprintf("%s-%d", LostContainer, uint64(n))
	}
	node.name, node.changed = string(containerKey(account, name)), true
	t.container(n, account, name)
	t.tell(true, n, "metadata and access policies of the container")
}

// unused reports whether the repair has not made a container of the name.
func (t *treeRepair) unused(account, name string) bool {
	for _, key := range t.roots {
		if key == string(containerKey(account, name)) {
			return false
		}
	}
	return true
}

// container writes the record of a container.
func (t *treeRepair) container(root inode, account, name string) {
	rec := Container{generation: generation(root) | treeBit, Changed: t.now}
	t.roots[root] = string(containerKey(account, name))
	t.containers[rec.generation] = containerKey(account, name)
	t.writes.Put(containersBucket, containerKey(account, name), rec.encode())
}

// deletions gives a record to deleted directories that have lost theirs, and gives up deleted files without one.
func (t *treeRepair) deletions() {
	for _, n := range slices.Sorted(maps.Keys(t.trash)) {
		if t.nodes[n] != nil {
			continue
		}
		for i, d := range t.trash[n] {
			root, path, _, err := parseTrashKey(d.key)
			// An inode keeps one deletion. What is in a directory has records of its own, so that a new record of the
			// directory is enough to restore it; a file without its record has no content.
			if err == nil && d.kind == entryDirectory && i == 0 {
				t.nodes[n] = &foundNode{parent: root, name: path[strings.LastIndex(path, "/")+1:], dir: true, made: true}
				t.tell(true, n, "owner, permissions and metadata of the deleted directory %q", path)
				continue
			}
			t.writes.Delete(trashBucket, d.key)
			t.tell(true, root, "the deleted %q", path)
			delete(t.trash, n)
		}
	}
}

// removed reports whether a directory is being removed, or is below one that is.
func (t *treeRepair) removed(n inode) bool {
	// The way up may be a cycle, which breakCycles has not removed yet.
	seen := map[inode]bool{}
	for !seen[n] {
		seen[n] = true
		node := t.nodes[n]
		above, ok := t.above[n]
		switch {
		case t.isGarbage(garbageNode, uint64(n)):
			return true
		case node != nil && (node.root || len(t.trash[n]) > 0):
			return false
		case node != nil && node.parent != 0:
			n = node.parent
		case ok: // the record of a directory is lost
			n = above
		default:
			return false
		}
	}
	return false
}

// directory returns the directory of an entry, which is made if there is nothing left of it but what is in it; nil if
// it is a file.
func (t *treeRepair) directory(n inode) *foundNode {
	node := t.nodes[n]
	if node == nil {
		node = &foundNode{dir: true, made: true}
		t.nodes[n] = node
		t.tell(true, n, "owner, permissions, metadata and the name of the directory")
	}
	if !node.dir {
		return nil
	}
	return node
}

// check decides about an entry.
func (t *treeRepair) check(k string, e entry) {
	parent, name, _ := parseEntryKey([]byte(k)) // it was parsed before
	// Keys come in the order of directories, so this asks once for each directory.
	if parent != t.last || t.last == 0 {
		t.last, t.lastRemoved = parent, t.removed(parent)
	}
	// The background will follow the entries of this directory and remove what they lead to. So only entries stay that
	// lead to what has its place here.
	if t.lastRemoved {
		switch node := t.nodes[e.inode]; {
		case node == nil: // what is below it is removed as well
			t.dropEntry(k)
			t.discard(e.inode)
		case node.parent != parent || node.name != name: // what is elsewhere is not
			t.dropEntry(k)
		}
		return
	}
	dir := t.directory(parent)
	node := t.nodes[e.inode]
	switch {
	case t.isGarbage(garbageNode, uint64(e.inode)):
		t.dropEntry(k)
		t.tell(false, parent, "the entry %q of what was deleted", name)
	// The directory of the entry is a file by its record.
	case dir == nil:
		t.strays[e.inode] = append(t.strays[e.inode], k)
	// The content that a snapshot has goes to lost+found, and not to the name: it is not what the file was last.
	case node == nil && e.kind == entryFile, node != nil && node.snapshot != 0:
		t.dropEntry(k)
		t.tell(true, parent, "the file %q", name)
	// A directory without a record. It may have been made already, without a place, for an entry in it: keys are in the
	// order of inodes, and those of a directory may precede the one that leads to it.
	case node == nil, node.made && !node.placed && !node.root && node.parent == 0:
		if node == nil {
			node = &foundNode{dir: true, made: true}
			t.nodes[e.inode] = node
			t.tell(true, e.inode, "owner, permissions and metadata of the directory")
		}
		node.parent, node.name, node.placed = parent, name, true
	case !node.root && node.parent == parent && node.name == name:
		node.placed = true
		if kind := node.kind(); kind != e.kind {
			t.putEntry(parent, name, e.inode, kind)
			t.tell(false, e.inode, "the kind of the entry")
		}
	default:
		t.strays[e.inode] = append(t.strays[e.inode], k)
	}
}

func (f *foundNode) kind() byte {
	if f.dir {
		return entryDirectory
	}
	return entryFile
}

// settle gives a file or directory a place if it has none.
func (t *treeRepair) settle(n inode, node *foundNode) {
	switch {
	case node.root || t.isGarbage(garbageNode, uint64(n)):
		return
	case len(t.trash[n]) > 0:
		// Damage has brought back one of two records that exclude each other. The place counts, since a purge would remove
		// what is in use.
		if node.placed {
			for _, d := range t.trash[n] {
				t.writes.Delete(trashBucket, d.key)
			}
			delete(t.trash, n)
			t.tell(false, n, "is in its place, and no longer among the files that can be restored")
		}
		return
	case node.placed:
		return
	}
	if node.parent != 0 && t.removed(node.parent) {
		// With its entry the background reaches it through the directory. Without one nothing would find it again.
		if e, ok := t.entries[string(entryKey(node.parent, node.name))]; !ok || e.inode != n {
			t.discard(n)
		}
		return
	}
	// The record wins over an entry elsewhere, unless its place cannot be used.
	for i, k := range t.strays[n] {
		parent, name, _ := parseEntryKey([]byte(k))
		if p := t.nodes[node.parent]; p != nil && p.dir && !t.taken(node) && !t.o.Doubtful {
			break // the record decides
		}
		if p := t.nodes[parent]; p != nil && p.dir {
			// This entry is its place now, and the others remain strays.
			t.strays[n] = slices.Delete(t.strays[n], i, i+1)
			node.parent, node.name, node.placed, node.changed = parent, name, true, true
			if e := t.entries[k]; e.kind != node.kind() {
				t.putEntry(parent, name, n, node.kind())
			}
			t.tell(false, n, "is here, since its own directory is lost")
			return
		}
	}
	var dir *foundNode
	if node.parent != 0 {
		dir = t.directory(node.parent)
		// The directory was made for what is in it and may come later in the list of run, or not be in it. It has no name,
		// so this puts it into lost+found.
		if dir.lostItself() {
			t.settle(node.parent, dir)
		}
	}
	if dir == nil || t.taken(node) || t.o.Doubtful || node.name == "" || node.snapshot != 0 {
		t.lose(n, node)
		return
	}
	t.putEntry(node.parent, node.name, n, node.kind())
	node.placed = true
	t.tell(false, n, "its entry was made again")
}

// discard leaves an inode, and what is below it, to the background.
func (t *treeRepair) discard(n inode) {
	t.writes.Put(garbageBucket, garbageKey(garbageNode, uint64(n)), []byte{recordVersion})
	t.garbage[[2]uint64{uint64(garbageNode), uint64(n)}] = true
}

// lostItself reports whether a directory was made for what is in it, and has no place yet.
func (f *foundNode) lostItself() bool { return f != nil && f.made && !f.placed }

// taken reports whether the place of a node has another one.
func (t *treeRepair) taken(node *foundNode) bool {
	_, ok := t.entries[string(entryKey(node.parent, node.name))]
	return ok
}

// lose puts a node into the directory for what has lost its name.
func (t *treeRepair) lose(n inode, node *foundNode) {
	// What was in a deleted directory stays with it, so that it is restored or purged with the rest and does not
	// reappear.
	root := t.deletedAbove(node.parent)
	if root == 0 {
		root = t.rootAbove(node.parent)
	}
	// The inode makes the name unique in lost+found.
	name := fmt.Sprint(uint64(n))
	if node.name != "" {
		name += "-" + node.name
	}
	if len(name) > MaxSegment {
		name = fmt.Sprint(uint64(n))
	}
	if node.snapshot != 0 {
		t.tell(true, n, "is the content that the newest snapshot has, of %s", ticks.Ticks(node.snapshot).ISO())
	}
	node.parent, node.name, node.placed, node.changed = t.lostFound(root), name, true, true
	t.putEntry(node.parent, name, n, node.kind())
	t.tell(false, n, "is here, since its place is not known or another has it")
}

// deletedAbove is the deleted directory that an inode is in and with which it can be restored, 0 for none.
func (t *treeRepair) deletedAbove(n inode) inode {
	for range maxNesting {
		node := t.nodes[n]
		switch {
		case node == nil:
			return 0
		case len(t.trash[n]) > 0:
			return n
		}
		n = node.parent
	}
	return 0
}

// rootAbove is the root of the tree that an inode is in; 0 if that is not known.
func (t *treeRepair) rootAbove(n inode) inode {
	for range maxNesting {
		node := t.nodes[n]
		if node == nil {
			return 0
		}
		if node.root {
			if _, ok := t.roots[n]; ok {
				return n
			}
			return 0
		}
		n = node.parent
	}
	return 0
}

// containerOf is the key of the container that an inode is in, nil if it is in none.
func (t *treeRepair) containerOf(n inode) []byte {
	if root := t.rootAbove(n); root != 0 {
		return []byte(t.roots[root])
	}
	return nil
}

// lostFound returns the directory for what has lost its name in a container or deleted directory, which it makes; of an
// unknown container it is in the only one, or in one for this purpose.
func (t *treeRepair) lostFound(root inode) inode {
	if root == 0 {
		root = t.lostRoot()
	}
	if dir, ok := t.found[root]; ok {
		return dir
	}
	// A lost+found of an earlier repair is used again. A file of the name, or anything that is not a directory with a
	// record, leads to the next name.
	name := LostFound
	for i := 2; ; i++ {
		e, ok := t.entries[string(entryKey(root, name))]
		if ok && e.kind == entryDirectory && t.nodes[e.inode] != nil && t.nodes[e.inode].dir {
			t.found[root] = e.inode
			return e.inode
		}
		if !ok {
			break
		}
		name = fmt.Sprintf("%s-%d", LostFound, i)
	}
	n := inode(t.draw())
	t.nodes[n] = &foundNode{parent: root, name: name, dir: true, placed: true, made: true}
	t.putEntry(root, name, n, entryDirectory)
	t.found[root] = n
	return n
}

// lostRoot returns the root for what has lost its container.
func (t *treeRepair) lostRoot() inode {
	accounts := map[string]bool{}
	for n, key := range t.roots {
		account, name, err := parseContainerKey([]byte(key))
		// roots has deleted containers as well. What is found must not go into one, where it would be purged.
		if err != nil || t.tx.Get(containersBucket, []byte(key)) == nil && !t.nodes[n].made {
			continue
		}
		if name == LostContainer {
			return n
		}
		accounts[account] = true
	}
	if len(t.roots) == 1 {
		for n := range t.roots {
			return n
		}
	}
	account := LostAccount
	if len(accounts) == 1 {
		for only := range accounts {
			account = only
		}
	}
	n := inode(t.draw())
	key := string(containerKey(account, LostContainer))
	t.nodes[n] = &foundNode{name: key, dir: true, root: true, placed: true, made: true}
	t.container(n, account, LostContainer)
	return n
}

func (t *treeRepair) putEntry(parent inode, name string, n inode, kind byte) {
	e := entry{n, kind}
	t.entries[string(entryKey(parent, name))] = e
	t.writes.Put(namesBucket, entryKey(parent, name), e.encode())
}

func (t *treeRepair) dropEntry(k string) {
	delete(t.entries, k)
	t.writes.Delete(namesBucket, []byte(k))
}

// unlinkStray removes an entry that leads to a node that is elsewhere.
func (t *treeRepair) unlinkStray(k string) {
	e, ok := t.entries[k]
	parent, name, _ := parseEntryKey([]byte(k))
	if node := t.nodes[e.inode]; !ok || node != nil && node.parent == parent && node.name == name {
		return // it is its entry now
	}
	t.dropEntry(k)
	t.tell(false, e.inode, "its second entry, %q in %s, is removed", name, t.path(parent))
}

// breakCycles moves directories that are their own ancestors.
func (t *treeRepair) breakCycles() {
	good := map[inode]bool{}
	for _, n := range slices.Sorted(maps.Keys(t.nodes)) {
		var passed []inode
		seen := map[inode]bool{}
		// Each way ends at an inode that is known to be good, at the end of a tree, or at one that this way has passed.
		// All that it passed is good afterwards, so that each inode is visited once.
		for at := n; !good[at]; {
			node := t.nodes[at]
			if node == nil || node.root || t.isGarbage(garbageNode, uint64(at)) || len(t.trash[at]) > 0 {
				break
			}
			if seen[at] {
				// A cycle leads to no root, so its container is not known. Without a parent, lose looks for none, and does not
				// walk around the cycle.
				t.dropEntry(string(entryKey(node.parent, node.name)))
				node.parent = 0
				t.lose(at, node)
				break
			}
			seen[at] = true
			passed = append(passed, at)
			at = node.parent
		}
		for _, at := range passed {
			good[at] = true
		}
	}
}

// moved gives a pending record the place of its file.
func (t *treeRepair) moved(n inode, p pendingRecord) pendingRecord {
	if node := t.nodes[n]; node != nil && node.bare {
		p.parent, p.name = node.parent, node.name
	}
	return p
}

// write plans the records of nodes that the repair made or moved.
func (t *treeRepair) write() error {
	for _, n := range slices.Sorted(maps.Keys(t.nodes)) {
		node := t.nodes[n]
		if !node.made && !node.changed {
			continue
		}
		if node.bare {
			t.writes.Put(pendingBucket, pendingKey(n.item()), t.moved(n, t.pendings[n]).encode())
			continue
		}
		var b Blob
		if node.snapshot != 0 {
			if err := loadBlob(t.tx, n.item(), node.snapshot, &b); err != nil {
				return err
			}
			// The snapshot may be soft-deleted; the file is not. The record is one more that refers to the content, and
			// references writes the new number after this.
			if b.Deleted, b.KeptDays, b.slot = 0, 0, baseSlot; b.content.id != 0 {
				t.refers[b.content.id]++
			}
		} else if node.made {
			b = newRoot(posix.SuperUser, node.name)
			b.Created, b.Changed = t.now, t.now
			b.Node.Access = posix.Of(0o700)
		} else if err := loadBlob(t.tx, n.item(), baseSlot, &b); err != nil {
			return err
		}
		// A node is not changed in place; see Node.
		at := *b.Node
		at.parent, at.name = node.parent, node.name
		b.Node = &at
		t.writes.Put(blobsBucket, blobKey(n.item(), baseSlot), b.encode())
	}
	return nil
}
