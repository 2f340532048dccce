package parameters

import (
	encoding "encoding/json"
	"encoding/xml"
	"maps"
	"strings"
	"testing"
)

// element is an element of a body in XML.
type element struct {
	XMLName  xml.Name
	Text     string     `xml:",chardata"`
	Children []*element `xml:",any"`
}

// at returns the first element of a path such as "Cors>CorsRule>AllowedHeaders", nil without one; with add, it is
// added.
func (e *element) at(path string, add bool) *element {
	for name := range strings.SplitSeq(path, ">") {
		var next *element
		for _, c := range e.Children {
			if c.XMLName.Local == name && next == nil {
				next = c
			}
		}
		if next == nil {
			if !add {
				return nil
			}
			next = &element{XMLName: xml.Name{Local: name}}
			e.Children = append(e.Children, next)
		}
		e = next
	}
	return e
}

// editBody returns a body after edit has changed its elements. Members of a body in JSON are its elements.
func editBody(body string, edit func(*element)) string {
	root := &element{}
	if strings.HasPrefix(body, "{") {
		members := map[string]string{}
		if err := encoding.Unmarshal([]byte(body), &members); err != nil {
			panic(err)
		}
		for name, value := range members {
			root.Children = append(root.Children, &element{XMLName: xml.Name{Local: name}, Text: value})
		}
		edit(root)
		clear(members)
		for _, c := range root.Children {
			members[c.XMLName.Local] = c.Text
		}
		out, err := encoding.Marshal(members)
		if err != nil {
			panic(err)
		}
		return string(out)
	}
	if err := xml.Unmarshal([]byte(body), root); err != nil {
		panic(err)
	}
	edit(root)
	out, err := xml.Marshal(root)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// withElement returns the request with an element of its body.
func (r request) withElement(path, value string) request {
	r.body = editBody(r.body, func(e *element) { e.at(path, true).Text = value })
	return r
}

// withoutElement returns the request without an element of its body.
func (r request) withoutElement(path string) request {
	r.body = editBody(r.body, func(e *element) {
		if i := strings.LastIndexByte(path, '>'); i >= 0 {
			e, path = e.at(path[:i], true), path[i+1:]
		}
		kept := e.Children[:0]
		for _, c := range e.Children {
			if c.XMLName.Local != path {
				kept = append(kept, c)
			}
		}
		e.Children = kept
	})
	return r
}

// element returns the text of an element of the body, "" if it is not there.
func (r request) element(path string) (text string) {
	editBody(r.body, func(e *element) {
		if e = e.at(path, false); e != nil {
			text = strings.TrimSpace(e.Text)
		}
	})
	return text
}

// The bodies of scenes have every element, so that each can be changed alone.
const (
	cors      = `<Cors><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>5</MaxAgeInSeconds><ExposedHeaders>x-ms-a</ExposedHeaders><AllowedHeaders>x-ms-b</AllowedHeaders></CorsRule></Cors>`
	retained  = `<RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy>`
	analytics = `<Logging><Version>1.0</Version><Delete>true</Delete><Read>true</Read><Write>true</Write>` + retained +
		`</Logging><HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>` + retained +
		`</HourMetrics><MinuteMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>` +
		retained + `</MinuteMetrics>`
	blobOnly   = `<DefaultServiceVersion>2020-10-02</DefaultServiceVersion><DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days><AllowPermanentDelete>true</AllowPermanentDelete></DeleteRetentionPolicy><StaticWebsite><Enabled>true</Enabled><IndexDocument>index.html</IndexDocument><ErrorDocument404Path>404.html</ErrorDocument404Path></StaticWebsite>`
	policies   = `<SignedIdentifiers><SignedIdentifier><Id>one</Id><AccessPolicy><Start>2030-01-01T00:00:00Z</Start><Expiry>2030-02-01T00:00:00Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>`
	tagsBody   = `<Tags><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tags>`
	queryStart = `<QueryRequest><QueryType>SQL</QueryType><Expression>SELECT * from BlobStorage</Expression>`
	delimiters = `<Format><Type>delimited</Type><DelimitedTextConfiguration><ColumnSeparator>,</ColumnSeparator><FieldQuote>"</FieldQuote><RecordSeparator>&#10;</RecordSeparator><EscapeChar>\</EscapeChar><HasHeaders>true</HasHeaders></DelimitedTextConfiguration></Format>`
)

// variants are scenes for elements that have no effect in the scene of their operation, by the beginning of "operation
// element PATH".
var variants = func() map[string]scene {
	csv := req("PUT /box/b", "x-ms-blob-type: BlockBlob", "= n,m\n1,\"2,\\\"3\"\n")
	jsons := req("PUT /box/b", "x-ms-blob-type: BlockBlob", "= {\"n\":1};{\"n\":2};")
	of := func(blob request, input, output string) scene {
		return scene{service: "blob", prepare: prepare(box, blob),
			request: req("POST /box/b?comp=query",
				"= "+queryStart+"<InputSerialization>"+input+"</InputSerialization><OutputSerialization>"+output+
					"</OutputSerialization></QueryRequest>")}
	}
	const asJSON = `<Format><Type>json</Type><JsonTextConfiguration><RecordSeparator>;</RecordSeparator></JsonTextConfiguration></Format>`
	const asArrow = `<Format><Type>arrow</Type><ArrowConfiguration><Schema><Field><Type>decimal</Type><Name>n</Name><Precision>10</Precision><Scale>2</Scale></Field><Field><Type>string</Type><Name>m</Name></Field></Schema></ArrowConfiguration></Format>`
	const query = "blob BlockBlob.Query element "
	return map[string]scene{
		query + "InputSerialization>Format>DelimitedTextConfiguration":  of(csv, delimiters, delimiters),
		query + "InputSerialization>Format>Type":                        of(csv, delimiters, delimiters),
		query + "InputSerialization>Format>JsonTextConfiguration":       of(jsons, asJSON, asJSON),
		query + "OutputSerialization>Format>DelimitedTextConfiguration": of(csv, delimiters, delimiters),
		query + "OutputSerialization>Format>Type":                       of(csv, delimiters, delimiters),
		query + "OutputSerialization>Format>JsonTextConfiguration":      of(jsons, asJSON, asJSON),
		query + "OutputSerialization>Format>ArrowConfiguration":         of(csv, delimiters, asArrow),
	}
}()

// variant returns the scene for a parameter: that of the operation, unless variants has another one.
func variant(operation, parameter string, sc scene) (_ scene, other bool) {
	longest := ""
	for _, list := range []map[string]scene{variants, dfsVariants} {
		for start, v := range list {
			if strings.HasPrefix(operation+" "+parameter, start) && len(start) > len(longest) {
				longest, sc = start, v
			}
		}
	}
	return sc, longest != ""
}

// An edit changes one element and leaves the others.
func TestEditBody(t *testing.T) {
	t.Parallel()
	r := req("PUT /", "= <A><B><C>1</C><D>2</D></B></A>")
	for got, want := range maps.All(map[string]string{
		r.withElement("B>C", "3").body:                          "<A><B><C>3</C><D>2</D></B></A>",
		r.withElement("E>F", "3").body:                          "<A><B><C>1</C><D>2</D></B><E><F>3</F></E></A>",
		r.withoutElement("B>C").body:                            "<A><B><D>2</D></B></A>",
		r.element("B>D"):                                        "2",
		req("POST /", `= {"a":"b"}`).withElement("a", "c").body: `{"a":"c"}`,
	}) {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
