package functions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/lazuli-storage/lazuli/internal/sdk/ncrontab"
)

// maxFileSize bounds the files of a project that are read whole. It also bounds how deep their JSON can be nested,
// which the parser does not.
const maxFileSize = 256 << 10

// report collects all errors in a project's files, so that users can fix them at once.
type report struct {
	errs []error
	// warnings are about members that are not known, notes about members that are known and have no effect here.
	warnings, notes []string
	// overrides are the environment variables that replace members of host.json, by the members' paths in lower case.
	overrides map[string]string
}

func (r *report) fail(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

func (r *report) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

// add adds what another report has.
func (r *report) add(o *report) {
	r.errs = append(r.errs, o.errs...)
	r.warnings = append(r.warnings, o.warnings...)
	r.notes = append(r.notes, o.notes...)
}

// section is one JSON object of a file. Members are read by name in any letter case, as in .NET. done reports members
// that were not read. A nil section has no members.
type section struct {
	report  *report
	where   string // the file, for people
	path    string // to this object: "customHandler.description"; empty at the top
	members []member
}

type member struct {
	name  string
	value json.RawMessage
	known bool
}

// raw returns the elements of a list, as they are.
func (s *section) raw(name string) []json.RawMessage {
	var list []json.RawMessage
	for _, m := range s.members {
		if strings.EqualFold(m.name, name) && json.Unmarshal(m.value, &list) == nil {
			return list
		}
	}
	return nil
}

// readSection reads a file that holds one object. Comments and commas too many are allowed, as in .NET.
func readSection(r *report, file, where string) (*section, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileSize {
		return nil, fmt.Errorf("%s: %d bytes are too many; at most %d", where, info.Size(), maxFileSize)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := newSection(r, where, "", plainJSON(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return s, nil
}

func newSection(r *report, where, path string, text json.RawMessage) (*section, error) {
	s := &section{report: r, where: where, path: path}
	d := json.NewDecoder(bytes.NewReader(text))
	first, err := d.Token()
	if err != nil {
		return nil, jsonError(text, d, err)
	}
	if first != json.Delim('{') {
		return nil, errors.New("want an object in braces")
	}
	index := map[string]int{} // of members by name
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, jsonError(text, d, err)
		}
		m := member{name: name.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, jsonError(text, d, err)
		}
		// Of two members with a name the last one counts, as in .NET.
		if i, ok := index[m.name]; ok {
			s.members[i] = m
			continue
		}
		index[m.name] = len(s.members)
		s.members = append(s.members, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, jsonError(text, d, err)
	}
	if d.More() {
		return nil, errors.New("there is more text after the object")
	}
	return s, nil
}

// jsonError says in which line the text stops being JSON.
func jsonError(text []byte, d *json.Decoder, err error) error {
	at := d.InputOffset()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = syntax.Offset
	}
	at = min(at, int64(len(text)))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the text ends too early")
	}
	return fmt.Errorf("not JSON: line %d: %w", 1+bytes.Count(text[:at], []byte("\n")), err)
}

// at names a member for people.
func (s *section) at(name string) string {
	if s.path != "" {
		name = s.path + "." + name
	}
	if variable, ok := s.report.overrides[strings.ToLower(name)]; ok && s.where == hostFileName {
		return variable
	}
	return s.where + ": " + name
}

func (s *section) fail(name, format string, args ...any) {
	s.report.fail("%s: %s", s.at(name), fmt.Sprintf(format, args...))
}

func (s *section) find(name string) (json.RawMessage, bool) {
	if s == nil {
		return nil, false
	}
	for i := range s.members {
		if m := &s.members[i]; strings.EqualFold(m.name, name) {
			m.known = true
			if string(m.value) != "null" {
				return m.value, true
			}
		}
	}
	return nil, false
}

func (s *section) has(name string) bool {
	_, ok := s.find(name)
	return ok
}

// scalar returns a member that is a string, a number or a boolean, as text.
func (s *section) scalar(name string) (string, bool) {
	value, ok := s.find(name)
	if !ok {
		return "", false
	}
	if value[0] == '{' || value[0] == '[' {
		s.fail(name, "want a single value")
		return "", false
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text, true
	}
	return string(value), true
}

// text returns a string, or fallback if the member is missing.
func (s *section) text(name, fallback string) string {
	if v, ok := s.scalar(name); ok {
		return v
	}
	return fallback
}

func (s *section) boolean(name string, fallback bool) bool {
	v, ok := s.scalar(name)
	if !ok {
		return fallback
	}
	b, err := strconv.ParseBool(strings.ToLower(v))
	if err != nil {
		s.fail(name, "%q is neither true nor false", v)
		return fallback
	}
	return b
}

// integer returns a whole number from low to high.
func (s *section) integer(name string, fallback, low, high int) int {
	v, ok := s.scalar(name)
	if !ok {
		return fallback
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		s.fail(name, "%s is not a whole number from %d to %d", v, low, high)
		return fallback
	}
	return n
}

// duration returns a TimeSpan from low to high.
func (s *section) duration(name string, fallback, low, high time.Duration) time.Duration {
	v, ok := s.scalar(name)
	if !ok {
		return fallback
	}
	d, err := ncrontab.ParseTimeSpan(v)
	if err != nil {
		s.fail(name, "%v", err)
		return fallback
	}
	if d < low || d > high {
		s.fail(name, "%s, which is %v, is not within %v to %v", v, d, low, high) // "10" is ten days.
		return fallback
	}
	return d
}

// object returns a member that is an object, or nil.
func (s *section) object(name string) *section {
	value, ok := s.find(name)
	if !ok {
		return nil
	}
	path := name
	if s.path != "" {
		path = s.path + "." + name
	}
	o, err := newSection(s.report, s.where, path, value)
	if err != nil {
		s.fail(name, "%v", err)
	}
	return o
}

// objects returns a member that is a list of objects.
func (s *section) objects(name string) []*section {
	value, ok := s.find(name)
	if !ok {
		return nil
	}
	var items []json.RawMessage
	if json.Unmarshal(value, &items) != nil {
		s.fail(name, "want a list in brackets")
		return nil
	}
	var list []*section
	for i, item := range items {
		path := fmt.Sprintf("%s[%d]", name, i)
		if s.path != "" {
			path = s.path + "." + path
		}
		o, err := newSection(s.report, s.where, path, item)
		if err != nil {
			s.report.fail("%s: %s: %v", s.where, path, err)
			continue
		}
		list = append(list, o)
	}
	return list
}

// texts returns a member that is a list of strings.
func (s *section) texts(name string) []string {
	value, ok := s.find(name)
	if !ok {
		return nil
	}
	var list []string
	if json.Unmarshal(value, &list) != nil {
		s.fail(name, "want a list of strings")
	}
	return list
}

// refuse reports members that Azure Functions supports and this host does not.
func (s *section) refuse(why string, names ...string) {
	for _, name := range names {
		if s.has(name) {
			s.fail(name, "not supported: %s", why)
		}
	}
}

// noEffect notes members that have no effect here.
func (s *section) noEffect(why string, names ...string) {
	for _, name := range names {
		if s.has(name) {
			s.report.notes = append(s.report.notes, s.at(name)+" has no effect here: "+why)
		}
	}
}

// done reports members that were not read.
func (s *section) done() {
	if s == nil {
		return
	}
	for _, m := range s.members {
		if !m.known && m.name != "$schema" {
			s.report.warn("%s is not known, and has no effect", s.at(m.name))
		}
	}
}

// choice returns the one of the allowed texts that equals the value, ignoring case.
func (s *section) choice(name, fallback string, choices ...string) string {
	v := s.text(name, fallback)
	i := slices.IndexFunc(choices, func(c string) bool { return strings.EqualFold(c, v) })
	if i < 0 {
		s.fail(name, "%q is not one of %s", v, strings.Join(choices, ", "))
		return fallback
	}
	return choices[i]
}

// plainJSON replaces what .NET's reader allows in JSON and Go's does not by blanks: a byte order mark, comments, and
// commas before closing brackets. Offsets and lines stay the same. Text that is not JSON is returned as it is.
func plainJSON(text []byte) []byte {
	const mark = "\xef\xbb\xbf"
	out := bytes.Clone(text)
	if bytes.HasPrefix(out, []byte(mark)) {
		copy(out, "   ")
	}
	if plain, err := hujson.Standardize(out); err == nil {
		return plain
	}
	return out
}
