package tablesvc

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// rows returns the rows that a filter finds, as "partition/row", by way of the SDK's pager.
func rows(t *testing.T, c *aztables.Client, o *aztables.ListEntitiesOptions) (found []string, pages int) {
	t.Helper()
	for p := c.NewListEntitiesPager(o); p.More(); pages++ {
		page, err := p.NextPage(ctx)
		check.OK(t, err)
		for _, e := range page.Entities {
			var keys struct{ PartitionKey, RowKey string }
			check.OK(t, json.Unmarshal(e, &keys))
			found = append(found, keys.PartitionKey+"/"+keys.RowKey)
		}
	}
	return found, pages
}

func TestQueryEntities(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	for i, p := range []string{"b", "a", "it's", "\U00010000", "\uffff"} {
		for j := range 3 {
			add(t, client, p, fmt.Sprint(j), "N", i*10+j, "Even", j%2 == 0, "L@odata.type", "Edm.Int64", "L", fmt.Sprint(j))
		}
	}
	for _, tc := range []struct {
		filter string
		want   []string
	}{
		{"", []string{"a/0", "a/1", "a/2", "b/0", "b/1", "b/2", "it's/0", "it's/1", "it's/2", "\U00010000/0", "\U00010000/1",
			"\U00010000/2", "\uffff/0", "\uffff/1", "\uffff/2"}},
		{"PartitionKey eq 'it''s' and RowKey eq '1'", []string{"it's/1"}},
		{"PartitionKey eq '\uffff' and RowKey gt '1'", []string{"\uffff/2"}},
		{"N ge 11 and N lt 20 and Even", []string{"a/2"}},
		{"not Even and PartitionKey le 'b'", []string{"a/1", "b/1"}},
		{"L eq 2L and RowKey ne '9' and PartitionKey lt 'c'", []string{"a/2", "b/2"}},
		{"L eq 2 and PartitionKey lt 'c'", []string{"a/2", "b/2"}},
		{"N eq 12L", nil},
		{"N eq 12.0", nil},
		{"PartitionKey eq 'a' and RowKey eq '0' or PartitionKey eq 'b' and RowKey eq '2'", []string{"a/0", "b/2"}},
		{"Missing ne 5", nil},
		// What the keys do not settle is checked in ranges and points too.
		{"PartitionKey eq 'a' and RowKey ge '0' and RowKey lt '2' and N eq 11", []string{"a/1"}},
		{"PartitionKey eq 'a' and RowKey eq '0' and N eq 10", []string{"a/0"}},
		{"PartitionKey eq 'a' and RowKey eq '0' and N eq 11", nil},
		{"(PartitionKey eq 'a' and RowKey eq '0' or PartitionKey eq 'b' and RowKey eq '1') and Even", []string{"a/0"}},
	} {
		if got, _ := rows(t, client, &aztables.ListEntitiesOptions{Filter: &tc.filter}); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.filter, got, tc.want)
		}
	}
	t.Run("pages", func(t *testing.T) {
		all, _ := rows(t, client, nil)
		got, pages := rows(t, client, &aztables.ListEntitiesOptions{Top: to.Ptr(int32(4))})
		if !slices.Equal(got, all) || pages != 4 {
			t.Errorf("got %q in %d pages", got, pages)
		}
	})
	t.Run("select", func(t *testing.T) {
		r := f.send("GET", "/people()?$top=1&$select="+url.QueryEscape("odd-näme")+",RowKey,N,RowKey", nil, "").want(t, "200")
		if r.body != `{"value":[{"RowKey":"0","N":10,"odd-n\u00e4me":null}]}` {
			t.Errorf("got %s", r.body)
		}
		r = f.send("GET", "/people(PartitionKey='a',RowKey='0')?$select=",
			headers{"Accept", "application/json;odata=minimalmetadata"}, "").want(t, "200")
		if !strings.HasPrefix(r.body, `{"odata.metadata":"`+f.base+`/$metadata#people/@Element&$select=",`) ||
			!strings.Contains(r.body, `"N":10`) {
			t.Errorf("got %s", r.body)
		}
		if r = f.send("GET", "/people()?$top=1&$select=*", nil, ""); !strings.Contains(r.body, `"N":10`) {
			t.Errorf("got %s", r.body)
		}
	})
	t.Run("functions", func(t *testing.T) {
		for filter, want := range map[string]string{"startswith(N,'a')": "501 NotImplemented",
			"N eq 1 and (tolower(N) eq 'a')": "501 NotImplemented", "substringof('a',N) eq true": "501 NotImplemented",
			"nonsense(N)": "400 InvalidInput", "startswith eq 'a'": "200"} {
			f.send("GET", "/people()?$filter="+url.QueryEscape(filter), nil, "").want(t, want)
		}
	})
	t.Run("top", func(t *testing.T) {
		for top, want := range map[string]string{"0": "200", "1000": "200", "1001": "400 InvalidInput",
			"99999999999999999999999": "400 InvalidInput", "-1": "400 InvalidInput", "x": "400 InvalidInput"} {
			r := f.send("GET", "/people()?$top="+top, nil, "").want(t, want)
			if top == "0" && (r.body != `{"value":[]}` || r.header.Get("x-ms-continuation-NextPartitionKey") != "") {
				t.Errorf("$top=0: %s %v", r.body, r.header)
			}
		}
	})
	t.Run("one partition", func(t *testing.T) {
		r := f.send("GET", "/people(PartitionKey='it''s')?$top=2&$select=RowKey&$filter=RowKey%20ge%20'1'",
			headers{headerExplain, "true"}, "").want(t, "200")
		if r.body != `{"value":[{"RowKey":"1"},{"RowKey":"2"}]}` ||
			r.header.Get(headerPlan) != "RangeQuery; ranges=1; residual=no" {
			t.Errorf("got %s by %s", r.body, r.header.Get(headerPlan))
		}
		r = f.send("GET", "/people(PartitionKey='a')?$top=2&$select=RowKey", nil, "")
		next := "?NextPartitionKey=" + r.header.Get("x-ms-continuation-NextPartitionKey") + "&NextRowKey=" +
			r.header.Get("x-ms-continuation-NextRowKey")
		if r = f.send("GET", "/people(PartitionKey='a')"+next+"&$select=RowKey", nil,
			""); r.body != `{"value":[{"RowKey":"2"}]}` {
			t.Errorf("second page %s", r.body)
		}
	})
	t.Run("errors", func(t *testing.T) {
		r := f.send("GET", "/people()?$filter=N%20eq", nil, "").want(t, "400 InvalidInput")
		if !strings.Contains(r.body, "at position 4") {
			t.Errorf("no position in %s", r.body)
		}
		_, err := f.sdk.NewClient("nothere").GetEntity(ctx, "a", "0", nil)
		check.Code(t, err, "404 ResourceNotFound")
		_, err = f.sdk.NewClient("nothere").NewListEntitiesPager(nil).NextPage(ctx)
		check.Code(t, err, "404 TableNotFound")
		_, err = client.GetEntity(ctx, "a", "9", nil)
		check.Code(t, err, "404 ResourceNotFound")
	})
}

