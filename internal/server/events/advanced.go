package events

import (
	"encoding/json"
	"slices"
	"strings"
)

// AdvancedFilter selects events by the value of a key.
// https://learn.microsoft.com/azure/event-grid/event-filtering#advanced-filtering
type AdvancedFilter struct {
	// OperatorType is the operator: StringContains, NumberInRange, ...
	OperatorType string `json:"operatorType"`
	// Key is id, topic (source), subject, eventType (type), dataVersion, or the path of a value in the data:
	// data.contentLength.
	Key string `json:"key"`
	// Value holds what the operator compares with, or Values are: one of them must match. Ranges are pairs of numbers.
	Value  any   `json:"value,omitempty"`
	Values []any `json:"values,omitempty"`
}

// Limits of the advanced filters of a subscription.
const (
	maxAdvanced       = 25
	maxAdvancedValues = 25
)

// operator is the rule of an operator.
type operator struct {
	// kind is the type of its values: "string", "number", "range" or "bool"; "" for operators without a value.
	kind string
	// single is set if it takes one value, in Value.
	single bool
	// negative operators match if none of the values do, and if the event does not have the key.
	negative bool
	match    func(have, want any) bool
}

func textOperator(negative bool, match func(have, want string) bool) operator {
	return operator{kind: "string", negative: negative, match: func(have, want any) bool {
		text, ok := have.(string)
		return ok && match(strings.ToLower(text), strings.ToLower(want.(string)))
	}}
}

func numberOperator(single, negative bool, match func(have, want float64) bool) operator {
	return operator{kind: "number", single: single, negative: negative, match: func(have, want any) bool {
		n, ok := have.(float64)
		return ok && match(n, want.(float64))
	}}
}

func rangeOperator(negative bool) operator {
	return operator{kind: "range", negative: negative, match: func(have, want any) bool {
		n, ok := have.(float64)
		limits := want.([]any)
		return ok && n >= limits[0].(float64) && n <= limits[1].(float64)
	}}
}

func equal[T comparable](a, b T) bool { return a == b }

// operators are Azure's operators, but for keys whose values are arrays, which storage events do not have.
var operators = map[string]operator{
	"StringIn":                  textOperator(false, equal[string]),
	"StringNotIn":               textOperator(true, equal[string]),
	"StringBeginsWith":          textOperator(false, strings.HasPrefix),
	"StringNotBeginsWith":       textOperator(true, strings.HasPrefix),
	"StringEndsWith":            textOperator(false, strings.HasSuffix),
	"StringNotEndsWith":         textOperator(true, strings.HasSuffix),
	"StringContains":            textOperator(false, strings.Contains),
	"StringNotContains":         textOperator(true, strings.Contains),
	"NumberIn":                  numberOperator(false, false, equal[float64]),
	"NumberNotIn":               numberOperator(false, true, equal[float64]),
	"NumberLessThan":            numberOperator(true, false, func(a, b float64) bool { return a < b }),
	"NumberLessThanOrEquals":    numberOperator(true, false, func(a, b float64) bool { return a <= b }),
	"NumberGreaterThan":         numberOperator(true, false, func(a, b float64) bool { return a > b }),
	"NumberGreaterThanOrEquals": numberOperator(true, false, func(a, b float64) bool { return a >= b }),
	"NumberInRange":             rangeOperator(false),
	"NumberNotInRange":          rangeOperator(true),
	"BoolEquals": {kind: "bool", single: true, match: func(have, want any) bool {
		b, ok := have.(bool)
		return ok && b == want.(bool)
	}},
	"IsNullOrUndefined": {},
	"IsNotNull":         {},
}

// TakesOneValue reports whether an operator compares with one value, in Value, and not with a list.
func TakesOneValue(operatorType string) bool { return operators[operatorType].single }

