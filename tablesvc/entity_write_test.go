package tablesvc

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// staleETag is well-formed and that of no entity.
const staleETag = azcore.ETag(`W/"datetime'2012-06-15T22%3A51%3A44.9662825Z'"`)

// read returns an entity's properties without metadata.
func read(t *testing.T, c *aztables.Client, partition, row string) map[string]any {
	t.Helper()
	r, err := c.GetEntity(ctx, partition, row, &aztables.GetEntityOptions{Format: to.Ptr(aztables.MetadataFormatNone)})
	check.OK(t, err)
	var m map[string]any
	check.OK(t, json.Unmarshal(r.Value, &m))
	return m
}

func add(t *testing.T, c *aztables.Client, partition, row string, properties ...any) azcore.ETag {
	t.Helper()
	r, err := c.AddEntity(ctx, entityJSON(partition, row, properties...), nil)
	check.OK(t, err)
	return r.ETag
}

func TestInsertEntity(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	etag := add(t, client, "p", "r", "Age", 5, "Gone", nil, "Timestamp", "0001-01-01T00:00:00Z")
	if m := read(t, client, "p", "r"); m["Age"] != 5.0 || len(m) != 4 {
		t.Errorf("stored %v", m)
	}
	r, err := client.GetEntity(ctx, "p", "r", nil)
	check.OK(t, err)
	if r.ETag != etag {
		t.Errorf("ETag %s, then %s", etag, r.ETag)
	}
	_, err = client.AddEntity(ctx, entityJSON("p", "r"), nil)
	check.Code(t, err, "409 EntityAlreadyExists")
	_, err = f.sdk.NewClient("nothere").AddEntity(ctx, entityJSON("p", "r"), nil)
	check.Code(t, err, "404 TableNotFound")

	for _, tc := range []struct{ name, body, want string }{
		{"no PartitionKey", `{"RowKey":"r"}`, "400 PropertiesNeedValue"},
		{"no RowKey", `{"PartitionKey":"p"}`, "400 PropertiesNeedValue"},
		{"null RowKey", `{"PartitionKey":"p","RowKey":null}`, "400 PropertiesNeedValue"},
		{"number as key", `{"PartitionKey":"p","RowKey":1}`, "400 PrimaryKeyPropertyIsInvalidType"},
		{"slash in key", `{"PartitionKey":"p","RowKey":"a/b"}`, "400 OutOfRangeInput"},
		{"long key", `{"PartitionKey":"p","RowKey":"` + strings.Repeat("k", 513) + `"}`, "400 KeyValueTooLarge"},
		{"property twice", `{"PartitionKey":"p","RowKey":"q","A":1,"A":2}`, "400 DuplicatePropertiesSpecified"},
		{"bad property name", `{"PartitionKey":"p","RowKey":"q","a b":1}`, "400 PropertyNameInvalid"},
		{"long property name", `{"PartitionKey":"p","RowKey":"q","` + strings.Repeat("n", 256) + `":1}`,
			"400 PropertyNameTooLong"},
		{"long text", `{"PartitionKey":"p","RowKey":"q","A":"` + strings.Repeat("x", 32<<10+1) + `"}`,
			"400 PropertyValueTooLarge"},
		{"bad Int64", `{"PartitionKey":"p","RowKey":"q","A@odata.type":"Edm.Int64","A":"x"}`, "400 InvalidInput"},
		{"array", `{"PartitionKey":"p","RowKey":"q","A":[]}`, "400 InvalidInput"},
		{"half an object", `{"PartitionKey":"p"`, "400 InvalidInput"},
		{"over 4 MiB", `{"PartitionKey":"p","RowKey":"q","A":"` + strings.Repeat(" ", 4<<20) + `"}`,
			"413 RequestBodyTooLarge"},
	} {
		t.Run(tc.name, func(t *testing.T) { f.send("POST", "/people", nil, tc.body).want(t, tc.want) })
	}
	if r := f.send("GET", "/people()?$select=RowKey", nil, ""); r.body != `{"value":[{"RowKey":"r"}]}` {
		t.Errorf("refused inserts left %s", r.body)
	}

	t.Run("answers", func(t *testing.T) {
		location := f.base + "/people(PartitionKey='p',RowKey='it''s%20%C3%A9')"
		body := string(entityJSON("p", "it's é"))
		r := f.send("POST", "/people", headers{"Prefer", "return-no-content"}, body).want(t, "204")
		if r.header.Get("Location") != location || r.header.Get("DataServiceId") != location ||
			r.header.Get("Preference-Applied") != "return-no-content" {
			t.Errorf("headers %v", r.header)
		}
		f.send("DELETE", "/people(PartitionKey='p',RowKey='it''s%20%C3%A9')", headers{"If-Match", "*"}, "").want(t, "204")
		r = f.send("POST", "/people", headers{"Prefer", "return-content", "Accept", "application/json;odata=minimalmetadata"},
			body).want(t, "201")
		etag := r.header.Get("ETag")
		quoted, _ := json.Marshal(etag)
		at := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(etag, `W/"datetime'`), `'"`), "%3A", ":")
		want := `{"odata.metadata":"` + f.base + `/$metadata#people/@Element","odata.etag":` + string(quoted) +
			`,"PartitionKey":"p","RowKey":"it's \u00e9","Timestamp":"` + at + `"}`
		if r.body != want || r.header.Get("Location") != location || r.header.Get("Preference-Applied") != "return-content" {
			t.Errorf("got  %s\nwant %s\n%v", r.body, want, r.header)
		}
		if r = f.send("POST", "/people", headers{"Prefer", "return-no-content"}, body).want(t,
			"409 EntityAlreadyExists"); r.header.Get("Preference-Applied") == "" {
			t.Errorf("headers %v", r.header)
		}
		// Before the header was defined it meant nothing.
		const atom = `<entry xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" xmlns="http://www.w3.org/2005/Atom" ` +
			`xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"><content type="application/xml"><m:properties>` +
			`<d:PartitionKey>p</d:PartitionKey><d:RowKey>old</d:RowKey></m:properties></content></entry>`
		for version, status := range map[string]string{"2009-09-19": "201", "2011-08-18": "204"} {
			r = f.send("POST", "/people", headers{"Prefer", "return-no-content", "x-ms-version", version, "Accept", "",
				"Content-Type", "application/atom+xml"},
				strings.Replace(atom, "old", version, 1)).want(t, status)
			if applied := r.header.Get("Preference-Applied"); (applied != "") != (status == "204") {
				t.Errorf("version %s: Preference-Applied %q", version, applied)
			}
		}
	})
}

