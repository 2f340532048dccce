package bench

import "fmt"

// Inserter inserts the entities of the workload entity-insert over a connection of its own. It is not safe for
// concurrent use.
type Inserter struct {
	conn *Conn
	work *inserter
}

// NewInserter returns the i-th inserter of a table: two with the same number would insert the same keys.
func NewInserter(s *Stack, table string, i int) *Inserter {
	e := &env{target: &Target{Stack: s}, seed: 1, entities: &entitySet{table: table}}
	return &Inserter{newConn(e.target), newInserter(e, i)}
}

// Insert inserts the next entity. An answer other than 204 is a [*StatusError].
func (i *Inserter) Insert() error { return i.work.do(i.conn) }

// Close closes the connection.
func (i *Inserter) Close() { i.conn.Close() }

// CreateTable creates a table.
func CreateTable(s *Stack, table string) error {
	c := newConn(&Target{Stack: s})
	defer c.Close()
	if _, err := c.Do(newTable(table)); err != nil {
		return fmt.Errorf("creating table %s: %w", table, err)
	}
	return nil
}

// newTable returns the request that creates a table.
func newTable(name string) *Request {
	r := NewRequest(Table, "POST", "create", 201, Field{"Content-Type", "application/json"})
	r.Path, r.Body = []byte("/Tables"), []byte(`{"TableName":"`+name+`"}`)
	return r
}

// ErrorLabel returns the name under which reports count a failed operation.
func ErrorLabel(err error) string { return errorLabel(err) }