// fits reports whether a value has the type that the operator compares with.
func (o *operator) fits(v any) bool {
	switch o.kind {
	case "string":
		s, ok := v.(string)
		return ok && len(s) <= maxSubject
	case "number":
		_, ok := v.(float64)
		return ok
	case "bool":
		_, ok := v.(bool)
		return ok
	case "range":
		list, ok := v.([]any)
		return ok && len(list) == 2 &&
			!slices.ContainsFunc(list, func(n any) bool { _, number := n.(float64); return !number })
	}
	return false
}

// values hold what the filter compares with.
func (f *AdvancedFilter) values() []any {
	if f.Value != nil {
		return []any{f.Value}
	}
	return f.Values
}

// checkAdvanced checks the filters of a subscription, as they come from JSON.
func checkAdvanced(list []AdvancedFilter) error {
	if len(list) > maxAdvanced {
		return invalid("advancedFilters: want at most %d", maxAdvanced)
	}
	// Limits of Event Grid: 25 filters, and 25 values over all of them.
	count := 0
	for i := range list {
		f := &list[i]
		o, ok := operators[f.OperatorType]
		switch {
		case !ok:
			return invalid("advancedFilters: there is no operator %q", f.OperatorType)
		case f.Key == "" || len(f.Key) > maxSubject || !knownKey(f.Key):
			return invalid("advancedFilters: key %q is not id, topic, subject, eventType, dataVersion or data.NAME", f.Key)
		// Each operator takes either one value or a list, and no operator ignores what it was given.
		case f.Value != nil && len(f.Values) > 0, o.kind == "" && len(f.values()) > 0, o.kind != "" &&
			len(f.values()) == 0, o.single && f.Value == nil,
			!o.single && f.Value != nil:
			return invalid("advancedFilters: %s takes %s", f.OperatorType,
				map[bool]string{true: "one value, in value", false: "a list, in values"}[o.single])
		}
		for _, v := range f.values() {
			if !o.fits(v) {
				return invalid("advancedFilters: %v is not a %s that %s can compare with", v, o.kind, f.OperatorType)
			}
		}
		count += len(f.values())
	}
	if count > maxAdvancedValues {
		return invalid("advancedFilters: want at most %d values in sum", maxAdvancedValues)
	}
	return nil
}

// attributes are the keys outside of the data, in lower case.
var attributes = map[string]func(*Event) string{
	"id": func(e *Event) string { return e.ID }, "subject": func(e *Event) string { return e.Subject },
	"topic": func(e *Event) string { return e.Topic }, "source": func(e *Event) string { return e.Topic },
	"eventtype": func(e *Event) string { return e.Type }, "type": func(e *Event) string { return e.Type },
	"dataversion": func(*Event) string { return "" },
}

func knownKey(key string) bool {
	key = strings.ToLower(key)
	return attributes[key] != nil || strings.HasPrefix(key, "data.")
}

// lookUp returns the value of a key, nil if the event does not have it. Keys are compared without regard to case.
func lookUp(e *Event, data map[string]any, key string) any {
	if get := attributes[strings.ToLower(key)]; get != nil {
		return get(e)
	}
	var at any = data
	for _, part := range strings.Split(key, ".")[1:] {
		object, _ := at.(map[string]any)
		at = nil
		for name, v := range object {
			if strings.EqualFold(name, part) {
				at = v
			}
		}
	}
	return at
}

// matchAdvanced reports whether all filters match an event.
func matchAdvanced(list []AdvancedFilter, e *Event) bool {
	if len(list) == 0 {
		return true
	}
	var data map[string]any
	_ = json.Unmarshal(e.Data, &data) // data is an object; without one, keys are absent
	for i := range list {
		f := &list[i]
		o, have := operators[f.OperatorType], lookUp(e, data, f.Key)
		switch {
		case f.OperatorType == "IsNullOrUndefined":
			if have != nil {
				return false
			}
		case f.OperatorType == "IsNotNull":
			if have == nil {
				return false
			}
		case slices.ContainsFunc(f.values(), func(want any) bool { return o.match(have, want) }) == o.negative:
			return false
		}
	}
	return true
}
