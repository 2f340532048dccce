package query

import (
	"math"
	"strings"
	"time"
)

// expression computes a value from a record. Its errors are recordErrors. An absent operand gives an absent result, and
// a condition that depends on one is unknown, which is null.
type expression interface {
	eval(r *row) (value, error)
}

type constant struct{ value }

func (c constant) eval(*row) (value, error) { return c.value, nil }

// field refers to a column or a path in JSON.
type field struct {
	path []step
	// column is the position of the column, from 0, once a reader with columns has resolved it.
	column int
}

// name is the field's name in the result: the last name of its path. An ordinal is not a name.
func (f *field) name() string {
	for i := len(f.path) - 1; i >= 0; i-- {
		if n := f.path[i].name; n != "" {
			if _, ok := f.ordinal(); ok {
				return ""
			}
			return n
		}
	}
	return ""
}

// ordinal returns n-1 for _n.
func (f *field) ordinal() (int, bool) {
	s := f.path[0].name
	if len(f.path) != 1 || len(s) < 2 || len(s) > 7 || s[0] != '_' || s[1] == '0' {
		return 0, false
	}
	n := 0
	for _, c := range s[1:] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n - 1, true
}

// resolve finds the field among names. ok is false if none has the name.
func (f *field) resolve(names []string) bool {
	parts := make([]string, len(f.path))
	exact := false
	for i, s := range f.path {
		if s.name == "" {
			return false
		}
		parts[i], exact = s.name, exact || s.exact
	}
	want := strings.Join(parts, ".")
	for i, n := range names {
		if n == want || !exact && strings.EqualFold(n, want) {
			f.column = i
			return true
		}
	}
	return false
}

func (f *field) eval(r *row) (value, error) {
	if err := r.Spend(1); err != nil {
		return value{}, err
	}
	return r.field(f)
}

// logic is AND, or OR if decides is 1: decides is the value of one operand that determines the result.
type logic struct {
	left, right expression
	decides     int64
}

func (e *logic) eval(r *row) (value, error) {
	l, err := truth(e.left, r)
	if err != nil || l.kind == boolean && l.n == e.decides {
		return l, err
	}
	v, err := truth(e.right, r)
	if err != nil || v.kind == boolean && v.n == e.decides || l.kind == boolean {
		return v, err
	}
	return l, nil
}

// truth evaluates to a boolean or null.
func truth(e expression, r *row) (value, error) {
	v, err := e.eval(r)
	if err == nil {
		err = r.Spend(1 + len(v.b))
	}
	if err != nil || v.kind == boolean {
		return v, err
	}
	if v.absent() {
		return nullValue, nil
	}
	return v.bool()
}

type not struct{ of expression }

func (e *not) eval(r *row) (value, error) {
	v, err := truth(e.of, r)
	if err == nil && v.kind == boolean {
		v.n = 1 - v.n
	}
	return v, err
}

// comparing is a set of results of compare: bit 0 for less, 1 for equal, 2 for greater.
type comparing byte

const atLeast, atMost comparing = 6, 3

var comparisons = map[string]comparing{"<": 1, "=": 2, "<=": atMost, ">": 4, "<>": 5, "!=": 5, ">=": atLeast}

type comparison struct {
	op          comparing
	left, right expression
}

func (e *comparison) eval(r *row) (value, error) {
	l, err := e.left.eval(r)
	if err != nil {
		return l, err
	}
	v, err := e.right.eval(r)
	if err != nil {
		return v, err
	}
	if err := r.Spend(1 + len(l.b) + len(v.b)); err != nil || l.absent() || v.absent() {
		return nullValue, err
	}
	c, err := compare(l, v)
	return boolValue(e.op>>(c+1)&1 == 1), err
}

// between implements BETWEEN. It evaluates its operand once.
type between struct{ of, low, high expression }

func (e *between) eval(r *row) (value, error) {
	v, err := e.of.eval(r)
	if err != nil {
		return v, err
	}
	of := constant{v}
	return (&logic{left: &comparison{atLeast, of, e.low}, right: &comparison{atMost, of, e.high}}).eval(r)
}

// absence implements IS [NOT] NULL and IS [NOT] MISSING. A missing value is also null.
type absence struct {
	of                   expression
	onlyMissing, negated bool
}

func (e *absence) eval(r *row) (value, error) {
	v, err := e.of.eval(r)
	if err == nil {
		err = r.Spend(1)
	}
	is := v.kind == missing || v.kind == null && !e.onlyMissing
	return boolValue(is != e.negated), err
}

// membership implements IN.
type membership struct {
	of   expression
	list []expression
}

