package logstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// plainRecord has the members of a Record in JSON, with the level as text.
type plainRecord struct {
	Service string          `json:"service,omitempty"`
	Time    time.Time       `json:"time"`
	Level   string          `json:"level"`
	Message string          `json:"message"`
	ID      string          `json:"id,omitempty"`
	Attrs   json.RawMessage `json:"attrs,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r Record) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(plainRecord{r.Service, r.Time, LevelName(r.Level), r.Message, r.ID, r.Attrs}); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// UnmarshalJSON implements json.Unmarshaler. Members that a Record does not have are kept in Attrs, and so are a level
// and a time that cannot be parsed; the record then has the level INFO, or no time. A member whose name is taken in
// Attrs gets underscores before its name.
func (r *Record) UnmarshalJSON(text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	if members == nil {
		return fmt.Errorf("a log record is an object, not %s", text)
	}
	// Each member that is understood is deleted from the map. The rest is kept in Attrs, so that no line loses data.
	*r = Record{}
	for name, into := range map[string]any{"service": &r.Service, "message": &r.Message, "id": &r.ID} {
		if name, value := member(members, name); value != nil {
			if err := json.Unmarshal(value, into); err != nil {
				return fmt.Errorf("the member %q: %w", name, err)
			}
			delete(members, name)
		}
	}
	if name, value := member(members, "attrs"); value != nil {
		if !bytes.Equal(value, []byte("null")) {
			r.Attrs = value
		}
		delete(members, name)
	}
	name, value := member(members, "level")
	if level, ok := parseLevelMember(value); ok {
		r.Level = level
		delete(members, name)
	}
	name, value = member(members, "time")
	if at, ok := parseTimeMember(value); ok {
		r.Time = at
		delete(members, name)
	}
	return r.keep(members)
}

// member returns a member by its name, or else by its name in another letter case, as encoding/json does. A missing one
// is nil.
func member(members map[string]json.RawMessage, name string) (string, json.RawMessage) {
	if value, ok := members[name]; ok {
		return name, value
	}
	for _, other := range slices.Sorted(maps.Keys(members)) {
		if strings.EqualFold(other, name) {
			return other, members[other]
		}
	}
	return name, nil
}

// keep adds members to Attrs.
func (r *Record) keep(members map[string]json.RawMessage) error {
	if len(members) == 0 {
		return nil
	}
	attrs := map[string]json.RawMessage{}
	if r.Attrs != nil && json.Unmarshal(r.Attrs, &attrs) != nil {
		attrs = map[string]json.RawMessage{"attrs": r.Attrs}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value := members[name]
		for _, taken := attrs[name]; taken; _, taken = attrs[name] {
			name = "_" + name
		}
		attrs[name] = value
	}
	var err error
	r.Attrs, err = json.Marshal(attrs)
	return err
}

// parseLevelMember parses a level that is a text or a number; none at all is INFO.
func parseLevelMember(value json.RawMessage) (slog.Level, bool) {
	if value == nil || bytes.Equal(value, []byte("null")) {
		return slog.LevelInfo, true
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return ParseLevel(text)
	}
	var number json.Number
	if json.Unmarshal(value, &number) == nil {
		return ParseLevel(number.String())
	}
	return 0, false
}

func parseTimeMember(value json.RawMessage) (time.Time, bool) {
	var at time.Time
	if value == nil || bytes.Equal(value, []byte("null")) {
		return at, true
	}
	return at, json.Unmarshal(value, &at) == nil
}
