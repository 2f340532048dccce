package tablesvc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestCreateTable(t *testing.T) {
	t.Parallel()
	f := start(t)
	r, err := f.sdk.CreateTable(ctx, "People", nil)
	check.OK(t, err)
	if *r.TableName != "People" {
		t.Errorf("name %q", *r.TableName)
	}
	_, err = f.sdk.CreateTable(ctx, "People", nil)
	check.Code(t, err, "409 TableAlreadyExists")
	_, err = f.sdk.CreateTable(ctx, "pEOPLE", nil)
	check.Code(t, err, "409 TableAlreadyExists")

	for _, tc := range []struct{ name, body, want string }{
		{"too short", `{"TableName":"ab"}`, "400 OutOfRangeInput"},
		{"too long", `{"TableName":"` + strings.Repeat("a", 64) + `"}`, "400 OutOfRangeInput"},
		{"digit first", `{"TableName":"1ab"}`, "400 InvalidResourceName"},
		{"dash", `{"TableName":"a-b"}`, "400 InvalidResourceName"},
		{"not ASCII", `{"TableName":"啊齄丂狛狜"}`, "400 InvalidResourceName"},
		{"reserved", `{"TableName":"Tables"}`, "400 InvalidInput"},
		{"no name", `{}`, "400 InvalidInput"},
		{"number", `{"TableName":5}`, "400 InvalidInput"},
		{"no JSON", `TableName`, "400 InvalidInput"},
		{"nothing", ``, "400 InvalidInput"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.send("POST", "/Tables", headers{"Content-Type", "application/json"}, tc.body).want(t, tc.want)
		})
	}

	t.Run("answers", func(t *testing.T) {
		location := f.base + "/Tables('T%d')"
		for i, tc := range []struct{ accept, prefer, status, body string }{
			{"application/json;odata=nometadata", "", "201", `{"TableName":"T%d"}`},
			{"application/json;odata=minimalmetadata", "", "201",
				`{"odata.metadata":"` + f.base + `/$metadata#Tables/@Element","TableName":"T%d"}`},
			{"application/json;odata=fullmetadata", "return-content", "201",
				`{"odata.metadata":"` + f.base + `/$metadata#Tables/@Element",` +
					`"odata.type":"devstoreaccount1.Tables","odata.id":"` + location +
					`","odata.editLink":"Tables('T%[1]d')","TableName":"T%[1]d"}`},
			{"application/json", "return-no-content", "204", ``},
		} {
			n := i + 100
			r := f.send("POST", "/Tables", headers{"Accept", tc.accept, "Prefer", tc.prefer},
				fmt.Sprintf(`{"TableName":"T%d"}`, n)).want(t, tc.status)
			want := tc.body
			if strings.Contains(want, "%") {
				want = fmt.Sprintf(want, n)
			}
			if r.body != want {
				t.Errorf("body %s, want %s", r.body, want)
			}
			if got := r.header.Get("Location"); got != fmt.Sprintf(location, n) {
				t.Errorf("Location %q", got)
			}
			if got := r.header.Get("Preference-Applied"); got != tc.prefer {
				t.Errorf("Preference-Applied %q", got)
			}
			if got := r.header.Get("DataServiceId"); (got != "") != (tc.status == "204") {
				t.Errorf("DataServiceId %q", got)
			}
		}
	})
}

func TestDeleteTable(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("gone")
	for i := range 3 {
		_, err := client.AddEntity(ctx, entityJSON("p", fmt.Sprint(i)), nil)
		check.OK(t, err)
	}
	_, err := f.sdk.DeleteTable(ctx, "GONE", nil)
	check.OK(t, err)
	_, err = client.Delete(ctx, nil)
	check.Code(t, err, "404 ResourceNotFound")
	_, err = client.AddEntity(ctx, entityJSON("p", "0"), nil)
	check.Code(t, err, "404 TableNotFound")
	f.table("gone") // at once, and empty
	page, err := client.NewListEntitiesPager(nil).NextPage(ctx)
	check.OK(t, err)
	if len(page.Entities) != 0 {
		t.Errorf("the new table has %d entities of the old one", len(page.Entities))
	}
}

