package jetstreamfiles

import (
	"bytes"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Damage is a damaged part of a stream's files.
type Damage struct {
	Stream string
	// Block is the number of the block file, 0 if the damage is in the stream's meta file.
	Block int
	// Offset and Size are the position and length of the damage in the file; Size is 0 if the file is missing.
	Offset, Size int64
	// First and Last are the sequences of the lost records. Last < First if it is not known whether any record was lost.
	First, Last uint64
	// Torn is set if nothing after the damage was ever synced. A crash leaves such damage; no acknowledged record is lost.
	Torn bool
	// Framed is set if the damage is one record whose length is intact; its neighbours can be read.
	Framed bool
	// Kept is the path of a copy of the damaged file; empty if no copy was made.
	Kept string
	// Meta describes the problem of the meta file.
	Meta string
}

func (d Damage) String() string {
	switch {
	case d.Meta != "":
		return fmt.Sprintf("stream %s: meta.inf: %s", d.Stream, d.Meta)
	case d.Size == 0 && d.Last < d.First:
		return fmt.Sprintf("stream %s: block %d is missing", d.Stream, d.Block)
	case d.Torn:
		return fmt.Sprintf("stream %s: block %d ends at %d with %d bytes of an incomplete write", d.Stream, d.Block, d.Offset, d.Size)
	}
	return fmt.Sprintf("stream %s: block %d is damaged at %d, %d bytes: records %d to %d", d.Stream, d.Block, d.Offset, d.Size, d.First, d.Last)
}

// hole is a range of bytes in a block without valid records.
type hole struct {
	offset, size  int
	framed        bool
	before, after uint64 // the sequences of the valid records around it; 0 if none exists
}

// scanBlock finds the holes of a block. take, which may be nil, is called with the valid records in order.
func scanBlock(buf []byte, sum hash.Hash64, before uint64, take func(*record)) (holes []hole, last uint64) {
	last = before
	for at := 0; at < len(buf); {
		r, ok := parseRecord(buf[at:], sum)
		if ok && r.valid {
			if n := len(holes); n > 0 && holes[n-1].after == 0 && !r.tombstone {
				holes[n-1].after = r.seq
			}
			if !r.tombstone {
				last = max(last, r.seq)
			}
			if take != nil {
				take(&r)
			}
			at += r.size
			continue
		}
		h := hole{offset: at, before: last}
		if ok { // is the length right: does a valid record follow?
			if next, ok := parseRecord(buf[at+r.size:], sum); ok && next.valid || at+r.size == len(buf) {
				h.size, h.framed = r.size, true
			}
		}
		if h.size == 0 {
			h.size = resync(buf[at+1:], sum) + 1
		}
		holes = append(holes, h)
		at += h.size
	}
	return holes, last
}

// resync returns the number of bytes before the next valid record of a message, or len(buf).
func resync(buf []byte, sum hash.Hash64) int {
	for at := 0; at+recordHead+recordSum <= len(buf); at++ {
		// Subjects of all records have a common prefix, which saves computing most checksums.
		if !bytes.HasPrefix(buf[at+recordHead:], subjectStart) {
			next := bytes.Index(buf[at+recordHead:], subjectStart)
			if next < 0 {
				return len(buf)
			}
			at += next
		}
		if r, ok := parseRecord(buf[at:], sum); ok && r.valid && !r.tombstone && len(r.subject) <= maxSubject {
			return at
		}
	}
	return len(buf)
}

// subjectStart is the prefix of the subjects of Lazuli's streams.
var subjectStart = []byte("lazuli.")

// Blocks returns the numbers of a stream's blocks, in order.
func Blocks(streamDir string) ([]int, error) {
	entries, err := os.ReadDir(filepath.Join(streamDir, messagesFolder))
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		if n, ok := blockNumber(e.Name()); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// messagesFolder is the folder of a stream that holds the blocks.
const messagesFolder = "msgs"

func blockPath(streamDir string, n int) string {
	return filepath.Join(streamDir, messagesFolder, fmt.Sprintf("%d.blk", n))
}

// Verify reads all blocks of a stream, whose server must not be running, and returns the damage. A hole is [Damage.Torn] if no later record
// proves that the lost records had been synced ([HeaderSynced]).
func Verify(streamDir string) ([]Damage, error) {
	return verify(streamDir, nil)
}

// verify implements Verify; take gets every valid record with its block.
func verify(streamDir string, take func(block int, r *record)) ([]Damage, error) {
	stream := filepath.Base(streamDir)
	numbers, err := Blocks(streamDir)
	if err != nil {
		return nil, err
	}
	var (
		found []Damage
		open  = 0 // damages from here on may still turn out to be proven
		last  uint64
		buf   []byte
	)
	for _, n := range numbers {
		if buf, err = readBlock(blockPath(streamDir, n), buf); err != nil {
			return found, fmt.Errorf("jetstreamfiles: %w", err)
		}
		var at []hole
		first := len(found)
		// Pass 1 finds the holes. Pass 2, below, runs only if there are any: it finds out which later records prove something.
		at, last = scanBlock(buf, blockHash(stream, n), last, func(r *record) {
			if take != nil {
				take(n, r)
			}
			for open < len(found) && !r.tombstone && r.provesSynced(found[open].First) { // holes of earlier blocks
				found[open].Torn = false
				open++
			}
		})
		for _, h := range at {
			d := Damage{Stream: stream, Block: n, Offset: int64(h.offset), Size: int64(h.size), Framed: h.framed, First: h.before + 1, Torn: true}
			if h.after > 0 {
				d.Last = h.after - 1
			}
			found = append(found, d)
		}
		if len(at) > 0 {
			provenWithin(buf, blockHash(stream, n), found[first:])
		}
		for i := range found[:first] { // the last record of a hole at a block's end is known from the next block
			if d := &found[i]; d.Last == 0 {
				d.Last = d.First
			}
		}
	}
	for i := range found {
		if found[i].Last == 0 {
			found[i].Last = found[i].First
		}
	}
	return found, nil
}

// provenWithin searches the rest of the block for proof.
func provenWithin(buf []byte, sum hash.Hash64, found []Damage) {
	for i := range found {
		d := &found[i]
		for at := int(d.Offset + d.Size); at < len(buf) && d.Torn; {
			r, ok := parseRecord(buf[at:], sum)
			switch {
			case !ok || !r.valid:
				at += max(1, resync(buf[at+1:], sum)+1)
				continue
			case !r.tombstone && r.provesSynced(d.First):
				d.Torn = false
			}
			at += r.size
		}
	}
}

// readBlock reads a whole file into buf, which it grows if needed.
func readBlock(path string, buf []byte) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return buf, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return buf, err
	}
	buf = slices.Grow(buf[:0], int(info.Size()))[:info.Size()]
	_, err = io.ReadFull(f, buf)
	return buf, err
}

