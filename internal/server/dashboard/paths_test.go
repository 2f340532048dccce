package dashboard_test

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/parquet-go/parquet-go"

	"github.com/lazuli-storage/lazuli/internal/test/check"
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
	status, body, _ := s.do(http.MethodPost, base+"containers/photos/upload?name=people.parquet", &file,
		http.Header{"X-Csrf-Token": {s.token()}})
	if status != http.StatusCreated {
		t.Fatalf("upload: %d %s", status, body)
	}
	page := base + "blob/photos?name=people.parquet"
	s.shows(page, "<th>age</th>", "<th>name</th>", "41", "&lt;i&gt;Jane&lt;/i&gt;", "Joe")
	s.hides(page, "<i>Jane")
}

// documentedLinks are the paths of the dashboard's pages that docs/dashboard.md links to.
func documentedLinks(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../../docs/dashboard.md")
	if err != nil {
		t.Fatal(err)
	}
	links := make(map[string]bool)
	for _, m := range regexp.MustCompile(`\]\(http://127\.0\.0\.1:10003(/ui/[^)]*)\)`).FindAllStringSubmatch(string(text),
		-1) {
		links[m[1]] = true
	}
	return links
}

// Each task is at most three clicks from docs/dashboard.md: the first one is a link there, each page has the link to
// the next one, and the last one has the control of the task. All links of that page are on the way to a task.
func TestClickPaths(t *testing.T) {
	t.Parallel()
	s, flows := open(t), openFlows(t)
	flows.start("order", "order-1", `"tea"`)
	check.Eventually(t, func() bool { return strings.Contains(flows.get(ordersHub), "order-1") },
		"the instance is not listed")
	s.post(base+"containers", "action", "create", "name", "photos")
	if status, body, _ := s.do(http.MethodPost, base+"containers/photos/upload?name=a.txt", strings.NewReader("text"),
		http.Header{"X-Csrf-Token": {s.token()}}); status != http.StatusCreated {
		t.Fatalf("upload: %d %s", status, body)
	}
	s.post(base+"queues", "action", "create", "name", "orders-poison")
	s.post(base+"queues/orders-poison", "action", "put", "body", "one")
	s.post(base+"tables", "action", "create", "name", "Employees")
	s.post(base+"tables/Employees/entity", "action", "insert", "pk", "p", "rk", "r")
	wrong, err := azqueue.NewServiceClientFromConnectionString(
		strings.Replace(s.stack.ConnectionString(), "AccountKey=Eby8", "AccountKey=Fby8", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.NewListQueuesPager(nil).NextPage(t.Context()); err == nil {
		t.Fatal("a wrong signature was accepted")
	}
	refused := regexp.MustCompile(`href="(/ui/requests/[0-9a-f-]+)"`).FindStringSubmatch(s.get("/ui/requests"))
	if refused == nil {
		t.Fatal("the refused request is not shown")
	}
	blob, queue, table := base+"blob/photos?name=a.txt", base+"queues/orders-poison", base+"tables/Employees"
	first := documentedLinks(t)
	walked := make(map[string]bool)
	for _, c := range []struct {
		task, control string
		clicks        []string
	}{
		{"see the health", "Health", []string{"/ui/"}},
		{"follow a message", "ID of a message", []string{"/ui/trace"}},
		{"copy a connection string", "AccountKey", []string{"/ui/"}},
		{"create a container", `value="create"`, []string{base + "containers"}},
		{"upload a blob", "data-upload", []string{base + "containers", base + "containers/photos"}},
		{"list versions and deleted blobs", `name="all"`, []string{base + "containers", base + "containers/photos"}},
		{"look at a blob", ">text<", []string{base + "containers", base + "containers/photos", blob}},
		{"change tags", `value="tags"`, []string{base + "containers", base + "containers/photos", blob}},
		{"change metadata", `value="metadata"`, []string{base + "containers", base + "containers/photos", blob}},
		{"change the tier", `value="tier"`, []string{base + "containers", base + "containers/photos", blob}},
		{"download a blob", "content/photos", []string{base + "containers", base + "containers/photos", blob}},
		{"take a snapshot", `value="snapshot"`, []string{base + "containers", base + "containers/photos", blob}},
		{"make a signature", "Make the URL",
			[]string{base + "containers", base + "containers/photos", base + "sas?service=blob&resource=photos"}},
		{"make a signature for a queue", "Make the URL",
			[]string{base + "queues", queue, base + "sas?service=queue&resource=orders-poison"}},
		{"see hidden and poison messages", "one", []string{base + "queues", queue}},
		{"put a message", `value="put"`, []string{base + "queues", queue}},
		{"requeue poison messages", `value="requeue"`, []string{base + "queues", queue}},
		{"delete messages by a filter", `name="match"`, []string{base + "queues", queue}},
		{"see the cost of a query", "data-plan", []string{base + "tables", table}},
		{"insert an entity", `value="insert"`, []string{base + "tables", table, table + "/entity"}},
		{"edit an entity", `value="replace"`, []string{base + "tables", table, table + "/entity?pk=p&rk=r"}},
		{"count the entities of partitions", "<meter", []string{base + "tables", table, table + "/partitions"}},
		{"see workflows", "order-1", []string{base + "workflows", ordersHub}},
		{"follow a workflow, raise an event", `value="raise"`,
			[]string{base + "workflows", ordersHub, instancePage("order-1")}},
		{"see functions", "function-host", []string{"/ui/functions"}},
		{"see roles", "Workers", []string{"/ui/workers"}},
		{"see why a request failed", "AuthenticationErrorDetail", []string{"/ui/requests", refused[1]}},
		{"get a request as curl", "curl -i", []string{"/ui/requests", refused[1]}},
		{"make a request a fault rule", "New rule", []string{"/ui/requests", refused[1], "/ui/control"}},
		{"add a fault rule", "New rule", []string{"/ui/control"}},
		{"reset the data", `value="reset"`, []string{"/ui/control"}},
		{"see the time", "Time", []string{"/ui/control"}},
		{"see other processes", "No process with workers", []string{base + "workers"}},
		{"search", "begin with the text", []string{base + "search"}},
		{"subscribe to events", "New subscription", []string{"/ui/events"}},
	} {
		s := s
		if strings.Contains(c.clicks[0], "workflows") {
			s = flows.site
		}
		if len(c.clicks) > 3 {
			t.Errorf("%s takes %d clicks", c.task, len(c.clicks))
		}
		walked[c.clicks[0]] = true
		if !first[c.clicks[0]] {
			t.Errorf("%s: docs/dashboard.md has no link to %s", c.task, c.clicks[0])
		}
		for i, link := range c.clicks[1:] {
			if page := c.clicks[i]; !hasLink(s.get(page), link) {
				t.Errorf("%s: %s has no link to %s", c.task, page, link)
			}
		}
		if !strings.Contains(s.get(c.clicks[len(c.clicks)-1]), c.control) {
			t.Errorf("%s: %s does not have %q", c.task, c.clicks[len(c.clicks)-1], c.control)
		}
	}
	for link := range first {
		if !walked[link] {
			t.Errorf("docs/dashboard.md links to %s, which no task here begins with", link)
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
		if err == nil && u.Path == want.Path && within(want.Query(), u.Query()) {
			return true
		}
	}
	return false
}

// within reports whether a query has all the values of another.
func within(part, whole url.Values) bool {
	for name := range part {
		if part.Get(name) != whole.Get(name) {
			return false
		}
	}
	return true
}
