package posix

import (
	"slices"
	"strings"
	"testing"
)

// parse returns the access that a text of entries is.
func parse(t testing.TB, text string) Access {
	t.Helper()
	e, err := ParseEntries(text, false)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	a, err := e.Set(Access{}, true)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return a
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, want, permissions string }{
		{"user::rwx,group::r-x,other::---", "user::rwx,group::r-x,other::---", "rwxr-x---"},
		{"other::---,group::r-x,user::rwx", "user::rwx,group::r-x,other::---", "rwxr-x---"},
		{"user::rwx,group::r--,other::---,user:b:rw-,group:a:-wx",
			"user::rwx,user:b:rw-,group::r--,group:a:-wx,mask::rwx,other::---", "rwxrwx---+"},
		{"user::rwx,user:b:rwx,group::r--,mask::r--,other::---", "user::rwx,user:b:rwx,group::r--,mask::r--,other::---",
			"rwxr-----+"},
		{"user::rwx,group::r--,other::---,default:user:b:rw-",
			"user::rwx,group::r--,other::---,default:user::rwx,default:user:b:rw-,default:group::r--,default:mask::rw-,default:other::---", "rwxr-----+"},
	} {
		a := parse(t, tc.text)
		if a.String() != tc.want || a.Permissions() != tc.permissions {
			t.Errorf("%s: %s %s, want %s %s", tc.text, a.String(), a.Permissions(), tc.want, tc.permissions)
		}
		if again := parse(t, a.String()); again.String() != a.String() {
			t.Errorf("%s became %s", a.String(), again.String())
		}
	}
	for _, text := range []string{"", "user::rwx", "user::rwx,group::r-x", "user::rwx,group::r-x,other::---,other::---",
		"user::rwz,group::r-x,other::---",
		"user::rwx,group::r-x,other:x:---", "user::rwx,group::r-x,other::---,robot::---",
		"user::rwx,group::r-x,other::---," + strings.Repeat("user:x:rwx,", 40)} {
		e, err := ParseEntries(text, false)
		if err == nil {
			_, err = e.Set(Access{}, true)
		}
		if err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestMode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Mode{"0777": 0o777, "750": 0o750, "1777": 0o1777, "rwxr-x---": 0o750,
		"rwxrwxrwt": 0o1777, "rwx-----T": 0o1700, "rw-r-----+": 0o640} {
		if m, err := ParseMode(text); err != nil || m != want {
			t.Errorf("%s: %o, %v; want %o", text, m, err, want)
		}
	}
	for _, text := range []string{"", "8", "0888", "2777", "rwx", "rwxrwxrwz", "77777"} {
		if m, err := ParseMode(text); err == nil {
			t.Errorf("%q is %o", text, m)
		}
	}
	a := parse(t, "user::rwx,user:b:rwx,group::r-x,mask::rwx,other::---").Chmod(0o640)
	if a.String() != "user::rw-,user:b:rwx,group::r-x,mask::r--,other::---" {
		t.Errorf("chmod of a list with a mask: %s", a.String())
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	a := parse(t, "user::rwx,user:b:rwx,group::r-x,other::---,default:user:c:r--")
	change := func(text string, remove bool) Access {
		e, err := ParseEntries(text, remove)
		if err != nil {
			t.Fatal(err)
		}
		var out Access
		if remove {
			out, err = e.Remove(a)
		} else {
			out, err = e.Modify(a, true)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := a.String()
	for _, tc := range []struct {
		text   string
		remove bool
		want   string
	}{
		{"user:b:---,other::r--", false, "user::rwx,user:b:---,group::r-x,mask::r-x,other::r--"},
		{"user:b,mask", true, "user::rwx,group::r-x,other::---"},
	} {
		got, _, _ := strings.Cut(ptr(change(tc.text, tc.remove)).String(), ",default:")
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.text, got, tc.want)
		}
	}
	if a.String() != before {
		t.Errorf("the list itself became %s", a.String())
	}
	e, _ := ParseEntries("user,group", true)
	if _, err := e.Remove(a); err == nil {
		t.Error("the entry of the owner was removed")
	}
}

func ptr(a Access) *Access { return &a }

// model decides as POSIX.1e says it, over the list in text form.
func model(acl, owner, group string, c *Caller, want Perm) bool {
	entries := map[string]Perm{}
	var named [][3]string
	for part := range strings.SplitSeq(acl, ",") {
		if strings.HasPrefix(part, "default:") {
			continue
		}
		f := strings.Split(part, ":")
		p, _ := ParsePerm(f[2])
		if f[1] == "" {
			entries[f[0]] = p
		} else {
			named = append(named, [3]string(f))
		}
	}
	mask, masked := entries["mask"]
	if !masked {
		mask = All
	}
	if c.ID == owner {
		return entries["user"]&want == want
	}
	for _, n := range named {
		if n[0] == "user" && n[1] == c.ID {
			p, _ := ParsePerm(n[2])
			return p&mask&want == want
		}
	}
	in, grants := false, false
	for _, g := range c.Groups {
		if g == group {
			in, grants = true, grants || entries["group"]&mask&want == want
		}
		for _, n := range named {
			if n[0] == "group" && n[1] == g {
				p, _ := ParsePerm(n[2])
				in, grants = true, grants || p&mask&want == want
			}
		}
	}
	if in {
		return grants
	}
	return entries["other"]&want == want
}

func FuzzAllows(f *testing.F) {
	f.Add(uint16(0o750), uint8(5), uint8(3), uint8(7), uint8(0), uint8(4), uint8(1))
	f.Fuzz(func(t *testing.T, mode uint16, bob, staff, mask, who, want, flags uint8) {
		perm := func(p uint8) Perm { return Perm(p) & All }
		a := Of(Mode(mode) & 0o1777)
		if flags&1 != 0 {
			a.Named = append(a.Named, Named{ID: "bob", Perm: perm(bob)})
		}
		if flags&2 != 0 {
			a.Named = append(a.Named, Named{Group: true, ID: "staff", Perm: perm(staff)})
		}
		if a.HasMask = flags&4 != 0 || len(a.Named) > 0; a.HasMask {
			a.Mask = perm(mask)
		}
		c := &Caller{ID: []string{"owner", "bob", "eve"}[who%3], Checked: true}
		for i, g := range []string{"staff", "owners", "others"} {
			if who>>(2+i)&1 != 0 {
				c.Groups = append(c.Groups, g)
			}
		}
		if got, want := a.Allows(c, "owner", "owners", perm(want)),
			model(a.String(), "owner", "owners", c, perm(want)); got != want {
			t.Errorf("%s of owner:owners, caller %s %v: %v, want %v", a.String(), c.ID, c.Groups, got, want)
		}
	})
}

func FuzzEntries(f *testing.F) {
	f.Add("user::rwx,user:b:rw-,group::r--,mask::rwx,other::---,default:user::rwx,default:group::---,default:other::---",
		false)
	f.Add("mask,default:user,user:x", true)
	f.Fuzz(func(t *testing.T, text string, remove bool) {
		e, err := ParseEntries(text, remove)
		if err != nil {
			return
		}
		base := Of(0o750)
		if remove {
			_, _ = e.Remove(base)
			return
		}
		a, err := e.Set(base, true)
		if err != nil {
			return
		}
		if again := parse(t, a.String()); again.String() != a.String() {
			t.Errorf("%q became %q and then %q", text, a.String(), again.String())
		}
	})
}

// Every class of caller, on lists of every shape.
func TestAllowsMatrix(t *testing.T) {
	t.Parallel()
	n := 0
	for mode := range Mode(0o1000) {
		for _, named := range [][]Named{nil, {{ID: "bob", Perm: Read}}, {{Group: true, ID: "staff", Perm: Write}},
			{{ID: "bob", Perm: All}, {Group: true, ID: "staff", Perm: Read | Execute}}} {
			a := Of(mode)
			if a.Named = named; len(named) > 0 {
				a.HasMask, a.Mask = true, Perm(mode>>3&7)
			}
			for _, c := range []*Caller{{ID: "owner"}, {ID: "bob"}, {ID: "eve"}, {ID: "eve", Groups: []string{"owners"}},
				{ID: "eve", Groups: []string{"staff"}}, {ID: "eve", Groups: []string{"staff", "owners"}}} {
				c.Checked = true
				for want := Perm(0); want <= All; want++ {
					n++
					if got := a.Allows(c, "owner", "owners", want); got != model(a.String(), "owner", "owners", c, want) {
						t.Fatalf("%s, %s %v, %s: %v", a.String(), c.ID, c.Groups, want, got)
					}
				}
			}
		}
	}
	if n < 90_000 {
		t.Errorf("%d cases", n)
	}
	if !slices.Contains([]bool{ptr(Of(0)).Allows(nil, "o", "g", All)}, true) {
		t.Error("the superuser is limited")
	}
}

// The case of an object ID has no meaning, in lists, owners and callers.
func TestCaseOfIDs(t *testing.T) {
	t.Parallel()
	const lower, upper = "aaaaaaaa-0000-0000-0000-000000000000", "AAAAAAAA-0000-0000-0000-000000000000"
	a := parse(t, "user::rwx,user:"+upper+":r--,group::---,group:"+upper+":-w-,mask::rwx,other::--x")
	user, member := &Caller{ID: lower, Checked: true}, &Caller{ID: "x", Groups: []string{lower}, Checked: true}
	if !a.Allows(user, "o", "g", Read) || a.Allows(user, "o", "g", Execute) || !a.Allows(user, upper, "g", All) ||
		!a.Allows(member, "o", "g", Write) || a.Allows(member, "o", "g", Execute) || a.Allows(member, "o", upper, Execute) {
		t.Error("an ID in another case is another user")
	}
	if !user.MayChmod(upper) || !user.MayUnlink(upper, "d") || !user.MayUnlink("i", upper) ||
		!member.MayChgrp("x", "g", upper) {
		t.Error("an owner in another case is another user")
	}
	if _, err := ParseEntries("user:"+lower+":r--,user:"+upper+":rwx", false); err == nil {
		t.Error("a list has two entries of one user")
	}
	e, err := ParseEntries("user:"+lower+":-w-", false)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := e.Modify(a, false); err != nil || len(out.Named) != 2 || out.Allows(user, "o", "g", Read) {
		t.Errorf("%v %v", out, err)
	}
}
