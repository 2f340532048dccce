package tablesvc

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func TestSetTableServiceProperties(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *tablehost.Config) { c.Features = properties.Features{Logging: true} })
	_, err := f.sdk.SetProperties(ctx, aztables.ServiceProperties{
		Logging: &aztables.Logging{Version: to.Ptr("1.0"), Read: to.Ptr(true), Write: to.Ptr(true), Delete: to.Ptr(true),
			RetentionPolicy: &aztables.RetentionPolicy{Enabled: to.Ptr(true), Days: to.Ptr(int32(5))}},
		Cors: []*aztables.CorsRule{{AllowedOrigins: to.Ptr("http://a.example"), AllowedMethods: to.Ptr("GET,PUT"),
			AllowedHeaders: to.Ptr("x-ms-*"),
			ExposedHeaders: to.Ptr("ETag"), MaxAgeInSeconds: to.Ptr(int32(60))}},
	}, nil)
	check.OK(t, err)
	checkFields := func() {
		t.Helper()
		p := f.svc.properties.Of("devstoreaccount1")
		if !p.Logging.Read || p.Logging.Retention.Days != 5 || len(p.CORS) != 1 || p.CORS[0].MaxAgeInSeconds != 60 {
			t.Errorf("properties are %+v", p)
		}
	}
	checkFields()
	f.send("PUT", "/?restype=service&comp=properties", nil,
		"<StorageServiceProperties><Cors></StorageServiceProperties>").want(t, "400 InvalidXmlDocument")
	f.send("PUT", "/?restype=service&comp=properties", nil,
		`<StorageServiceProperties><HourMetrics><Version>1.0</Version><Enabled>true</Enabled>`+
			`<IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics></StorageServiceProperties>`).want(t, "501 NotImplemented")
	f.send("PUT", "/?restype=service&comp=properties", nil,
		"<StorageServiceProperties></StorageServiceProperties>").want(t, "202")
	checkFields()
	check.OK(t, f.svc.Close())
	f.open()
	checkFields() // also after a restart
}

func TestGetTableServiceProperties(t *testing.T) {
	t.Parallel()
	f := start(t)
	r := f.send("GET", "/?restype=service&comp=properties", nil, "").want(t, "200")
	for _, part := range []string{"<Logging><Version>1.0</Version><Read>false</Read>", "<HourMetrics>", "<MinuteMetrics>",
		"<Cors />"} {
		if !strings.Contains(r.body, part) {
			t.Errorf("%s lacks %s", r.body, part)
		}
	}
	if r = f.send("GET", "/?restype=service&comp=properties", headers{"x-ms-version", "2012-02-12"},
		""); !strings.Contains(r.body, "<Metrics>") {
		t.Errorf("the old form is %s", r.body)
	}
	if _, err := f.sdk.GetProperties(ctx, nil); err != nil {
		t.Error(err)
	}
}

func TestGetTableServiceStats(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	f := start(t, func(c *tablehost.Config) { c.Now = func() time.Time { return now } })
	f.send("GET", "/?restype=service&comp=stats", nil, "").want(t, "400 InvalidQueryParameterValue")
	r := f.send("GET", "-secondary/?restype=service&comp=stats", nil, "").want(t, "200")
	if !strings.Contains(r.body, "<Status>live</Status><LastSyncTime>"+now.UTC().Format(http.TimeFormat)) {
		t.Errorf("got %s", r.body)
	}
	f.send("POST", "-secondary/Tables", nil, `{"TableName":"abc"}`).want(t, "403 InsufficientAccountPermissions")
}

func TestPreflightTableRequest(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.table("people")
	ask := headers{"Origin", "http://a.example", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers",
		"x-ms-version"}
	f.send("OPTIONS", "/people", ask, "").want(t, "403 CorsPreflightFailure")
	f.send("PUT", "/?restype=service&comp=properties", nil,
		`<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://a.example</AllowedOrigins>`+
			`<AllowedMethods>GET</AllowedMethods><AllowedHeaders>x-ms-*</AllowedHeaders><ExposedHeaders>ETag</ExposedHeaders><MaxAgeInSeconds>60</MaxAgeInSeconds>`+
			`</CorsRule></Cors></StorageServiceProperties>`).want(t, "202")
	r := f.send("OPTIONS", "/people", ask, "").want(t, "200")
	if r.header.Get("Access-Control-Allow-Origin") != "http://a.example" ||
		r.header.Get("Access-Control-Max-Age") != "60" {
		t.Errorf("headers %v", r.header)
	}
	f.send("OPTIONS", "/people", headers{"Origin", "http://b.example", "Access-Control-Request-Method", "GET"}, "").want(t,
		"403 CorsPreflightFailure")
	f.send("OPTIONS", "/people", headers{"Access-Control-Request-Method", "GET"}, "").want(t, "400 InvalidHeaderValue")
	r = f.send("GET", "/people()", headers{"Origin", "http://a.example"}, "").want(t, "200")
	if r.header.Get("Access-Control-Allow-Origin") != "http://a.example" ||
		r.header.Get("Access-Control-Expose-Headers") != "ETag" {
		t.Errorf("headers %v", r.header)
	}
}

