package frontend

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Level is the kind of resource that a path names, in the service's own words: "service", "container", "blob".
type Level string

// Operation is a row of a service's operations table: an operation of the REST reference. S is the service, C the
// result of its Resolve function. An empty Comp or Restype means that the parameter is absent, not that it has any
// value.
type Operation[S, C any] struct {
	// Name is the operation's name as the REST reference and the Storage Analytics log spell it: "PutBlockList".
	Name string
	// Method is the HTTP method.
	Method string
	// On is the kind of resource that the path names.
	On Level
	// Comp and Restype are the query parameters of these names, lower case.
	Comp, Restype string
	// Has and HasNot are headers, in Go's canonical form, that the request must have and must not have. Only operations
	// that do not differ otherwise use them.
	Has, HasNot []string
	// Needs is the permission that a caller needs on what the path of the URL names. A row without one is a panic at the
	// start.
	Needs auth.Need
	// Touches is everything else that the operation reads, writes, removes or changes the access of: another path that a
	// header names, and what options of the request do that other operations guard.
	Touches []Touch
	// State says how much of the operation is implemented, for the compatibility page.
	State State
	// Note is a sentence for the compatibility page, "" for none.
	Note string
	// Do serves the request. It returns an error and never renders one. Nil, with State NotImplemented: the answer
	// is 501.
	Do func(S, C) error
}

// State tells how much of an operation is implemented.
type State uint8

// The states. The zero value is a complete operation.
const (
	Complete State = iota
	Partial
	NotImplemented
)

// String returns the word for the compatibility page.
func (s State) String() string {
	return [...]string{"complete", "partial", "not implemented"}[s]
}

// routeKey distinguishes most rows.
type routeKey struct {
	on            Level
	comp, restype string
}

// index finds rows. It is built once and then only read.
type index[S, C any] map[routeKey][]*Operation[S, C]

// newIndex builds the index. It panics if a row is incomplete or a request could match two rows: both are defects of
// the table, seen at the first start.
func newIndex[S, C any](rows []Operation[S, C]) index[S, C] {
	ix := make(index[S, C])
	for i := range rows {
		row := &rows[i]
		if row.Name == "" || row.Method == "" || row.On == "" || (row.Do == nil) != (row.State == NotImplemented) {
			panic(fmt.Sprintf("frontend: operation %d (%q) is incomplete", i, row.Name))
		}
		if err := checkTouches(row.Name, row.Needs, row.Has, row.Touches); err != nil {
			panic(err)
		}
		p := routeKey{row.On, row.Comp, row.Restype}
		for _, other := range ix[p] {
			if other.Method == row.Method && !distinct(row, other) {
				panic(fmt.Sprintf("frontend: a request can match %s and %s", row.Name, other.Name))
			}
		}
		ix[p] = append(ix[p], row)
	}
	return ix
}

// distinct reports whether one row requires a header that the other refuses.
func distinct[S, C any](a, b *Operation[S, C]) bool {
	in := func(list []string) func(string) bool {
		return func(name string) bool { return slices.Contains(list, name) }
	}
	return slices.ContainsFunc(a.Has, in(b.HasNot)) || slices.ContainsFunc(b.Has, in(a.HasNot))
}

// find returns the row for a request at a level. Its errors are for a method or a comp that the resource does not
// support.
func (ix index[S, C]) find(r *wire.Request, on Level) (*Operation[S, C], error) {
	rows := ix[routeKey{on, r.Comp, r.Restype}]
	// known is set once a row has the method: if none matches then, the headers are at fault and not the method.
	known, method := false, cmp.Or(r.Verb, r.HTTP.Method)
	for _, row := range rows {
		if row.Method != method {
			continue
		}
		known = true
		if row.matches(r.HTTP.Header) {
			return row, nil
		}
	}
	switch {
	case known: // no row has this combination of headers
		return nil, wire.ErrMissingRequiredHeader
	case len(rows) > 0:
		return nil, wire.ErrUnsupportedHTTPVerb.WithHeader("Allow", allow(rows))
	case r.Comp != "":
		return nil, wire.InvalidQuery("comp", r.Comp, "")
	case r.Restype != "": // recorded: the missing comp is at fault, and the answer has no x-ms-version
		e := wire.InvalidQuery("comp", "", "")
		e.NoVersion = true
		return nil, e
	default:
		return nil, wire.ErrUnsupportedHTTPVerb
	}
}

func (o *Operation[S, C]) matches(h http.Header) bool {
	for _, name := range o.Has {
		if len(h[name]) == 0 {
			return false
		}
	}
	for _, name := range o.HasNot {
		if len(h[name]) > 0 {
			return false
		}
	}
	return true
}

func allow[S, C any](rows []*Operation[S, C]) string {
	var methods []string
	for _, row := range rows {
		if !slices.Contains(methods, row.Method) {
			methods = append(methods, row.Method)
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ",")
}

// Row is an operation without its handler, for the compatibility page and other readers of the table.
type Row struct {
	Name, Method  string
	On            Level
	Comp, Restype string
	Needs         auth.Need
	State         State
	Note          string
	Has, HasNot   []string
	Touches       []Touch
}

// Names returns the names of the rows of a table, in its order.
func Names[S, C any](operations []Operation[S, C]) []string {
	names := make([]string, len(operations))
	for i, o := range operations {
		names[i] = o.Name
	}
	return names
}

// Rows returns the rows of a table without handlers.
func Rows[S, C any](operations []Operation[S, C]) []Row {
	rows := make([]Row, len(operations))
	for i, o := range operations {
		rows[i] = Row{o.Name, o.Method, o.On, o.Comp, o.Restype, o.Needs, o.State, o.Note, o.Has, o.HasNot, o.Touches}
	}
	return rows
}
