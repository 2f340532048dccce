package functions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// overridePrefix begins the names of settings that replace members of host.json:
// AzureFunctionsJobHost__extensions__queues__batchSize, or with : for each __.
// https://learn.microsoft.com/azure/azure-functions/functions-host-json#override-hostjson-values
const overridePrefix = "AzureFunctionsJobHost:"

// override replaces members of host.json by the settings that name them.
func (s *section) override(values *settings) {
	for _, line := range slices.Sorted(slices.Values(values.values)) {
		name, value, _ := strings.Cut(line, "=")
		key := sectioned(name)
		if len(key) <= len(overridePrefix) || !strings.EqualFold(key[:len(overridePrefix)], overridePrefix) {
			continue
		}
		path := strings.Split(key[len(overridePrefix):], ":")
		if err := s.set(path, value); err != nil {
			s.report.fail("%s: %v", name, err)
			continue
		}
		if s.report.overrides == nil {
			s.report.overrides = map[string]string{}
		}
		s.report.overrides[strings.ToLower(strings.Join(path, "."))] = name
	}
}

// set replaces the member at a path, and makes the objects on the way.
func (s *section) set(path []string, value string) error {
	i := slices.IndexFunc(s.members, func(m member) bool { return strings.EqualFold(m.name, path[0]) })
	if i < 0 {
		s.members = append(s.members, member{name: path[0]})
		i = len(s.members) - 1
	}
	text, err := replaced(s.members[i].value, path[1:], value)
	if err != nil {
		return err
	}
	s.members[i].value = text
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
