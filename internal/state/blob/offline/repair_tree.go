package offline

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/posix"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
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
//	that a directory is removed   known by the mark in its record; the removal goes on
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
	// parent and name are its place: at first the one that its record has. A repair that moves it changes them.
	parent record.Inode
	name   string
	dir    bool
	root   bool // parent is 0, and name the key of a container
	// bare is set for a file that has uncommitted blocks and no record.
	bare bool
	// placed is set when the entry at its place leads to it.
	placed bool
	// made is set if the repair makes its record, which is lost, changed if it writes the place into the record.
	made    bool
	changed bool
	// snapshot, unless 0, is the newest snapshot of a file whose record is lost.
	snapshot record.Slot
}

// foundDeletion is a record by which a file or directory can be restored.
type foundDeletion struct {
	key  []byte
	kind byte
}

// treeRepair is the part of a repair that concerns trees.
type treeRepair struct {
	*repair
	nodes map[record.Inode]*foundNode
	// roots has the keys of the containers, also of deleted ones, by their roots.
	roots map[record.Inode]string
	trash map[record.Inode][]foundDeletion
	// entries has all entries; strays those that lead to an inode whose record has another place, by inode.
	entries map[string]record.Entry
	keys    []string // of entries, in order
	strays  map[record.Inode][]string
	// above has the directories in which entries of directories are.
	above map[record.Inode]record.Inode
	// snapshots has the newest snapshots, with the names that the files had.
	snapshots map[record.Inode]foundNode
	pendings  map[record.Inode]record.Pending
	// found has the directories for what has lost its name, by root.
	found map[record.Inode]record.Inode
	now   ticks.Ticks
	// removals are the inodes whose records say that they are to be removed.
	removals []record.Inode
	// last is the directory of the entry before, and lastRemoved what removed says of it.
	last        record.Inode
	lastRemoved bool
}

func newTreeRepair(r *repair) treeRepair {
	return treeRepair{
		repair:    r,
		nodes:     map[record.Inode]*foundNode{},
		roots:     map[record.Inode]string{},
		trash:     map[record.Inode][]foundDeletion{},
		entries:   map[string]record.Entry{},
		strays:    map[record.Inode][]string{},
		above:     map[record.Inode]record.Inode{},
		snapshots: map[record.Inode]foundNode{},
		pendings:  map[record.Inode]record.Pending{},
		found:     map[record.Inode]record.Inode{},
		now:       ticks.Of(time.Now()),
	}
}

func (t *treeRepair) trashed(k, v []byte) error {
	rec, err := record.DecodeTrash(v)
	if err == nil {
		t.used(uint64(rec.Inode))
		t.trash[rec.Inode] = append(t.trash[rec.Inode], foundDeletion{bytes.Clone(k), rec.Kind})
	}
	return err
}

// uncommitted reads the sum of the uncommitted blocks of a file.
func (t *treeRepair) uncommitted(n record.Inode, p record.Pending) {
	t.used(uint64(n))
	t.pendings[n] = p
	if t.nodes[n] == nil {
		t.nodes[n] = &foundNode{parent: p.Parent, name: p.Name, bare: true}
	}
}

// record reads a record of a file or directory.
func (t *treeRepair) record(n record.Inode, slot record.Slot, b *record.Blob) error {
	t.used(uint64(n))
	switch {
	case b.Node == nil || n == 0:
		return record.ErrMalformed
	case slot != record.BaseSlot: // in the order of their times
		t.snapshots[n] = foundNode{parent: b.Node.Parent, name: b.Node.Name, snapshot: slot}
	default:
		t.used(uint64(b.Node.Parent))
		if b.Node.Removed {
			t.removals = append(t.removals, n)
		}
		t.nodes[n] = &foundNode{parent: b.Node.Parent, name: b.Node.Name, dir: b.Node.Directory, root: b.Node.Parent == 0}
	}
	return nil
}

func (t *treeRepair) entry(k, v []byte) error {
	parent, _, err := record.ParseEntryKey(k)
	if err != nil {
		return err
	}
	e, err := record.DecodeEntry(v)
	if err != nil {
		return err
	}
	t.used(uint64(parent))
	t.used(uint64(e.Inode))
	t.entries[string(k)] = e
	t.keys = append(t.keys, string(k))
	if e.Kind == record.EntryDirectory {
		t.above[e.Inode] = parent
	}
	return nil
}

