package query

import (
	"strconv"
	"strings"
	"time"
)

// parser turns tokens into a statement by recursive descent.
type parser struct {
	tokens []token
	at     int
	depth  int
	now    time.Time // the value of UTCNOW()
	st     *statement
}

// parse reads one statement; now is the time of the request.
func parse(sql string, now time.Time) (*statement, error) {
	tokens, err := tokenize(sql)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, now: now, st: &statement{limit: -1}}
	if err := p.statement(); err != nil {
		return nil, err
	}
	return p.st, nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

// next consumes and returns a token. It does not move past the last, tokEnd.
func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokEnd {
		p.at++
	}
	return t
}

// accept consumes the next token if it is word.
func (p *parser) accept(word string) bool {
	if !p.peek().is(word) {
		return false
	}
	p.at++
	return true
}

// expect consumes word, or returns an error.
func (p *parser) expect(words ...string) error {
	for _, w := range words {
		if !p.accept(w) {
			return errSyntax
		}
	}
	return nil
}

// SELECT what FROM BlobStorage [WHERE expression] [LIMIT n] [;]
func (p *parser) statement() error {
	if err := p.expect("SELECT"); err != nil {
		return err
	}
	if err := p.selection(); err != nil {
		return err
	}
	// The only table there is.
	if err := p.expect("FROM", "BLOBSTORAGE"); err != nil {
		return err
	}
	var err error
	if p.accept("[") {
		if err := p.expect("*", "]"); err != nil {
			return err
		}
		if p.st.from, err = p.path(true); err != nil {
			return err
		}
	}
	if p.accept("WHERE") {
		if p.st.where, err = p.expression(); err != nil {
			return err
		}
	}
	if p.accept("LIMIT") {
		t := p.next()
		// A name or a text could read as a number.
		if p.st.limit, err = strconv.ParseInt(t.text, 10, 64); err != nil || t.kind != tokNumber {
			return errSyntax
		}
	}
	p.accept(";")
	// What follows a whole statement is an error, or a second statement would be ignored.
	if p.peek().kind != tokEnd {
		return errSyntax
	}
	if p.st.split > 0 && (p.st.where != nil || p.st.limit >= 0 || p.st.from != nil) {
		return refuse("sys.split cannot be combined with other clauses.")
	}
	return nil
}

// selection is the part after SELECT.
func (p *parser) selection() error {
	if p.accept("*") {
		p.st.star = true
		return nil
	}
	// The last token is tokEnd, so the one after a name exists.
	if p.peek().is("SYS") && p.tokens[p.at+1].is(".") {
		return p.split()
	}
	aggregates := 0
	for {
		c, a, err := p.column()
		if err != nil {
			return err
		}
		if a != nil {
			p.st.aggregate = a
			aggregates++
		}
		p.st.columns = append(p.st.columns, c)
		if !p.accept(",") {
			break
		}
	}
	switch {
	// The service has no groups, so an aggregate has no row to stand in beside other columns.
	case aggregates > 0 && len(p.st.columns) > 1:
		return refuse("A SELECT has either projections or a single aggregate expression.")
	case len(p.st.columns) > maxColumns:
		return refuse("A SELECT has at most %d columns.", maxColumns)
	}
	return nil
}

// column is an expression or aggregate, with its alias.
func (p *parser) column() (c column, a *aggregate, err error) {
	if a, err = p.aggregate(); err != nil {
		return c, nil, err
	}
	if a == nil {
		if c.expression, err = p.expression(); err != nil {
			return c, nil, err
		}
		if f, ok := c.expression.(*field); ok {
			c.name = f.name()
		}
	}
	if p.accept("AS") {
		t := p.next()
		if t.kind != tokQuoted && (t.kind != tokName || reserved[strings.ToUpper(t.text)]) || t.text == "" {
			return c, nil, errSyntax
		}
		c.name = t.text
	}
	if a != nil {
		a.name = c.name
	}
	return c, a, nil
}

// aggregate parses an aggregate function; it returns nil if the next token is not one.
func (p *parser) aggregate() (*aggregate, error) {
	name := strings.ToUpper(p.peek().text)
	if p.peek().kind != tokName || !aggregates[name] || !p.tokens[p.at+1].is("(") {
		return nil, nil
	}
	p.at += 2
	a := &aggregate{function: name}
	if name != "COUNT" || !p.accept("*") {
		var err error
		if a.of, err = p.expression(); err != nil {
			return nil, err
		}
	}
	return a, p.expect(")")
}

// split parses sys.split(size).
func (p *parser) split() error {
	if err := p.expect("SYS", ".", "SPLIT", "("); err != nil {
		return err
	}
	t := p.next()
	n, err := strconv.ParseInt(t.text, 10, 64)
	if err != nil || t.kind != tokNumber {
		return errSyntax
	}
	if n < minSplit {
		return refuse("The split size must be at least %d bytes.", minSplit)
	}
	p.st.split = n
	return p.expect(")")
}

// path parses the steps after a name or BlobStorage[*]: .member, [index] and, if all is set, [*].
func (p *parser) path(all bool) (path []step, err error) {
	for {
		switch {
		case p.accept("."):
			t := p.next()
			if t.kind != tokName && t.kind != tokQuoted || t.text == "" {
				return nil, errSyntax
			}
			// A quoted name matches its case.
			path = append(path, step{name: t.text, exact: t.kind == tokQuoted})
		case p.accept("["):
			s := step{index: allElements}
			if !all || !p.accept("*") {
				t := p.next()
				// An index beyond it is no array that a row can hold.
				if s.index, err = strconv.Atoi(t.text); err != nil || t.kind != tokNumber || s.index > maxPathStep {
					return nil, errSyntax
				}
			}
			if err := p.expect("]"); err != nil {
				return nil, err
			}
			path = append(path, s)
		default:
			return path, nil
		}
		// Rows are no deeper, so a longer path finds nothing.
		if len(path) > maxDepth {
			return nil, errSyntax
		}
	}
}

// reserved are the words that can be used as names only in quotes.
var reserved = map[string]bool{"SELECT": true, "FROM": true, "WHERE": true, "LIMIT": true, "AND": true, "OR": true,
	"NOT": true,
	"IN":  true, "IS": true, "LIKE": true, "BETWEEN": true, "NULL": true, "MISSING": true, "TRUE": true, "FALSE": true,
	"CAST": true, "AS": true, "ESCAPE": true, "COLUMN": true}