func TestUpdateEntity(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	put := func(etag azcore.ETag, properties ...any) (aztables.UpdateEntityResponse, error) {
		return client.UpdateEntity(ctx, entityJSON("p", "r", properties...),
			&aztables.UpdateEntityOptions{IfMatch: &etag, UpdateMode: aztables.UpdateModeReplace})
	}
	_, err := put(azcore.ETagAny, "B", 1)
	check.Code(t, err, "404 ResourceNotFound")
	first := add(t, client, "p", "r", "A", 1)
	_, err = put(staleETag, "B", 1)
	check.Code(t, err, "412 UpdateConditionNotSatisfied")
	r, err := put(first, "B", 2)
	check.OK(t, err)
	if r.ETag == first || r.ETag == "" {
		t.Errorf("ETag stayed %s", r.ETag)
	}
	_, err = put(first, "C", 3)
	check.Code(t, err, "412 UpdateConditionNotSatisfied")
	if m := read(t, client, "p", "r"); m["B"] != 2.0 || m["A"] != nil {
		t.Errorf("replaced with %v", m)
	}
	_, err = put(azcore.ETagAny, "D", 4)
	check.OK(t, err)
	path := "/people(PartitionKey='p',RowKey='r')"
	f.send("POST", path, headers{"X-HTTP-Method", "PUT", "If-Match", "*"}, `{"E":5}`).want(t, "204")
	if m := read(t, client, "p", "r"); m["E"] != 5.0 || m["D"] != nil {
		t.Errorf("replaced with %v", m)
	}
	f.send("PUT", path, headers{"If-Match", "*", "If-None-Match", "*"}, `{"E":5}`).want(t, "400 InvalidInput")
	f.send("PUT", path, headers{"If-Match", "nonsense"}, `{"E":5}`).want(t, "400 InvalidInput")
	f.send("PUT", path, headers{"If-Match", `W/"0x8D"`}, `{"E":5}`).want(t, "412 UpdateConditionNotSatisfied")
	f.send("PUT", path, headers{"If-Match", "*"}, `{"PartitionKey":"other","RowKey":"x","F":6}`).want(t, "204")
	if m := read(t, client, "p", "r"); m["F"] != 6.0 || m["PartitionKey"] != "p" {
		t.Errorf("the body's keys came through: %v", m)
	}
	f.send("PUT", "/people(PartitionKey='a%23',RowKey='r')", headers{"If-Match", "*"}, `{}`).want(t, "400 OutOfRangeInput")
}