// tell adds a note about the path of an inode.
func (t *treeRepair) tell(lost bool, n record.Inode, format string, args ...any) {
	t.notes = append(t.notes, repairNote{func() string { return t.path(n) + ": " + fmt.Sprintf(format, args...) }, lost})
}

// path is the path of an inode for people.
func (t *treeRepair) path(n record.Inode) string {
	var segments []string
	for range record.MaxNesting {
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
	// A removal that had begun goes on, also where damage took the garbage. This comes first: a root that is to be removed
	// gets no container, and what is below a removed directory gets no place in lost+found.
	for _, n := range t.removals {
		if !t.isGarbage(record.GarbageNode, uint64(n)) {
			t.discard(n)
			t.tell(false, n, "its removal goes on")
		}
	}
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
func (t *treeRepair) root(n record.Inode, node *foundNode) {
	node.placed = true
	if _, ok := t.roots[n]; ok || t.isGarbage(record.GarbageNode, uint64(n)) {
		return
	}
	account, name, err := record.ParseContainerKey([]byte(node.name))
	if err != nil {
		account, name = LostAccount, LostContainer
	}
	free := func(name string) bool {
		return t.tx.Get(record.ContainersBucket, record.ContainerKey(account, name)) == nil
	}
	// The name that the record has may be another container's by now; and where deletions are lost, the container may
	// be a deleted one, which must not appear under its name again.
	if err != nil || t.o.Doubtful || !free(name) || !t.unused(account, name) {
		name = fmt.Sprintf("%s-%d", LostContainer, uint64(n))
	}
	node.name = string(record.ContainerKey(account, name))
	node.changed = true
	t.container(n, account, name)
	t.tell(true, n, "metadata and access policies of the container")
}

// unused reports whether the repair has not made a container of the name.
func (t *treeRepair) unused(account, name string) bool {
	for _, key := range t.roots {
		if key == string(record.ContainerKey(account, name)) {
			return false
		}
	}
	return true
}

// container writes the record of a container.
func (t *treeRepair) container(root record.Inode, account, name string) {
	rec := record.Container{Generation: record.Generation(root) | record.TreeBit, Changed: t.now}
	t.roots[root] = string(record.ContainerKey(account, name))
	t.containers[rec.Generation] = record.ContainerKey(account, name)
	t.writes.Put(record.ContainersBucket, record.ContainerKey(account, name), rec.Encode())
}

// deletions gives a record to deleted directories that have lost theirs, and gives up deleted files without one. An
// inode keeps one deletion: once that is undone, the purge of another one would remove what is in use.
func (t *treeRepair) deletions() {
	for _, n := range slices.Sorted(maps.Keys(t.trash)) {
		node := t.nodes[n]
		var kept []foundDeletion
		for _, d := range t.trash[n] {
			root, path, _, err := record.ParseTrashKey(d.key)
			switch {
			case err == nil && len(kept) > 0:
				t.tell(false, root, "the second deletion of %q", path)
			case err == nil && node != nil:
				kept = append(kept, d)
				continue
			// What is in a directory has records of its own, so that a new record of the directory is enough to restore it; a
			// file without its record has no content.
			case err == nil && d.kind == record.EntryDirectory:
				kept = append(kept, d)
				t.nodes[n] = &foundNode{parent: root, name: path[strings.LastIndex(path, "/")+1:], dir: true, made: true}
				t.tell(true, n, "owner, permissions and metadata of the deleted directory %q", path)
				continue
			default:
				t.tell(true, root, "the deleted %q", path)
			}
			t.writes.Delete(record.TrashBucket, d.key)
		}
		// Without a deletion the inode is not in the trash for the steps that follow.
		if t.trash[n] = kept; len(kept) == 0 {
			delete(t.trash, n)
		}
	}
}

// removed reports whether a directory is being removed, or is below one that is.
func (t *treeRepair) removed(n record.Inode) bool {
	// The way up may be a cycle, which breakCycles has not removed yet.
	seen := map[record.Inode]bool{}
	for !seen[n] {
		seen[n] = true
		node := t.nodes[n]
		above, ok := t.above[n]
		switch {
		case t.isGarbage(record.GarbageNode, uint64(n)):
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
func (t *treeRepair) directory(n record.Inode) *foundNode {
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

// check decides about an entry: it stays as the place of what it leads to, it goes, or it is a stray, about which
// settle decides once all entries are known.
func (t *treeRepair) check(k string, e record.Entry) {
	parent, name, _ := record.ParseEntryKey([]byte(k)) // it was parsed before
	// Keys come in the order of directories, so this asks once for each directory.
	if parent != t.last || t.last == 0 {
		t.last = parent
		t.lastRemoved = t.removed(parent)
	}
	if t.lastRemoved {
		t.checkRemoved(k, e)
		return
	}
	dir := t.directory(parent)
	node := t.nodes[e.Inode]
	switch {
	// The removal of what was deleted has begun. With its entry it would be in use while it is removed.
	case t.isGarbage(record.GarbageNode, uint64(e.Inode)):
		t.dropEntry(k)
		t.tell(false, parent, "the entry %q of a deleted item", name)
	// By its record the directory of the entry is a file, which has no entries. What the entry leads to may have another
	// place.
	case dir == nil:
		t.strays[e.Inode] = append(t.strays[e.Inode], k)
	// A file without its record has no content that could be read under the name. The content that a snapshot has goes to
	// lost+found, and not to the name: it is not what the file was last.
	case node == nil && e.Kind == record.EntryFile, node != nil && node.snapshot != 0:
		t.dropEntry(k)
		t.tell(true, parent, "the file %q", name)
	// A directory without a record: the entry has its place and its name, which is all that is known of it.
	case node == nil:
		node = &foundNode{dir: true, made: true}
		t.nodes[e.Inode] = node
		t.tell(true, e.Inode, "owner, permissions and metadata of the directory")
		node.moveTo(parent, name)
	// The same, made already for an entry in it: keys are in the order of inodes, and those of a directory may precede the
	// one that leads to it. It has no place so far.
	case node.made && !node.placed && !node.root && node.parent == 0:
		node.moveTo(parent, name)
	// Entry and record agree. Only the kind, which both have, may differ, and the record knows it.
	case !node.root && node.parent == parent && node.name == name:
		node.placed = true
		if kind := node.kind(); kind != e.Kind {
			t.putEntry(parent, name, e.Inode, kind)
			t.tell(false, e.Inode, "the kind of the entry")
		}
	// The record has another place. Which of the two counts depends on what is there.
	default:
		t.strays[e.Inode] = append(t.strays[e.Inode], k)
	}
}

// checkRemoved is check for an entry of a directory that is being removed. The background will follow the entry and
// remove what it leads to, so that it stays only if that has its place here.
func (t *treeRepair) checkRemoved(k string, e record.Entry) {
	parent, name, _ := record.ParseEntryKey([]byte(k))
	switch node := t.nodes[e.Inode]; {
	// It has no record, and what is below it goes with it. As garbage of its own that is found also without the entry.
	case node == nil:
		t.dropEntry(k)
		t.discard(e.Inode)
	// It is somewhere else, where it is in use.
	case node.parent != parent || node.name != name:
		t.dropEntry(k)
	}
}

// moveTo gives a node a place whose entry leads to it.
func (f *foundNode) moveTo(parent record.Inode, name string) {
	f.parent = parent
	f.name = name
	f.placed = true
}

func (f *foundNode) kind() byte {
	if f.dir {
		return record.EntryDirectory
	}
	return record.EntryFile
}

// settle gives a file or directory a place if it has none: the one that its record has, that of another entry which
// leads to it, or one in lost+found, in this order.
func (t *treeRepair) settle(n record.Inode, node *foundNode) {
	switch {
	// A root has the place of its container. What is being removed has none.
	case node.root || t.isGarbage(record.GarbageNode, uint64(n)):
		return
	// It was deleted and can be restored, which takes no entry. With an entry, damage has brought back one of two records
	// that exclude each other. The place counts, since the purge of the deletion would remove what is in use.
	case len(t.trash[n]) > 0:
		if node.placed {
			for _, d := range t.trash[n] {
				t.writes.Delete(record.TrashBucket, d.key)
			}
			delete(t.trash, n)
			t.tell(false, n, "is in its place, and no longer among the files that can be restored")
		}
		return
	case node.placed:
		return
	// It was deleted with its directory, and must not appear again. With its entry the background reaches it through the
	// directory; without one nothing would find it again, so it becomes garbage of its own.
	case node.parent != 0 && t.removed(node.parent):
		if e, ok := t.entries[string(record.EntryKey(node.parent, node.name))]; !ok || e.Inode != n {
			t.discard(n)
		}
		return
	}
	if !t.usable(node) && t.takeStray(n, node) {
		return
	}
	var dir *foundNode
	if node.parent != 0 {
		dir = t.directory(node.parent)
		// The directory was made for what is in it. It may come later in the list of run, or not be in it. It has no name,
		// so this puts it into lost+found, and what is in it has a path again.
		if dir.lostItself() {
			t.settle(node.parent, dir)
		}
	}
	switch {
	case dir == nil, // its directory is not known, or is a file
		t.taken(node),      // the name leads to something else
		t.o.Doubtful,       // it may have been deleted after the record was written
		node.name == "",    // it was made by directory, which knows no name
		node.snapshot != 0: // its content is not what the file had last
		t.lose(n, node)
		return
	}
	t.putEntry(node.parent, node.name, n, node.kind())
	node.placed = true
	t.tell(false, n, "its entry was restored")
}

// usable reports whether a node can have the place that its record has. The record is believed before an entry
// elsewhere: a rename writes both in one transaction, so that of two places which differ one is damage, and the record
// is what everything else about the file is read from. Where newer records may be lost, it is not believed.
func (t *treeRepair) usable(node *foundNode) bool {
	dir := t.nodes[node.parent]
	return dir != nil && dir.dir && !t.taken(node) && !t.o.Doubtful
}

// takeStray makes the first entry elsewhere that leads to a node from a directory its place. The others stay strays,
// which run removes.
func (t *treeRepair) takeStray(n record.Inode, node *foundNode) bool {
	for i, k := range t.strays[n] {
		parent, name, _ := record.ParseEntryKey([]byte(k))
		if dir := t.nodes[parent]; dir == nil || !dir.dir {
			continue
		}
		t.strays[n] = slices.Delete(t.strays[n], i, i+1)
		node.moveTo(parent, name)
		node.changed = true
		if e := t.entries[k]; e.Kind != node.kind() {
			t.putEntry(parent, name, n, node.kind())
		}
		t.tell(false, n, "keeps this path, since the one that its record has cannot be used")
		return true
	}
	return false
}

// discard leaves an inode, and what is below it, to the background.
func (t *treeRepair) discard(n record.Inode) {
	t.writes.Put(record.GarbageBucket, record.GarbageKey(record.GarbageNode, uint64(n)), []byte{record.Version})
	t.garbage[[2]uint64{uint64(record.GarbageNode), uint64(n)}] = true
}

// lostItself reports whether a directory was made for what is in it, and has no place yet.
func (f *foundNode) lostItself() bool { return f != nil && f.made && !f.placed }

// taken reports whether the place of a node has another one.
func (t *treeRepair) taken(node *foundNode) bool {
	_, ok := t.entries[string(record.EntryKey(node.parent, node.name))]
	return ok
}

// lose puts a node into the directory for what has lost its name.
func (t *treeRepair) lose(n record.Inode, node *foundNode) {
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
	if len(name) > record.MaxSegment {
		name = fmt.Sprint(uint64(n))
	}
	if node.snapshot != 0 {
		t.tell(true, n, "is the content that the newest snapshot has, of %s", ticks.Ticks(node.snapshot).ISO())
	}
	node.moveTo(t.lostFound(root), name)
	node.changed = true
	t.putEntry(node.parent, name, n, node.kind())
	t.tell(false, n, "was moved here: its path is not known, or another file has it")
}

// deletedAbove is the deleted directory that an inode is in and with which it can be restored, 0 for none.
func (t *treeRepair) deletedAbove(n record.Inode) record.Inode {
	for range record.MaxNesting {
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
func (t *treeRepair) rootAbove(n record.Inode) record.Inode {
	for range record.MaxNesting {
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
func (t *treeRepair) containerOf(n record.Inode) []byte {
	if root := t.rootAbove(n); root != 0 {
		return []byte(t.roots[root])
	}
	return nil
}

// lostFound returns the directory for what has lost its name in a container or deleted directory, which it makes; of an
// unknown container it is in the only one, or in one for this purpose.
func (t *treeRepair) lostFound(root record.Inode) record.Inode {
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
		e, ok := t.entries[string(record.EntryKey(root, name))]
		if ok && e.Kind == record.EntryDirectory && t.nodes[e.Inode] != nil && t.nodes[e.Inode].dir {
			t.found[root] = e.Inode
			return e.Inode
		}
		if !ok {
			break
		}
		name = fmt.Sprintf("%s-%d", LostFound, i)
	}
	n := record.Inode(t.draw())
	t.nodes[n] = &foundNode{parent: root, name: name, dir: true, placed: true, made: true}
	t.putEntry(root, name, n, record.EntryDirectory)
	t.found[root] = n
	return n
}

// lostRoot returns the root for what has lost its container.
func (t *treeRepair) lostRoot() record.Inode {
	accounts := map[string]bool{}
	for n, key := range t.roots {
		account, name, err := record.ParseContainerKey([]byte(key))
		// roots has deleted containers as well. What is found must not go into one, where it would be purged.
		if err != nil || t.tx.Get(record.ContainersBucket, []byte(key)) == nil && !t.nodes[n].made {
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
	n := record.Inode(t.draw())
	key := string(record.ContainerKey(account, LostContainer))
	t.nodes[n] = &foundNode{name: key, dir: true, root: true, placed: true, made: true}
	t.container(n, account, LostContainer)
	return n
}

func (t *treeRepair) putEntry(parent record.Inode, name string, n record.Inode, kind byte) {
	e := record.Entry{Inode: n, Kind: kind}
	t.entries[string(record.EntryKey(parent, name))] = e
	t.writes.Put(record.NamesBucket, record.EntryKey(parent, name), e.Encode())
}

func (t *treeRepair) dropEntry(k string) {
	delete(t.entries, k)
	t.writes.Delete(record.NamesBucket, []byte(k))
}

// unlinkStray removes an entry that leads to a node that is elsewhere.
func (t *treeRepair) unlinkStray(k string) {
	e, ok := t.entries[k]
	parent, name, _ := record.ParseEntryKey([]byte(k))
	if node := t.nodes[e.Inode]; !ok || node != nil && node.parent == parent && node.name == name {
		return // it is its entry now
	}
	t.dropEntry(k)
	t.tell(false, e.Inode, "its second entry, %q in %s, is removed", name, t.path(parent))
}

// breakCycles moves directories that are their own ancestors.
func (t *treeRepair) breakCycles() {
	good := map[record.Inode]bool{}
	for _, n := range slices.Sorted(maps.Keys(t.nodes)) {
		var passed []record.Inode
		seen := map[record.Inode]bool{}
		// Each way ends at an inode that is known to be good, at the end of a tree, or at one that this way has passed.
		// All that it passed is good afterwards, so that each inode is visited once.
		for at := n; !good[at]; {
			node := t.nodes[at]
			if node == nil || node.root || t.isGarbage(record.GarbageNode, uint64(at)) || len(t.trash[at]) > 0 {
				break
			}
			if seen[at] {
				// A cycle leads to no root, so its container is not known. Without a parent, lose looks for none, and does not
				// walk around the cycle.
				t.dropEntry(string(record.EntryKey(node.parent, node.name)))
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
func (t *treeRepair) moved(n record.Inode, p record.Pending) record.Pending {
	if node := t.nodes[n]; node != nil && node.bare {
		p.Parent = node.parent
		p.Name = node.name
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
			t.writes.Put(record.PendingBucket, record.PendingKey(n.Item()), t.moved(n, t.pendings[n]).Encode())
			continue
		}
		var b record.Blob
		if node.snapshot != 0 {
			if err := record.LoadBlob(t.tx, n.Item(), node.snapshot, &b); err != nil {
				return err
			}
			// The snapshot may be soft-deleted; the file is not. The record is one more that refers to the content, and
			// references writes the new number after this.
			if b.Deleted, b.KeptDays, b.Slot = 0, 0, record.BaseSlot; b.Content.ID != 0 {
				t.refers[b.Content.ID]++
			}
		} else if node.made {
			b = record.NewRoot(posix.SuperUser, node.name)
			b.Created = t.now
			b.Changed = t.now
			b.Node.Access = posix.Of(0o700)
		} else if err := record.LoadBlob(t.tx, n.Item(), record.BaseSlot, &b); err != nil {
			return err
		}
		// A node is not changed in place; see Node.
		at := *b.Node
		at.Parent = node.parent
		at.Name = node.name
		b.Node = &at
		t.writes.Put(record.BlobsBucket, record.BlobKey(n.Item(), record.BaseSlot), b.Encode())
	}
	return nil
}
