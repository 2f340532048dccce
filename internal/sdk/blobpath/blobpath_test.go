package blobpath

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMatch(t *testing.T) {
	type values = map[string]string
	for _, c := range []struct {
		path, blob string
		want       values // nil: no match
		prefix     string
	}{
		{"input/{name}", "a.txt", values{"name": "a.txt"}, ""},
		{"input/{name}", "folder/a.txt", values{"name": "folder/a.txt"}, ""},
		{"input", "folder/a.txt", values{"name": "folder/a.txt"}, ""},
		{"input/original-{name}", "original-blue.png", values{"name": "blue.png"}, "original-"},
		{"input/original-{name}", "copy-blue.png", nil, "original-"},
		{"input/{name}.png", "blue.png", values{"name": "blue"}, ""},
		{"input/{name}.png", "blue.pngx", nil, ""},
		{"input/{name}.png", "blueXpng", nil, ""},
		{"input/{blobname}.{ext}", "a.b.c", values{"blobname": "a.b", "ext": "c"}, ""},
		{"input/{{20140101}}-{name}", "{20140101}-soundfile.mp3", values{"name": "soundfile.mp3"}, "{20140101}-"},
		{"input/fixed.txt", "fixed.txt", values{}, "fixed.txt"},
		{"input/fixed.txt", "fixedxtxt", nil, "fixed.txt"},
		{"input/year/{y}/m(\\d+)/{m}", "year/2026/m(\\d+)/11", values{"y": "2026", "m": "11"}, "year/"},
		{"input/{name}", "line\nbreak", values{"name": "line\nbreak"}, ""},
	} {
		p, err := Parse(c.path)
		if err != nil {
			t.Error(err)
			continue
		}
		got, ok := p.Match(c.blob)
		if diff := cmp.Diff(c.want, got); diff != "" || ok != (c.want != nil) || p.Container != "input" ||
			p.Prefix != c.prefix {
			t.Errorf("%s on %q: %v, %v, prefix %q; want %v", c.path, c.blob, got, ok, p.Prefix, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for path, says := range map[string]string{
		"":                "container",
		"/a":              "container",
		"{c}/a":           "container",
		"c/":              "names no blob",
		"c/{name":         "not closed",
		"c/{}":            "not a name",
		"c/{a b}":         "not a name",
		"c/a}b":           "not opened",
		"c/{name}/{name}": "twice",
	} {
		if _, err := Parse(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want an error saying %q", path, err, says)
		}
	}
}