// TestExplain: the cost classes of the design guide are real.
func TestExplain(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	for i := range 300 {
		add(t, client, fmt.Sprintf("p%d", i/100), fmt.Sprintf("%03d", i%100), "N", i)
	}
	for _, tc := range []struct{ filter, plan, scanned, returned string }{
		{"PartitionKey eq 'p1' and RowKey eq '050'", "PointQuery; ranges=1; residual=no", "1", "1"},
		{"PartitionKey eq 'p1' and RowKey eq '999'", "PointQuery; ranges=1; residual=no", "0", "0"},
		{"PartitionKey eq 'p1' and RowKey ge '010' and RowKey lt '020'", "RangeQuery; ranges=1; residual=no", "10", "10"},
		{"PartitionKey eq 'p1' and N eq 150", "PartitionScan; ranges=1; residual=yes", "100", "1"},
		{"PartitionKey ge 'p1' and N eq 150", "PartitionRangeScan; ranges=1; residual=yes", "200", "1"},
		{"N eq 150", "TableScan; ranges=1; residual=yes", "300", "1"},
		{"PartitionKey eq 'p1' and PartitionKey eq 'p2'", "Nothing; ranges=0; residual=no", "0", "0"},
	} {
		r := f.send("GET", "/people()?$filter="+url.QueryEscape(tc.filter), headers{headerExplain, "true"}, "").want(t, "200")
		if r.header.Get(headerPlan) != tc.plan || r.header.Get(headerScanned) != tc.scanned ||
			r.header.Get(headerReturned) != tc.returned {
			t.Errorf("%s: %s, scanned %s, returned %s; want %s, %s, %s", tc.filter, r.header.Get(headerPlan),
				r.header.Get(headerScanned),
				r.header.Get(headerReturned), tc.plan, tc.scanned, tc.returned)
		}
	}
	r := f.send("GET", "/people(PartitionKey='p1',RowKey='001')", headers{headerExplain, "1"}, "").want(t, "200")
	if r.header.Get(headerPlan) != "PointQuery; ranges=1; residual=no" ||
		r.header.Get(headerRanges) != `["PartitionKey eq 'p1' and RowKey eq '001'"]` {
		t.Errorf("point read: %s, %s", r.header.Get(headerPlan), r.header.Get(headerRanges))
	}
	r = f.send("GET", "/people()?$filter="+url.QueryEscape("PartitionKey eq 'ü\"' or PartitionKey lt 'p2'"),
		headers{headerExplain, "1"}, "").want(t, "200")
	if want := `["PartitionKey lt 'p2'","PartitionKey eq '\u00fc\"'"]`; r.header.Get(headerRanges) != want {
		t.Errorf("ranges %s, want %s", r.header.Get(headerRanges), want)
	}
	long := strings.Repeat(" or PartitionKey eq '"+strings.Repeat("k", 400)+"'", 20)
	for i := range 20 {
		long = strings.Replace(long, "kk'", fmt.Sprintf("%02d'", i), 1)
	}
	r = f.send("GET", "/people()?$filter="+url.QueryEscape("PartitionKey eq 'a'"+long), headers{headerExplain, "1"},
		"").want(t, "200")
	var ranges []string
	if err := json.Unmarshal([]byte(r.header.Get(headerRanges)), &ranges); err != nil || len(ranges) == 0 ||
		len(ranges) >= 21 || !strings.Contains(r.header.Get(headerPlan), "ranges=21") {
		t.Errorf("many ranges: %v, %d of them, %s", err, len(ranges), r.header.Get(headerPlan))
	}
	if r = f.send("GET", "/people()?$top=1", nil, ""); r.header.Get(headerPlan) != "" {
		t.Error("explained without being asked")
	}
}

