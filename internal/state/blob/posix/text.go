package posix

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// ErrInvalid means that a text is not a list, or not a mode.
var ErrInvalid = errors.New("posix: invalid access control list or permissions")

// ParseMode parses permissions: octal of three or four digits, or the symbolic form.
func ParseMode(s string) (Mode, error) {
	if len(s) >= 3 && len(s) <= 4 && s[0] >= '0' && s[0] <= '9' {
		n, err := strconv.ParseUint(s, 8, 16)
		if err != nil || n > 0o1777 {
			return 0, ErrInvalid
		}
		return Mode(n), nil
	}
	s = strings.TrimSuffix(s, "+")
	if len(s) != 9 {
		return 0, ErrInvalid
	}
	var m Mode
	for i := range 9 {
		c := s[i]
		switch {
		case c == '-':
		case c == "rwxrwxrwx"[i]:
			m |= 1 << (8 - i)
		case i == 8 && c == 't':
			m |= 1 | Sticky
		case i == 8 && c == 'T':
			m |= Sticky
		default:
			return 0, ErrInvalid
		}
	}
	return m, nil
}

// ParseUmask parses a umask: four octal digits, or three.
func ParseUmask(s string) (Mode, error) {
	n, err := strconv.ParseUint(s, 8, 16)
	if err != nil || n > 0o777 || len(s) < 3 || len(s) > 4 {
		return 0, ErrInvalid
	}
	return Mode(n), nil
}

// String is the form of x-ms-acl: the entries of the list, then those of the default list.
func (a *Access) String() string {
	b := a.List.append(nil, "")
	if a.Default != nil {
		b = a.Default.append(b, "default:")
	}
	return string(b)
}

func (l *List) append(b []byte, scope string) []byte {
	add := func(kind, id string, p Perm) {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(append(append(append(append(b, scope...), kind...), ':'), id...), ':')
		b = p.append(b)
	}
	add("user", "", l.Owner)
	for _, n := range l.Named {
		if !n.Group {
			add("user", n.ID, n.Perm)
		}
	}
	add("group", "", l.Group)
	for _, n := range l.Named {
		if n.Group {
			add("group", n.ID, n.Perm)
		}
	}
	if l.HasMask {
		add("mask", "", l.Mask)
	}
	add("other", "", l.Other)
	return b
}

// entry is one entry of a text. The perm of an entry to remove is not used.
type entry struct {
	kind byte // 'u', 'g', 'm' or 'o'
	id   string
	perm Perm
}

// Entries are the entries of a text: of the list itself, and of the default list.
type Entries struct{ access, defaults []entry }

// Defaults reports whether there are entries of the default list.
func (e *Entries) Defaults() bool { return len(e.defaults) > 0 }

// maxText is the maximum length of a text of entries: 64 entries of a GUID, with room.
const maxText = 8 << 10

// ParseEntries parses "[scope:]type:[id]:[permissions]" entries that commas separate. remove parses entries to remove,
// which have no permissions.
func ParseEntries(s string, remove bool) (e Entries, err error) {
	if len(s) > maxText || s == "" {
		return e, ErrInvalid
	}
	for text := range strings.SplitSeq(s, ",") {
		text = strings.TrimSpace(text)
		rest, isDefault := strings.CutPrefix(text, "default:")
		if remove && text == "default" {
			return e, ErrInvalid
		}
		x, err := parseEntry(rest, remove)
		if err != nil {
			return e, err
		}
		list := &e.access
		if isDefault {
			list = &e.defaults
		}
		if slices.ContainsFunc(*list, func(y entry) bool { return y.kind == x.kind && sameID(y.id, x.id) }) {
			return e, ErrInvalid
		}
		*list = append(*list, x)
	}
	return e, nil
}

func parseEntry(s string, remove bool) (x entry, err error) {
	parts := strings.Split(s, ":")
	switch {
	case len(parts) == 3 && !remove:
	case len(parts) == 3 && parts[2] == "", remove && len(parts) == 2:
	case remove && len(parts) == 1:
		parts = append(parts, "")
	default:
		return x, ErrInvalid
	}
	switch parts[0] {
	case "user", "group":
		x.kind = parts[0][0]
	case "mask", "other":
		if x.kind = parts[0][0]; parts[1] != "" {
			return x, ErrInvalid
		}
	default:
		return x, ErrInvalid
	}
	if x.id = parts[1]; len(x.id) > 256 || strings.ContainsFunc(x.id, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return x, ErrInvalid
	}
	if remove {
		return x, nil
	}
	if x.perm, err = ParsePerm(parts[2]); err != nil {
		return x, err
	}
	return x, nil
}

// ParsePerm parses permissions of one class: "r-x", or an octal digit.
func ParsePerm(s string) (p Perm, err error) {
	if len(s) == 1 && s[0] >= '0' && s[0] <= '7' {
		return Perm(s[0] - '0'), nil
	}
	if len(s) != 3 {
		return 0, ErrInvalid
	}
	for i, q := range [...]Perm{Read, Write, Execute} {
		switch s[i] {
		case '-':
		case "rwx"[i]:
			p |= q
		default:
			return 0, ErrInvalid
		}
	}
	return p, nil
}

