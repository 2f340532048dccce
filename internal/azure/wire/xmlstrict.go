package wire

import (
	"encoding/xml"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// element describes an element of a document that decodes into a Go type: its child elements by name. Text has none.
type element struct {
	inner map[string]*element
	any   bool // the type takes elements of any name
}

// elementOf returns the description of a Go type for encoding/xml. Types must not contain themselves.
func elementOf(t reflect.Type) *element {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	e := &element{inner: map[string]*element{}}
	if t.Kind() != reflect.Struct {
		return e
	}
	for i := range t.NumField() {
		f := t.Field(i)
		path, option, _ := strings.Cut(f.Tag.Get("xml"), ",")
		switch {
		case f.Name == "XMLName" || path == "-" || option == "attr" || option == "chardata":
			continue
		case option == "any":
			e.any = true
			continue
		case path == "":
			path = f.Name
		}
		// Fields with a path such as a>b and a>c share the element a.
		at, names := e, strings.Split(path, ">")
		for _, name := range names[:len(names)-1] {
			if at.inner[name] == nil {
				at.inner[name] = &element{inner: map[string]*element{}}
			}
			at = at.inner[name]
		}
		at.inner[names[len(names)-1]] = elementOf(f.Type)
	}
	return e
}

// refuseUnknown reads a document whose type is that of v and fails with [ErrInvalidXMLDocument] at an element for which
// the type has no field: encoding/xml skips these, so that a misspelt setting would be taken for an absent one.
func refuseUnknown(d *xml.Decoder, v any) error {
	// The stack of open elements. Its last element says what may come next.
	open := []*element{{inner: map[string]*element{}, any: true}}
	root := elementOf(reflect.TypeOf(v))
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return ErrInvalidXMLDocument
		}
		switch t := tok.(type) {
		case xml.StartElement:
			in := open[len(open)-1]
			next := in.inner[t.Name.Local]
			switch {
			// The name of the root is checked by the decoder: it differs between versions.
			case len(open) == 1:
				next = root
			// Inside an element of free content, everything is allowed at any depth.
			case next == nil && in.any:
				next = in
			case next == nil:
				line, column := d.InputPos()
				return ErrInvalidXMLDocument.With("LineNumber", strconv.Itoa(line)).With("LinePosition", strconv.Itoa(column)).
					With("Reason", "Unknown element: "+t.Name.Local)
			}
			open = append(open, next)
		case xml.EndElement:
			open = open[:len(open)-1]
		}
	}
}
