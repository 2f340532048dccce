package query

import (
	"bytes"
	"math"
)

// aggregates are the aggregate functions: the ones that the reference lists, and AVG, which its examples use.
var aggregates = map[string]bool{"COUNT": true, "SUM": true, "AVG": true, "AVERAGE": true, "MIN": true, "MAX": true}

// aggregate computes a function over all records that match the WHERE clause. Absent values are ignored.
type aggregate struct {
	function string
	of       expression // nil for COUNT(*)
	name     string     // its alias, or ""

	count int64
	sum   value // SUM and AVG: an integer while all values are integers and the sum does not overflow
	best  value // MIN and MAX
}

// add adds one record.
func (a *aggregate) add(r *row) error {
	if a.of == nil {
		a.count++
		return nil
	}
	v, err := a.of.eval(r)
	if err != nil || v.absent() {
		return err
	}
	switch a.function {
	case "SUM", "AVG", "AVERAGE":
		if err := a.addSum(v); err != nil {
			return err
		}
	case "MIN", "MAX":
		if err := a.addBest(v); err != nil {
			return err
		}
	}
	a.count++
	return nil
}

func (a *aggregate) addSum(v value) error {
	v, err := v.number()
	if err != nil {
		return err
	}
	if a.count == 0 {
		a.sum = v
		return nil
	}
	if a.sum.kind == integer && v.kind == integer {
		if s, err := integers('+', a.sum.n, v.n); err == nil {
			a.sum = s
			return nil
		}
	}
	f := a.sum.float() + v.float()
	if math.IsInf(f, 0) {
		return errOverflow
	}
	a.sum = floatValue(f)
	return nil
}

func (a *aggregate) addBest(v value) error {
	if a.count > 0 {
		c, err := compare(v, a.best)
		if err != nil {
			return err
		}
		if c == 0 || c < 0 != (a.function == "MIN") {
			return nil
		}
	}
	v.b = bytes.Clone(v.b)
	a.best = v
	return nil
}

// result returns the aggregate's value. Without values it is null, or 0 for COUNT.
func (a *aggregate) result() value {
	switch {
	case a.function == "COUNT":
		return intValue(a.count)
	case a.count == 0:
		return nullValue
	case a.function == "SUM":
		return a.sum
	case a.function == "MIN" || a.function == "MAX":
		return a.best
	}
	return floatValue(a.sum.float() / float64(a.count))
}
