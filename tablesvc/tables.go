package tablesvc

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/filter"
)

// createTable is Create Table.
// https://learn.microsoft.com/rest/api/storageservices/create-table
func (s *Service) createTable(c *call) error {
	body, err := c.ReadBody(64 << 10)
	if err != nil {
		return err
	}
	name, err := tableNameIn(c, body)
	if err != nil {
		return err
	}
	if err := checkTableName(name); err != nil && !(c.System() && analyticsTable(name)) {
		return err
	}
	at := s.tick()
	err = s.db.Update(func(tx *store.Tx) error {
		key := tableKey(c.Account, name)
		if tx.Get(bucketTables, key) != nil {
			return errTableAlreadyExists
		}
		tx.Put(bucketTables, key, table{id: nextTableID(tx), created: at, name: name}.encode())
		return nil
	})
	if err != nil {
		return err
	}
	location := c.Base + "/Tables('" + name + "')"
	c.Set("Location", location)
	if c.preference(c.Header("Prefer")) == preferNoContent {
		c.Set("DataServiceId", location)
		c.Set("Content-Length", "0")
		return c.Status(http.StatusNoContent)
	}
	return c.Body(http.StatusCreated, c.format.contentType("entry"), c.appendOneTable(nil, name))
}

func tableNameIn(c *call, body []byte) (string, error) {
	atom, err := atomBody(c.version, c.Header("Content-Type"))
	if err != nil {
		return "", err
	}
	var name string
	var ok bool
	if atom {
		name, ok = entity.ParseAtomTableName(body)
	} else {
		name, ok = entity.ParseTableName(body)
	}
	if !ok {
		return "", errInvalidInput
	}
	return name, nil
}

// checkTableName refuses names outside the rules and the one that is reserved.
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#table-names
func checkTableName(name string) error {
	switch {
	case entity.TableName(name) && strings.EqualFold(name, "tables"):
		return errInvalidInput
	case entity.TableName(name):
		return nil
	case (len(name) < 3 || len(name) > 63) && entity.TableName("Aaa"+name[:min(len(name), 60)]):
		return errTableNameLength
	}
	return errTableName
}

// deleteTable is Delete Table. It takes the same time for any table: entities are removed in the background.
// https://learn.microsoft.com/rest/api/storageservices/delete-table
func (s *Service) deleteTable(c *call) error {
	err := s.db.Update(func(tx *store.Tx) error {
		t, found, err := findTable(tx, c.Account, c.table)
		switch {
		case err != nil:
			return err
		case !found:
			return errNotFound
		}
		tx.Delete(bucketTables, tableKey(c.Account, c.table))
		tx.Put(bucketDoomed, tableIDKey(t.id), []byte{})
		return nil
	})
	if err != nil {
		return err
	}
	s.tables.forget(string(tableKey(c.Account, c.table)))
	s.reaper.notify()
	c.Set("Content-Length", "0")
	return c.Status(http.StatusNoContent)
}

