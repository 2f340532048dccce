package record

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"
)

// seen is a message that was handled in an earlier execution of an instance.
type seen struct {
	id [16]byte // the beginning of its hash
	at uint32   // when, in seconds since 1970
	// deleted says that its copy in the queue is known to be gone; another copy can only be one that a sender has put
	// twice.
	deleted bool
}

// SeenList is a list of them, the oldest first.
type SeenList []seen

const (
	// SeenMost bounds the list: a property has at most 64 KiB.
	SeenMost = 2000
	// SeenFor is the time that a deleted message is remembered: longer than a client repeats a request.
	SeenFor = 10 * time.Minute
	// SeenUnsure is the time that one is remembered whose deletion is not known: messages outlive their receiver by the
	// visibility timeout.
	SeenUnsure = 8 * 24 * time.Hour

	seenSize = 20
	// seenDeleted marks, in the time, a deleted message.
	seenDeleted = 1 << 31
)

func hashID(id string) (h [16]byte) {
	sum := sha256.Sum256([]byte(id))
	copy(h[:], sum[:])
	return h
}

func (l SeenList) Has(id string) bool {
	h := hashID(id)
	return slices.ContainsFunc(l, func(s seen) bool { return s.id == h })
}

// With returns the list with a message added, and without those that need not be remembered.
func (l SeenList) With(now time.Time, ids map[string]bool, deleted map[string]bool) SeenList {
	at := uint32(now.Unix()) &^ seenDeleted
	next := slices.Clone(l)
	for id := range ids {
		next = append(next, seen{hashID(id), at, deleted[id]})
	}
	next = slices.DeleteFunc(next, func(s seen) bool {
		age := time.Duration(int64(at)-int64(s.at)) * time.Second
		return age > SeenUnsure || s.deleted && age > SeenFor
	})
	for i := 0; len(next) > SeenMost && i < len(next); {
		if next[i].deleted {
			next = slices.Delete(next, i, i+1)
		} else {
			i++
		}
	}
	return next[max(0, len(next)-SeenMost):]
}

func (l SeenList) encode() []byte {
	b := make([]byte, 0, seenSize*len(l))
	for _, s := range l {
		at := s.at
		if s.deleted {
			at |= seenDeleted
		}
		b = binary.BigEndian.AppendUint32(append(b, s.id[:]...), at)
	}
	return b
}

// UnmarshalJSON reads the list as it stands in the sentinel, in base64.
func (l *SeenList) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return err
	}
	*l = nil
	for ; len(b) >= seenSize; b = b[seenSize:] {
		at := binary.BigEndian.Uint32(b[16:])
		*l = append(*l, seen{[16]byte(b[:16]), at &^ seenDeleted, at&seenDeleted != 0})
	}
	return nil
}
