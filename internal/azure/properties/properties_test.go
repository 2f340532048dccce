package properties

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

const everything = `<?xml version="1.0" encoding="utf-8"?><StorageServiceProperties>` +
	`<Logging><Version>1.0</Version><Delete>True</Delete><Read>true</Read><Write>false</Write><RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></Logging>` +
	`<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics>` +
	`<Cors><CorsRule><AllowedOrigins>a.com, b.com</AllowedOrigins><AllowedMethods>GET,put</AllowedMethods><MaxAgeInSeconds>500</MaxAgeInSeconds>` +
	`<ExposedHeaders>x-ms-meta-data*,x-ms-meta-abc</ExposedHeaders><AllowedHeaders /></CorsRule></Cors>` +
	`<DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days></DeleteRetentionPolicy>` +
	`<StaticWebsite><Enabled>true</Enabled><IndexDocument>index.html</IndexDocument></StaticWebsite>` +
	`<DefaultServiceVersion>2020-10-02</DefaultServiceVersion></StorageServiceProperties>`

var all = Features{true, true, true, true}

func TestUpdateAndRender(t *testing.T) {
	t.Parallel()
	p, err := Properties{MinuteMetrics: Metrics{Enabled: true}}.Update(wire.Blob, []byte(everything), all)
	if err != nil {
		t.Fatal(err)
	}
	if !p.MinuteMetrics.Enabled {
		t.Error("a section that was absent changed")
	}
	want :=
		`<StorageServiceProperties><Logging><Version>1.0</Version><Read>true</Read><Write>false</Write><Delete>true</Delete>` +
			`<RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></Logging>` +
			`<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics>` +
			`<MinuteMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></MinuteMetrics>` +
			`<Cors><CorsRule><AllowedMethods>GET,PUT</AllowedMethods><AllowedOrigins>a.com,b.com</AllowedOrigins><AllowedHeaders />` +
			`<ExposedHeaders>x-ms-meta-abc,x-ms-meta-data*</ExposedHeaders><MaxAgeInSeconds>500</MaxAgeInSeconds></CorsRule></Cors>` +
			`<DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days></DeleteRetentionPolicy>` +
			`<StaticWebsite><Enabled>true</Enabled><IndexDocument>index.html</IndexDocument></StaticWebsite>` +
			`<DefaultServiceVersion>2020-10-02</DefaultServiceVersion></StorageServiceProperties>`
	got := string(p.XML(wire.Blob, 20181109).Bytes())
	if _, got, _ = strings.Cut(got, "?>"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	stored, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back Properties
	if err := json.Unmarshal(stored, &back); err != nil || !reflect.DeepEqual(back, p) {
		t.Errorf("stored as %s, read back as %+v, %v", stored, back, err)
	}
}

func TestUpdateRefuses(t *testing.T) {
	t.Parallel()
	wrap := func(s string) string { return "<StorageServiceProperties>" + s + "</StorageServiceProperties>" }
	rule :=
		"<CorsRule><AllowedOrigins>a</AllowedOrigins><AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>0</MaxAgeInSeconds><ExposedHeaders/><AllowedHeaders/></CorsRule>"
	retention := func(days string) string {
		return wrap("<HourMetrics><Enabled>false</Enabled><RetentionPolicy><Enabled>true</Enabled><Days>" + days +
			"</Days></RetentionPolicy></HourMetrics>")
	}
	for _, tc := range []struct {
		name, body string
		can        Features
		want       error
	}{
		{"empty", "", all, wire.ErrInvalidXMLDocument},
		{"another document", "<Foo/>", all, wire.ErrInvalidXMLDocument},
		{"one day", retention("1"), all, nil},
		{"a year", retention("365"), all, nil},
		{"no days", retention("0"), all, wire.ErrInvalidXMLDocument},
		{"more than a year", retention("366"), all, wire.ErrInvalidXMLDocument},
		{"days that are no number", retention("x"), all, wire.ErrInvalidXMLDocument},
		{"a flag that is none", wrap("<HourMetrics><Enabled>maybe</Enabled></HourMetrics>"), all, wire.ErrInvalidXMLDocument},
		{"unknown section", wrap("<HourMetric><Enabled>true</Enabled></HourMetric>"), all, wire.ErrInvalidXMLDocument},
		{"metrics of old versions where there are none", wrap("<Metrics><Enabled>true</Enabled></Metrics>"), Features{},
			wire.ErrNotImplemented},
		{"five rules", wrap("<Cors>" + strings.Repeat(rule, 5) + "</Cors>"), all, nil},
		{"six rules", wrap("<Cors>" + strings.Repeat(rule, 6) + "</Cors>"), all, wire.ErrInvalidXMLDocument},
		{"unknown method", wrap("<Cors>" + strings.Replace(rule, "GET", "FETCH", 1) + "</Cors>"), all,
			wire.ErrInvalidXMLDocument},
		{"unknown element of a rule", wrap("<Cors>" +
			strings.Replace(rule, "</CorsRule>", "<MaxAge>1</MaxAge></CorsRule>", 1) + "</Cors>"), all,
			wire.ErrInvalidXMLDocument},
		{"unknown element of a retention policy",
			wrap("<HourMetrics><RetentionPolicy><Day>1</Day></RetentionPolicy></HourMetrics>"), all, wire.ErrInvalidXMLDocument},
		{"negative age", wrap("<Cors>" + strings.Replace(rule, ">0<", ">-1<", 1) + "</Cors>"), all,
			wire.ErrInvalidXMLDocument},
		{"no origin", wrap("<Cors>" + strings.Replace(rule, ">a<", "><", 1) + "</Cors>"), all, wire.ErrInvalidXMLDocument},
		{"logging where there is none", wrap("<Logging><Read>true</Read></Logging>"), Features{}, wire.ErrNotImplemented},
		{"no logging where there is none", wrap("<Logging><Read>false</Read></Logging>"), Features{}, nil},
		{"metrics where there are none", wrap("<MinuteMetrics><Enabled>true</Enabled></MinuteMetrics>"), Features{},
			wire.ErrNotImplemented},
		{"soft delete where there is none",
			wrap("<DeleteRetentionPolicy><Enabled>true</Enabled><Days>1</Days></DeleteRetentionPolicy>"), Features{},
			wire.ErrNotImplemented},
		{"website where there is none", wrap("<StaticWebsite><Enabled>true</Enabled></StaticWebsite>"), Features{},
			wire.ErrNotImplemented},
		{"bad version", wrap("<DefaultServiceVersion>x</DefaultServiceVersion>"), all, wire.ErrInvalidXMLDocument},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Properties{}.Update(wire.Blob, []byte(tc.body), tc.can)
			if (err == nil) != (tc.want == nil) || !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
	if p, err := (Properties{}).Update(wire.Table, []byte(wrap("<Metrics><Enabled>true</Enabled></Metrics>")),
		all); err != nil || !p.HourMetrics.Enabled {
		t.Errorf("metrics of old versions: %+v, %v", p, err)
	}
	if _, err := (Properties{}).Update(wire.Queue, []byte(wrap("<StaticWebsite/>")), all); err == nil {
		t.Error("a queue service takes a static website")
	}
}

func request(t *testing.T, method string, headers ...string) *wire.Request {
	t.Helper()
	hr := httptest.NewRequest(method, "/devstoreaccount1/c/b", nil)
	for i := 0; i < len(headers); i += 2 {
		hr.Header.Set(headers[i], headers[i+1])
	}
	r, err := wire.Parse(wire.Blob, hr, httptest.NewRecorder(), time.Now(), wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func answer(r *wire.Request, name string) string {
	if v := r.Out.Header()[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// The cases of the reference's table on evaluating CORS requests, and its limits.
func TestCORS(t *testing.T) {
	t.Parallel()
	rules := []Rule{
		{Origins: []string{"http://a.com"}, Methods: []string{"GET", "PUT"},
			AllowedHeaders: []string{"x-ms-meta-abc", "x-ms-meta-data*"}, ExposedHeaders: []string{"x-ms-*"},
			MaxAgeInSeconds: 200},
		{Origins: []string{"https://*.b.com"}, Methods: []string{"GET"}},
		{Origins: []string{"*"}, Methods: []string{"PUT"}},
	}
	for _, tc := range []struct {
		name, origin, method, headers string
		allow                         string
		want                          error
	}{
		{"match", "http://a.com", "GET", "x-ms-meta-ABC, x-ms-meta-data1", "http://a.com", nil},
		{"header not allowed", "http://a.com", "GET", "x-ms-meta-xyz", "", ErrCORSPreflightFailure},
		{"method not allowed", "http://a.com", "DELETE", "", "", ErrCORSPreflightFailure},
		{"origin not allowed", "http://c.com", "GET", "", "", ErrCORSPreflightFailure},
		{"origin is compared with case", "http://A.com", "GET", "", "", ErrCORSPreflightFailure},
		{"subdomain", "https://x.b.com", "GET", "", "https://x.b.com", nil},
		{"not a subdomain", "https://b.com", "GET", "", "", ErrCORSPreflightFailure},
		{"any origin", "http://c.com", "PUT", "", "*", nil},
		{"a later rule takes over", "http://a.com", "PUT", "", "http://a.com", nil},
		{"no origin", "", "PUT", "", "", wire.ErrInvalidHeaderValue},
		{"no method", "http://a.com", "", "", "", wire.ErrInvalidHeaderValue},
		{"unknown method", "http://a.com", "FETCH", "", "", wire.ErrInvalidHeaderValue},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h []string
			for _, p := range [][2]string{{"Origin", tc.origin}, {"Access-Control-Request-Method", tc.method},
				{"Access-Control-Request-Headers", tc.headers}} {
				if p[1] != "" {
					h = append(h, p[0], p[1])
				}
			}
			r := request(t, "OPTIONS", h...)
			err := preflight(r, rules)
			if (err == nil) != (tc.want == nil) || !errors.Is(err, tc.want) ||
				answer(r, "Access-Control-Allow-Origin") != tc.allow {
				t.Errorf("got %v, origin %q; want %v, %q", err, answer(r, "Access-Control-Allow-Origin"), tc.want, tc.allow)
			}
			credentials := answer(r, "Access-Control-Allow-Credentials") == "true"
			if want := tc.allow != "" && tc.allow != "*"; credentials != want {
				t.Errorf("credentials %v, want %v", credentials, want)
			}
		})
	}
	for _, tc := range []struct{ origin, method, allow, vary, expose string }{
		{"http://a.com", "GET", "http://a.com", "Origin", "x-ms-*"},
		{"http://c.com", "GET", "", "Origin", ""},
		{"http://c.com", "PUT", "*", "", ""},
		{"", "GET", "", "Origin", ""},
		{"", "PUT", "", "", ""},
	} {
		r := request(t, tc.method, "Origin", tc.origin)
		setCORS(r, rules)
		if answer(r, "Access-Control-Allow-Origin") != tc.allow || answer(r, "Vary") != tc.vary ||
			answer(r, "Access-Control-Expose-Headers") != tc.expose {
			t.Errorf("%s from %q: got %v", tc.method, tc.origin, r.Out.Header())
		}
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	id := func(s string) string {
		return "<SignedIdentifier><Id>" + s +
			"</Id><AccessPolicy><Start>2011-10-11</Start><Expiry>2011-10-12T01:02Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier>"
	}
	wrap := func(s string) string { return "<SignedIdentifiers>" + s + "</SignedIdentifiers>" }
	for _, tc := range []struct {
		name, body string
		count      int // -1: refused
	}{
		{"none", "", 0},
		{"empty list", wrap(""), 0},
		{"five", wrap(id("a") + id("b") + id("c") + id("d") + id("e")), 5},
		{"six", wrap(id("a") + id("b") + id("c") + id("d") + id("e") + id("f")), -1},
		{"twice", wrap(id("a") + id("a")), -1},
		{"64 characters", wrap(id(strings.Repeat("ü", 64))), 1},
		{"65 characters", wrap(id(strings.Repeat("ü", 65))), -1},
		{"no id", wrap(id("")), -1},
		{"bare", wrap("<SignedIdentifier><Id>a</Id></SignedIdentifier>"), 1},
		{"unknown permission", wrap(strings.Replace(id("a"), ">r<", ">z<", 1)), -1},
		{"bad time", wrap(strings.Replace(id("a"), "2011-10-11", "yesterday", 1)), -1},
		{"another document", "<Foo/>", -1},
		{"an unknown element in place of an identifier", wrap("<signedIdentifier><Id>a</Id></signedIdentifier>"), -1},
		{"an unknown element of an identifier", wrap("<SignedIdentifier><Id>a</Id><Policy/></SignedIdentifier>"), -1},
		{"an unknown element of a policy", wrap(strings.Replace(id("a"), "Permission>", "Permissions>", 2)), -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list, err := ParsePolicies([]byte(tc.body), "raup")
			if (err != nil) != (tc.count < 0) || err == nil && len(list) != tc.count {
				t.Fatalf("got %v, %v; want %d", list, err, tc.count)
			}
			if err != nil && !errors.Is(err, wire.ErrInvalidXMLDocument) {
				t.Errorf("got %v", err)
			}
		})
	}
	list, err := ParsePolicies([]byte(wrap(id("a")+"<SignedIdentifier><Id>bare</Id><AccessPolicy /></SignedIdentifier>")),
		"raup")
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(string(PoliciesXML(list).Bytes()), "?>")
	want := "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Start>2011-10-11T00:00:00.0000000Z</Start>" +
		"<Expiry>2011-10-12T01:02:00.0000000Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier>" +
		"<SignedIdentifier><Id>bare</Id></SignedIdentifier></SignedIdentifiers>"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if p, ok := FindPolicy(list, "a"); !ok || p.Permissions != "r" {
		t.Errorf("found %v %v", p, ok)
	}
	if _, ok := FindPolicy(list, "b"); ok {
		t.Error("found a policy that is not there")
	}
}

// The places are those of recorded answers.
func TestErrorsNameTheirPlace(t *testing.T) {
	t.Parallel()
	const head = "<?xml version='1.0' encoding='utf-8'?>\n<StorageServiceProperties>"
	in := func(sections string) string { return head + sections + "</StorageServiceProperties>" }
	for _, tc := range []struct{ document, line, position string }{
		{"<?xml version='1.0' encoding='utf-8'?>\n<StorageServiceProperties />", "2", "29"},
		{"<StorageServiceProperties/>\n", "1", "28"},
		{in("<DeleteRetentionPolicy><Enabled>True</Enabled><Days>0</Days></DeleteRetentionPolicy>"), "2", "89"},
		{in("<DeleteRetentionPolicy><Enabled>True</Enabled><Days>366</Days></DeleteRetentionPolicy>"), "2", "91"},
		{in(
			"<MinuteMetrics><Version>1.0</Version><Enabled>True</Enabled><IncludeAPIs>True</IncludeAPIs><RetentionPolicy><Enabled>True</Enabled><Days>366</Days></RetentionPolicy></MinuteMetrics>"), "2", "176"},
		{in("<Cors>" + strings.Repeat(
			"<CorsRule><AllowedOrigins>www.xyz.com</AllowedOrigins><AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>0</MaxAgeInSeconds></CorsRule>", 6) + "</Cors>"), "0", "0"},
	} {
		_, err := Properties{}.Update(wire.Blob, []byte(tc.document), Features{DeleteRetention: true, Metrics: true})
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != "InvalidXmlDocument" || len(e.Details) != 3 {
			t.Fatalf("%s: %v", tc.document, err)
		}
		if line, position := e.Details[0].Value, e.Details[1].Value; line != tc.line || position != tc.position {
			t.Errorf("%s: line %s, position %s; want %s, %s", tc.document, line, position, tc.line, tc.position)
		}
	}
}

func TestEmptyDocument(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"<StorageServiceProperties></StorageServiceProperties>",
		"\ufeff<StorageServiceProperties> </StorageServiceProperties>",
		"<StorageServiceProperties><Cors /></StorageServiceProperties>"} {
		if _, err := (Properties{}).Update(wire.Queue, []byte(body), Features{}); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
}
