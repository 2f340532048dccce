package blobsvc

import (
	"encoding/base64"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// page is the document of a listing, or the part of it that was not sent yet. It has wire.XML's form, written into a buffer
// that is used again.
type page struct{ b []byte }

// pages are buffers of pages; larger ones than maxPage are left to the collector.
var pages = sync.Pool{New: func() any { return &page{make([]byte, 0, 64<<10)} }}

const maxPage = 1 * mib

// newPage begins a document.
func newPage() *page {
	p := pages.Get().(*page)
	p.b = append(p.b[:0], wire.NewXML(64).Bytes()...)
	return p
}

// free gives the buffer back. Nothing of p is used after that.
func (p *page) free() {
	if cap(p.b) <= maxPage {
		pages.Put(p)
	}
}

// raw writes markup without escaping.
func (p *page) raw(s string) { p.b = append(p.b, s...) }

func appendStart(b []byte, name string) []byte {
	b = append(b, '<')
	b = append(b, name...)
	return append(b, '>')
}

func appendEnd(b []byte, name string) []byte {
	b = append(b, '<', '/')
	b = append(b, name...)
	return append(b, '>')
}

// text writes an element, <name /> if value is empty.
//
// It and its like append to a local slice and store it once: each store to the heap costs a write barrier while garbage is collected.
func (p *page) text(name, value string) {
	if value == "" {
		b := append(p.b, '<')
		b = append(b, name...)
		p.b = append(b, " />"...)
		return
	}
	p.b = appendEnd(appendEscaped(appendStart(p.b, name), value), name)
}

// echo writes an element unless value is empty.
func (p *page) echo(name, value string) {
	if value != "" {
		p.text(name, value)
	}
}

func (p *page) int(name string, n int64) {
	p.b = appendEnd(strconv.AppendInt(appendStart(p.b, name), n, 10), name)
}

func (p *page) time(name string, t ticks.Ticks) {
	p.b = appendEnd(t.AppendRFC1123(appendStart(p.b, name)), name)
}

func (p *page) bool(name string, b bool) { p.text(name, strconv.FormatBool(b)) }

func (p *page) etag(changed ticks.Ticks) {
	p.b = appendEnd(changed.AppendHexETag(appendStart(p.b, "Etag")), "Etag")
}

func (p *page) md5(sum string) {
	if sum == "" {
		p.text("Content-MD5", "")
		return
	}
	p.b = appendEnd(base64.StdEncoding.AppendEncode(appendStart(p.b, "Content-MD5"), []byte(sum)), "Content-MD5")
}

// plain are the ASCII characters that text and attributes need not escape.
var plain = func() (t [utf8.RuneSelf]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != '<' && c != '>' && c != '&' && c != '"' || c == '\n' || c == '\t'
	}
	return t
}()

// escape writes text.
func (p *page) escape(s string) { p.b = appendEscaped(p.b, s) }

// appendEscaped appends text. Characters that XML cannot hold become U+FFFD.
func appendEscaped(b []byte, s string) []byte {
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf && plain[c] {
			i++
			continue
		}
		size, with := 1, ""
		switch {
		case c == '<':
			with = "&lt;"
		case c == '>':
			with = "&gt;"
		case c == '&':
			with = "&amp;"
		case c == '"':
			with = "&quot;"
		case c == '\r':
			with = "&#xD;"
		case c < utf8.RuneSelf:
			with = "\uFFFD"
		default:
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && size == 1 || r == 0xFFFE || r == 0xFFFF {
				with = "\uFFFD"
			}
		}
		if with != "" {
			b = append(append(b, s[from:i]...), with...)
			from = i + size
		}
		i += size
	}
	return append(b, s[from:]...)
}

func (p *page) metadata(list []state.Meta) {
	if len(list) == 0 {
		p.raw("<Metadata />")
		return
	}
	p.raw("<Metadata>")
	for _, m := range list {
		p.text(m.Name, m.Value)
	}
	p.raw("</Metadata>")
}

func (p *page) tagSet(list []state.Tag) {
	if len(list) == 0 {
		p.raw("<TagSet />")
		return
	}
	p.raw("<TagSet>")
	for _, t := range list {
		p.raw("<Tag>")
		p.text("Key", t.Key)
		p.text("Value", t.Value)
		p.raw("</Tag>")
	}
	p.raw("</TagSet>")
}
