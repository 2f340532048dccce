package durable

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

// seenList is a list of them, the oldest first.
type seenList []seen

const (
	// seenMost bounds the list: a property has at most 64 KiB.
	seenMost = 2000
	// seenFor is the time that a deleted message is remembered: longer than a client repeats a request.
	seenFor = 10 * time.Minute
	// seenUnsure is the time that one is remembered whose deletion is not known: messages outlive their receiver by the
	// visibility timeout.
	seenUnsure = 8 * 24 * time.Hour

	seenSize = 20
	// seenDeleted marks, in the time, a deleted message.
	seenDeleted = 1 << 31
)

func hashID(id string) (h [16]byte) {
	sum := sha256.Sum256([]byte(id))
	copy(h[:], sum[:])
	return h
}

func (l seenList) has(id string) bool {
	h := hashID(id)
	return slices.ContainsFunc(l, func(s seen) bool { return s.id == h })
}

// with returns the list with a message added, and without those that need not be remembered.
func (l seenList) with(now time.Time, ids map[string]bool, deleted map[string]bool) seenList {
	at := uint32(now.Unix()) &^ seenDeleted
	next := slices.Clone(l)
	for id := range ids {
		next = append(next, seen{hashID(id), at, deleted[id]})
	}
	next = slices.DeleteFunc(next, func(s seen) bool {
		age := time.Duration(int64(at)-int64(s.at)) * time.Second
		return age > seenUnsure || s.deleted && age > seenFor
	})
	for i := 0; len(next) > seenMost && i < len(next); {
		if next[i].deleted {
			next = slices.Delete(next, i, i+1)
		} else {
			i++
		}
	}
	return next[max(0, len(next)-seenMost):]
}

func (l seenList) encode() []byte {
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
func (l *seenList) UnmarshalJSON(text []byte) error {
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
