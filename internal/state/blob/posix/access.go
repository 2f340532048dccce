package posix

import (
	"slices"
	"strings"
)

// Perm is a set of permissions.
type Perm byte

const (
	Execute Perm = 1 << iota
	Write
	Read
	All = Read | Write | Execute
)

// String is the form of three characters, such as "r-x".
func (p Perm) String() string { return string(p.append(make([]byte, 0, 3))) }

func (p Perm) append(b []byte) []byte {
	for i, q := range [...]Perm{Read, Write, Execute} {
		if p&q != 0 {
			b = append(b, "rwx"[i])
		} else {
			b = append(b, '-')
		}
	}
	return b
}

// SuperUser is the owner of what a caller with an account key creates. It passes every check.
const SuperUser = "$superuser"

// Named is the entry of a user or a group.
type Named struct {
	Group bool
	ID    string
	Perm  Perm
}

// MaxNamed is the maximum number of named entries of one list: 32 entries, of which four are those of the owner, the
// owning group, the mask and others.
const MaxNamed = 28

// List is an access control list. HasMask is set in every list with named entries.
type List struct {
	Owner, Group, Other, Mask Perm
	HasMask                   bool
	// Named is in the order of [compareNamed] and is not changed.
	Named []Named
}

// extended reports whether the list has more than the permissions of owner, group and others.
func (l *List) extended() bool { return l.HasMask || len(l.Named) > 0 }

// limit holds what the mask leaves of p.
func (l *List) limit(p Perm) Perm {
	if l.HasMask {
		return p & l.Mask
	}
	return p
}

// recomputeMask sets the mask to the union of all permissions that it limits.
func (l *List) recomputeMask() {
	l.Mask, l.HasMask = l.Group, true
	for _, n := range l.Named {
		l.Mask |= n.Perm
	}
}

func compareNamed(a, b Named) int {
	if a.Group != b.Group {
		if b.Group {
			return -1
		}
		return 1
	}
	return strings.Compare(a.ID, b.ID)
}

// sameID reports whether two object IDs are equal: the case of their letters has no meaning.
func sameID(a, b string) bool { return strings.EqualFold(a, b) }

// Access is the access control of one file or directory.
type Access struct {
	List
	// Sticky lets only the owner of an item in the directory, or of the directory, delete or rename the item.
	Sticky bool
	// Default is the list that new children of a directory get, nil for none. It is not changed.
	Default *List
}

// Mode is permissions without named entries: those of owner, group and others, and the sticky bit.
type Mode uint16

// The modes of new items without a default list above them, before the umask.
// https://learn.microsoft.com/rest/api/storageservices/datalakestoragegen2/path/create
const (
	NewDirectory Mode = 0o777
	NewFile      Mode = 0o666
	DefaultUmask Mode = 0o027
	// Sticky is the bit of [Access.Sticky].
	Sticky Mode = 0o1000
)

func (m Mode) list() List {
	return List{Owner: Perm(m >> 6 & 7), Group: Perm(m >> 3 & 7), Other: Perm(m & 7)}
}

// Of returns the access of an item with a mode alone.
func Of(m Mode) Access { return Access{List: m.list(), Sticky: m&Sticky != 0} }

// Mode returns the permissions as they are shown: of an item with a mask, the mask stands for the group.
func (a *Access) Mode() Mode {
	group := a.Group
	if a.HasMask {
		group = a.Mask
	}
	m := Mode(a.Owner)<<6 | Mode(group)<<3 | Mode(a.Other)
	if a.Sticky {
		m |= Sticky
	}
	return m
}

// Permissions is the symbolic form: "rwxr-x---", with t or T in the last place for the sticky bit, and + behind it if
// there is more in the list.
func (a *Access) Permissions() string { return string(a.AppendPermissions(make([]byte, 0, 10))) }

// AppendPermissions appends [Access.Permissions] to b.
func (a *Access) AppendPermissions(b []byte) []byte {
	m := a.Mode()
	b = Perm(m & 7).append(Perm(m >> 3 & 7).append(Perm(m >> 6 & 7).append(b)))
	if last := &b[len(b)-1]; a.Sticky {
		if *last == 'x' {
			*last = 't'
		} else {
			*last = 'T'
		}
	}
	if a.extended() || a.Default != nil {
		b = append(b, '+')
	}
	return b
}