// A query whose work ends answers a page with a continuation, also if it has found nothing, and pages come to an end.
func TestWorkEndsPages(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *tablehost.Config) { c.Options.Work = time.Nanosecond })
	client := f.table("people")
	fill(t, client, "p", 1200, "x")
	for _, tc := range []struct {
		text string
		rows int
	}{{"x", 1200}, {"y", 0}} {
		got, pages := rows(t, client, &aztables.ListEntitiesOptions{Filter: to.Ptr("Text eq '" + tc.text + "'" +
			strings.Repeat(" and Text ne 'z'", 100))})
		if len(got) != tc.rows || pages < 10 || pages > 1000 {
			t.Errorf("%s: %d entities in %d pages", tc.text, len(got), pages)
		}
	}
	for i := range 200 {
		if _, err := f.sdk.CreateTable(t.Context(), fmt.Sprintf("table%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	names, pages := tableNames(t, f,
		&aztables.ListTablesOptions{Filter: to.Ptr("TableName ge 't'" + strings.Repeat(" and TableName ne 'z'", 100))})
	if len(names) != 200 || pages < 2 {
		t.Errorf("%d tables in %d pages", len(names), pages)
	}
}

// TestPageLimits: 1000 entities, 4 MiB.
func TestPageLimits(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	fill(t, client, "p", 1200, "x")
	got, pages := rows(t, client, nil)
	if len(got) != 1200 || pages != 2 {
		t.Errorf("%d entities in %d pages", len(got), pages)
	}
	got, pages = rows(t, client, &aztables.ListEntitiesOptions{Filter: to.Ptr("Text eq 'y'")})
	if len(got) != 0 || pages != 1 {
		t.Errorf("%d entities in %d pages", len(got), pages)
	}
	f.send("GET", "/people()?timeout=x", nil, "").want(t, "400 InvalidQueryParameterValue")
	if got, _ = rows(t, client, &aztables.ListEntitiesOptions{Filter: to.Ptr("Text eq 'x'")}); len(got) != 1200 {
		t.Errorf("%d entities", len(got))
	}
	large := f.table("large")
	fill(t, large, "p", 200, strings.Repeat("x", 30_000))
	got, pages = rows(t, large, nil)
	if len(got) != 200 || pages != 2 {
		t.Errorf("%d entities in %d pages", len(got), pages)
	}
	if r := f.send("GET", "/large()", nil, ""); len(r.body) > 4<<20+64 {
		t.Errorf("a page of %d bytes", len(r.body))
	}
}

// fill adds n entities with rows 00000, 00001, ... by transactions.
func fill(t testing.TB, c *aztables.Client, partition string, n int, text string) {
	t.Helper()
	for i := 0; i < n; {
		var actions []aztables.TransactionAction
		for ; i < n && len(actions) < 100; i++ {
			actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd,
				Entity: entityJSON(partition, fmt.Sprintf("%05d", i), "Text", text)})
		}
		_, err := c.SubmitTransaction(ctx, actions, nil)
		check.OK(t, err)
	}
}