func tableNames(t *testing.T, f *fixture, o *aztables.ListTablesOptions) (names []string, pages int) {
	t.Helper()
	for p := f.sdk.NewListTablesPager(o); p.More(); pages++ {
		page, err := p.NextPage(ctx)
		check.OK(t, err)
		for _, e := range page.Tables {
			names = append(names, *e.Name)
		}
	}
	return names, pages
}

func TestQueryTables(t *testing.T) {
	t.Parallel()
	f := start(t)
	if names, _ := tableNames(t, f, nil); len(names) != 0 {
		t.Errorf("an empty account has %v", names)
	}
	for _, n := range []string{"delta", "Alpha", "charlie", "BRAVO"} {
		f.table(n)
	}
	if names, _ := tableNames(t, f, nil); !slices.Equal(names, []string{"Alpha", "BRAVO", "charlie", "delta"}) {
		t.Errorf("got %v", names)
	}
	names, pages := tableNames(t, f, &aztables.ListTablesOptions{Top: to.Ptr(int32(3))})
	if !slices.Equal(names, []string{"Alpha", "BRAVO", "charlie", "delta"}) || pages != 2 {
		t.Errorf("got %v in %d pages", names, pages)
	}
	if names, _ = tableNames(t, f,
		&aztables.ListTablesOptions{Filter: to.Ptr("TableName ge 'b' and TableName lt 'd'")}); !slices.Equal(names,
		[]string{"charlie"}) {
		t.Errorf("filter found %v", names)
	}
	r := f.send("GET", "/Tables?$top=1", nil, "").want(t, "200")
	token := r.header.Get("x-ms-continuation-NextTableName")
	if text, err := decodeToken(token); err != nil || !strings.HasPrefix(token, "1!") ||
		!strings.HasPrefix(text, "bravo\x01") || len(text) != len("bravo\x01")+16 {
		t.Errorf("token %q holds %q", token, text)
	}
	f.sdk.DeleteTable(ctx, "bravo", nil) // a token stays good when its table goes
	if r = f.send("GET", "/Tables?NextTableName="+token, nil,
		""); r.body != `{"value":[{"TableName":"charlie"},{"TableName":"delta"}]}` {
		t.Errorf("after the token: %s", r.body)
	}
	if r = f.send("GET", "/Tables?$top=0", nil, "").want(t, "200"); r.body != `{"value":[]}` {
		t.Errorf("$top=0: %s", r.body)
	}
	for _, option := range []string{"$orderby=TableName", "$skip=1", "$inlinecount=allpages", "$select=Name"} {
		f.send("GET", "/Tables?"+option, nil, "").want(t, "501 NotImplemented")
		f.send("GET", "/Tables('Alpha')?"+option, nil, "").want(t, "501 NotImplemented")
	}
	for _, text := range []string{"", "TableName"} { // the context address has the text, also an empty one
		r := f.send("GET", "/Tables?$select="+text, headers{"Accept", "application/json;odata=minimalmetadata"}, "").want(t, "200")
		if !strings.Contains(r.body, "/$metadata#Tables&$select="+text+`",`) {
			t.Error(r.body)
		}
	}
	f.send("GET", "/Tables?$top=-1", nil, "").want(t, "400 InvalidInput")
	f.send("GET", "/Tables?$filter=TableName%20eq", nil, "").want(t, "400 InvalidInput")
	r = f.send("GET", "/Tables('ALPHA')", headers{"Accept", "application/json;odata=fullmetadata"}, "").want(t, "200")
	var one map[string]string
	if json.Unmarshal([]byte(r.body), &one); one["TableName"] != "Alpha" || one["odata.id"] != f.base+"/Tables('Alpha')" {
		t.Errorf("got %s", r.body)
	}
	f.send("GET", "/Tables('nothere')", nil, "").want(t, "404 ResourceNotFound")
}
