package dashboard

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// parsePages parses every page together with the layout. The files are part of the program: one that does not parse is
// a defect.
func parsePages() map[string]*template.Template {
	layout := template.Must(template.New("layout").Funcs(functions).ParseFS(files, "templates/layout.html"))
	names, err := files.ReadDir("templates")
	if err != nil {
		panic("dashboard: " + err.Error())
	}
	pages := make(map[string]*template.Template)
	for _, f := range names {
		if f.Name() != "layout.html" {
			pages[strings.TrimSuffix(f.Name(), ".html")] = template.Must(
				template.Must(layout.Clone()).ParseFS(files, path.Join("templates", f.Name())))
		}
	}
	return pages
}

// functions hold what templates can call.
var functions = template.FuncMap{
	"bytes": sizeText, "ago": ago, "ahead": short, "agoShort": func(t, now time.Time) string { return short(now.Sub(t)) },
	"when":   func(t time.Time) template.HTML { return timeElement(t, "date", when(t)) },
	"clock":  func(t time.Time) template.HTML { return timeElement(t, "clock", t.UTC().Format("15:04:05.000")) },
	"minute": func(t time.Time) template.HTML { return timeElement(t, "minute", t.UTC().Format("15:04")) },
	"url":    link, "query": query, "count": count, "plural": plural,
	"plural64": func(n int64, noun string) string { return plural(int(n), noun) }, "ms": milliseconds, "until": until,
	"statusClass": func(status string) string { return statusClasses[status] },
	"took":        took, "hm": func(t time.Time) string { return t.UTC().Format("15:04") },
	"words": strings.Fields, "below": below, "choice": choice, "int64": func(n int) int64 { return int64(n) },
	"entity": entityQuery, "agoPointer": func(t *time.Time, now time.Time) string { return ago(ptr.Value(t), now) },
	"safequery": func(encoded string) template.URL { return template.URL(encoded) }, // of url.Values.Encode
}

// sizeText is a number of bytes for people.
func sizeText(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if v /= 1024; v < 1024 {
			break
		}
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + unit
}

// count is a number with commas: 1,234,567.
func count(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// plural is "1 message" or "3 messages".
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return count(n) + " " + noun
}

// when is a time in UTC, "" for the zero time.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
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

// ago is the time since t.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return short(now.Sub(t)) + " ago"
}

// until is the time up to t. The year 9999 is that of messages without expiry.
func until(t, now time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.Year() >= 9999:
		return "never"
	}
	if !t.After(now) {
		return "now"
	}
	return "in " + short(t.Sub(now))
}

// short is a duration in its two largest units.
func short(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// took is a duration that may be short: "12.5 ms", "7.5 s", "2 min 3 s".
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return milliseconds(d)
	case d < time.Minute:
		return strconv.FormatFloat(max(1, math.Floor(d.Seconds()*10)/10), 'f', 1, 64) + " s" // 59.96 s is not 60.0 s
	}
	return short(d)
}

func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 1, 64) + " ms"
}

// link is the address of a page: the parts are escaped and joined.
func link(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = url.PathEscape(p)
	}
	return Prefix + strings.Join(escaped, "/")
}

// crumbsOf returns the way to a page of an account: the account, a list of it, a member of that list, and its list.
func crumbsOf(account string, steps ...string) []crumb {
	crumbs := []crumb{{account, link("accounts", account)}}
	for i, step := range steps {
		title := step
		if i%2 == 0 { // a list: "queues" is Queues
			title = strings.ToUpper(step[:1]) + step[1:]
		}
		crumbs = append(crumbs, crumb{title, link(append([]string{"accounts", account}, steps[:i+1]...)...)})
	}
	return crumbs
}

// entityQuery is the query string that names an entity, whose keys may be empty.
func entityQuery(pk, rk string) template.URL {
	return template.URL("?" + url.Values{"pk": {pk}, "rk": {rk}}.Encode())
}

// entityAfter is the query string of the partitions after a key, which may be empty.
func entityAfter(pk string) template.URL {
	return template.URL("?" + url.Values{"after": {pk}}.Encode())
}

// accountChoice is a field of a form that names an account: a list, or a text if not all accounts are shown.
type accountChoice struct {
	Name, Value string
	All         bool // "" is all accounts
	Accounts    []string
	More        bool
}

func choice(p page, name, value string, all bool) accountChoice {
	return accountChoice{name, value, all, p.Accounts, p.More}
}

// below reports whether a page is the one at an address or below it, for the navigation.
func below(here, address string) bool { return here == address || strings.HasPrefix(here, address+"/") }

// query is a query string with the names and values given in turns; empty values are left out.
func query(pairs ...string) template.URL {
	v := make(url.Values)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	if len(v) == 0 {
		return ""
	}
	return template.URL("?" + v.Encode())
}
