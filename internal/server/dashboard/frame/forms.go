package frame

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// Property is a name and a value for people.
type Property struct{ Name, Value string }

// ErrAction is the answer to a form whose action the page does not know.
var ErrAction = Problem{http.StatusBadRequest, "The form has no action that the page knows",
	"Go back and reload the page."}

// ErrNothingChosen is the answer to a form that acts on what is chosen in a list, where nothing is.
var ErrNothingChosen = Problem{http.StatusBadRequest, "Nothing is chosen", "Choose in the first column of the list."}

// ChangeList creates the resource that the form of a list names, or removes those that are chosen. list is the part of
// the list's address.
func ChangeList(w http.ResponseWriter, r *http.Request, list string, create,
	remove func(ctx context.Context, name string) error) error {
	here := []string{"accounts", r.PathValue("account"), list}
	switch r.PostFormValue("action") {
	case "create":
		name := strings.TrimSpace(r.PostFormValue("name"))
		return Back(w, r, create(r.Context(), name), Link(append(here, name)...), "created")
	case "delete":
		return Back(w, r, RemoveChosen(r, func(name string) error { return remove(r.Context(), name) }), Link(here...),
			"deleted")
	}
	return ErrAction
}

// RemoveChosen calls remove for each name that a list's form has chosen.
func RemoveChosen(r *http.Request, remove func(name string) error) error {
	chosen := r.PostForm["chosen"]
	if len(chosen) == 0 {
		return ErrNothingChosen
	}
	for _, name := range chosen {
		if err := remove(name); err != nil {
			return err
		}
	}
	return nil
}

// Back redirects to a page of the dashboard after a change, unless that ended with an error.
func Back(w http.ResponseWriter, r *http.Request, err error, path, done string) error {
	if err != nil {
		return err
	}
	if done != "" {
		path += "?done=" + done
	}
	http.Redirect(w, r, path, http.StatusSeeOther)
	return nil
}

// HeaderText reports whether a text can be the value of a header.
func HeaderText(text string) bool { return metadataValue().MatchString(text) }

// ParseMetadata reads lines "name: value" of metadata, which is sent as headers.
func ParseMetadata(text string) (map[string]*string, error) {
	m, err := ParseLines(text)
	for name, v := range m {
		if !metadataName().MatchString(name) {
			return nil, Problem{http.StatusBadRequest, "The name " + name + " is not one of metadata",
				"Names have letters, digits and underscores, and do not begin with a digit."}
		}
		if !HeaderText(ptr.Value(v)) {
			return nil, Problem{http.StatusBadRequest, "The value of " + name + " has characters that metadata cannot have",
				"Values have ASCII characters."}
		}
	}
	return m, err
}

// ParseLines reads lines "name: value".
func ParseLines(text string) (map[string]*string, error) {
	m := make(map[string]*string)
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, v, found := strings.Cut(line, ":")
		if !found || strings.TrimSpace(name) == "" {
			return nil, Problem{http.StatusBadRequest, "The line " + line + " is not of the form name: value",
				"One name and value a line."}
		}
		v = strings.TrimSpace(v)
		m[strings.TrimSpace(name)] = &v
	}
	return m, nil
}

// MetadataText is metadata as lines "name: value".
func MetadataText(m map[string]*string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out.WriteString(name + ": " + ptr.Value(m[name]) + "\n")
	}
	return out.String()
}

var (
	metadataName  = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	metadataValue = lazyregexp.New(`^[ -~]*$`)
)
