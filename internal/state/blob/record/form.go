package record

import (
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// forms are those of the records that listings meet in rows. There are two, since directories and files take turns.
type forms struct {
	of   [2]form
	last int // the one that fitted or was taken last
	// taken counts the forms. misses counts the records since the last one that had a form.
	taken, misses uint32
}

// maxMisses is the number of records without a known form after which only one of as many is compared.
const maxMisses = 16

// form is what a record has in common with others that were written in the same way: all but the fields up to the
// pieces, the MD5, the parent and the name. Of a record with a known form only these are read.
type form struct {
	number uint32 // see Texts.Form
	// blob and node are what the record was decoded to that the form was taken of.
	blob Blob
	node Node
	// What follows the pieces is first, an MD5 of md5 bytes, middle and last; without an MD5 first is "". Between middle
	// and last are the parent and the name, if the record has a node.
	first, middle, last string
	md5                 int
}

// head is what the fields up to the pieces say.
type head struct {
	kind             Kind
	created, changed ticks.Ticks
	length           int64
	content          uint64
}

// head reads the fields up to the pieces, as decodeBlobFrom does.
func (d *decoder) head() (h head) {
	for d.more() {
		switch d.s[0] {
		case btKind:
			d.byte()
			h.kind = Kind(d.uint())
		case btCreated:
			d.byte()
			h.created = ticks.Ticks(d.uint())
			h.changed = h.created
		case btChanged:
			d.byte()
			h.changed = ticks.Ticks(d.uint())
		case btLength:
			d.byte()
			h.length = int64(d.uint())
		case btContentID:
			d.byte()
			h.content = d.uint()
		case btPieces:
			d.byte()
			d.skipPieces()
		default:
			return h
		}
	}
	return h
}

// decode decodes a record and returns the number of its form. For a record without a known form it returns 0, and
// leaves b as it is.
func (f *forms) decode(d decoder, b *Blob) uint32 {
	// Of many records in a row that have no known form most are not compared, which would cost more than it saves.
	if f.taken == 0 || f.misses > maxMisses && f.misses%maxMisses != 0 {
		return 0
	}
	h := d.head()
	if d.bad {
		return 0
	}
	for i := range f.of {
		i = (f.last + i) % len(f.of)
		if one := &f.of[i]; one.decode(d, &h, b) {
			f.last = i
			f.misses = 0
			return one.number
		}
	}
	return 0
}

// decode is that of forms, behind the fields of h.
func (f *form) decode(d decoder, h *head, b *Blob) (ok bool) {
	if f.number == 0 || h.kind != f.blob.Kind || h.length < 0 {
		return false
	}
	// Nothing is written to b before all of the record has matched: the caller tries the next form with the same b.
	md5 := ""
	if f.md5 > 0 {
		if d.s, ok = strings.CutPrefix(d.s, f.first); !ok || len(d.s) < f.md5 {
			return false
		}
		md5, d.s = d.s[:f.md5], d.s[f.md5:]
	}
	if d.s, ok = strings.CutPrefix(d.s, f.middle); !ok {
		return false
	}
	var parent Inode
	var name string
	if f.blob.Node != nil {
		parent, name = Inode(d.uint()), d.string()
	}
	if d.bad || d.s != f.last {
		return false
	}
	*b = f.blob
	b.Created = h.created
	b.Changed = h.changed
	b.Length = h.length
	b.Content.ID = h.content
	b.Headers.MD5 = md5
	if b.Node != nil {
		b.Node.Parent = parent
		b.Node.Name = name
	}
	return true
}

// take takes the form of a record, which was decoded to b. It returns 0 if the record has none: it has more than what
// most blobs have.
func (f *forms) take(d decoder, b *Blob) uint32 {
	// Where each record has a form of its own, as blobs with different metadata have, the attempts become rare: the
	// first, the second, the fourth miss and so on.
	if f.misses++; f.misses&(f.misses-1) != 0 {
		return 0
	}
	var taken form
	var last string
	node := false
	d.head()
	rest := d.s
	for d.more() {
		switch d.byte() {
		case btType, btEncoding, btLanguage, btCache, btDisposition:
			d.string()
		case btMetadata:
			d.metadata()
		case btLake:
			d.bool()
		case btMD5:
			n := len(d.string())
			if n == 0 {
				break
			}
			if taken.md5 > 0 || node { // not written by Encode
				return 0
			}
			taken.md5 = n
			taken.first = rest[:len(rest)-len(d.s)-n]
			rest = d.s
		case btNode:
			if node {
				return 0
			}
			node = true
			taken.middle = rest[:len(rest)-len(d.s)]
			name := d
			name.uint()
			name.string()
			last = name.s
			d.node()
		// Tags, versions and whatever else says that something has happened to the blob.
		default:
			return 0
		}
	}
	if !node {
		taken.middle = rest
	}
	taken.last = last
	i := (f.last + 1) % len(f.of)
	f.last = i
	f.taken++
	// Numbers of one place are not those of the other one: what is kept for a form by its number replaces that of the
	// form before.
	taken.number = 2*f.taken + uint32(i)
	taken.blob = *b
	taken.blob.Metadata = slices.Clone(b.Metadata) // the list is used again
	f.of[i] = taken
	if node {
		f.of[i].node = *b.Node
		f.of[i].blob.Node = &f.of[i].node
	}
	return taken.number
}
