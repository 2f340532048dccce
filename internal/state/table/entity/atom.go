package entity

import (
	"bytes"
	"encoding/xml"
	"io"
	"time"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Atom is the format of versions before 2015-12-11.
// https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations#atompub-and-json-formats

const (
	nsData     = "http://schemas.microsoft.com/ado/2007/08/dataservices"
	nsMetadata = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"

	atomDeclaration = `<?xml version="1.0" encoding="utf-8" standalone="yes"?>`
	atomNamespaces  = `xmlns:d="` + nsData + `" xmlns:m="` + nsMetadata + `" xmlns="http://www.w3.org/2005/Atom"`
	atomScheme      = `" scheme="` + nsData + `/scheme" />`
)

// ParseAtom parses an entity in an Atom entry: the children of content/m:properties.
func ParseAtom(body []byte, rules Rules) (Parsed, error) {
	if !utf8.Valid(body) {
		return Parsed{}, ErrInvalidInput
	}
	b := newBuilder(len(body), rules)
	var scratch [16]byte // for numbers
	err := atomProperties(body, func(name string, t Type, null bool, text []byte) error {
		// The service sets the Timestamp; what clients send for it is ignored, whatever it is.
		if null || name == "Timestamp" {
			return b.null([]byte(name))
		}
		data, err := parseText(t, text, scratch[:0])
		if err != nil {
			return err
		}
		return b.add([]byte(name), scanned{t, data, t == String && plain(data)}, text)
	})
	if err != nil {
		return Parsed{}, err
	}
	return b.done()
}

// ParseAtomTableName parses the body of Create Table. ok is false if it has no TableName.
func ParseAtomTableName(body []byte) (name string, ok bool) {
	if !utf8.Valid(body) {
		return "", false
	}
	err := atomProperties(body, func(property string, _ Type, null bool, text []byte) error {
		if property == "TableName" && !null {
			name, ok = string(text), true
		}
		return nil
	})
	return name, ok && err == nil
}

// atomProperties calls fn for each child of the m:properties element. It fails with ErrInvalidInput for what is not an
// entry, and with fn's errors.
func atomProperties(body []byte, fn func(name string, t Type, null bool, text []byte) error) error {
	d := xml.NewDecoder(bytes.NewReader(body))
	depth, inside, found := 0, 0, false
	for {
		token, err := d.Token()
		if err == io.EOF {
			if !found {
				return ErrInvalidInput
			}
			return nil
		}
		if err != nil {
			return ErrInvalidInput
		}
		switch el := token.(type) {
		case xml.StartElement:
			switch {
			case inside > 0:
				// An element of another namespace would be dropped in silence.
				if el.Name.Space != nsData {
					return ErrInvalidInput
				}
				if err := atomProperty(d, el, fn); err != nil {
					return err
				}
				continue // atomProperty has read the end tag
			case el.Name.Space == nsMetadata && el.Name.Local == "properties":
				inside, found = depth+1, true
			}
			// The decoder keeps the names of all open elements: without a bound a body of start tags alone would fill
			// memory.
			if depth++; depth > maxDepth {
				return ErrInvalidInput
			}
		case xml.EndElement:
			if depth == inside {
				inside = 0
			}
			depth--
		}
	}
}

func atomProperty(d *xml.Decoder, el xml.StartElement, fn func(string, Type, bool, []byte) error) error {
	t, null := String, false
	for _, a := range el.Attr {
		if a.Name.Space != nsMetadata {
			continue
		}
		switch a.Name.Local {
		case "type":
			var ok bool
			if t, ok = typeByName(a.Value); !ok {
				return ErrInvalidInput
			}
		case "null":
			null = a.Value == "true"
		}
	}
	var text []byte
	for {
		token, err := d.Token()
		if err != nil {
			return ErrInvalidInput
		}
		switch el2 := token.(type) {
		case xml.CharData:
			text = append(text, el2...)
		case xml.StartElement:
			return ErrInvalidInput
		case xml.EndElement:
			return fn(el.Name.Local, t, null, text)
		}
	}
}

// AppendAtom appends the document of one entity.
func (f *Form) AppendAtom(dst, partition, row []byte, r Record) []byte {
	dst = append(dst, atomDeclaration+`<entry xml:base="`...)
	dst = appendXML(dst, f.Base)
	dst = append(dst, `/" `+atomNamespaces...)
	return f.appendEntry(dst, partition, row, r)
}

// AppendAtomListStart begins a feed, which AppendAtomListEnd ends.
func (f *Form) AppendAtomListStart(dst []byte) []byte {
	return appendFeed(dst, f.Base, f.Table, f.Now)
}

// AppendAtomEntity renders one entity as an entry of a feed.
func (f *Form) AppendAtomEntity(dst, partition, row []byte, r Record) []byte {
	return f.appendEntry(append(dst, "<entry"...), partition, row, r)
}

// AppendAtomListEnd appends the end of a document that AppendAtomListStart began.
func (f *Form) AppendAtomListEnd(dst []byte) []byte { return append(dst, "</feed>"...) }

func appendFeed(dst []byte, base, title string, now time.Time) []byte {
	dst = append(dst, atomDeclaration+`<feed xml:base="`...)
	dst = appendXML(dst, base)
	dst = append(dst, `/" `+atomNamespaces+`><title type="text">`...)
	dst = append(dst, title...)
	dst = append(dst, "</title><id>"...)
	dst = appendXML(dst, base)
	dst = append(dst, '/')
	dst = append(dst, title...)
	dst = append(dst, "</id><updated>"...)
	dst = ticks.Of(now.Truncate(time.Second)).Append(dst)
	dst = append(dst, `</updated><link rel="self" title="`...)
	dst = append(dst, title...)
	dst = append(dst, `" href="`...)
	dst = append(dst, title...)
	return append(dst, `" />`...)
}

// appendEntry appends the rest of an entry, after "<entry" or its attributes.
func (f *Form) appendEntry(dst, partition, row []byte, r Record) []byte {
	t := r.Timestamp()
	dst = append(dst, ` m:etag="W/&quot;datetime'`...)
	dst = t.AppendEscaped(dst)
	dst = append(dst, `'&quot;"><id>`...)
	address := AppendAddress(nil, f.Table, partition, row)
	dst = appendXML(dst, f.Base)
	dst = append(dst, '/')
	dst = append(dst, address...)
	dst = append(dst, `</id><category term="`...)
	dst = append(append(append(dst, f.Account...), '.'), f.Table...)
	dst = append(dst, atomScheme+`<link rel="edit" title="`...)
	dst = append(dst, f.Table...)
	dst = append(dst, `" href="`...)
	dst = append(dst, address...)
	dst = append(dst, `" /><title /><updated>`...)
	dst = (t - t%ticks.Second).Append(dst)
	dst = append(dst, `</updated><author><name /></author><content type="application/xml"><m:properties>`...)
	if f.Select == nil {
		dst = appendXMLString(dst, []byte("PartitionKey"), partition)
		dst = appendXMLString(dst, []byte("RowKey"), row)
		dst = appendXMLTime(dst, t)
		it := r.Properties()
		for it.Next() {
			dst = appendXMLProperty(dst, &it)
		}
	} else {
		for _, name := range f.Select {
			dst = appendXMLSelected(dst, name, partition, row, r)
		}
	}
	return append(dst, "</m:properties></content></entry>"...)
}

func appendXMLSelected(dst []byte, name string, partition, row []byte, r Record) []byte {
	switch name {
	case "PartitionKey":
		return appendXMLString(dst, []byte(name), partition)
	case "RowKey":
		return appendXMLString(dst, []byte(name), row)
	case "Timestamp":
		return appendXMLTime(dst, r.Timestamp())
	}
	it := r.Properties()
	for it.Next() {
		if string(it.Name) == name {
			return appendXMLProperty(dst, &it)
		}
	}
	if checkName([]byte(name), Rules{}) != nil { // it could be no element
		return dst
	}
	return append(append(append(dst, "<d:"...), name...), ` m:null="true" />`...)
}

func appendXMLTime(dst []byte, t ticks.Ticks) []byte {
	dst = append(dst, `<d:Timestamp m:type="Edm.DateTime">`...)
	return append(t.Append(dst), "</d:Timestamp>"...)
}

func appendXMLString(dst, name, text []byte) []byte {
	dst = append(append(dst, "<d:"...), name...)
	if n := len(text); n > 0 && (text[0] <= ' ' || text[n-1] <= ' ') {
		dst = append(dst, ` xml:space="preserve"`...)
	}
	dst = append(dst, '>')
	dst = appendXML(dst, text)
	return append(append(append(dst, "</d:"...), name...), '>')
}

func appendXMLProperty(dst []byte, it *Iterator) []byte {
	if it.Type == String {
		return appendXMLString(dst, it.Name, it.Data)
	}
	dst = append(append(dst, "<d:"...), it.Name...)
	dst = append(append(append(dst, ` m:type="`...), it.Type.String()...), `">`...)
	dst = appendText(dst, it.Type, it.Data)
	return append(append(append(dst, "</d:"...), it.Name...), '>')
}

// appendXML escapes text. Characters that XML cannot hold become U+FFFD.
func appendXML[S string | []byte](dst []byte, s S) []byte {
	for _, c := range string(s) {
		switch {
		case c == '<':
			dst = append(dst, "&lt;"...)
		case c == '>':
			dst = append(dst, "&gt;"...)
		case c == '&':
			dst = append(dst, "&amp;"...)
		case c == '"':
			dst = append(dst, "&quot;"...)
		case c == '\r':
			dst = append(dst, "&#xD;"...)
		case c < 0x20 && c != '\n' && c != '\t' || c == 0xFFFE || c == 0xFFFF:
			dst = utf8.AppendRune(dst, utf8.RuneError)
		default:
			dst = utf8.AppendRune(dst, c)
		}
	}
	return dst
}

// AppendAtomTable appends the document of a table.
func AppendAtomTable(dst []byte, base, account, name string, now time.Time) []byte {
	dst = append(dst, atomDeclaration+`<entry xml:base="`...)
	dst = appendXML(dst, base)
	dst = append(dst, `/" `+atomNamespaces...)
	return appendTableEntry(dst, base, account, name, now)
}

// AppendAtomTables renders a list of tables.
func AppendAtomTables(dst []byte, base, account string, names []string, now time.Time) []byte {
	dst = appendFeed(dst, base, "Tables", now)
	for _, name := range names {
		dst = appendTableEntry(append(dst, "<entry"...), base, account, name, now)
	}
	return append(dst, "</feed>"...)
}

func appendTableEntry(dst []byte, base, account, name string, now time.Time) []byte {
	dst = append(dst, "><id>"...)
	dst = appendXML(dst, base)
	dst = append(append(append(dst, "/Tables('"...), name...), `')</id><category term="`...)
	dst = append(append(append(dst, account...), ".Tables"...), atomScheme...)
	dst = append(append(append(dst, `<link rel="edit" title="Tables" href="Tables('`...), name...),
		`')" /><title /><updated>`...)
	dst = ticks.Of(now.Truncate(time.Second)).Append(dst)
	dst = append(dst, `</updated><author><name /></author><content type="application/xml"><m:properties>`...)
	dst = appendXMLString(dst, []byte("TableName"), []byte(name))
	return append(dst, "</m:properties></content></entry>"...)
}
