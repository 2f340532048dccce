package dashboard_test

import (
	"bytes"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// The first rows of a Parquet file are shown as a table.
func TestParquetPreview(t *testing.T) {
	t.Parallel()
	s := open(t)
	type row struct {
		Age  int64  `parquet:"age"`
		Name string `parquet:"name"`
	}
	var file bytes.Buffer
	w := parquet.NewGenericWriter[row](&file)
	rows := []row{{41, "<i>Jane</i>"}}
	for range 30 {
		rows = append(rows, row{7, "Joe"})
	}
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s.post(base+"containers", "action", "create", "name", "photos")
	status, body, _ := s.do(http.MethodPost, base+"containers/photos/upload?name=people.parquet", &file, http.Header{"X-Csrf-Token": {s.token()}})
	if status != http.StatusCreated {
		t.Fatalf("upload: %d %s", status, body)
	}
	page := base + "blob/photos?name=people.parquet"
	s.shows(page, "<th>age</th>", "<th>name</th>", "41", "&lt;i&gt;Jane&lt;/i&gt;", "Joe")
	s.hides(page, "<i>Jane")
}

// The click paths of docs/dashboard.md: each page has the link to the next one, and the last one has the control of the task.
func TestClickPaths(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.post(base+"containers", "action", "create", "name", "photos")
	if status, body, _ := s.do(http.MethodPost, base+"containers/photos/upload?name=a.txt", strings.NewReader("text"), http.Header{"X-Csrf-Token": {s.token()}}); status != http.StatusCreated {
		t.Fatalf("upload: %d %s", status, body)
	}
	s.post(base+"queues", "action", "create", "name", "orders-poison")
	s.post(base+"queues/orders-poison", "action", "put", "body", "one")
	s.post(base+"tables", "action", "create", "name", "Employees")
	for _, c := range []struct {
		task, control string
		links         []string
	}{
		{"upload a blob", "upload", []string{base + "containers", base + "containers/photos"}},
		{"look at a blob", "text", []string{base + "containers", base + "containers/photos", base + "blob/photos?name=a.txt"}},
		{"change tags, metadata and tier", `value="tags"`, []string{base + "containers", base + "containers/photos", base + "blob/photos?name=a.txt"}},
		{"see hidden and poison messages", "one", []string{base + "queues", base + "queues/orders-poison"}},
		{"requeue poison messages", `value="requeue"`, []string{base + "queues", base + "queues/orders-poison"}},
		{"see the cost of a query", "filter", []string{base + "tables", base + "tables/Employees"}},
		{"see why a request failed", `placeholder="operation, path`, []string{"/ui/requests"}},
		{"add a fault rule, reset the data", `value="reset"`, []string{"/ui/control"}},
		{"see event subscriptions, their lag and dead letters; flush", "New subscription", []string{"/ui/events"}},
		{"see workers", "Workers", []string{"/ui/workers"}},
		{"see workflows", "orkflow", []string{base + "workflows"}},
		{"copy a connection string", "AccountKey", []string{strings.TrimSuffix(base, "/")}},
	} {
		if len(c.links) > 3 {
			t.Errorf("%s takes %d clicks", c.task, len(c.links))
		}
		page := "/ui/"
		for _, link := range c.links {
			if !hasLink(s.get(page), link) {
				t.Errorf("%s: %s has no link to %s", c.task, page, link)
			}
			page = link
		}
		if !strings.Contains(s.get(page), c.control) {
			t.Errorf("%s: %s does not have %q", c.task, page, c.control)
		}
	}
}

var href = regexp.MustCompile(`href="([^"]*)"`)

func hasLink(body, link string) bool {
	want, err := url.Parse(link)
	if err != nil {
		return false
	}
	for _, m := range href.FindAllStringSubmatch(body, -1) {
		u, err := url.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
		if err == nil && u.Path == want.Path && (want.RawQuery == "" || u.Query().Get("name") == want.Query().Get("name")) {
			return true
		}
	}
	return false
}
