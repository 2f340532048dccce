package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"os"
	"path/filepath"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
)

// logRecord is a record of the log.
type logRecord struct {
	gen, group uint64
	at         int64 // in the file
	payload    []byte
	partly     bool // damaged; only writes whose own checksum is right are used
}

func (r *logRecord) damaged(path, problem string) error {
	return &DamageError{File: filepath.Base(logPath(path, r.gen)), Problem: fmt.Sprintf("offset %d: %s", r.at, problem)}
}

// readLog returns the records of a generation, and the size of an incomplete record after them, as far as it was
// written.
//
// Errors: os.ErrNotExist, a *DamageError, or an error of the operating system.
func readLog(path string, gen uint64) (records []logRecord, torn int, err error) {
	p, err := os.ReadFile(logPath(path, gen))
	if err != nil {
		return nil, 0, err
	}
	at := 0
	for {
		r, ok := parseRecord(p, at, gen)
		if !ok {
			break
		}
		records = append(records, r)
		at += logHeaderSize + len(r.payload)
	}
	end := logRecord{gen: gen, at: int64(at)}
	if next := nextRecord(p, at, gen); next >= 0 {
		return records, 0, end.damaged(path, fmt.Sprintf("a record is damaged, and intact ones follow it at offset %d", next))
	}
	if flippedBit(p, at, gen) {
		return records, 0, end.damaged(path, "the last record differs in one bit from what was written")
	}
	if at+logHeaderSize <= len(p) && binary.LittleEndian.Uint64(p[at+8:]) == gen {
		torn = min(logHeaderSize+int(binary.LittleEndian.Uint32(p[at:])), len(p)-at)
	}
	return records, torn, nil
}

// parseRecord returns the record at an offset; ok is false if there is no record of that generation.
func parseRecord(p []byte, at int, gen uint64) (r logRecord, ok bool) {
	if at+logHeaderSize > len(p) {
		return r, false
	}
	n := int(binary.LittleEndian.Uint32(p[at:]))
	if binary.LittleEndian.Uint64(p[at+8:]) != gen || n > len(p)-at-logHeaderSize {
		return r, false
	}
	record := p[at : at+logHeaderSize+n]
	if crc32c.Checksum(record[8:]) != binary.LittleEndian.Uint32(record[4:]) {
		return r, false
	}
	return logRecord{gen: gen, group: binary.LittleEndian.Uint64(record[16:]), at: int64(at),
		payload: record[logHeaderSize:]}, true
}

// nextRecord returns the offset of the first record of the generation after an offset, or -1 if none exists.
func nextRecord(p []byte, at int, gen uint64) int {
	mark := binary.LittleEndian.AppendUint64(nil, gen)
	for from := at + 1; from+logHeaderSize <= len(p); {
		i := bytes.Index(p[from+8:], mark)
		if i < 0 {
			return -1
		}
		from += i
		if _, ok := parseRecord(p, from, gen); ok {
			return from
		}
		from++
	}
	return -1
}

// maxFlipSearch is the maximum length of a record in whose payload flippedBit searches, in bytes. The longer a record,
// the more likely a bit fits by chance: with 64 KiB once in 8,000 torn records.
const maxFlipSearch = 64 << 10

// flippedBit reports whether the bytes at an offset would be a record if one bit were inverted. An interrupted write
// leaves whole sectors unchanged, and does not match.
func flippedBit(p []byte, at int, gen uint64) bool {
	if at+logHeaderSize > len(p) {
		return false
	}
	header := p[at : at+logHeaderSize]
	n := int(binary.LittleEndian.Uint32(header))
	sum := binary.LittleEndian.Uint32(header[4:])
	if other := binary.LittleEndian.Uint64(header[8:]); other != gen {
		if bits.OnesCount64(other^gen) != 1 {
			return false
		}
		fixed := bytes.Clone(p[at:])
		binary.LittleEndian.PutUint64(fixed[8:], gen)
		_, ok := parseRecord(fixed, 0, gen)
		return ok
	}
	if n <= min(len(p)-at-logHeaderSize, maxFlipSearch) {
		difference := crc32c.Checksum(p[at+8:at+logHeaderSize+n]) ^ sum
		if bits.OnesCount32(difference) == 1 || bitBehind(difference, logHeaderSize+n-8) {
			return true
		}
	}
	for bit := range 32 {
		other := n ^ 1<<bit
		if other <= min(len(p)-at-logHeaderSize, maxFlipSearch) &&
			crc32c.Checksum(p[at+8:at+logHeaderSize+other]) == sum {
			return true
		}
	}
	return false
}

// castagnoli is the table of the polynomial, for bitBehind. Checksums are computed by crc32c.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// bitBehind reports whether the inversion of exactly one bit of n bytes can change their CRC by difference. It follows
// the CRC backwards, byte by byte, until the difference is one that a single bit makes.
func bitBehind(difference uint32, n int) bool {
	// Each entry of the table has a different highest byte, which identifies the step to undo.
	var entry [256]byte
	for i, x := range castagnoli {
		entry[x>>24] = byte(i)
	}
	for range n {
		b := entry[difference>>24]
		if castagnoli[b] == difference && bits.OnesCount8(b) == 1 {
			return true
		}
		difference = (difference^castagnoli[b])<<8 | uint32(b)
	}
	return false
}

func missingLog(path string, gen uint64) *DamageError {
	return &DamageError{File: filepath.Base(logPath(path, gen)),
		Problem: "the file is missing, and " + filepath.Base(path) + " needs it"}
}

// checkNewer verifies that the log has no generation above newest. Otherwise the file is in the state before its last
// transactions, because its newer meta page is damaged.
func checkNewer(path string, newest uint64) error {
	for i := range uint64(2) {
		f, err := os.Open(logPath(path, i))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var header [logHeaderSize]byte
		_, err = f.ReadAt(header[:], 0)
		n := int64(binary.LittleEndian.Uint32(header[:]))
		gen := binary.LittleEndian.Uint64(header[8:])
		if info, statErr := f.Stat(); err == nil && statErr == nil && gen > newest && n <= info.Size()-logHeaderSize {
			p := make([]byte, logHeaderSize+n)
			if _, err = f.ReadAt(p, 0); err == nil {
				if r, ok := parseRecord(p, 0, gen); ok {
					err = r.damaged(path, fmt.Sprintf("the log is newer than %s: a meta page of that file must be damaged",
						filepath.Base(path)))
				}
			}
		}
		if err = errors.Join(err, f.Close()); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// nextStep tells an operator what to do with a file that cannot be opened.
const nextStep = "run lazuli fsck to list the affected data, and lazuli fsck --repair to keep all intact data"
