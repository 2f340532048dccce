// Package jsonfile reads the JSON files of a function app as .NET does: members by their names in any letter case,
// comments, commas too many, and environment variables in place of members. It collects what is wrong, so that a user
// learns of all mistakes at once, and notices members that no caller has read.
//
// A reader of a file takes its Section, asks for the members that it knows with Text, Integer, Object and the like, and
// ends with Done, which reports the others. It knows no file: which members there are is for its callers.
package jsonfile

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

// MaxSize bounds the files of a project that are read whole. It also bounds how deep their JSON can be nested,
// which the parser does not.
const MaxSize = 256 << 10

// Report collects all errors in a project's files, so that users can fix them at once.
type Report struct {
	Errs []error // mistakes
	// Warnings are about members that are not known, notes about members that are known and have no effect here.
	Warnings, Notes []string
	// overrides are the environment variables that replace members of files, by the files and paths of the members, in
	// lower case.
	overrides map[string]string
}

// Fail adds a mistake.
func (r *Report) Fail(format string, args ...any) {
	r.Errs = append(r.Errs, fmt.Errorf(format, args...))
}

// Warn adds a warning.
func (r *Report) Warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// Note adds a note.
func (r *Report) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Add adds what another report has.
func (r *Report) Add(o *Report) {
	r.Errs = append(r.Errs, o.Errs...)
	r.Warnings = append(r.Warnings, o.Warnings...)
	r.Notes = append(r.Notes, o.Notes...)
}

// Section is one JSON object of a file. Members are read by name in any letter case, as in .NET. Done reports members
// that were not read. A nil section has no members.
type Section struct {
	Report  *Report
	Where   string // the file, for people
	path    string // to this object: "customHandler.description"; empty at the top
	Members []Member
}

// Member is a member of an object, with its value as it is written.
type Member struct {
	Name  string
	Value json.RawMessage
	Known bool // it was read, or has no effect
}

// Raw returns the elements of a list, as they are.
func (s *Section) Raw(name string) []json.RawMessage {
	var list []json.RawMessage
	for _, m := range s.Members {
		if strings.EqualFold(m.Name, name) && json.Unmarshal(m.Value, &list) == nil {
			return list
		}
	}
	return nil
}

