package queue

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Receipt is a pop receipt, the authority to change or delete a message: the time at which the message becomes visible,
// and a keyed hash over the queue's id, the message's ID, that time and the number of changes of the message. So it
// belongs to one state of one message, and a client cannot make one. The key is in the store: all front-ends have the
// same.
type Receipt [8 + receiptTagBytes]byte

const (
	receiptKeyBytes = 32
	receiptTagBytes = 12
)

// String returns the opaque text of a pop receipt: 28 characters.
func (r Receipt) String() string { return base64.StdEncoding.EncodeToString(r[:]) }

// ParseReceipt parses the text of String. ok is false if the text has another form; r is then the zero value.
func ParseReceipt(text string) (r Receipt, ok bool) {
	if len(text) != base64.StdEncoding.EncodedLen(len(r)) {
		return r, false
	}
	var b [21]byte // DecodedLen counts the padding
	if n, err := base64.StdEncoding.Strict().Decode(b[:], []byte(text)); err != nil || n != len(r) {
		return r, false
	}
	return Receipt(b[:len(r)]), true
}

// visible returns the time at which the message becomes visible.
func (r Receipt) visible() int64 { return int64(binary.BigEndian.Uint64(r[:])) }

// receiptKey makes receipts.
type receiptKey struct{ macs sync.Pool } // HMAC states are costly to create

func newReceiptKey(secret []byte) *receiptKey {
	return &receiptKey{sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}
}

// receipt returns the receipt of a message in the place of key.
func (k *receiptKey) receipt(key *visibleKey, id ID, changes uint32) (r Receipt) {
	var input [8 + 8 + 16 + 4]byte
	copy(input[:16], key[:16])
	copy(input[16:], id[:])
	binary.BigEndian.PutUint32(input[32:], changes)
	mac := k.macs.Get().(hash.Hash)
	mac.Reset()
	mac.Write(input[:])
	var tag [sha256.Size]byte
	copy(r[:8], key[8:16])
	copy(r[8:], mac.Sum(tag[:0]))
	k.macs.Put(mac)
	return r
}

// openReceiptKey reads the key, or creates it.
func (s *Store) openReceiptKey() error {
	if s.db.ReadOnly() {
		s.receipts = newReceiptKey(make([]byte, receiptKeyBytes)) // nothing is received
		return nil
	}
	fresh := make([]byte, receiptKeyBytes)
	_, _ = rand.Read(fresh) // never fails
	return s.db.Update(func(tx *store.Tx) error {
		secret := tx.Get(bucketService, keyReceiptKey)
		if len(secret) != receiptKeyBytes {
			secret = fresh
			tx.Note("create the key of the pop receipts")
			tx.Put(bucketService, keyReceiptKey, secret)
		}
		s.receipts = newReceiptKey(append([]byte(nil), secret...))
		return nil
	})
}
