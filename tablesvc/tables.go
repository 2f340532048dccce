package tablesvc

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/budget"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/state/table/filter"
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
	// Names that begin with $ are for Storage Analytics, which writes as the server itself.
	if err := checkTableName(name); err != nil && !(c.System() && entity.AnalyticsTable(name)) {
		return err
	}
	err = s.common.Changes.Record(c.Request, s.tableEvents(c, changes.TableCreated, name), func() error {
		return azureError(s.state.CreateTable(c.Account, name, c.Now))
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

// deleteTable is Delete Table.
// https://learn.microsoft.com/rest/api/storageservices/delete-table
func (s *Service) deleteTable(c *call) error {
	err := s.common.Changes.Record(c.Request, s.tableEvents(c, changes.TableDeleted, c.table), func() error {
		return azureError(hideTable(s.state.DeleteTable(c.Account, c.table)))
	})
	if err != nil {
		return err
	}
	s.common.Board.Touch(boardKey(c.Account, c.table)) // Readers of the change log that wait are answered now.
	c.Set("Content-Length", "0")
	return c.Status(http.StatusNoContent)
}

// queryOneTable is Query Tables of a single table.
func (s *Service) queryOneTable(c *call) error {
	if err := c.tableOptions(); err != nil {
		return err
	}
	t, err := s.state.GetTable(c.Account, c.table)
	if err != nil {
		return hideTable(err)
	}
	return c.Body(http.StatusOK, c.format.contentType("entry"), c.appendOneTable(nil, t.Name))
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
	var from string
	if token := c.Query.Get("nexttablename"); token != "" {
		text, err := decodeToken(token)
		if err != nil {
			return err
		}
		// The name is the place; the time of creation behind it is not needed to go on.
		from, _, _ = strings.Cut(text, "\x01")
	}
	names, next, err := s.listTables(c, from, limit, f)
	if err != nil {
		return err
	}
	if next != "" {
		c.Set("x-ms-continuation-NextTableName", next)
	}
	return c.Body(http.StatusOK, c.format.contentType("feed"), c.appendTables(nil, names))
}

// listTables returns up to limit names of tables that match the filter, and a continuation token if there are more.
func (s *Service) listTables(c *call, from string, limit int, f filter.Filter) (names []string, next string,
	err error) {
	if limit == 0 {
		return nil, "", nil
	}
	work, scanned := c.Work(), 0
	var ended error
	err = s.state.ListTables(c.Account, from, func(t state.Table) bool {
		// A page ends when its work is spent, if it has seen a table: without that, a page of one expensive table would
		// return no progress.
		if ended = work.Spend(100 + f.Work(&filter.Entity{})); ended != nil && (scanned > 0 || !budget.EndsPage(ended)) {
			next = tableToken(t)
			return false
		}
		scanned++
		switch {
		case entity.AnalyticsTable(t.Name) || !matchesTable(f, t):
			return true
		case len(names) == limit:
			next = tableToken(t)
			return false
		}
		names = append(names, t.Name)
		return true
	})
	// Other ends, such as a client that has left, are errors of the request.
	if err == nil && ended != nil && !budget.EndsPage(ended) {
		err = ended
	}
	return names, next, err
}

// tableToken returns the continuation token of a page that begins with a table.
func tableToken(t state.Table) string {
	return encodeToken(strings.ToLower(t.Name) + "\x01" + fmt.Sprintf("%016x", t.Created.FileTime()))
}

// tableOptions returns an error for options that a query for tables cannot have. $select can name only TableName.
func (c *call) tableOptions() error {
	for name := range strings.SplitSeq(c.Query.Get("$select"), ",") {
		if name = strings.TrimSpace(name); name != "" && name != "*" && name != "TableName" {
			return wire.ErrNotImplemented
		}
	}
	return c.knownOptions()
}

// matchesTable evaluates a filter on a table, whose only property is TableName.
func matchesTable(f filter.Filter, t state.Table) bool {
	if f.MatchAll() {
		return true
	}
	return f.Match(&filter.Entity{Record: entity.NewRecord(t.Created, 0).Append("TableName", entity.StringValue(t.Name))})
}

// parseFilter parses $filter. The error's message describes the error and its byte offset.
func parseFilter(text string) (filter.Filter, error) {
	f, err := filter.Parse(text)
	if errors.Is(err, filter.ErrFunction) {
		return f, wire.ErrNotImplemented
	}
	if err != nil {
		return f, errInvalidInput.WithMessage("The $filter expression is not valid: " + err.Error() + ".")
	}
	return f, nil
}

// maxResults bounds the tables or entities in one answer.
const maxResults = 1000

// top parses $top: at most maxResults, which is also the default. A larger one is refused
// (https://github.com/Azure/azure-sdk-for-net/issues/26035).
func (c *call) top() (int, error) {
	text := c.Query.Get("$top")
	if text == "" {
		return maxResults, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil && (text[0] == '-' || strings.Trim(text, "0123456789") != "") {
		return 0, errInvalidInput.WithMessage("The value of $top must be a whole number, zero or greater.")
	}
	if err != nil || n > maxResults {
		return 0, errInvalidInput
	}
	return int(n), nil
}

// Continuation tokens have Azure's form, 1!<length>!<base64>, with "-" for "=", "*" for "+" and "_" for "/". They hold
// the key at which the next page begins, so they stay valid across changes and restarts.

func encodeToken(s string) string {
	text := base64.StdEncoding.EncodeToString([]byte(s))
	text = tokenEncoder.Replace(text)
	return "1!" + strconv.Itoa(len(text)) + "!" + text
}

var (
	tokenEncoder = strings.NewReplacer("=", "-", "+", "*", "/", "_")
	tokenDecoder = strings.NewReplacer("-", "=", "*", "+", "_", "/")
)

// decodeToken parses a token. It fails with errToken for any other text: to begin elsewhere would silently skip or
// repeat entities.
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

// appendOneTable appends the document of one table.
func (c *call) appendOneTable(b []byte, name string) []byte {
	if c.format.atom {
		return entity.AppendAtomTable(b, c.Base, c.Account, name, c.Now)
	}
	b = append(b, '{')
	if c.format.metadata != entity.NoMetadata {
		b = append(append(append(b, `"odata.metadata":"`...), c.Base...), `/$metadata#Tables/@Element`...)
		b = append(c.appendSelect(b), `",`...)
	}
	return append(c.appendTableMembers(b, name), '}')
}

// appendSelect appends what $select adds to a context address, also an empty one, as in answers with entities.
func (c *call) appendSelect(b []byte) []byte {
	if !c.Query.Has("$select") {
		return b
	}
	text, _ := json.Marshal(c.Query.Get("$select")) // never fails
	return append(append(b, "&$select="...), text[1:len(text)-1]...)
}

// appendTables appends the document of a list of tables.
func (c *call) appendTables(b []byte, names []string) []byte {
	if c.format.atom {
		return entity.AppendAtomTables(b, c.Base, c.Account, names, c.Now)
	}
	b = append(b, '{')
	if c.format.metadata != entity.NoMetadata {
		b = append(append(append(b, `"odata.metadata":"`...), c.Base...), `/$metadata#Tables`...)
		b = append(c.appendSelect(b), `",`...)
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