// queryOneTable is Query Tables of a single table.
func (s *Service) queryOneTable(c *call) error {
	if err := c.tableOptions(); err != nil {
		return err
	}
	var t table
	err := s.db.View(func(tx *store.Tx) error {
		var found bool
		var err error
		if t, found, err = findTable(tx, c.Account, c.table); err == nil && !found {
			err = errNotFound
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.Body(http.StatusOK, c.format.contentType("entry"), c.appendOneTable(nil, t.name))
}

// queryTables is Query Tables, with $filter on TableName and $top.
// https://learn.microsoft.com/rest/api/storageservices/query-tables
func (s *Service) queryTables(c *call) error {
	if err := c.tableOptions(); err != nil {
		return err
	}
	f, err := parseFilter(c.Query.Get("$filter"))
	if err != nil {
		return err
	}
	limit, err := c.top()
	if err != nil {
		return err
	}
	start := []byte(c.Account + "\x00")
	if token := c.Query.Get("nexttablename"); token != "" {
		text, err := decodeToken(token)
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(text, "\x01")
		start = tableKey(c.Account, name)
	}
	prefix := []byte(c.Account + "\x00")
	var names []string
	var next string
	err = s.db.View(func(tx *store.Tx) error {
		names, next = nil, ""
		if limit == 0 {
			return nil
		}
		cur := tx.Cursor(bucketTables)
		for k, v := cur.Seek(start); k != nil && bytes.HasPrefix(k, prefix); k, v = cur.Next() {
			t, err := decodeTable(v)
			if err != nil {
				return err
			}
			if analyticsTable(t.name) || !matchesTable(f, t) {
				continue
			}
			if len(names) == limit {
				next = encodeToken(strings.ToLower(t.name) + "\x01" + fmt.Sprintf("%016x", t.created.FileTime()))
				return nil
			}
			names = append(names, t.name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if next != "" {
		c.Set("x-ms-continuation-NextTableName", next)
	}
	return c.Body(http.StatusOK, c.format.contentType("feed"), c.appendTables(nil, names))
}

// tableOptions refuses what a query for tables cannot have. $select can name nothing but the one property.
func (c *call) tableOptions() error {
	for name := range strings.SplitSeq(c.Query.Get("$select"), ",") {
		if name = strings.TrimSpace(name); name != "" && name != "*" && name != "TableName" {
			return wire.ErrNotImplemented
		}
	}
	return c.knownOptions()
}

// matchesTable evaluates a filter on a table, whose one property is TableName.
func matchesTable(f filter.Filter, t table) bool {
	if f.MatchAll() {
		return true
	}
	return f.Match(&filter.Entity{Record: entity.NewRecord(t.created, 0).Append("TableName", entity.StringValue(t.name))})
}

// parseFilter reads $filter. What is wrong with it, and where, stands in the message.
func parseFilter(text string) (filter.Filter, error) {
	f, err := filter.Parse(text)
	if err != nil {
		return f, errInvalidInput.WithMessage("The $filter expression is not valid: " + err.Error() + ".")
	}
	return f, nil
}

// maxResults is the most that one answer holds, of tables or of entities.
const maxResults = 1000

// top reads $top: at most maxResults, which is also the default.
func (c *call) top() (int, error) {
	text := c.Query.Get("$top")
	if text == "" {
		return maxResults, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil && (text[0] == '-' || strings.Trim(text, "0123456789") != "") {
		return 0, errInvalidInput.WithMessage("The value of $top must be a whole number that is not negative.")
	}
	if err != nil || n > maxResults { // a number too large for us is large enough
		return maxResults, nil
	}
	return int(n), nil
}

// Continuation tokens have Azure's form, 1!<length>!<base64>, with "-" for "=", "*" for "+" and "_" for "/". They hold
// the key at which to go on, so that they stay good over changes and restarts.

func encodeToken(s string) string {
	text := base64.StdEncoding.EncodeToString([]byte(s))
	text = tokenEncoder.Replace(text)
	return "1!" + strconv.Itoa(len(text)) + "!" + text
}

var (
	tokenEncoder = strings.NewReplacer("=", "-", "+", "*", "/", "_")
	tokenDecoder = strings.NewReplacer("-", "=", "*", "+", "_", "/")
)

// decodeToken reads a token. It fails with errToken for what has not the form of one: to begin somewhere else would be to skip
// or to repeat entities without a word.
func decodeToken(s string) (string, error) {
	rest, ok := strings.CutPrefix(s, "1!")
	length, text, found := strings.Cut(rest, "!")
	n, err := strconv.Atoi(length)
	if !ok || !found || err != nil || n != len(text) {
		return "", errToken
	}
	b, err := base64.StdEncoding.DecodeString(tokenDecoder.Replace(text))
	if err != nil || !utf8.Valid(b) {
		return "", errToken
	}
	return string(b), nil
}

// appendOneTable renders a table as a whole answer.
func (c *call) appendOneTable(b []byte, name string) []byte {
	if c.format.atom {
		return entity.AppendAtomTable(b, c.Base, c.Account, name, c.Now)
	}
	b = append(b, '{')
	if c.format.metadata != entity.NoMetadata {
		b = append(append(append(b, `"odata.metadata":"`...), c.Base...), `/$metadata#Tables/@Element",`...)
	}
	return append(c.appendTableMembers(b, name), '}')
}

// appendTables renders a list of tables.
func (c *call) appendTables(b []byte, names []string) []byte {
	if c.format.atom {
		return entity.AppendAtomTables(b, c.Base, c.Account, names, c.Now)
	}
	b = append(b, '{')
	if c.format.metadata != entity.NoMetadata {
		b = append(append(append(b, `"odata.metadata":"`...), c.Base...), `/$metadata#Tables",`...)
	}
	b = append(b, `"value":[`...)
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(c.appendTableMembers(append(b, '{'), name), '}')
	}
	return append(b, "]}"...)
}

func (c *call) appendTableMembers(b []byte, name string) []byte {
	if c.format.metadata == entity.FullMetadata {
		b = fmt.Appendf(b, `"odata.type":"%s.Tables","odata.id":"%s/Tables('%s')","odata.editLink":"Tables('%s')",`,
			c.Account, c.Base, name, name)
	}
	return append(append(append(b, `"TableName":"`...), name...), '"')
}