// TestPagesStitchTogether: random entities and filters, in pages of random size with changes between them, give what a
// naive evaluation of everything gives.
func TestPagesStitchTogether(t *testing.T) {
	t.Parallel()
	f := start(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		client := f.table(fmt.Sprintf("table%d", n))
		defer f.sdk.DeleteTable(ctx, fmt.Sprintf("table%d", n), nil)
		key := rapid.SampledFrom([]string{"", "a", "aa", "b", "é", "\ue000", "\U00010000"})
		type row struct {
			p, r string
			n    int
		}
		var all []row
		for range rapid.IntRange(0, 12).Draw(rt, "entities") {
			e := row{key.Draw(rt, "p"), key.Draw(rt, "r"), rapid.IntRange(0, 3).Draw(rt, "n")}
			f.send("PUT", fmt.Sprintf("/table%d(PartitionKey='%s',RowKey='%s')", n, url.PathEscape(e.p), url.PathEscape(e.r)),
				nil,
				fmt.Sprintf(`{"N":%d}`, e.n)).want(t, "204")
			all = append(slices.DeleteFunc(all, func(o row) bool { return o.p == e.p && o.r == e.r }), e)
		}
		slices.SortFunc(all, func(x, y row) int { return cmp.Or(utf16Order(x.p, y.p), utf16Order(x.r, y.r)) })
		p, r, v := key.Draw(rt, "fp"), key.Draw(rt, "fr"), rapid.IntRange(0, 3).Draw(rt, "fn")
		filters := []struct {
			text string
			keep func(row) bool
		}{
			{"", func(row) bool { return true }},
			{fmt.Sprintf("N ge %d", v), func(e row) bool { return e.n >= v }},
			{fmt.Sprintf("PartitionKey eq '%s'", p), func(e row) bool { return e.p == p }},
			{fmt.Sprintf("PartitionKey gt '%s' or RowKey eq '%s'", p, r),
				func(e row) bool { return utf16Order(e.p, p) > 0 || e.r == r }},
			{fmt.Sprintf("PartitionKey eq '%s' and (RowKey lt '%s' or N ne %d)", p, r, v),
				func(e row) bool { return e.p == p && (utf16Order(e.r, r) < 0 || e.n != v) }},
			{fmt.Sprintf("not (PartitionKey eq '%s' or RowKey ge '%s')", p, r),
				func(e row) bool { return e.p != p && utf16Order(e.r, r) < 0 }},
		}
		chosen := filters[rapid.IntRange(0, len(filters)-1).Draw(rt, "filter")]
		var want []string
		for _, e := range all {
			if chosen.keep(e) {
				want = append(want, e.p+"/"+e.r)
			}
		}
		got, _ := rows(t, client, &aztables.ListEntitiesOptions{Filter: &chosen.text,
			Top: to.Ptr(int32(rapid.IntRange(1, 4).Draw(rt, "top")))})
		if !slices.Equal(got, want) {
			rt.Fatalf("%s: got %q, want %q", chosen.text, got, want)
		}
	})
}

