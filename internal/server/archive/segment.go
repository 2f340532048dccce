package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/lazuli-storage/lazuli/internal/server/backup"
)

// A segment is segmentMagic, the SHA-256 of what follows, the length of the header as uvarint, the header in JSON, and
// the items under zstd. An item is its kind and then
//
//	group    number of the database in backup.Databases, number of the group before, of the group, time; the payload
//	content  id of the extent, offset of the first record; the records
//	keys     the file with the keys of encryption scopes
//
// Numbers are uvarints; what follows a semicolon has its length before it.
const (
	segmentMagic = "LZSEG1\n"

	itemGroup   = 'g'
	itemContent = 'c'
	itemKeys    = 'k'

	// segmentSize is the size of the items from which a segment ends, in bytes. One group can be longer.
	segmentSize = 8 << 20
	// maxSegment bounds the items of a segment: a group has at most the write sets of some requests (store.MaxValueSize).
	maxSegment = 256 << 20
)

const (
	logFolder    = "log/"
	headName     = "head"
	timelineKind = "lazuli archive timeline, format"
	headKind     = "lazuli archive head, format"
	format       = 1
)

// header describes a segment.
type header struct {
	Timeline string `json:"timeline"`
	Number   uint64 `json:"number"`
	// Prev is the sum of the segment before, "" for the first.
	Prev string `json:"prev"`
	// Until is the time in nanoseconds up to which this segment and those before it have every group.
	Until int64 `json:"until"`
	// Sealed ends the timeline: a standby that took over has created it, and nothing follows it.
	Sealed bool `json:"sealed,omitempty"`
}

// head says up to when there is nothing after the last segment.
type head struct {
	Next  uint64 `json:"next"` // number of the next segment
	Until int64  `json:"until"`
	// What follows is in the archive of a cluster, for the nodes that do not send: the sum of the last segment, the last
	// groups of all segments with their times, and the time of the newest base.
	Prev   string            `json:"prev,omitempty"`
	Groups map[string]uint64 `json:"groups,omitempty"`
	Times  map[string]int64  `json:"times,omitempty"`
	Base   time.Time         `json:"base,omitzero"`
}

// item is a part of a segment. Bytes are the payload, the records or the file.
type item struct {
	kind         byte
	database     int
	prev, number uint64
	at           int64
	extent       uint64
	offset       int64
	bytes        []byte
}

func segmentName(timeline string, number uint64) string {
	return fmt.Sprintf("%s%s/%016x", logFolder, timeline, number)
}

// parseName returns the timeline and the number of a segment.
func parseName(name string) (timeline string, number uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, logFolder)
	if !ok {
		return "", 0, false
	}
	timeline, text, ok := strings.Cut(rest, "/")
	if !ok || len(text) != 16 || timeline == "" {
		return "", 0, false
	}
	number, err := strconv.ParseUint(text, 16, 64)
	return timeline, number, err == nil
}

// appendTo encodes the item.
func (i *item) appendTo(p []byte) []byte {
	p = append(p, i.kind)
	switch i.kind {
	case itemGroup:
		p = binary.AppendUvarint(p, uint64(i.database))
		p = binary.AppendUvarint(p, i.prev)
		p = binary.AppendUvarint(p, i.number)
		p = binary.AppendUvarint(p, uint64(i.at))
	case itemContent:
		p = binary.AppendUvarint(p, i.extent)
		p = binary.AppendUvarint(p, uint64(i.offset))
	}
	p = binary.AppendUvarint(p, uint64(len(i.bytes)))
	return append(p, i.bytes...)
}

// errItem means that the items of a segment with the right sum do not parse: another program wrote it.
var errItem = errors.New("its items do not parse")

// eachItem calls fn with the items. Their bytes are parts of p.
func eachItem(p []byte, fn func(*item) error) error {
	// The sum of the segment is right, but another program may have written it: no number is trusted as a length or an
	// index. After a number that does not parse p is empty, so that the loop ends, and bad says why.
	var bad bool
	number := func() uint64 {
		x, n := binary.Uvarint(p)
		if n <= 0 {
			p, bad = nil, true
			return 0
		}
		p = p[n:]
		return x
	}
	for len(p) > 0 {
		i := &item{kind: p[0]}
		p = p[1:]
		switch i.kind {
		case itemGroup:
			i.database, i.prev, i.number, i.at = int(number()), number(), number(), int64(number())
			bad = bad || i.database < 0 || i.database >= len(backup.Databases)
		case itemContent:
			i.extent, i.offset = number(), int64(number())
		case itemKeys:
		default:
			bad = true
		}
		n := number()
		if bad || n > uint64(len(p)) {
			return errItem
		}
		i.bytes, p = p[:n:n], p[n:]
		if err := fn(i); err != nil {
			return err
		}
	}
	return nil
}

// encodeSegment returns the file of a segment, and its sum.
func encodeSegment(h header, items []byte) (file []byte, sum string, err error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, "", err
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, "", err
	}
	defer z.Close()
	file = append([]byte(segmentMagic), make([]byte, sha256.Size)...)
	file = binary.AppendUvarint(file, uint64(len(text)))
	file = z.EncodeAll(items, append(file, text...))
	s := sha256.Sum256(file[len(segmentMagic)+sha256.Size:])
	copy(file[len(segmentMagic):], s[:])
	return file, hex.EncodeToString(s[:]), nil
}

// decodeSegment returns the header, the items and the sum of a segment.
func decodeSegment(file []byte) (h header, items []byte, sum string, err error) {
	rest, ok := bytes.CutPrefix(file, []byte(segmentMagic))
	if !ok || len(rest) < sha256.Size {
		return h, nil, "", errors.New("it is no segment")
	}
	want, rest := rest[:sha256.Size], rest[sha256.Size:]
	// Before anything is parsed: what follows is then what was written.
	s := sha256.Sum256(rest)
	if !bytes.Equal(want, s[:]) {
		return h, nil, "", errors.New("its checksum does not match")
	}
	n, size := binary.Uvarint(rest)
	if size <= 0 || n > uint64(len(rest)-size) {
		return h, nil, "", errItem
	}
	rest = rest[size:]
	if err := json.Unmarshal(rest[:n], &h); err != nil {
		return h, nil, "", err
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxSegment))
	if err != nil {
		return h, nil, "", err
	}
	defer z.Close()
	items, err = z.DecodeAll(rest[n:], nil)
	return h, items, hex.EncodeToString(s[:]), err
}
