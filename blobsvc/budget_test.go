package blobsvc

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// Bodies and headers that repeat a piece of their grammar take work that grows with their length.
func TestParsersStayInTheirBudget(t *testing.T) {
	t.Parallel()
	const size = 2 << 20
	for _, boundary := range []string{"b", "bbbb", "-"} {
		line := "--" + boundary
		workbudget.Inputs(size, line+"\r\n",
			[]string{line, line + "\r\n", line + " ", line + "--", "-", "\r\n", "\n", "a:b\r\n",
				line + "\r\nContent-Type: application/http\r\n\r\nDELETE /a HTTP/1.1\r\n\r\n\r\n"}, "\r\n"+line+"--",
			func(body string) {
				workbudget.Default.Check(t, len(body), func() { _, _ = parseBatch([]byte(body), boundary) })
			})
	}
	workbudget.Inputs(size, "<BlockList>",
		[]string{"<Latest>AAAA</Latest>", "<Latest>", "AAAA", "&lt;", "<!-- -->", `<Latest a="b"/>`}, "</BlockList>",
		func(body string) {
			workbudget.Default.Check(t, len(body), func() { _, _ = parseBlockList([]byte(body)) })
		})
	workbudget.Inputs(64<<10, "<Tags><TagSet>",
		[]string{"<Tag><Key>a</Key><Value>b</Value></Tag>", "<Tag>", "x", "<Tag/>"}, "</TagSet></Tags>", func(body string) {
			workbudget.Default.Check(t, len(body), func() {
				var doc tagDocument
				_ = wire.ParseXML([]byte(body), &doc)
			})
		})
	workbudget.Inputs(wire.MaxHeaderBytes, "", []string{`"a"='b' AND `, "a", "'", `"`, " ", "a=b&", "&", "%20"}, "",
		func(text string) {
			workbudget.Default.Check(t, len(text), func() { _, _ = endpoint.ParseTagCondition("x-ms-if-tags", text) })
			hr := httptest.NewRequest("PUT", "http://127.0.0.1/devstoreaccount1/c/b", nil)
			hr.Header.Set("x-ms-tags", text)
			r, err := wire.Parse(wire.Blob, hr, nil, time.Now(), wire.Options{})
			if err != nil {
				return
			}
			c := &call{Request: r}
			workbudget.Default.Check(t, len(text), func() { _, _ = headerTags(c.Headers(), c.Identity) })
		})
}

// FuzzParseBatch: any body is taken apart or refused.
func FuzzParseBatch(f *testing.F) {
	f.Add([]byte("--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\nDELETE /a/b HTTP/1.1\r\nx-ms-date: "+
		"x\r\n\r\n--b--\r\n"), "b")
	f.Fuzz(func(t *testing.T, body []byte, boundary string) {
		defer workbudget.Default.Start(t, len(body)+len(boundary))()
		if list, err := parseBatch(body, boundary); err == nil && (len(list) == 0 || len(list) > maxBatchSize) {
			t.Errorf("%d requests", len(list))
		}
	})
}

// FuzzTagCondition: any condition on tags is read or refused, and what is read can be evaluated.
func FuzzTagCondition(f *testing.F) {
	f.Add(`"a" = 'b' AND c >= 'd' OR e <> ''`)
	f.Fuzz(func(t *testing.T, text string) {
		defer workbudget.Default.Start(t, len(text))()
		if q, err := endpoint.ParseTagCondition("x-ms-if-tags", text); err == nil && q == nil {
			t.Error("nothing is read")
		}
	})
}

// FuzzTags: any x-ms-tags are tags or refused.
func FuzzTags(f *testing.F) {
	f.Add("a=b&c=d%20e")
	f.Add("&&==%")
	f.Fuzz(func(t *testing.T, text string) {
		defer workbudget.Default.Start(t, len(text))()
		if list, err := parseTags(text); err == nil && (len(list) == 0 || len(list) > maxTags) {
			t.Errorf("%q: %d tags", text, len(list))
		}
	})
}

// FuzzTagSearch: any condition of Find Blobs by Tags is parsed or refused.
func FuzzTagSearch(f *testing.F) {
	f.Add(`@container = 'box' AND "stage" >= 'a' AND "stage" < 'c'`)
	f.Fuzz(func(t *testing.T, where string) {
		defer workbudget.Default.Start(t, len(where))()
		if q, err := state.ParseTagQuery(where, false); err == nil && q == nil {
			t.Errorf("%q is accepted without a query", where)
		}
	})
}