func (e *membership) eval(r *row) (value, error) {
	l, err := e.of.eval(r)
	if err != nil || l.absent() {
		return nullValue, err
	}
	found := no
	for _, x := range e.list {
		v, err := x.eval(r)
		if err != nil {
			return v, err
		}
		if err := r.Spend(1 + len(l.b) + len(v.b)); err != nil {
			return v, err
		}
		if v.absent() {
			found = nullValue
			continue
		}
		if c, err := compare(l, v); err != nil || c == 0 {
			return yes, err
		}
	}
	return found, nil
}

type arithmetic struct {
	op          byte
	left, right expression
}

func (e *arithmetic) eval(r *row) (value, error) {
	a, err := e.left.eval(r)
	if err != nil {
		return a, err
	}
	b, err := e.right.eval(r)
	if err == nil {
		// A text may be megabytes, and becomes a number here: its length is work.
		err = r.Spend(1 + len(a.b) + len(b.b))
	}
	if err != nil || a.absent() || b.absent() {
		return nullValue, err
	}
	// Days are added to a moment, as in T-SQL; the difference of two is not defined.
	if a.kind == timestamp && (e.op == '+' || e.op == '-') {
		return addDays(a.t, b, e.op == '-')
	}
	if a, err = a.number(); err != nil {
		return a, err
	}
	if b, err = b.number(); err != nil {
		return b, err
	}
	// Integers stay integers: as floats they would lose digits above 2^53.
	if a.kind == integer && b.kind == integer {
		return integers(e.op, a.n, b.n)
	}
	x, y := a.float(), b.float()
	if e.op == '%' && y != 0 {
		// Mod takes time in the difference of exponents: 1e308 % 1e-300 runs for thousands of steps.
		if err := r.Spend(remainderWork(x, y)); err != nil {
			return value{}, err
		}
	}
	return floats(e.op, x, y)
}

// remainderWork returns the work of math.Mod, whose time grows with the distance of the exponents.
func remainderWork(x, y float64) int {
	_, a := math.Frexp(x)
	_, b := math.Frexp(y)
	return 8 * max(0, a-b)
}

// addDays adds a number of days to a time.
func addDays(t time.Time, days value, back bool) (value, error) {
	n, err := days.number()
	if err != nil {
		return n, err
	}
	f := n.float()
	if back {
		f = -f
	}
	if math.Abs(f) > 4e6 { // more than between the years 1 and 9999
		return n, errOverflow
	}
	whole := math.Trunc(f)
	return timestampOf(t.AddDate(0, 0, int(whole)).Add(time.Duration((f - whole) * 24 * float64(time.Hour))))
}

// timestampOf returns a time as a value. The year must be 1 to 9999.
func timestampOf(t time.Time) (value, error) {
	if y := t.Year(); y < 1 || y > 9999 {
		return value{}, errOverflow
	}
	return timeValue(t), nil
}

func integers(op byte, a, b int64) (value, error) {
	// Integers wrap around: a sum or a difference has overflowed if it moved the wrong way for the sign of b.
	switch op {
	case '+':
		if s := a + b; s > a == (b > 0) {
			return intValue(s), nil
		}
	case '-':
		if s := a - b; s < a == (b > 0) {
			return intValue(s), nil
		}
	case '*':
		if a == 0 || b == 0 {
			return intValue(0), nil
		}
		// The division finds every overflow but that of the smallest integer by -1, which overflows itself.
		if s := a * b; s/b == a && (a != math.MinInt64 || b != -1) {
			return intValue(s), nil
		}
	default:
		switch {
		case b == 0:
			return value{}, errDivision
		case a == math.MinInt64 && b == -1:
		case op == '/':
			return intValue(a / b), nil
		default:
			return intValue(a % b), nil
		}
	}
	return value{}, errOverflow
}

func floats(op byte, a, b float64) (value, error) {
	var f float64
	switch op {
	case '+':
		f = a + b
	case '-':
		f = a - b
	case '*':
		f = a * b
	default:
		if b == 0 {
			return value{}, errDivision
		}
		if f = a / b; op == '%' {
			f = math.Mod(a, b)
		}
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return value{}, errOverflow
	}
	return floatValue(f), nil
}

type cast struct {
	of expression
	to kind
}

func (e *cast) eval(r *row) (value, error) {
	v, err := e.of.eval(r)
	if err == nil {
		err = r.Spend(1 + len(v.b))
	}
	if err != nil {
		return v, err
	}
	return v.cast(e.to)
}

// argument evaluates an argument and spends the work of reading it once.
func (r *row) argument(e expression) (value, error) {
	v, err := e.eval(r)
	if err == nil {
		err = r.Spend(1 + len(v.b))
	}
	return v, err
}
