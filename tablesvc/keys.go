package tablesvc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
)

// The buckets of tables.db.
const (
	// bucketTables: account, 0x00, table name in lower case -> table record.
	bucketTables store.Bucket = "tables"
	// bucketEntities: table id, PartitionKey, 0x00, RowKey -> entity record. See internal/entity.
	bucketEntities store.Bucket = "entities"
	// bucketDoomed: table id -> nothing. The ids of deleted tables whose entities are still being removed.
	bucketDoomed store.Bucket = "doomed"
	// bucketWatched and bucketChanges: the logs of changes. See changelog.go.
	bucketWatched store.Bucket = "watched"
	bucketChanges store.Bucket = "changes"
	// bucketService: "next-table-id" -> 8 bytes, big-endian; "properties", 0x00, account -> service properties as JSON.
	bucketService store.Bucket = "service"
)

// Buckets are the buckets of tables.db, for [store.Options].
func Buckets() []store.Bucket {
	return []store.Bucket{bucketTables, bucketEntities, bucketDoomed, bucketWatched, bucketChanges, bucketService}
}

var keyNextTableID = []byte("next-table-id")

func propertiesKey(account string) []byte { return []byte("properties\x00" + account) }

// tableKey is where a table's record is. Names differ in more than case.
func tableKey(account, name string) []byte {
	return append(append([]byte(account), 0), strings.ToLower(name)...)
}

func tableIDKey(id uint64) []byte { return entity.AppendTableID(nil, id) }

// table is what the store knows of a table.
//
//	+---------+---------+-----------------+--------------+-------------------+
//	| version | id      | created         | name length, | access policies,  |
//	| 1 byte  | 8 bytes | 8 bytes, ticks  | name         | JSON, may be empty|
//	| = 1     |         |                 | 1 + n bytes  |                   |
//	+---------+---------+-----------------+--------------+-------------------+
//
// An id is never used twice: a table that is deleted and created anew is another table.
type table struct {
	id       uint64
	created  ticks.Ticks
	name     string // as it was written when the table was created
	policies []properties.StoredPolicy
}

const (
	tableVersion = 1
	tableHeader  = 18
)

func (t table) encode() []byte {
	b := append(make([]byte, 0, tableHeader+len(t.name)), tableVersion)
	b = binary.BigEndian.AppendUint64(b, t.id)
	b = binary.BigEndian.AppendUint64(b, uint64(t.created))
	b = append(append(b, byte(len(t.name))), t.name...)
	if len(t.policies) > 0 {
		policies, err := json.Marshal(t.policies)
		if err != nil { // strings and times only
			panic(fmt.Sprintf("tablesvc: encoding access policies: %v", err))
		}
		b = append(b, policies...)
	}
	return b
}

// tableID reads the id alone, which is all that entity operations need.
func tableID(b []byte) (uint64, bool) {
	if len(b) < tableHeader || b[0] != tableVersion {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[1:]), true
}

func decodeTable(b []byte) (t table, err error) {
	id, ok := tableID(b)
	if !ok || len(b) < tableHeader+int(b[tableHeader-1]) {
		return t, fmt.Errorf("table record is damaged: %x", b[:min(len(b), tableHeader)])
	}
	n := tableHeader + int(b[tableHeader-1])
	t = table{id: id, created: ticks.Ticks(binary.BigEndian.Uint64(b[9:])), name: string(b[tableHeader:n])}
	if len(b) > n {
		if err := json.Unmarshal(b[n:], &t.policies); err != nil {
			return t, fmt.Errorf("access policies of table %s: %w", t.name, err)
		}
	}
	return t, nil
}

// findTable reads a table's record. found is false if there is none.
func findTable(tx *store.Tx, account, name string) (t table, found bool, err error) {
	b := tx.Get(bucketTables, tableKey(account, name))
	if b == nil {
		return t, false, nil
	}
	t, err = decodeTable(b)
	return t, err == nil, err
}

// idOf returns a table's id, or [errTableNotFound].
func idOf(tx *store.Tx, account, name string) (uint64, error) {
	b := tx.Get(bucketTables, tableKey(account, name))
	if b == nil {
		return 0, errTableNotFound
	}
	id, ok := tableID(b)
	if !ok {
		return 0, fmt.Errorf("table record of %s/%s is damaged", account, name)
	}
	return id, nil
}

// nextTableID takes the next id.
func nextTableID(tx *store.Tx) uint64 {
	id := uint64(1)
	if b := tx.Get(bucketService, keyNextTableID); len(b) == 8 {
		id = binary.BigEndian.Uint64(b)
	}
	tx.Put(bucketService, keyNextTableID, tableIDKey(id+1))
	return id
}

// splitTableKey is the reverse of tableKey.
func splitTableKey(key []byte) (account, lower string, ok bool) {
	a, l, ok := bytes.Cut(key, []byte{0})
	return string(a), string(l), ok
}
