package frame

import (
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
)

// Parse parses the pages in the folder templates of a file system, by their names: each together with the layout, and
// with what parts.html defines for several pages of the folder. The files are part of the program: one that does not
// parse is a defect.
func Parse(from fs.FS) map[string]*template.Template {
	const parts = "templates/parts.html"
	layout := template.Must(template.New("layout").Funcs(Functions).ParseFS(files, "templates/layout.html"))
	names, err := fs.Glob(from, "templates/*.html")
	if err != nil {
		panic("dashboard: " + err.Error())
	}
	if slices.Contains(names, parts) {
		template.Must(layout.ParseFS(from, parts))
	}
	pages := make(map[string]*template.Template)
	for _, name := range names {
		switch base := strings.TrimSuffix(path.Base(name), ".html"); base {
		case "layout", "parts":
		default:
			pages[base] = template.Must(template.Must(layout.Clone()).ParseFS(from, name))
		}
	}
	return pages
}

// Functions hold what templates can call.
var Functions = template.FuncMap{
	"bytes": display.Bytes, "ago": display.Ago, "ahead": display.Short,
	"agoShort": func(t, now time.Time) string { return display.Short(now.Sub(t)) },
	"when":     func(t time.Time) template.HTML { return timeElement(t, "date", display.When(t)) },
	"clock":    func(t time.Time) template.HTML { return timeElement(t, "clock", t.UTC().Format("15:04:05.000")) },
	"minute":   func(t time.Time) template.HTML { return timeElement(t, "minute", t.UTC().Format("15:04")) },
	"url":      Link, "query": Query, "count": display.Count, "plural": display.Plural,
	"plural64": func(n int64, noun string) string { return display.Plural(int(n), noun) },
	"ms":       display.Milliseconds, "until": display.Until, "took": display.Took,
	"hm":    func(t time.Time) string { return t.UTC().Format("15:04") },
	"words": strings.Fields, "below": below, "choice": choice, "int64": func(n int) int64 { return int64(n) },
	"entity": EntityQuery, "agoPointer": func(t *time.Time, now time.Time) string {
		return display.Ago(ptr.Value(t),
			now)
	},
	"safequery": func(encoded string) template.URL { return template.URL(encoded) }, // of url.Values.Encode
}

// timeElement is a time with its text in UTC, which the script replaces if a person wants local time. In an attribute
// of a tag the text alone is left. form is the script's form of it: date, clock or minute.
func timeElement(t time.Time, form, text string) template.HTML {
	if t.IsZero() {
		return ""
	}
	return template.HTML(`<time datetime="` + t.UTC().Format("2006-01-02T15:04:05.000Z") + `" data-form="` + form + `">` +
		text + `</time>`)
}

// accountChoice is a field of a form that names an account: a list, or a text if not all accounts are shown.
type accountChoice struct {
	Name, Value string
	All         bool // "" is all accounts
	Accounts    []string
	More        bool
}

func choice(p Page, name, value string, all bool) accountChoice {
	return accountChoice{name, value, all, p.Accounts, p.More}
}

// below reports whether a page is the one at an address or below it, for the navigation.
func below(here, address string) bool { return here == address || strings.HasPrefix(here, address+"/") }
