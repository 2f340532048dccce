package state

import (
	"encoding/base64"
	"encoding/binary"
)

// Receipt is the authority to change or delete a message: the sequence number of its current record.
type Receipt uint64

// receiptPrefix stands before the number, as the real service's receipts begin with some constant bytes and end with
// eight that differ.
var receiptPrefix = [12]byte{2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}

// String returns the receipt's opaque text: base64 of 20 bytes.
func (r Receipt) String() string {
	var b [20]byte
	copy(b[:], receiptPrefix[:])
	binary.LittleEndian.PutUint64(b[12:], uint64(r))
	return base64.StdEncoding.EncodeToString(b[:])
}

// ParseReceipt reads what String writes. ok is false for anything else.
func ParseReceipt(s string) (r Receipt, ok bool) {
	if len(s) != 28 {
		return 0, false
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != 20 || [12]byte(b[:12]) != receiptPrefix {
		return 0, false
	}
	r = Receipt(binary.LittleEndian.Uint64(b[12:]))
	return r, r != 0
}