// Chmod returns a with another mode: of an item with a mask, the group's part changes the mask.
func (a Access) Chmod(m Mode) Access {
	l := m.list()
	a.Owner, a.Other, a.Sticky = l.Owner, l.Other, m&Sticky != 0
	if a.HasMask {
		a.Mask = l.Group
	} else {
		a.Group = l.Group
	}
	return a
}

// Child returns the access of a new child of a directory. mode is the one that is asked for. The default list of the
// directory limits it, or else the umask does.
func (a *Access) Child(directory bool, mode, umask Mode) Access {
	if a.Default == nil {
		return Of(mode &^ umask)
	}
	child := Access{List: *a.Default, Sticky: mode&Sticky != 0}
	want := mode.list()
	child.Owner &= want.Owner
	child.Other &= want.Other
	if child.HasMask {
		child.Mask &= want.Group
	} else {
		child.Group &= want.Group
	}
	if directory {
		child.Default = a.Default
	}
	return child
}

// Caller is the principal on whose behalf a request is made. Nil is the superuser.
type Caller struct {
	// ID is the object ID; Groups are the object IDs of the caller's groups.
	ID     string
	Groups []string
	// Checked lets the lists decide. Otherwise a role or a token has permitted the request, and only the owner of new
	// items depends on the caller.
	Checked bool
	// Agent is set for a user in whose name a token acts: the lists do not limit the user, but what depends on ownership
	// does. Owns is set if the token lets the user act as the owner of everything.
	// https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas#specify-a-signed-object-id
	Agent, Owns bool
}

// Super reports whether no list limits the caller.
func (c *Caller) Super() bool { return c == nil || !c.Checked }

// Limited reports whether lists, or what the caller owns, limit what the caller may remove.
func (c *Caller) Limited() bool { return c != nil && (c.Checked || c.Agent && !c.Owns) }

// Owner is the owner of what the caller creates.
func (c *Caller) Owner() string {
	if c == nil || c.ID == "" {
		return SuperUser
	}
	return c.ID
}

// In reports whether the caller is in a group.
func (c *Caller) In(group string) bool {
	return slices.ContainsFunc(c.Groups, func(g string) bool { return sameID(g, group) })
}

// MayChmod reports whether the caller may change the permissions and the list of an item: its owner, and the superuser.
func (c *Caller) MayChmod(owner string) bool {
	return c == nil || !c.Checked && (!c.Agent || c.Owns) || sameID(c.ID, owner)
}

// MayChown reports whether the caller may give an item, or a new one, to another owner: only the superuser may. A user
// in whose name a token acts may take it, and cannot give it to others.
func (c *Caller) MayChown(from, to string) bool {
	switch {
	case c == nil || !c.Checked && !c.Agent, sameID(to, from):
		return true
	}
	return c.Agent && !c.Checked && sameID(to, c.ID)
}

// MayChgrp reports whether the caller may give an item to another group: the superuser may, and its owner to a group
// that the owner is in.
func (c *Caller) MayChgrp(owner, from, to string) bool {
	switch {
	case c == nil || !c.Checked && !c.Agent, sameID(to, from):
		return true
	case c.Checked && !sameID(c.ID, owner):
		return false
	}
	return c.In(to)
}

// MayUnlink reports whether the caller may remove an item from a directory that has the sticky bit: the owner of
// either, and the superuser.
func (c *Caller) MayUnlink(item, directory string) bool {
	return c == nil || !c.Checked && (!c.Agent || c.Owns) || sameID(c.ID, item) || sameID(c.ID, directory)
}

// Allows reports whether the caller has all permissions in want on an item with an owner and an owning group. The first
// class that the caller is in decides: owner, named user, the groups together, others.
func (a *Access) Allows(c *Caller, owner, group string, want Perm) bool {
	if c.Super() {
		return true
	}
	if sameID(c.ID, owner) {
		return a.Owner&want == want
	}
	for _, n := range a.Named {
		if !n.Group && sameID(n.ID, c.ID) {
			return a.limit(n.Perm)&want == want
		}
	}
	member := false
	if c.In(group) {
		if a.limit(a.Group)&want == want {
			return true
		}
		member = true
	}
	for _, n := range a.Named {
		if n.Group && c.In(n.ID) {
			if a.limit(n.Perm)&want == want {
				return true
			}
			member = true
		}
	}
	return !member && a.Other&want == want
}
