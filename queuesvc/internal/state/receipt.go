package state

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"sync"
)

// Receipt is the authority to change or delete a message: the sequence number of its current record, or of the record that the current one is a
// copy of. 0 belongs to no record.
type Receipt uint64

// A pop receipt's text is base64 of the number and of a keyed hash of the number, the message and the stream. So a client cannot forge a
// receipt, although the numbers can be guessed. The key is in the catalog, so that all front-ends on one NATS use the same.
const (
	receiptKeyBytes = 32
	receiptTagBytes = 12
	receiptBytes    = 8 + receiptTagBytes
)

// receiptKeySubject is the subject of the catalog record that holds the key. "-" is not a valid account name.
const receiptKeySubject = catalogPrefix + "-.receipts"

// receiptKey is the payload of that record.
type receiptKey struct {
	Version int    `json:"version"` // 1
	Key     []byte `json:"key"`
}

// ReceiptText returns the opaque text of a message's pop receipt: 28 characters.
func (q *Queue) ReceiptText(id ID, r Receipt) string {
	var b [receiptBytes]byte
	binary.LittleEndian.PutUint64(b[:], uint64(r))
	q.receiptTag(b[8:8], b[:8], id)
	return base64.StdEncoding.EncodeToString(b[:])
}

// ParseReceipt parses the text of ReceiptText. ok is false if the text has another form. For a text of the right form that was not issued for
// this message it returns Receipt 0, which is never current.
func (q *Queue) ParseReceipt(id ID, text string) (r Receipt, ok bool) {
	if !WellFormedReceipt(text) {
		return 0, false
	}
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != receiptBytes {
		return 0, false
	}
	var want [receiptTagBytes]byte
	q.receiptTag(want[:0], b[:8], id)
	if !hmac.Equal(want[:], b[8:]) {
		return 0, true
	}
	return Receipt(binary.LittleEndian.Uint64(b)), true
}

// WellFormedReceipt reports whether a text has the form of a pop receipt.
func WellFormedReceipt(text string) bool {
	if len(text) != base64.StdEncoding.EncodedLen(receiptBytes) {
		return false
	}
	_, err := base64.StdEncoding.Strict().DecodeString(text)
	return err == nil
}

// receiptTag writes the keyed hash of a receipt's number to the spare capacity of to.
func (q *Queue) receiptTag(to, number []byte, id ID) {
	key := q.store.receiptKey.Load()
	mac := key.macs.Get().(hash.Hash)
	defer key.macs.Put(mac)
	mac.Reset()
	mac.Write(number)
	mac.Write(id[:])
	mac.Write([]byte(q.stream))
	var tag [sha256.Size]byte
	copy(to[:receiptTagBytes], mac.Sum(tag[:0]))
}

// macKey is a key with HMAC states, which are costly to create.
type macKey struct {
	secret []byte
	macs   sync.Pool
}

func newMACKey(secret []byte) *macKey {
	k := &macKey{secret: secret}
	k.macs.New = func() any { return hmac.New(sha256.New, secret) }
	return k
}

// openReceiptKey reads the key of the receipts from the catalog, or creates one.
func (s *Store) openReceiptKey(ctx context.Context) error {
	for range conflictRounds {
		if s.receiptKey.Load() != nil { // the catalog has the key
			return nil
		}
		data, err := json.Marshal(receiptKey{Version: 1, Key: randomBytes(receiptKeyBytes)})
		if err != nil {
			return err
		}
		seq, err := s.writeCatalog(ctx, receiptKeySubject, data, s.receiptKeySeq.Load())
		if err == nil {
			s.receiptKeySeq.Store(seq)
			return s.takeReceiptKey(data)
		}
		if !errors.Is(err, errConflict) {
			return err
		}
		r, err := s.client.leaderLast(ctx, catalogStream, receiptKeySubject)
		if err != nil {
			return fmt.Errorf("queue catalog: %w", unavailable(err))
		}
		s.takeCatalog(receiptKeySubject, r)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, errConflict)
}

// takeReceiptKey applies the record of the key.
func (s *Store) takeReceiptKey(data []byte) error {
	var k receiptKey
	if err := json.Unmarshal(data, &k); err != nil || k.Version != 1 || len(k.Key) != receiptKeyBytes {
		return fmt.Errorf("queue catalog: the key of the pop receipts cannot be read: %w", errDamaged)
	}
	s.receiptKey.Store(newMACKey(k.Key))
	return nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}
