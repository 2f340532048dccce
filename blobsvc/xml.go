package blobsvc

import (
	"encoding/base64"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// page is the document of a listing, or the part of it that was not sent yet. It has wire.XML's form, written into a
// buffer that is used again.
type page struct {
	b []byte
	// elements are those that text and time wrote last, by their place in an item: items are often alike.
	elements []element
	place    int // in the current item
}

// element is an element as it was written: text has a value, time a second.
type element struct {
	name, value string
	second      ticks.Ticks
	written     []byte
	misses      int // how often another one was written at the place
}

// Bounds of what a page remembers.
const (
	maxElements     = 32
	maxElementValue = 64
	maxMisses       = 100 // then the place is not stored again
)

// item begins an item.
func (p *page) item() { p.place = 0 }

// again writes the element once more if it is the one that was written at this place of the item before. If not, it
// returns where to remember the element, or nil.
func (p *page) again(name, value string, second ticks.Ticks) (written bool, e *element) {
	if p.place >= maxElements || len(value) > maxElementValue {
		return false, nil
	}
	if p.place == len(p.elements) {
		p.elements = append(p.elements, element{})
	}
	e = &p.elements[p.place]
	p.place++
	if e.name == name && e.second == second && e.value == value {
		p.b = append(p.b, e.written...)
		return true, nil
	}
	if e.misses++; e.misses > maxMisses {
		return false, nil
	}
	return false, e
}

// set remembers what was written. value may be part of a longer text.
func (e *element) set(name, value string, second ticks.Ticks, written []byte) {
	if e != nil {
		e.name, e.value, e.second, e.written = name, strings.Clone(value), second, append(e.written[:0], written...)
	}
}

// pages are buffers of pages; larger ones than maxPage are left to the collector.
var pages = sync.Pool{New: func() any { return &page{b: make([]byte, 0, 64<<10)} }}

const maxPage = 2 * endpoint.MiB

// emptyPage returns an empty buffer.
func emptyPage() *page {
	p := pages.Get().(*page)
	p.b = p.b[:0]
	return p
}

// newPage begins a document.
func newPage() *page {
	p := emptyPage()
	p.b = append(p.b, wire.NewXML(64).Bytes()...)
	for i := range p.elements {
		p.elements[i].misses = 0
	}
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
// It and its like append to a local slice and store it once: each store to the heap costs a write barrier while garbage
// is collected.
func (p *page) text(name, value string) {
	written, e := p.again(name, value, 0)
	if written {
		return
	}
	start := len(p.b)
	p.once(name, value)
	e.set(name, value, 0, p.b[start:])
}

// once is text for a value that the next item does not have.
func (p *page) once(name, value string) {
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
	second := t - t%ticks.Second
	written, e := p.again(name, "", second)
	if written {
		return
	}
	start := len(p.b)
	p.b = appendEnd(t.AppendRFC1123(appendStart(p.b, name)), name)
	e.set(name, "", second, p.b[start:])
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

// plainPrefix returns a length up to which s needs no escapes. It looks at eight characters at once.
func plainPrefix(s string) (n int) {
	const low, high = 0x0101010101010101, 0x8080808080808080
	for ; len(s)-n >= 8; n += 8 {
		w := uint64(s[n]) | uint64(s[n+1])<<8 | uint64(s[n+2])<<16 | uint64(s[n+3])<<24 | uint64(s[n+4])<<32 | uint64(
			s[n+5])<<40 | uint64(s[n+6])<<48 | uint64(s[n+7])<<56
		lt, gt, amp, quote := w^'<'*low, w^'>'*low, w^'&'*low, w^'"'*low
		// The high bit of a character is set if it is one of these, below U+0020, or not ASCII. A character behind one that
		// is may be marked as well.
		if (w|(lt-low)&^lt|(gt-low)&^gt|(amp-low)&^amp|(quote-low)&^quote|(w-0x20*low)&^w)&high != 0 {
			break
		}
	}
	return n
}

// isPlain reports whether s needs no escapes, and is ASCII.
func isPlain(s string) bool {
	for i := plainPrefix(s); i < len(s); i++ {
		if c := s[i]; c >= utf8.RuneSelf || !plain[c] {
			return false
		}
	}
	return true
}

// escape writes text.
func (p *page) escape(s string) { p.b = appendEscaped(p.b, s) }

// appendEscaped appends text. Characters that XML cannot hold become U+FFFD.
func appendEscaped(b []byte, s string) []byte {
	// Text that needs no escape is copied in one piece; from is where the piece begins.
	from := 0
	for i := plainPrefix(s); i < len(s); {
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

func (p *page) metadata(list []record.Meta) {
	if len(list) == 0 {
		p.raw("<Metadata />")
		return
	}
	p.raw("<Metadata>")
	for _, m := range list {
		p.once(m.Name, m.Value)
	}
	p.raw("</Metadata>")
}

func (p *page) tagSet(list []record.Tag) {
	if len(list) == 0 {
		p.raw("<TagSet />")
		return
	}
	p.raw("<TagSet>")
	for _, t := range list {
		p.raw("<Tag>")
		p.once("Key", t.Key)
		p.once("Value", t.Value)
		p.raw("</Tag>")
	}
	p.raw("</TagSet>")
}