// FirstSequences returns the sequence of the first record of each block, in order. It omits blocks without records.
func FirstSequences(streamDir string) ([]uint64, error) {
	numbers, err := Blocks(streamDir)
	if err != nil {
		return nil, err
	}
	var list []uint64
	head := make([]byte, 64<<10)
	for _, n := range numbers {
		f, err := os.Open(blockPath(streamDir, n))
		if err != nil {
			return nil, err
		}
		m, err := io.ReadFull(f, head)
		f.Close()
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return nil, err
		}
		if seq, ok := firstSequence(head[:m]); ok {
			list = append(list, seq)
		}
	}
	return list, nil
}

// firstSequence returns the sequence of the first record in head, the beginning of a block, that is not a tombstone. The record itself may be
// incomplete in head.
func firstSequence(head []byte) (uint64, bool) {
	for len(head) >= recordHead {
		r := record{seq: uint64le(head[4:]), size: int(uint32le(head) &^ headersBit)}
		if r.seq&tombstoneBit == 0 {
			return r.seq &^ erasedBit, true
		}
		if r.size < recordHead || r.size > len(head) {
			return 0, false
		}
		head = head[r.size:]
	}
	return 0, false
}

// CutPoint returns the largest sequence up to which a stream can be purged without touching a block that holds records from floor on: the first
// sequence of the block that contains floor. 0 means that nothing can be cut off.
func CutPoint(streamDir string, floor uint64) (uint64, error) {
	firsts, err := FirstSequences(streamDir)
	if err != nil {
		return 0, fmt.Errorf("jetstreamfiles: %w", err)
	}
	cut := uint64(0)
	for i, first := range firsts {
		if i > 0 && first <= floor {
			cut = max(cut, first)
		}
	}
	return cut, nil
}
