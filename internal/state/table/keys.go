package table

import (
	"bytes"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// The buckets of tables.db.
const (
	// bucketTables: account, 0x00, table name in lower case -> table record.
	bucketTables store.Bucket = "tables"
	// bucketEntities: table id, PartitionKey, 0x00, RowKey -> entity record. See package entity.
	bucketEntities store.Bucket = "entities"
	// bucketDeleted: table id -> nothing. The ids of deleted tables whose entities are still being removed.
	bucketDeleted store.Bucket = "doomed"
	// bucketWatched and bucketChanges: the logs of changes. See changelog.go.
	bucketWatched store.Bucket = "watched"
	bucketChanges store.Bucket = "changes"
	// bucketService: "next-table-id" -> 8 bytes, big-endian; "properties", 0x00, account -> service properties as JSON;
	// "awaited", see changelog.go.
	bucketService store.Bucket = "service"
)

// Buckets returns the buckets of tables.db, for [store.Options].
func Buckets() []store.Bucket {
	return []store.Bucket{bucketTables, bucketEntities, bucketDeleted, bucketWatched, bucketChanges, bucketService}
}

var keyNextTableID = []byte("next-table-id")

func propertiesKey(account string) []byte { return []byte("properties\x00" + account) }

var awaitedPrefix = []byte("awaited\x00")

// awaitedKey is the key of the note that a log is to begin with the creation of a table.
func awaitedKey(account, name string) []byte {
	return append(bytes.Clone(awaitedPrefix), tableKey(account, name)...)
}

// tableKey is the key of a table's record. Names that differ only in case are the same table.
func tableKey(account, name string) []byte {
	return append(append([]byte(account), 0), strings.ToLower(name)...)
}

func tableIDKey(id uint64) []byte { return entity.AppendTableID(nil, id) }

// splitTableKey parses what tableKey builds.
func splitTableKey(key []byte) (account, lower string, ok bool) {
	a, l, ok := bytes.Cut(key, []byte{0})
	return string(a), string(l), ok
}