// Set returns a with the list that the entries are. A list needs entries of the owner, the owning group and others. The
// default list is replaced as well: without entries the item has none afterwards. A file ignores entries of the default
// list.
func (e *Entries) Set(a Access, directory bool) (Access, error) {
	l, err := setList(e.access)
	if err != nil {
		return a, err
	}
	a.List, a.Default = l, nil
	if len(e.defaults) > 0 && directory {
		d, err := completed(e.defaults, l)
		if err != nil {
			return a, err
		}
		a.Default = &d
	}
	return a, nil
}

// Replace is Set for one item. Entries of the owner, the owning group and others that are missing stay as they are, and
// so does the list itself if all of its entries are missing. A file cannot have entries of the default list.
func (e *Entries) Replace(a Access, directory bool) (Access, error) {
	if len(e.defaults) > 0 && !directory {
		return a, ErrInvalid
	}
	out := Access{List: a.List, Sticky: a.Sticky}
	if len(e.access) > 0 {
		var err error
		if out.List, err = completed(e.access, a.List); err != nil {
			return a, err
		}
	}
	if len(e.defaults) > 0 {
		d, err := completed(e.defaults, out.List)
		if err != nil {
			return a, err
		}
		out.Default = &d
	}
	return out, nil
}

func setList(entries []entry) (l List, err error) {
	var seen [3]bool
	for _, x := range entries {
		if x.id == "" {
			if i := strings.IndexByte("ugo", x.kind); i >= 0 {
				seen[i] = true
			}
		}
	}
	if seen != [...]bool{true, true, true} {
		return l, ErrInvalid
	}
	return l, l.merge(entries)
}

// completed is a list of the entries; those of the owner, the owning group and others that are missing are those of of.
func completed(entries []entry, of List) (l List, err error) {
	l.Owner, l.Group, l.Other = of.Owner, of.Group, of.Other
	return l, l.merge(entries)
}

// merge adds entries or replaces their permissions. Without an entry of the mask, a mask that the list needs is
// computed.
func (l *List) merge(entries []entry) error {
	named := slices.Clone(l.Named)
	mask := false
	for _, x := range entries {
		switch {
		case x.kind == 'm':
			l.Mask, l.HasMask, mask = x.perm, true, true
		case x.kind == 'o':
			l.Other = x.perm
		case x.id != "":
			n := Named{Group: x.kind == 'g', ID: x.id, Perm: x.perm}
			if i := slices.IndexFunc(named, func(o Named) bool { return o.Group == n.Group && sameID(o.ID, n.ID) }); i >= 0 {
				named[i] = n
			} else {
				named = append(named, n)
			}
		case x.kind == 'u':
			l.Owner = x.perm
		default:
			l.Group = x.perm
		}
	}
	slices.SortFunc(named, compareNamed)
	if l.Named = named; len(named) > MaxNamed {
		return ErrInvalid
	}
	if !mask && (len(named) > 0 || l.HasMask) {
		l.recomputeMask()
	}
	return nil
}

// Modify returns a with the entries added, or their permissions replaced.
func (e *Entries) Modify(a Access, directory bool) (Access, error) {
	if len(e.access) > 0 {
		if err := a.merge(e.access); err != nil {
			return a, err
		}
	}
	if len(e.defaults) > 0 && directory {
		d := List{Owner: a.Owner, Group: a.Group, Other: a.Other}
		if a.Default != nil {
			d = *a.Default
		}
		if err := d.merge(e.defaults); err != nil {
			return a, err
		}
		a.Default = &d
	}
	return a, nil
}

// Remove returns a without the entries. The entries of the owner, the owning group and others of the list itself cannot
// be removed: that fails with [ErrInvalid]. Those of the default list can be removed only with all the rest of it.
func (e *Entries) Remove(a Access) (Access, error) {
	for _, x := range e.access {
		if x.id == "" && x.kind != 'm' {
			return a, ErrInvalid
		}
	}
	a.remove(e.access)
	if a.Default == nil || len(e.defaults) == 0 {
		return a, nil
	}
	d := *a.Default
	d.remove(e.defaults)
	base := 0
	for _, x := range e.defaults {
		if x.id == "" && x.kind != 'm' {
			base++
		}
	}
	switch {
	case base == 0:
		a.Default = &d
	case base == 3 && len(d.Named) == 0, len(d.Named) == 0 && !d.HasMask:
		a.Default = nil
	default:
		return a, ErrInvalid
	}
	return a, nil
}

func (l *List) remove(entries []entry) {
	mask := false
	named := slices.Clone(l.Named)
	for _, x := range entries {
		if x.kind == 'm' {
			mask = true
		} else if x.id != "" {
			named = slices.DeleteFunc(named, func(n Named) bool { return n.Group == (x.kind == 'g') && sameID(n.ID, x.id) })
		}
	}
	changed := len(named) != len(l.Named)
	l.Named = named
	switch {
	case len(named) == 0 && (mask || !l.HasMask):
		l.Mask, l.HasMask = 0, false
	case changed || mask:
		l.recomputeMask()
	}
}
