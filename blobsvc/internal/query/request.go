package query

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/arrow"
)

// Request is a parsed query.
type Request struct {
	statement *statement
	input     input
	output    output
}

// Formats of content and results.
const (
	delimitedFormat = "delimited"
	jsonFormat      = "json"
	parquetFormat   = "parquet"
)

type input struct {
	format    string
	delimited Delimited
	separator string // between objects
}

type output struct {
	input
	schema []arrow.Field // of results in the Arrow format
	// defaulted is set if the request does not specify the format.
	defaulted bool
}

// The XML of a request. Unknown elements are ignored, as in Azure.
type (
	requestXML struct {
		XMLName    xml.Name
		QueryType  string
		Expression string
		Input      *formatXML `xml:"InputSerialization>Format"`
		Output     *formatXML `xml:"OutputSerialization>Format"`
	}
	formatXML struct {
		Type      string
		Delimited *struct {
			ColumnSeparator, RecordSeparator string
			FieldQuote, EscapeChar           *string
			HasHeaders                       string
		} `xml:"DelimitedTextConfiguration"`
		JSON  *struct{ RecordSeparator string } `xml:"JsonTextConfiguration"`
		Arrow *arrowXML                         `xml:"ArrowConfiguration"`
	}
)

// maxSeparator is the maximum length of a separator in bytes.
const maxSeparator = 64

// ParseRequest parses the body of a request; now is the value of UTCNOW(). The error is an *Error.
func ParseRequest(body []byte, now time.Time) (*Request, error) {
	var x requestXML
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, bom)))
	// The decoder reads UTF-8 without a reader; no other encoding is accepted.
	d.CharsetReader = func(string, io.Reader) (io.Reader, error) { return nil, io.ErrUnexpectedEOF }
	if err := d.Decode(&x); err != nil || x.XMLName.Local != "QueryRequest" {
		return nil, &Error{CodeXML, "XML specified is not syntactically valid."}
	}
	if !strings.EqualFold(x.QueryType, "SQL") {
		return nil, invalidNode("QueryType", x.QueryType)
	}
	for _, f := range []*formatXML{x.Input, x.Output} {
		if f != nil {
			f.Type = strings.ToLower(f.Type)
		}
	}
	r := &Request{}
	var err error
	if r.input, err = x.Input.input(); err != nil {
		return nil, err
	}
	if r.output, err = x.Output.output(&r.input); err != nil {
		return nil, err
	}
	if r.statement, err = parse(x.Expression, now); err != nil {
		return nil, err
	}
	st := r.statement
	if r.input.format != delimitedFormat && st.split > 0 {
		return nil, refuse("sys.split is only for delimited text.")
	}
	if r.input.format != jsonFormat && len(st.from) > 0 {
		return nil, refuse("A path behind BlobStorage[*] is only for JSON.")
	}
	if names := st.names(); r.output.format == arrowFormat && names != nil && len(names) != len(r.output.schema) {
		return nil, refuse("The query has %d columns, the schema of the result %d.", len(names), len(r.output.schema))
	}
	return r, nil
}

// input parses the content's format; nil means delimited text with the default settings.
func (x *formatXML) input() (in input, err error) {
	in = input{format: delimitedFormat, separator: "\n", delimited: Delimited{Column: ",", Record: "\n", Quote: '"'}}
	if x == nil {
		return in, nil
	}
	in.format = x.Type
	switch x.Type {
	case delimitedFormat:
		if c := x.Delimited; c != nil {
			in.delimited, err = delimited(c.ColumnSeparator, c.RecordSeparator, c.FieldQuote, c.EscapeChar, c.HasHeaders)
		}
	case jsonFormat:
		if x.JSON != nil && x.JSON.RecordSeparator != "" {
			if in.separator = x.JSON.RecordSeparator; len(in.separator) > maxSeparator {
				return in, invalidNode("RecordSeparator", in.separator)
			}
		}
	case parquetFormat:
	default:
		return in, invalidNode("Type", x.Type)
	}
	return in, err
}

// output parses the result's format; nil means JSON if the content is JSON, otherwise delimited text.
func (x *formatXML) output(in *input) (out output, err error) {
	switch {
	case x == nil && in.format == jsonFormat:
		return output{input: *in, defaulted: true}, nil
	case x == nil:
		out.input, err = x.input()
		out.defaulted = true
		return out, err
	case x.Type == arrowFormat:
		out.format = arrowFormat
		out.schema, err = x.Arrow.schema()
		return out, err
	case x.Type == parquetFormat: // Azure has no Parquet output either
		return out, invalidNode("Type", x.Type)
	}
	out.input, err = x.input()
	return out, err
}

// delimited validates the settings of delimited text. Empty separators and an absent quote mean the defaults.
func delimited(column, record string, quote, escape *string, headers string) (d Delimited, err error) {
	d = Delimited{Column: ",", Record: "\n", Quote: '"'}
	for _, s := range []struct {
		name, value string
		to          *string
	}{{"ColumnSeparator", column, &d.Column}, {"RecordSeparator", record, &d.Record}} {
		if s.value == "" {
			continue
		}
		if *s.to = s.value; len(s.value) > maxSeparator {
			return d, invalidNode(s.name, s.value)
		}
	}
	for _, c := range []struct {
		name  string
		value *string
		to    *byte
	}{{"FieldQuote", quote, &d.Quote}, {"EscapeChar", escape, &d.Escape}} {
		switch {
		// An absent element keeps the default, an empty one turns the character off.
		case c.value == nil:
		case *c.value == "":
			*c.to = 0
		case len(*c.value) == 1 && (*c.value)[0] < 0x80:
			*c.to = (*c.value)[0]
		default:
			return d, invalidNode(c.name, *c.value)
		}
	}
	switch strings.ToLower(strings.TrimSpace(headers)) {
	case "", "false", "0":
	case "true", "1":
		d.Headers = true
	default:
		return d, invalidNode("HasHeaders", headers)
	}
	if d.Column == d.Record {
		return d, invalidNode("RecordSeparator", d.Record)
	}
	return d, nil
}
