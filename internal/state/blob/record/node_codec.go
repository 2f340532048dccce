package record

import "github.com/lazuli-storage/lazuli/internal/state/blob/posix"

// The part of a blob record that a tree needs: parent inode, name, flags, permissions, then what the flags name. An
// owner or group that is the superuser is stored as "".

const (
	nodeDirectory = 1 << iota
	nodeNamed     // the list has a mask and named entries
	nodeDefault   // and a default list follows
	nodeContext
	nodeImplicit
	nodeTransaction
	nodeRemoved
)

func (e *encoder) node(n *Node) {
	if n == nil {
		return
	}
	e.tag(btNode)
	e.uvarint(uint64(n.Parent))
	e.string(n.Name)
	a := &n.Access
	// The flags come first, since they say which of the fields follow: most files have neither a list, a context nor a
	// transaction, and take no byte for them.
	var flags byte
	if n.Directory {
		flags |= nodeDirectory
	}
	if a.HasMask || len(a.Named) > 0 {
		flags |= nodeNamed
	}
	if a.Default != nil {
		flags |= nodeDefault
	}
	if n.Context != "" {
		flags |= nodeContext
	}
	if n.Implicit {
		flags |= nodeImplicit
	}
	if n.Transaction != "" {
		flags |= nodeTransaction
	}
	if n.Removed {
		flags |= nodeRemoved
	}
	e.b = append(e.b, flags)
	owner := func(s string) {
		// The superuser owns most nodes of most trees, and takes no byte so.
		if s == posix.SuperUser {
			s = ""
		}
		e.string(s)
	}
	owner(n.Owner)
	owner(n.Group)
	e.b = append(e.b, oneIf(a.Sticky))
	e.acl(&a.List, flags&nodeNamed != 0)
	if a.Default != nil {
		e.acl(a.Default, true)
	}
	if n.Context != "" {
		e.string(n.Context)
	}
	if n.Transaction != "" {
		e.string(n.Transaction)
	}
}

func (e *encoder) acl(l *posix.List, named bool) {
	e.uvarint(uint64(l.Owner)<<6 | uint64(l.Group)<<3 | uint64(l.Other))
	if !named {
		return
	}
	mask := byte(0xff)
	if l.HasMask {
		mask = byte(l.Mask)
	}
	e.b = append(e.b, mask)
	e.uvarint(uint64(len(l.Named)))
	for _, n := range l.Named {
		e.b = append(e.b, byte(n.Perm)|oneIf(n.Group)<<7)
		e.string(n.ID)
	}
}

func oneIf(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (d *decoder) node() *Node {
	// Listings decode into one node again and again, which is valid until the next record.
	n := d.room
	if n == nil {
		n = new(Node)
	}
	*n = Node{Parent: Inode(d.uint()), Name: d.string()}
	flags := d.byte()
	owner := func() string {
		if s := d.string(); s != "" {
			return s
		}
		return posix.SuperUser
	}
	n.Directory = flags&nodeDirectory != 0
	n.Owner = owner()
	n.Group = owner()
	n.Implicit = flags&nodeImplicit != 0
	n.Removed = flags&nodeRemoved != 0
	n.Access.Sticky = d.byte() == 1
	n.Access.List = d.acl(flags&nodeNamed != 0)
	if flags&nodeDefault != 0 {
		l := d.acl(true)
		n.Access.Default = &l
	}
	if flags&nodeContext != 0 {
		n.Context = d.string()
	}
	if flags&nodeTransaction != 0 {
		n.Transaction = d.string()
	}
	return n
}

func (d *decoder) acl(named bool) (l posix.List) {
	m := d.uint()
	l.Owner = posix.Perm(m >> 6 & 7)
	l.Group = posix.Perm(m >> 3 & 7)
	l.Other = posix.Perm(m & 7)
	if !named {
		return l
	}
	// 0xff is no permission and says that the list has no mask, which is another state than a mask without permissions.
	if mask := d.byte(); mask != 0xff {
		l.Mask = posix.Perm(mask & 7)
		l.HasMask = true
	}
	if n := d.count(2); n > 0 {
		l.Named = make([]posix.Named, n)
		for i := range l.Named {
			p := d.byte()
			l.Named[i] = posix.Named{Group: p&0x80 != 0, Perm: posix.Perm(p & 7), ID: d.string()}
		}
	}
	return l
}
