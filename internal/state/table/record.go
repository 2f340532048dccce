package table

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Table is the record of a table:
//
//	+---------+---------+-----------------+--------------+-------------------+
//	| version | id      | created         | name length, | access policies,  |
//	| 1 byte  | 8 bytes | 8 bytes, ticks  | name         | JSON, may be empty|
//	| = 1     |         |                 | 1 + n bytes  |                   |
//	+---------+---------+-----------------+--------------+-------------------+
//
// An id is never used twice: a table that is created under the name of a deleted one has another id.
type Table struct {
	// Name is spelled as when the table was created.
	Name string
	// Created is the time of that.
	Created ticks.Ticks
	// Policies are the stored access policies as JSON, nil for none. They are opaque to this package.
	Policies json.RawMessage

	id uint64
}

const (
	tableVersion = 1
	tableHeader  = 18
)

func (t *Table) encode() []byte {
	b := append(make([]byte, 0, tableHeader+len(t.Name)+len(t.Policies)), tableVersion)
	b = binary.BigEndian.AppendUint64(b, t.id)
	b = binary.BigEndian.AppendUint64(b, uint64(t.Created))
	b = append(append(b, byte(len(t.Name))), t.Name...)
	return append(b, t.Policies...)
}

// tableID parses only the id, which is all that entity operations need.
func tableID(b []byte) (uint64, bool) {
	if len(b) < tableHeader || b[0] != tableVersion {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[1:]), true
}

// decodeTable parses a record. The result does not point into b.
func decodeTable(b []byte) (t Table, err error) {
	id, ok := tableID(b)
	if !ok || len(b) < tableHeader+int(b[tableHeader-1]) {
		return t, fmt.Errorf("table record is damaged: %x", b[:min(len(b), tableHeader)])
	}
	n := tableHeader + int(b[tableHeader-1])
	t = Table{id: id, Created: ticks.Ticks(binary.BigEndian.Uint64(b[9:])), Name: string(b[tableHeader:n])}
	if len(b) > n {
		t.Policies = append(t.Policies, b[n:]...)
		if !json.Valid(t.Policies) {
			return t, fmt.Errorf("access policies of table %s are damaged", t.Name)
		}
	}
	return t, nil
}

// getTable reads the record of a table. It fails with [ErrTableNotFound].
func getTable(tx *store.Tx, account, name string) (Table, error) {
	b := tx.Get(bucketTables, tableKey(account, name))
	if b == nil {
		return Table{}, ErrTableNotFound
	}
	return decodeTable(b)
}

// idOf returns the id of a table. It fails with [ErrTableNotFound].
func idOf(tx *store.Tx, account, name string) (uint64, error) {
	b := tx.Get(bucketTables, tableKey(account, name))
	if b == nil {
		return 0, ErrTableNotFound
	}
	id, ok := tableID(b)
	if !ok {
		return 0, fmt.Errorf("table record of %s/%s is damaged", account, name)
	}
	return id, nil
}

// nextTableID takes the next id. The ids of a new store begin with the time, so that positions in the change logs of
// another store, such as an earlier one in memory, are not taken for positions of this one. Those of a shard other than
// 0 have its number in their upper bits, and the time in seconds: they are less than the ids of shard 0, which are
// ticks, for up to 2^7 shards.
func nextTableID(tx *store.Tx, now ticks.Ticks, shard int) uint64 {
	id := leastTableID(now, shard)
	if b := tx.Get(bucketService, keyNextTableID); len(b) == 8 {
		id = binary.BigEndian.Uint64(b)
	}
	tx.Put(bucketService, keyNextTableID, tableIDKey(id+1))
	return id
}

// leastTableID is an id of a table that no store of the shard has come to at a time.
func leastTableID(now ticks.Ticks, shard int) uint64 {
	if shard > 0 {
		return uint64(shard)<<shardBits | uint64(now.Time().Unix())<<20
	}
	return uint64(now)
}

// shardBits is the number of bits of an id below the number of its shard.
const shardBits = 52

// shardOfID returns the shard that has given an id. Ticks since 1970 have the bit above the shard's number.
func shardOfID(id uint64) int {
	if id >= 1<<(shardBits+7) {
		return 0
	}
	return int(id >> shardBits)
}
