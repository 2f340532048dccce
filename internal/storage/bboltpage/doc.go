// Package bboltpage reads the pages of a bbolt file without bbolt: keys and values through the mapping or by system
// calls, with every bound checked, and the structure that connects the pages. A [Writer] has bbolt write pages that
// follow each other together.
//
// # Why
//
// bbolt trusts its file. A flipped bit in a page makes it panic, read past the mapping (which ends the process), or
// answer "not found" for a key that exists. Package store therefore writes through bbolt and reads through this
// package, which reports damage as a [DamageError]. It also reads large files with pread(2), because page faults cost
// more there; see [Snapshot].
//
// # Versions
//
// The package supports version 2 of the file format ([Version]), which bbolt has used since its first release. It was
// compared with go.etcd.io/bbolt v1.5.0 ([KnownRelease]). [ReadMeta] refuses any other version. The tests compare this
// package with bbolt's own cursor on files of every shape. They fail if go.mod names another version of bbolt: to
// upgrade bbolt, run them, compare the format, and change the constant. [NewWriter] looks for an unexported field of
// bbolt's DB; a test fails if a release does not have it, with which bbolt would write each page alone as before.
//
// Besides the format, the package relies on these properties of the files that bbolt writes. The tests check them as
// well:
//   - keys and values of a page follow its elements without gaps, in order;
//   - the key of a branch element is the first key of its child page;
//   - all leaves of a tree are on one level;
//   - each page is reachable once from one tree, or is an overflow page, or is free, or belongs to the free list.
//
// # What it finds
//
// [CheckStructure] reads the free list and all pages above the leaves, some thousandths of a file, and accounts for
// every page. [Cursor] checks each leaf that it enters: its layout, the order of its keys, and that its first key
// equals the key in the branch above. Values are not covered; package store keeps a checksum in each.
package bboltpage
