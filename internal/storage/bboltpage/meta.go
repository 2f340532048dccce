package bboltpage

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// Version is the version of bbolt's file format that this package supports.
const Version = 2

// KnownRelease is the release of go.etcd.io/bbolt with which this package was compared.
const KnownRelease = "v1.5.0"

const magic = 0xED0CDAED

// Errors of ReadMeta.
var (
	// ErrFormat means that the file is not a bbolt file, or has another version of the format.
	ErrFormat = errors.New("not a bbolt file of a known version")
	// ErrTruncated means that the file is shorter than its meta page says.
	ErrTruncated = errors.New("the file is truncated")
)

// Meta is the content of the newer valid meta page. A file begins with two meta pages:
//
//	 0   4  magic
//	 4   4  version
//	 8   4  page size
//	12   4  flags
//	16   8  page of the root bucket
//	24   8  its sequence
//	32   8  page of the list of free pages
//	40   8  number of pages in use; later pages are unused
//	48   8  transaction
//	56   8  FNV-1a of bytes 0 to 55
//
// The offsets are those after the page's header.
type Meta struct {
	PageSize int
	Root     uint64
	Freelist uint64
	Pages    uint64 // number of pages, free ones included
	Tx       uint64
	// Alone is set if the other meta page is invalid: a commit was interrupted, or the page is damaged.
	Alone bool
}

const metaSize = 64

// ReadMeta reads the meta pages of a file of the given size.
//
// Errors: ErrFormat, ErrTruncated, or the error of f.
func ReadMeta(f io.ReaderAt, size int64) (Meta, error) {
	var found []Meta
	problem := ErrFormat
	var b [headerSize + metaSize]byte
	// The second meta page follows the first. Its page size is read from the file, since it may differ from this
	// machine's.
	for at := int64(0); at <= 64<<10 && at+int64(len(b)) <= size; at = max(2*at, 1<<10) {
		if _, err := f.ReadAt(b[:], at); err != nil {
			return Meta{}, err
		}
		m, err := parseMeta(b[:])
		if err != nil {
			if at == 0 {
				problem = err
			}
			continue
		}
		// An older meta page of a file with another page size, or bytes of a value that look like one.
		if at != 0 && int64(m.PageSize) != at {
			continue
		}
		if found = append(found, m); at != 0 {
			break
		}
	}
	if len(found) == 0 {
		return Meta{}, problem
	}
	m := found[0]
	if len(found) == 2 && found[1].Tx > m.Tx {
		m = found[1]
	}
	m.Alone = len(found) == 1
	// bbolt would map the file and end the process by SIGBUS when it reads past the end.
	if int64(m.Pages) > size/int64(m.PageSize) {
		return m, fmt.Errorf("%w: %d bytes; its meta page says %d", ErrTruncated, size, m.Pages*uint64(m.PageSize))
	}
	return m, nil
}

func parseMeta(b Page) (Meta, error) {
	m := b[headerSize:]
	switch {
	case b.kind() != kindMeta || m.u32(0) != magic:
		return Meta{}, ErrFormat
	case m.u32(4) != Version:
		return Meta{}, fmt.Errorf("%w: version %d", ErrFormat, m.u32(4))
	}
	sum := fnv.New64a()
	_, _ = sum.Write(m[:56])
	if m.u64(56) != sum.Sum64() {
		return Meta{}, fmt.Errorf("%w: the meta page's checksum is wrong", ErrFormat)
	}
	x := Meta{PageSize: int(m.u32(8)), Root: m.u64(16), Freelist: m.u64(32), Pages: m.u64(40), Tx: m.u64(48)}
	// The checksum is 64 bits of FNV, which a few chosen bytes can satisfy. Everything that is allocated or multiplied
	// later is bounded here.
	if x.PageSize < 1<<10 || x.PageSize > 64<<10 || x.PageSize&(x.PageSize-1) != 0 || x.Pages > 1<<40 {
		return Meta{}, fmt.Errorf("%w: page size %d", ErrFormat, x.PageSize)
	}
	return x, nil
}