func TestMergeEntity(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	patch := func(etag azcore.ETag, properties ...any) error {
		_, err := client.UpdateEntity(ctx, entityJSON("p", "r", properties...),
			&aztables.UpdateEntityOptions{IfMatch: &etag, UpdateMode: aztables.UpdateModeMerge})
		return err
	}
	check.Code(t, patch(azcore.ETagAny, "B", 1), "404 ResourceNotFound")
	first := add(t, client, "p", "r", "A", 1, "B", "x")
	check.Code(t, patch(staleETag, "B", 1), "412 UpdateConditionNotSatisfied")
	check.OK(t, patch(first, "B", 2, "C", 3, "A", nil))
	if m := read(t, client, "p", "r"); m["A"] != 1.0 || m["B"] != 2.0 || m["C"] != 3.0 {
		t.Errorf("merged to %v", m)
	}
	path := "/people(PartitionKey='p',RowKey='r')"
	f.send("MERGE", path, headers{"If-Match", "*"}, `{"D":4}`).want(t, "204")
	f.send("POST", path, headers{"X-HTTP-Method", "MERGE", "If-Match", "*"}, `{"E":5}`).want(t, "204")
	if m := read(t, client, "p", "r"); m["A"] != 1.0 || m["D"] != 4.0 || m["E"] != 5.0 {
		t.Errorf("merged to %v", m)
	}
	var big strings.Builder // what fits alone may not fit together
	for i := range 15 {
		big.WriteString(`"p` + string(rune('a'+i)) + `":"` + strings.Repeat("x", 32<<10) + `",`)
	}
	f.send("MERGE", path, headers{"If-Match", "*"}, `{`+strings.TrimSuffix(big.String(), ",")+`}`).want(t, "204")
	f.send("MERGE", path, headers{"If-Match", "*"}, `{"q":"`+strings.Repeat("x", 32<<10)+`"}`).want(t,
		"400 EntityTooLarge")
}

func TestInsertOrReplaceEntity(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	put := func(properties ...any) (aztables.UpsertEntityResponse, error) {
		return client.UpsertEntity(ctx, entityJSON("p", "r", properties...),
			&aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace})
	}
	first, err := put("A", 1)
	check.OK(t, err)
	second, err := put("B", 2)
	check.OK(t, err)
	if first.ETag == second.ETag {
		t.Errorf("ETag stayed %s", first.ETag)
	}
	if m := read(t, client, "p", "r"); m["B"] != 2.0 || m["A"] != nil {
		t.Errorf("replaced with %v", m)
	}
	path := "/people(PartitionKey='p',RowKey='r')"
	f.send("PUT", path, headers{"x-ms-version", "2009-09-19", "Accept", "", "Content-Type", "application/atom+xml"},
		"<x/>").want(t, "400 MissingRequiredHeader")
	f.send("POST", path, headers{"X-HTTP-Method", "PUT"}, `{"C":1}`).want(t, "204")
	f.send("PUT", "/nothere(PartitionKey='p',RowKey='r')", nil, `{}`).want(t, "404 TableNotFound")
}

func TestInsertOrMergeEntity(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	patch := func(properties ...any) {
		t.Helper()
		_, err := client.UpsertEntity(ctx, entityJSON("p", "r", properties...),
			&aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeMerge})
		check.OK(t, err)
	}
	patch("A", 1)
	patch("B", 2)
	path := "/people(PartitionKey='p',RowKey='r')"
	f.send("MERGE", path, nil, `{"C":3}`).want(t, "204")
	f.send("POST", path, headers{"X-HTTP-Method", "PATCH"}, `{"D":4}`).want(t, "204")
	if m := read(t, client, "p", "r"); m["A"] != 1.0 || m["B"] != 2.0 || m["C"] != 3.0 || m["D"] != 4.0 {
		t.Errorf("merged to %v", m)
	}
}

func TestDeleteEntity(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	_, err := client.DeleteEntity(ctx, "p", "r", nil)
	check.Code(t, err, "404 ResourceNotFound")
	etag := add(t, client, "p", "r")
	_, err = client.DeleteEntity(ctx, "p", "r", &aztables.DeleteEntityOptions{IfMatch: to.Ptr(staleETag)})
	check.Code(t, err, "412 UpdateConditionNotSatisfied")
	_, err = client.DeleteEntity(ctx, "p", "r", &aztables.DeleteEntityOptions{IfMatch: &etag})
	check.OK(t, err)
	_, err = client.GetEntity(ctx, "p", "r", nil)
	check.Code(t, err, "404 ResourceNotFound")
	add(t, client, "p", "r")
	path := "/people(PartitionKey='p',RowKey='r')"
	f.send("DELETE", path, nil, "").want(t, "400 MissingRequiredHeader")
	f.send("POST", path, headers{"X-HTTP-Method", "DELETE", "If-Match", "*"}, "").want(t, "204")
}

