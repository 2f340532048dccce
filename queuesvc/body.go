package queuesvc

import (
	"bytes"
	"encoding/xml"
	"io"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

const (
	// maxMessage is the maximum size of a message's text, in bytes of UTF-8.
	maxMessage = 64 << 10
	// escaped is the length of a character that is escaped: a request body may have as many for each byte of its text.
	escaped = 6
)

// bodies has buffers for the bodies of Put Message; larger ones than maxPooledBody are left to the collector.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

const maxPooledBody = 256 << 10

// messageBody reads the request body of Put and Update Message, for [parseMessage], with a text of up to most bytes, in
// the memory of room if that suffices. It fails with RequestBodyTooLarge.
func (c *call) messageBody(room []byte, most int) ([]byte, error) {
	body, err := c.ReadBodyInto(room, escaped*int64(most)+1024)
	if e, ok := err.(*wire.Error); ok && e.Is(wire.ErrRequestBodyTooLarge) {
		return nil, errMessageTooLarge
	}
	return body, err
}

// parseMessage returns the text of a message's document:
//
//	<QueueMessage><MessageText>...</MessageText></QueueMessage>
//
// It returns InvalidXmlDocument, or RequestBodyTooLarge if the text has more than most bytes.
func parseMessage(body []byte, most int) ([]byte, error) {
	text, ok := plainMessage(body)
	if !ok {
		var err error
		if text, err = decodeMessage(body); err != nil {
			return nil, err
		}
	}
	if len(text) > most {
		return nil, errMessageTooLarge
	}
	return text, nil
}

// plainMessage parses the document that nearly all clients send: no attributes, comments or references. ok is false for
// any other document, which [decodeMessage] parses. The text is a slice of body.
func plainMessage(body []byte) (text []byte, ok bool) {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(body, []byte("<?")) {
		if body, ok = afterDeclaration(body); !ok {
			return nil, false
		}
	}
	body, ok = after(body, "<QueueMessage>")
	if !ok {
		return nil, false
	}
	if body, ok = after(body, "<MessageText>"); !ok {
		return nil, false
	}
	// The text ends at the first "<". Another element in it, or CDATA, does not continue as expected below and is left to
	// the parser.
	end := bytes.IndexByte(body, '<')
	if end < 0 {
		return nil, false
	}
	text, body = body[:end], body[end:]
	if body, ok = after(body, "</MessageText>"); !ok {
		return nil, false
	}
	// What follows the document decides, too: a second root element is an error that only the parser reports.
	if body, ok = after(body, "</QueueMessage>"); !ok || len(trimSpace(body)) > 0 {
		return nil, false
	}
	return text, plainText(text)
}

// declarations are the XML declarations that clients send, up to an optional standalone and the end.
var declarations = [][]byte{
	[]byte(`<?xml version="1.0" encoding="utf-8"`), []byte(`<?xml version="1.0" encoding="UTF-8"`),
	[]byte(`<?xml version='1.0' encoding='utf-8'`), []byte(`<?xml version='1.0' encoding='UTF-8'`),
	[]byte(`<?xml version="1.0"`),
}

// afterDeclaration skips one of the usual XML declarations.
func afterDeclaration(b []byte) (rest []byte, ok bool) {
	for _, d := range declarations {
		if rest, ok = bytes.CutPrefix(b, d); ok {
			rest = bytes.TrimPrefix(rest, []byte(` standalone="yes"`))
			return bytes.CutPrefix(rest, []byte("?>"))
		}
	}
	return nil, false
}

// after skips white space and then literal.
func after(b []byte, literal string) ([]byte, bool) {
	b = trimSpace(b)
	if len(b) < len(literal) || string(b[:len(literal)]) != literal {
		return nil, false
	}
	return b[len(literal):], true
}

func trimSpace(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// plainText reports whether text needs no decoding: it is UTF-8, of characters that XML allows, without references, and
// without carriage returns, which XML readers convert to line feeds.
func plainText(text []byte) bool {
	ascii := true
	for _, c := range text[wire.PlainPrefix(text):] {
		if c < 0x20 && c != '\n' && c != '\t' || c == '&' || c == '>' {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return ascii || utf8.Valid(text) && !bytes.Contains(text, []byte("\uFFFE")) && !bytes.Contains(text, []byte("\uFFFF"))
}

// decodeMessage parses the document with encoding/xml, and refuses unknown elements.
func decodeMessage(body []byte) ([]byte, error) {
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))))
	d.CharsetReader = wire.XMLCharset
	text := []byte{}
	var path []string // of open elements
	done, found := false, false
	for {
		token, err := d.Token()
		if err == io.EOF && done {
			if !found {
				return nil, invalidXML(d)
			}
			return text, nil
		}
		if err != nil {
			return nil, invalidXML(d)
		}
		switch t := token.(type) {
		case xml.StartElement:
			switch {
			case len(path) == 0 && !done && t.Name.Local == "QueueMessage":
			case len(path) == 1 && !found && t.Name.Local == "MessageText":
				found = true
			default:
				return nil, invalidXML(d)
			}
			path = append(path, t.Name.Local)
		case xml.EndElement:
			path = path[:len(path)-1]
			done = len(path) == 0
		case xml.CharData:
			switch {
			// The only element that is accepted at this depth is MessageText.
			case len(path) == 2:
				if len(text)+len(t) > maxMessage {
					return nil, errMessageTooLarge
				}
				text = append(text, t...)
			case len(bytes.TrimSpace(t)) > 0:
				return nil, invalidXML(d)
			}
		case xml.Directive: // a document type is refused, because it can define entities
			return nil, invalidXML(d)
		}
	}
}

// invalidXML returns an error with the position of the syntax error.
func invalidXML(d *xml.Decoder) error {
	line, column := d.InputPos()
	return wire.ErrInvalidXMLDocument.With("LineNumber", strconv.Itoa(line)).
		With("LinePosition", strconv.Itoa(column)).With("Reason", "Error parsing Xml content")
}