// TestTokensSurviveChanges: a token holds a key, so that deletes, inserts and a restart between pages lose nothing
// that was there all the time.
func TestTokensSurviveChanges(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	fill(t, client, "p", 10, "x")
	r := f.send("GET", "/people()?$top=4&$select=RowKey", nil, "").want(t, "200")
	next := "&NextPartitionKey=" + r.header.Get("x-ms-continuation-NextPartitionKey") + "&NextRowKey=" +
		r.header.Get("x-ms-continuation-NextRowKey")
	for _, row := range []string{"00003", "00004", "00005"} {
		_, err := client.DeleteEntity(ctx, "p", row, nil)
		check.OK(t, err)
	}
	add(t, client, "p", "000045")
	add(t, client, "p", "00000x")
	check.OK(t, f.svc.Close())
	f.open()
	r = f.send("GET", "/people()?$top=4&$select=RowKey"+next, nil, "").want(t, "200")
	if r.body != `{"value":[{"RowKey":"000045"},{"RowKey":"00006"},{"RowKey":"00007"},{"RowKey":"00008"}]}` {
		t.Errorf("second page %s", r.body)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	for text, token := range map[string]string{"contToken": "1!12!Y29udFRva2Vu", "1": "1!4!MQ--", "": "1!0!",
		"???>>>": "1!8!Pz8_Pj4*"} {
		if got := encodeToken(text); got != token {
			t.Errorf("%q is encoded as %s, want %s", text, got, token)
		}
		if got, err := decodeToken(token); err != nil || got != text {
			t.Errorf("%s is decoded as %q, %v, want %q", token, got, err, text)
		}
	}
	for _, none := range []string{"", "abc", "1!x!y", "2!4!MQ--", "1!5!MQ--", "1!4!MQ-x", "1!4!MQ--!", "1!4!_w--"} {
		if got, err := decodeToken(none); err != errToken {
			t.Errorf("%s is decoded as %q, %v", none, got, err)
		}
	}
	f := start(t)
	f.table("people")
	for _, token := range []string{"NextPartitionKey=x", "NextPartitionKey=1!4!MQ--&NextRowKey=x", "NextRowKey=1!4!MQ--",
		"NextPartitionKey=1!4!L2E-"} {
		f.send("GET", "/people()?"+token, nil, "").want(t, "400 InvalidInput")
	}
	f.send("GET", "/Tables?NextTableName=people", nil, "").want(t, "400 InvalidInput")
	f.send("GET", "/people()?NextPartitionKey=&NextRowKey=", nil, "").want(t, "200")
}

// $filter of one entity: an entity that it does not match is not found.
func TestFilterOfOneEntity(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.table("One")
	f.send("POST", "/One", nil, `{"PartitionKey":"p","RowKey":"r","N":1}`)
	for filter, want := range map[string]int{"": 200, "?$filter=N%20eq%201": 200, "?$filter=N%20eq%202": 404,
		"?$filter=N%20is%201": 400} {
		if r := f.send("GET", "/One(PartitionKey='p',RowKey='r')"+filter, nil, ""); r.status != want {
			t.Errorf("%s: %d %s, want %d", filter, r.status, r.body, want)
		}
	}
}
