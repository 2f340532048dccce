package dashboard_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// What is found links to its page, whatever its name is.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := open(t)
	page := base + "search"
	s.shows(page, `name="q"`, "begin with the text")
	s.shows(page+"?q=nothing+here", "Nothing was found.", "The search is complete.")
	const name = `o'brien 100% "größe"`
	s.post(base+"containers", "action", "create", "name", "photos")
	if status, body, _ := s.do(http.MethodPost, base+"containers/photos/upload?name="+url.QueryEscape(name),
		strings.NewReader("x"), http.Header{"X-Csrf-Token": {s.token()}}); status != http.StatusCreated {
		t.Fatalf("upload: %d %s", status, body)
	}
	s.post(base+"queues", "action", "create", "name", "orders")
	s.post(base+"queues/orders", "action", "put", "body", "for "+name)
	s.post(base+"tables", "action", "create", "name", "People")
	s.post(base+"tables/People/entity", "action", "insert", "pk", name, "rk", "")
	s.post(base+"tables/People/entity", "action", "insert", "pk", "p", "rk", name)
	body := s.get(page + "?q=" + url.QueryEscape(name))
	links := regexp.MustCompile(`class="id"><a href="([^"]*)"`).FindAllStringSubmatch(body, -1)
	if len(links) != 4 {
		t.Fatalf("%d results: %s", len(links), body)
	}
	for _, l := range links {
		address, _, _ := strings.Cut(html.UnescapeString(l[1]), "#")
		s.shows(address, html.EscapeString(name))
	}
	// The row of the message is one that the queue's page has.
	id := regexp.MustCompile(`#(m-[0-9a-f-]+)"`).FindStringSubmatch(body)
	if id == nil {
		t.Fatalf("no link to the message: %s", body)
	}
	s.shows(base+"queues/orders", `<tr id="`+id[1]+`">`)
	// A message's ID leads to it and to its trace.
	s.shows(page+"?q="+strings.TrimPrefix(id[1], "m-"), "1 result;", "Trace</a>")

	for query, want := range map[string]string{
		"?q=":                               "it is empty",
		"?q=" + strings.Repeat("x", 2000):   "1024 are allowed",
		"?q=%ff":                            "not UTF-8",
		"?q=x&after=y":                      "There is no such page of results",
		"?q=%3Cscript%3E&after=!%22%3Cb%3E": "There is no such page of results",
	} {
		if status, body, _ := s.do(http.MethodGet, page+query, nil, nil); status != http.StatusBadRequest ||
			!strings.Contains(body, want) {
			t.Errorf("%.40s: %d %s", query, status, body)
		}
	}
	if status, _, _ := s.do(http.MethodGet, "/ui/accounts/absent/search?q=x", nil, nil); status != http.StatusNotFound {
		t.Errorf("an account that is not there: %d", status)
	}
}

// A page of results leads to the next one.
func TestSearchGoesOn(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.post(base+"queues", "action", "create", "name", "orders")
	for range 130 {
		s.post(base+"queues/orders", "action", "put", "body", "needle")
	}
	body := s.get(base + "search?q=NEEDLE")
	next := regexp.MustCompile(`href="(\?[^"]*after=[^"]*)">Go on`).FindStringSubmatch(body)
	if next == nil || !strings.Contains(body, "The search stopped in the messages of orders: 100 results.") {
		t.Fatalf("no next page: %s", body)
	}
	s.shows(base+"search"+html.UnescapeString(next[1]), "30 results;", "The search is complete.")
}