// TestFormats: which payload formats which versions know.
func TestFormats(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.table("people")
	f.send("POST", "/people", nil, string(entityJSON("p", "r", "A", 1))).want(t, "201")
	for _, tc := range []struct{ name, version, accept, query, want, contentType string }{
		{"nothing asked", "2019-02-02", "", "", "200", "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"},
		{"anything", "2019-02-02", "*/*", "", "200", "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"},
		{"plain JSON", "2019-02-02", "application/json", "", "200",
			"application/json;odata=minimalmetadata;streaming=true;charset=utf-8"},
		{"no metadata", "2019-02-02", "application/json; odata=nometadata", "", "200",
			"application/json;odata=nometadata;streaming=true;charset=utf-8"},
		{"words in any case", "2019-02-02", "Application/JSON;OData=NoMetadata", "", "200",
			"application/json;odata=nometadata;streaming=true;charset=utf-8"},
		{"full metadata", "2013-08-15", "application/json;odata=fullmetadata", "", "200",
			"application/json;odata=fullmetadata;streaming=true;charset=utf-8"},
		{"list", "2019-02-02", "text/html, application/json;odata=nometadata;q=0.9, */*", "", "200",
			"application/json;odata=nometadata;streaming=true;charset=utf-8"},
		{"$format wins", "2019-02-02", "application/json;odata=nometadata", "?$format=application/json;odata=fullmetadata",
			"200", "application/json;odata=fullmetadata;streaming=true;charset=utf-8"},
		{"Atom, old", "2013-08-15", "application/atom+xml", "", "200", "application/atom+xml;type=feed;charset=utf-8"},
		{"Atom by default, old", "2011-08-18", "", "", "200", "application/atom+xml;type=feed;charset=utf-8"},
		{"Atom, new", "2015-12-11", "application/atom+xml", "", "415 AtomFormatNotSupported",
			"application/json;odata=minimalmetadata;streaming=true;charset=utf-8"},
		{"JSON, old", "2012-02-12", "application/json", "", "415 JsonFormatNotSupported", "application/xml;charset=utf-8"},
		{"verbose", "2019-02-02", "application/json;odata=verbose", "", "415 JsonVerboseFormatNotSupported",
			"application/json;odata=minimalmetadata;streaming=true;charset=utf-8"},
		{"unknown", "2019-02-02", "image/png", "", "415 MediaTypeNotSupported",
			"application/json;odata=minimalmetadata;streaming=true;charset=utf-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := headers{"x-ms-version", tc.version, "Accept", tc.accept}
			r := f.send("GET", "/people()"+tc.query, h, "").want(t, tc.want)
			if got := r.header.Get("Content-Type"); got != tc.contentType {
				t.Errorf("Content-Type %q, want %q", got, tc.contentType)
			}
			if r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Cache-Control") != "no-cache" {
				t.Errorf("headers %v", r.header)
			}
		})
	}
	for _, contentType := range []string{"text/plain", "application/json; charset=iso-8859-1",
		"application/json;odata=nometadata;charset=utf-16"} {
		f.send("POST", "/people", headers{"Content-Type", contentType}, "{}").want(t, "415 MediaTypeNotSupported")
	}
	f.send("POST", "/people", headers{"Content-Type", `application/json; charset="UTF-8"`},
		`{"PartitionKey":"p","RowKey":"charset"}`).want(t, "201")
	f.send("POST", "/people", headers{"Content-Type", "application/atom+xml"}, "<entry/>").want(t,
		"415 AtomFormatNotSupported")
}

