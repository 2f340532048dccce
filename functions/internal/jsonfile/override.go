package jsonfile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Override replaces the member at a path by the text of an environment variable, and makes the objects on the way. What
// is said of the member from here on names the variable.
func (s *Section) Override(variable string, path []string, value string) {
	if err := s.set(path, value); err != nil {
		s.Report.Fail("%s: %v", variable, err)
		return
	}
	if s.Report.overrides == nil {
		s.Report.overrides = map[string]string{}
	}
	s.Report.overrides[strings.ToLower(s.Where+": "+strings.Join(path, "."))] = variable
}

// set replaces the member at a path, and makes the objects on the way.
func (s *Section) set(path []string, value string) error {
	i := slices.IndexFunc(s.Members, func(m Member) bool { return strings.EqualFold(m.Name, path[0]) })
	if i < 0 {
		s.Members = append(s.Members, Member{Name: path[0]})
		i = len(s.Members) - 1
	}
	text, err := replaced(s.Members[i].Value, path[1:], value)
	if err != nil {
		return err
	}
	s.Members[i].Value = text
	return nil
}

// replaced returns a JSON value with the value at a path in it replaced by a text. The elements of a list have their
// numbers as names.
func replaced(old json.RawMessage, path []string, value string) (json.RawMessage, error) {
	if len(path) == 0 {
		return json.Marshal(value)
	}
	var list []json.RawMessage
	n, err := strconv.Atoi(path[0])
	if isNumber := err == nil; isNumber && (old == nil || json.Unmarshal(old, &list) == nil) {
		if n < 0 || n > len(list) {
			return nil, fmt.Errorf("a list of %d elements has no element %d", len(list), n)
		}
		if n == len(list) {
			list = append(list, nil)
		}
		if list[n], err = replaced(list[n], path[1:], value); err != nil {
			return nil, err
		}
		return json.Marshal(list)
	}
	object := map[string]json.RawMessage{}
	if old != nil {
		if err := json.Unmarshal(old, &object); err != nil || object == nil {
			object = map[string]json.RawMessage{} // A single value or null is replaced by an object.
		}
	}
	name := path[0]
	for other := range object {
		if strings.EqualFold(other, name) {
			name = other
		}
	}
	if object[name], err = replaced(object[name], path[1:], value); err != nil {
		return nil, err
	}
	return json.Marshal(object)
}