// TestTimestampAdvances: with a clock that stands still and one that goes back.
func TestTimestampAdvances(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f := start(t, func(c *tablehost.Config) { c.Now = func() time.Time { now = now.Add(-time.Second); return now } })
	client := f.table("people")
	last := add(t, client, "p", "r")
	for range 20 {
		r, err := client.UpsertEntity(ctx, entityJSON("p", "r"), nil)
		check.OK(t, err)
		before, _ := parseIfMatch(string(last))
		after, err := parseIfMatch(string(r.ETag))
		check.OK(t, err)
		if after.ETag <= before.ETag {
			t.Fatalf("ETag %s came after %s", r.ETag, last)
		}
		last = r.ETag
	}
}

// TestETagsOfSuccessors: an entity that is deleted and inserted again within one tick of the clock has another tag, so
// that a change meant for the first one does not hit the second.
func TestETagsOfSuccessors(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f := start(t, func(c *tablehost.Config) { c.Now = func() time.Time { return now } })
	client := f.table("people")
	first := add(t, client, "p", "r")
	_, err := client.DeleteEntity(ctx, "p", "r", nil)
	check.OK(t, err)
	if second := add(t, client, "p", "r"); second == first {
		t.Errorf("both have the tag %s", first)
	}
}

// TestPropertyOrder: an insert keeps the client's order; after every other change, and where $select chooses,
// properties are sorted as .NET sorts names.
func TestPropertyOrder(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.table("people")
	const sent, sorted = `"b":1,"_":2,"a":3,"B":4`, `"B":4,"_":2,"a":3,"b":1`
	path := "/people(PartitionKey='p',RowKey='r')"
	reset := func() {
		t.Helper()
		f.send("DELETE", path, headers{"If-Match", "*"}, "")
		f.send("POST", "/people", nil, `{"PartitionKey":"p","RowKey":"r",`+sent+`}`).want(t, "201")
	}
	want := func(what, query, members string) {
		t.Helper()
		if r := f.send("GET", path+query, nil, "").want(t, "200"); !strings.HasSuffix(r.body, members+"}") {
			t.Errorf("%s: got %s, want %s", what, r.body, members)
		}
	}
	reset()
	want("insert", "", sent)
	want("$select", "?$select=b,c,_,RowKey,B,PartitionKey", `{"PartitionKey":"p","RowKey":"r","B":4,"_":2,"b":1,"c":null`)
	for _, method := range []string{"PUT", "MERGE"} {
		for _, ifMatch := range []string{"*", ""} {
			reset()
			f.send(method, path, headers{"If-Match", ifMatch}, "{"+sent+"}").want(t, "204")
			want(method+" If-Match: "+ifMatch, "", sorted)
		}
		f.send("DELETE", path, headers{"If-Match", "*"}, "").want(t, "204")
		f.send(method, path, nil, "{"+sent+"}").want(t, "204")
		want(method+" of what was not there", "", sorted)
	}
	reset()
	f.send("MERGE", path, headers{"If-Match", "*"}, "{}").want(t, "204")
	want("empty merge", "", sorted)
}

// What Azure's recorded answers to changes have besides: the preference that was applied, and XML where anything is
// accepted.
func TestAnswersToChanges(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.table("people")
	r := f.send("PUT", "/people(PartitionKey='p',RowKey='r')", headers{"Prefer", "return-no-content"}, `{"A":1}`).want(t,
		"204")
	if got := r.header.Get("Preference-Applied"); got != "return-no-content" {
		t.Errorf("Preference-Applied is %q", got)
	}
	if r = f.send("PUT", "/people(PartitionKey='p',RowKey='r')", nil, `{"A":1}`).want(t,
		"204"); r.header.Get("Preference-Applied") != "" {
		t.Errorf("Preference-Applied is %q without Prefer", r.header.Get("Preference-Applied"))
	}
	r = f.send("DELETE", "/people(PartitionKey='p',RowKey='none')", headers{"Accept", "*/*", "If-Match", "*"}, "").want(t,
		"404 ResourceNotFound")
	const want = `<?xml version="1.0" encoding="utf-8"?><error xmlns="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"><code>ResourceNotFound</code><message xml:lang="en-US">`
	if !strings.HasPrefix(r.body, want) || r.header.Get("Content-Type") != "application/xml;charset=utf-8" {
		t.Errorf("%s: %s", r.header.Get("Content-Type"), r.body)
	}
	r = f.send("DELETE", "/people(PartitionKey='p',RowKey='none')", headers{"If-Match", "*"}, "").want(t,
		"404 ResourceNotFound")
	if !strings.HasPrefix(r.body, "{") {
		t.Errorf("with JSON accepted: %s", r.body)
	}
}
