package jetstreamfiles

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Damage is a damaged part of a stream's files.
type Damage struct {
	Stream string
	// Block is the number of the block file, 0 if the damage is in the stream's meta file.
	Block int
	// Offset and Size are the position and length of the damage in the file.
	Offset, Size int64
	// First and Last are the sequences of the lost records; Last is 0 if it is not known.
	First, Last uint64
	// Torn is set if no intact record follows. A crash leaves such damage, and no acknowledged record is lost.
	Torn bool
	cut  bool // what is there is the beginning of a record at the end of the last block, or zeros
	// Meta describes the problem of the meta file.
	Meta string
	// End describes what is missing after the last record, as the stream's view knows it.
	End string
}

func (d Damage) String() string {
	switch {
	case d.Meta != "":
		return fmt.Sprintf("stream %s: meta.inf: %s", d.Stream, d.Meta)
	case d.End != "":
		return fmt.Sprintf("stream %s: %s", d.Stream, d.End)
	case d.Torn:
		return fmt.Sprintf("stream %s: block %d ends at %d with %d bytes of an incomplete write", d.Stream, d.Block, d.Offset,
			d.Size)
	case d.Last < d.First, d.Last == 0:
		return fmt.Sprintf("stream %s: block %d is damaged at %d, %d bytes", d.Stream, d.Block, d.Offset, d.Size)
	}
	return fmt.Sprintf("stream %s: block %d is damaged at %d, %d bytes: records %d to %d", d.Stream, d.Block, d.Offset,
		d.Size, d.First, d.Last)
}

// Record is an intact record of a stream. Its slices are valid during the call that passes it.
type Record struct {
	Sequence uint64
	Time     time.Time
	Subject  string
	// Header is as on the wire, "NATS/1.0\r\n...", nil without headers.
	Header, Payload []byte
}

// Verify reads all files of a stream, whose server must not be running, and returns the damage.
func Verify(streamDir string) ([]Damage, error) {
	wrong, err := verifyMeta(streamDir)
	if err != nil {
		return nil, err
	}
	found, err := scan(streamDir, nil)
	if errors.Is(err, fs.ErrNotExist) { // there are no blocks: the creation was interrupted
		return nil, nil
	}
	return withMeta(streamDir, wrong, found), err
}

// withMeta adds damage of the meta file to that of the blocks.
func withMeta(streamDir, wrong string, found []Damage) []Damage {
	if wrong != "" {
		found = append([]Damage{{Stream: filepath.Base(streamDir), Meta: wrong}}, found...)
	}
	return found
}

// Read calls take with each intact record of a stream up to the first damage, in order, and returns the damage of all
// files. The server may be running: then records may be missing at the end, and the end may look torn. An error of take
// ends reading.
func Read(streamDir string, take func(Record) error) ([]Damage, error) {
	wrong, failure := verifyMeta(streamDir)
	if failure != nil {
		return nil, failure
	}
	damaged := false
	found, err := scan(streamDir, func(r *record) {
		switch {
		case r == nil:
			damaged = true
		case !damaged && failure == nil && !r.tombstone && !r.erased:
			failure = take(Record{r.seq, time.Unix(0, r.time), string(r.subject), r.headers, r.payload})
		}
	})
	return withMeta(streamDir, wrong, found), errors.Join(err, failure)
}

// scan reads the blocks of a stream. take, which may be nil, is called with the intact records in order, and with nil
// for damage.
func scan(streamDir string, take func(*record)) (found []Damage, err error) {
	stream := filepath.Base(streamDir)
	numbers, err := Blocks(streamDir)
	if err != nil {
		return nil, err
	}
	var buf []byte
	last, open := uint64(0), 0 // found[open:] may be the end
	for _, n := range numbers {
		if buf, err = readBlock(blockPath(streamDir, n), buf); err != nil {
			return found, fmt.Errorf("jetstreamfiles: %w", err)
		}
		sum := hashOf(fmt.Sprintf("%s-%d", stream, n))
		for at := 0; at < len(buf); {
			if r, ok := parseRecord(buf[at:], sum); ok && r.valid {
				at += r.size
				if !r.tombstone {
					for ; open < len(found); open++ {
						found[open].Torn, found[open].Last = false, r.seq-1
					}
					last = max(last, r.seq)
				}
				if take != nil {
					take(&r)
				}
				continue
			}
			if take != nil {
				take(nil)
			}
			size := resync(buf[at+1:], sum) + 1
			found = append(found, Damage{Stream: stream, Block: n, Offset: int64(at), Size: int64(size), First: last + 1,
				Torn: true, cut: n == numbers[len(numbers)-1] && tornAt(buf[at:])})
			at += size
		}
	}
	return found, nil
}

