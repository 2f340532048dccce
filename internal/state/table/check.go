package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Finding is one invariant that does not hold.
type Finding struct {
	// Where names the bucket and the key, or the table.
	Where string
	// Problem describes the violation.
	Problem string
}

// String returns the finding as one line.
func (f Finding) String() string { return f.Where + ": " + f.Problem }

// Counts is the number of records that a check has read. Deleted counts the deleted tables whose entities are still
// being removed.
type Counts struct{ Tables, Entities, Deleted int }

// Values checks the values that are opaque to this package: Properties and Policies return an error for a value that
// the service cannot have stored.
type Values struct {
	Properties, Policies func(value []byte) error
}

// Check reads the whole file and reports every invariant that does not hold:
//   - table records can be parsed, have the key of their name, and have ids that are unique and below the next id;
//   - entity keys and records can be parsed, keys and sizes are within the limits, and each entity belongs to a table
//     or to
//     a deleted table whose entities are still being removed;
//   - logged changes can be parsed and have the numbers that the record of their table says;
//   - no table both exists and is deleted; policies and service properties can be parsed.
//
// It reads one consistent state and changes nothing.
func Check(db *store.DB, values Values, report func(Finding)) (n Counts, err error) {
	err = db.View(func(tx *store.Tx) error {
		// The closure may run again from the start.
		n = Counts{}
		c := checker{tx: tx, values: values, report: report, tables: make(map[uint64]string), deleted: make(map[uint64]bool)}
		// In this order: entities and logs are held against the tables and the deleted ones that were found before.
		c.checkTables()
		c.checkDeleted()
		n.Entities = c.checkEntities()
		c.checkChanges()
		c.checkProperties()
		n.Tables, n.Deleted = len(c.tables), len(c.deleted)
		return nil
	})
	return n, err
}

type checker struct {
	tx      *store.Tx
	values  Values
	report  func(Finding)
	tables  map[uint64]string
	deleted map[uint64]bool
}

func (c *checker) found(b store.Bucket, key []byte, format string, args ...any) {
	c.report(Finding{fmt.Sprintf("tables.db, bucket %s, key %q", b, key), fmt.Sprintf(format, args...)})
}

// each calls fn for every record of a bucket.
func (c *checker) each(b store.Bucket, fn func(k, v []byte)) {
	cur := c.tx.Cursor(b)
	for k, v := cur.Seek([]byte{0}); k != nil; k, v = cur.Next() {
		fn(k, v)
	}
}

func (c *checker) checkTables() {
	next := uint64(1)
	if b := c.tx.Get(bucketService, keyNextTableID); len(b) == 8 {
		next = binary.BigEndian.Uint64(b)
	}
	c.each(bucketTables, func(k, v []byte) {
		t, err := decodeTable(v)
		if err != nil {
			c.found(bucketTables, k, "%v", err)
			return
		}
		account, lower, ok := splitTableKey(k)
		switch {
		case !ok || account == "" || lower != strings.ToLower(t.Name):
			c.found(bucketTables, k, "the record is of table %q", t.Name)
		case !entity.TableName(t.Name) && !entity.AnalyticsTable(t.Name):
			c.found(bucketTables, k, "%q is not a table name", t.Name)
		case t.id == 0 || t.id >= next:
			c.found(bucketTables, k, "table id %d is not below the next id %d", t.id, next)
		case c.tables[t.id] != "":
			c.found(bucketTables, k, "table id %d is also the id of %q", t.id, c.tables[t.id])
		}
		if len(t.Policies) > 0 {
			if err := c.values.Policies(t.Policies); err != nil {
				c.found(bucketTables, k, "access policies: %v", err)
			}
		}
		c.tables[t.id] = string(k)
	})
}

func (c *checker) checkDeleted() {
	c.each(bucketDeleted, func(k, _ []byte) {
		if len(k) != entity.TableIDLen {
			c.found(bucketDeleted, k, "the key is not a table id")
			return
		}
		id := binary.BigEndian.Uint64(k)
		c.deleted[id] = true
		if name := c.tables[id]; name != "" {
			c.found(bucketDeleted, k, "table %q both exists and is deleted", name)
		}
	})
}

func (c *checker) checkEntities() (n int) {
	c.each(bucketEntities, func(k, v []byte) {
		n++
		table, partition, row, ok := entity.SplitKey(k)
		if !ok {
			c.found(bucketEntities, k, "the key is not an entity key")
			return
		}
		partition, row = entity.DecodeKeyPart(partition), entity.DecodeKeyPart(row)
		if err := entity.CheckRecord(v); err != nil {
			c.found(bucketEntities, k, "%v", err)
			return
		}
		for _, part := range [...][]byte{partition, row} {
			if err := entity.CheckKey(part); err != nil {
				c.found(bucketEntities, k, "%s", err.Message)
			}
		}
		// A key that can be read and is in another form would never be found by its own PartitionKey and RowKey.
		if !bytes.Equal(entity.AppendKey(nil, table, partition, row), k) {
			c.found(bucketEntities, k, "the key is not in its canonical form")
		}
		if err := entity.CheckSize(partition, row, v); err != nil {
			c.found(bucketEntities, k, "%s", err.Message)
		}
		if c.tables[table] == "" && !c.deleted[table] {
			c.found(bucketEntities, k, "there is no table with the id %d", table)
		}
	})
	return n
}

func (c *checker) checkChanges() {
	watched := make(map[uint64]watchRecord)
	c.each(bucketWatched, func(k, v []byte) {
		w, err := decodeWatch(v)
		switch {
		case len(k) != entity.TableIDLen:
			c.found(bucketWatched, k, "the key is not a table id")
			return
		case err != nil:
			c.found(bucketWatched, k, "%v", err)
		}
		table := binary.BigEndian.Uint64(k)
		watched[table] = w
		if c.tables[table] == "" && !c.deleted[table] {
			c.found(bucketWatched, k, "there is no table with the id %d", table)
		}
	})
	c.each(bucketChanges, func(k, v []byte) {
		ch, err := decodeChange(k, v)
		if err != nil {
			c.found(bucketChanges, k, "%v", err)
			return
		}
		table := binary.BigEndian.Uint64(k)
		if w, ok := watched[table]; !ok || ch.number < w.first || ch.number >= w.next {
			c.found(bucketChanges, k, "the log of table %[2]d has the changes %[3]d to %[4]d, not %[1]d", ch.number, table,
				w.first, w.next)
		}
	})
}

func (c *checker) checkProperties() {
	c.each(bucketService, func(k, v []byte) {
		switch {
		case bytes.Equal(k, keyNextTableID):
			if len(v) != 8 {
				c.found(bucketService, k, "the next table id has %d bytes", len(v))
			}
		case bytes.HasPrefix(k, propertiesKey("")):
			if err := c.values.Properties(v); err != nil {
				c.found(bucketService, k, "%v", err)
			}
		case bytes.HasPrefix(k, awaitedPrefix):
			if _, err := decodeAwaited(v); err != nil {
				c.found(bucketService, k, "%v", err)
			}
		default:
			c.found(bucketService, k, "unknown key")
		}
	})
}