// TestAtom: an entity and a table by Atom alone, as versions before JSON had it.
func TestAtom(t *testing.T) {
	t.Parallel()
	f := start(t)
	h := headers{"x-ms-version", "2011-08-18", "Accept", "application/atom+xml,application/xml", "Content-Type",
		"application/atom+xml"}
	entry := func(properties string) string {
		return `<?xml version="1.0" encoding="utf-8" standalone="yes"?><entry xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" ` +
			`xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata" xmlns="http://www.w3.org/2005/Atom"><title /><id />` +
			`<content type="application/xml"><m:properties>` + properties + `</m:properties></content></entry>`
	}
	r := f.send("POST", "/Tables", h, entry("<d:TableName>People</d:TableName>")).want(t, "201")
	if !strings.Contains(r.body, "<d:TableName>People</d:TableName>") {
		t.Errorf("got %s", r.body)
	}
	body :=
		`<d:PartitionKey>p</d:PartitionKey><d:RowKey>a&amp;b</d:RowKey><d:Age m:type="Edm.Int32">23</d:Age><d:Name xml:space="preserve"> x</d:Name>` +
			`<d:No m:null="true" /><d:Since m:type="Edm.DateTime">2008-07-10T00:00:00Z</d:Since><d:Big m:type="Edm.Int64">-5</d:Big>`
	f.send("POST", "/People", h, entry(body)).want(t, "201")
	f.send("POST", "/People", h, entry(body)).want(t, "409 EntityAlreadyExists")
	f.send("POST", "/People", h, entry(`<d:PartitionKey>p</d:PartitionKey><d:RowKey><x/></d:RowKey>`)).want(t,
		"400 InvalidInput")
	f.send("POST", "/People", h, `<entry`).want(t, "400 InvalidInput")
	r = f.send("GET", "/People(PartitionKey='p',RowKey='a%26b')", h, "").want(t, "200")
	for _, part := range []string{`<d:RowKey>a&amp;b</d:RowKey>`, `<d:Age m:type="Edm.Int32">23</d:Age>`,
		`<d:Name xml:space="preserve"> x</d:Name>`,
		`<d:Big m:type="Edm.Int64">-5</d:Big>`, `m:etag="W/&quot;datetime'`, `<category term="devstoreaccount1.People"`,
		`RowKey='a%26b')`} {
		if !strings.Contains(r.body, part) {
			t.Errorf("%s lacks %s", r.body, part)
		}
	}
	if strings.Contains(r.body, "d:No") {
		t.Errorf("a null was stored: %s", r.body)
	}
	if r = f.send("GET", "/People()?$filter=Age%20eq%2023&$select=Age,Nothing", h, "").want(t,
		"200"); !strings.Contains(r.body, `<d:Nothing m:null="true" />`) ||
		strings.Count(r.body, "<entry") != 1 {
		t.Errorf("got %s", r.body)
	}
	r = f.send("GET", "/Tables", h, "").want(t, "200")
	if !strings.Contains(r.body, `<title type="text">Tables</title>`) ||
		!strings.Contains(r.body, "<d:TableName>People</d:TableName>") {
		t.Errorf("got %s", r.body)
	}
}

// TestBadRequests: what no operation takes is answered in Azure's words, and nothing breaks.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.table("people")
	for _, tc := range []struct{ name, method, path, want string }{
		{"unknown method", "DELETE", "/people", "405 UnsupportedHttpVerb"},
		{"slash in the path", "GET", "/people/x", "400 InvalidInput"},
		{"open parenthesis", "GET", "/people(", "400 InvalidInput"},
		{"row without partition", "GET", "/people(RowKey='a')", "400 InvalidInput"},
		{"key twice", "GET", "/people(RowKey='a',RowKey='b')", "400 InvalidInput"},
		{"unknown key", "GET", "/people(PartitionKey='a',Key='b')", "400 InvalidInput"},
		{"unquoted key", "GET", "/people(PartitionKey=a,RowKey='b')", "400 InvalidInput"},
		{"open quote", "GET", "/people(PartitionKey='a,RowKey='b')", "400 InvalidInput"},
		{"text behind the keys", "GET", "/people(PartitionKey='a',RowKey='b')x", "400 InvalidInput"},
		{"slash in a key", "GET", "/people(PartitionKey='a%2Fb',RowKey='b')", "400 InvalidInput"},
		{"backslash in a key", "GET", "/people(PartitionKey='a%5Cb',RowKey='b')", "400 OutOfRangeInput"},
		{"control character in a key", "GET", "/people(PartitionKey='a%01',RowKey='b')", "400 OutOfRangeInput"},
		{"not UTF-8", "GET", "/people(PartitionKey='%ff',RowKey='b')", "404 ResourceNotFound"},
		{"no such table", "GET", "/nothere()", "404 TableNotFound"},
		{"strange table", "GET", "/no-such-table()", "404 TableNotFound"},
		{"unknown comp", "GET", "/people?comp=metadata", "400 InvalidQueryParameterValue"},
		{"unknown option", "GET", "/people()?$orderby=Age", "501 NotImplemented"},
		{"table by number", "GET", "/Tables(5)", "400 InvalidInput"},
		{"service without comp", "GET", "/", "405 UnsupportedHttpVerb"},
		{"method override with GET", "GET", "/people(PartitionKey='a',RowKey='b')#merge", "400 XMethodNotUsingPost"},
		{"unknown method override", "POST", "/people(PartitionKey='a',RowKey='b')#nonsense", "400 XMethodIncorrectValue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path, override, _ := strings.Cut(tc.path, "#")
			var h headers
			switch override {
			case "merge":
				h = headers{"X-HTTP-Method", "MERGE"}
			case "nonsense":
				h = headers{"X-HTTP-Method", "FLY"}
			}
			f.send(tc.method, path, h, "").want(t, tc.want)
		})
	}
}