// tornAt reports whether buf can be the beginning of a record, or what a file system leaves in place of one.
func tornAt(buf []byte) bool {
	size := 0
	if len(buf) >= recordHead+recordSum {
		size = int(uint32le(buf) &^ headersBit)
	}
	return len(buf) < recordHead+recordSum || size > len(buf) && size <= maxRecord || len(bytes.TrimLeft(buf, "\x00")) == 0
}

// resync returns the number of bytes before the next intact record of a message, or len(buf).
func resync(buf []byte, sum hash.Hash64) int {
	for at := 0; at+recordHead+recordSum <= len(buf); at++ {
		// Records have the time at which they were stored, which saves computing most checksums.
		if t := binary.LittleEndian.Uint64(buf[at+12:]); t < earliest || t > latest {
			continue
		}
		if r, ok := parseRecord(buf[at:], sum); ok && r.valid && !r.tombstone {
			return at
		}
	}
	return len(buf)
}

// The times of records are between these, the years 2020 and 2200, in nanoseconds since 1970.
const (
	earliest = 1_577_836_800_000_000_000
	latest   = 7_258_118_400_000_000_000
)

// Blocks returns the numbers of a stream's blocks, in order.
func Blocks(streamDir string) ([]int, error) {
	entries, err := os.ReadDir(filepath.Join(streamDir, MessagesFolder))
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

// blockNumber parses "<n>.blk".
func blockNumber(name string) (int, bool) {
	digits, ok := strings.CutSuffix(name, ".blk")
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), ok && err == nil
}

// MessagesFolder is the folder of a stream that holds the blocks.
const MessagesFolder = "msgs"

func blockPath(streamDir string, n int) string {
	return filepath.Join(streamDir, MessagesFolder, fmt.Sprintf("%d.blk", n))
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

// CutPoint returns the largest sequence up to which a stream can be purged without a change of a block that holds
// records from stay on: the first sequence of the block that contains stay. The server then removes whole blocks, and
// writes none. 0 means that nothing can be cut off.
func CutPoint(streamDir string, stay uint64) (uint64, error) {
	numbers, err := Blocks(streamDir)
	if err != nil {
		return 0, fmt.Errorf("jetstreamfiles: %w", err)
	}
	cut := uint64(0)
	head := make([]byte, 64<<10)
	for i, n := range numbers {
		f, err := os.Open(blockPath(streamDir, n))
		if err != nil {
			return 0, fmt.Errorf("jetstreamfiles: %w", err)
		}
		m, err := io.ReadFull(f, head)
		f.Close()
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return 0, fmt.Errorf("jetstreamfiles: %w", err)
		}
		if first, ok := firstSequence(head[:m]); ok && i > 0 && first <= stay {
			cut = max(cut, first)
		}
	}
	return cut, nil
}

// firstSequence returns the sequence of the first record in head, the beginning of a block, that is not a tombstone.
// The record itself may be incomplete in head.
func firstSequence(head []byte) (uint64, bool) {
	for len(head) >= recordHead {
		seq, size := binary.LittleEndian.Uint64(head[4:]), int(uint32le(head)&^headersBit)
		if seq&tombstoneBit == 0 {
			return seq &^ erasedBit, true
		}
		if size < recordHead || size > len(head) {
			return 0, false
		}
		head = head[size:]
	}
	return 0, false
}