// Read reads a file that holds one object. Comments and commas too many are allowed, as in .NET.
func Read(r *Report, file, where string) (*Section, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > MaxSize {
		return nil, fmt.Errorf("%s: %d bytes are too many; at most %d", where, info.Size(), MaxSize)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := Parse(r, where, "", plain(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return s, nil
}

// Parse reads an object. where names the file for people, and path the object in it: "" at the top.
func Parse(r *Report, where, path string, text json.RawMessage) (*Section, error) {
	s := &Section{Report: r, Where: where, path: path}
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
		m := Member{Name: name.(string)}
		if err := d.Decode(&m.Value); err != nil {
			return nil, jsonError(text, d, err)
		}
		// Of two members with a name the last one counts, as in .NET.
		if i, ok := index[m.Name]; ok {
			s.Members[i] = m
			continue
		}
		index[m.Name] = len(s.Members)
		s.Members = append(s.Members, m)
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

// At names a member for people.
func (s *Section) At(name string) string {
	if s.path != "" {
		name = s.path + "." + name
	}
	full := s.Where + ": " + name
	if variable, ok := s.Report.overrides[strings.ToLower(full)]; ok {
		return variable
	}
	return full
}

// Fail adds a mistake in a member.
func (s *Section) Fail(name, format string, args ...any) {
	s.Report.Fail("%s: %s", s.At(name), fmt.Sprintf(format, args...))
}

func (s *Section) find(name string) (json.RawMessage, bool) {
	if s == nil {
		return nil, false
	}
	for i := range s.Members {
		if m := &s.Members[i]; strings.EqualFold(m.Name, name) {
			m.Known = true
			if string(m.Value) != "null" {
				return m.Value, true
			}
		}
	}
	return nil, false
}

// Has reports whether a member is there, and not null.
func (s *Section) Has(name string) bool {
	_, ok := s.find(name)
	return ok
}

// Scalar returns a member that is a string, a number or a boolean, as text.
func (s *Section) Scalar(name string) (string, bool) {
	value, ok := s.find(name)
	if !ok {
		return "", false
	}
	if value[0] == '{' || value[0] == '[' {
		s.Fail(name, "want a single value")
		return "", false
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text, true
	}
	return string(value), true
}

// Text returns a string, or fallback if the member is missing.
func (s *Section) Text(name, fallback string) string {
	if v, ok := s.Scalar(name); ok {
		return v
	}
	return fallback
}

// Boolean returns true or false, or fallback if the member is missing.
func (s *Section) Boolean(name string, fallback bool) bool {
	v, ok := s.Scalar(name)
	if !ok {
		return fallback
	}
	b, err := strconv.ParseBool(strings.ToLower(v))
	if err != nil {
		s.Fail(name, "%q is neither true nor false", v)
		return fallback
	}
	return b
}

// Integer returns a whole number from low to high.
func (s *Section) Integer(name string, fallback, low, high int) int {
	v, ok := s.Scalar(name)
	if !ok {
		return fallback
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		s.Fail(name, "%s is not a whole number from %d to %d", v, low, high)
		return fallback
	}
	return n
}

// Duration returns a TimeSpan from low to high.
func (s *Section) Duration(name string, fallback, low, high time.Duration) time.Duration {
	v, ok := s.Scalar(name)
	if !ok {
		return fallback
	}
	d, err := ncrontab.ParseTimeSpan(v)
	if err != nil {
		s.Fail(name, "%v", err)
		return fallback
	}
	if d < low || d > high {
		s.Fail(name, "%s, which is %v, is not within %v to %v", v, d, low, high) // "10" is ten days.
		return fallback
	}
	return d
}

// Object returns a member that is an object, or nil.
func (s *Section) Object(name string) *Section {
	value, ok := s.find(name)
	if !ok {
		return nil
	}
	path := name
	if s.path != "" {
		path = s.path + "." + name
	}
	o, err := Parse(s.Report, s.Where, path, value)
	if err != nil {
		s.Fail(name, "%v", err)
	}
	return o
}

// Objects returns a member that is a list of objects.
func (s *Section) Objects(name string) []*Section {
	value, ok := s.find(name)
	if !ok {
		return nil
	}
	var items []json.RawMessage
	if json.Unmarshal(value, &items) != nil {
		s.Fail(name, "want a list in brackets")
		return nil
	}
	var list []*Section
	for i, item := range items {
		path := fmt.Sprintf("%s[%d]", name, i)
		if s.path != "" {
			path = s.path + "." + path
		}
		o, err := Parse(s.Report, s.Where, path, item)
		if err != nil {
			s.Report.Fail("%s: %s: %v", s.Where, path, err)
			continue
		}
		list = append(list, o)
	}
	return list
}

// Texts returns a member that is a list of strings.
func (s *Section) Texts(name string) []string {
	value, ok := s.find(name)
	if !ok {
		return nil
	}
	var list []string
	if json.Unmarshal(value, &list) != nil {
		s.Fail(name, "want a list of strings")
	}
	return list
}

// Refuse reports members that Azure Functions supports and this host does not.
func (s *Section) Refuse(why string, names ...string) {
	for _, name := range names {
		if s.Has(name) {
			s.Fail(name, "not supported: %s", why)
		}
	}
}

// NoEffect notes members that have no effect here.
func (s *Section) NoEffect(why string, names ...string) {
	for _, name := range names {
		if s.Has(name) {
			s.Report.Note("%s has no effect here: %s", s.At(name), why)
		}
	}
}

// Done reports members that were not read.
func (s *Section) Done() {
	if s == nil {
		return
	}
	for _, m := range s.Members {
		if !m.Known && m.Name != "$schema" {
			s.Report.Warn("%s is not known, and has no effect", s.At(m.Name))
		}
	}
}

// RefuseUnread reports members that were not read as errors.
func (s *Section) RefuseUnread() {
	for _, m := range s.Members {
		if !m.Known {
			s.Fail(m.Name, "not supported")
		}
	}
}

// Choice returns the one of the allowed texts that equals the value, ignoring case.
func (s *Section) Choice(name, fallback string, choices ...string) string {
	v := s.Text(name, fallback)
	i := slices.IndexFunc(choices, func(c string) bool { return strings.EqualFold(c, v) })
	if i < 0 {
		s.Fail(name, "%q is not one of %s", v, strings.Join(choices, ", "))
		return fallback
	}
	return choices[i]
}

// plain replaces what .NET's reader allows in JSON and Go's does not by blanks: a byte order mark, comments, and
// commas before closing brackets. Offsets and lines stay the same. Text that is not JSON is returned as it is.
func plain(text []byte) []byte {
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
