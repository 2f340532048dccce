package frame

import (
	"html/template"
	"net/url"
	"strings"
)

// Prefix is the place where the pages are: "/ui/".
const Prefix = "/ui/"

// Crumb is a step of the path to a page.
type Crumb struct{ Name, URL string }

// Link is the address of a page: the parts are escaped and joined.
func Link(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = url.PathEscape(p)
	}
	return Prefix + strings.Join(escaped, "/")
}

// CrumbsOf returns the way to a page of an account: the account, a list of it, a member of that list, and its list.
func CrumbsOf(account string, steps ...string) []Crumb {
	crumbs := []Crumb{{account, Link("accounts", account)}}
	for i, step := range steps {
		title := step
		if i%2 == 0 { // a list: "queues" is Queues
			title = strings.ToUpper(step[:1]) + step[1:]
		}
		crumbs = append(crumbs, Crumb{title, Link(append([]string{"accounts", account}, steps[:i+1]...)...)})
	}
	return crumbs
}

// Query is a query string with the names and values given in turns; empty values are left out.
func Query(pairs ...string) template.URL {
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

// EntityQuery is the query string that names an entity, whose keys may be empty.
func EntityQuery(pk, rk string) template.URL {
	return template.URL("?" + url.Values{"pk": {pk}, "rk": {rk}}.Encode())
}

// EscapePath escapes a container/blob for a URL.
func EscapePath(p string) string { return strings.ReplaceAll(url.PathEscape(p), "%2F", "/") }
