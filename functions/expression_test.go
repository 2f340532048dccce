package functions

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

func TestExpressions(t *testing.T) {
	t.Parallel()
	inv := &invocation{function: &function{name: "F"}, began: time.Date(2018, 2, 16, 7, 59, 5, 123456700, time.UTC)}
	inv.data.set("name", "photo")
	inv.data.set("InsertionTime", time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))
	inv.data.set("Properties", map[string]any{"ContentLength": 5})
	inv.data.addPayload(
		`{"orderId": 17, "big": 12345678901234567890, "ok": true, "none": null, "list": [1], "customer": {"name": "Ada", "address": {"city": "Rome"}}, "NAME2": "x"}`)
	for source, want := range map[string]string{
		"out/{name}.png":                           "out/photo.png",
		"{NAME}{name2}":                            "photox",
		"{orderId}-{big}-{ok}":                     "17-12345678901234567890-True",
		"{customer.name}":                          "Ada",
		"{customer.address.city}":                  "Rome",
		"{Properties.ContentLength}":               "5",
		"a{{b}}c":                                  "a{b}c",
		"{DateTime}":                               "2018-02-16T07-59-05Z",
		"{datetime:yyyy}/{DateTime:MM-dd HH'h'mm}": "2018/02-16 07h59",
		"{sys.utcnow:yyMMddhhmmssfff tt}":          "180216075905123 AM",
		"{InsertionTime:yyyy-MM-dd}":               "2020-01-02",
		"{sys.methodname}":                         "F",
		"{datetime:ddd d MMMM}":                    "Fri 16 February",
	} {
		tmpl, err := parseTemplate(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := tmpl.resolve(inv); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", source, got, err, want)
		}
	}
	for _, source := range []string{"{none}", "{list}", "{nobody}", "{customer.age}", "{name.first}", "{rand-guid:X}",
		"{datetime:'x}", "{datetime:ffffffff}"} {
		tmpl, err := parseTemplate(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := tmpl.resolve(inv); err == nil {
			t.Errorf("%s is %q", source, got)
		}
	}
	for _, source := range []string{"{", "a}", "{}", "{a{b}}", "{a b}", "{a"} {
		if _, err := parseTemplate(source); err == nil {
			t.Errorf("%q is taken", source)
		}
	}
	tmpl, _ := parseTemplate("{rand-guid}.{rand-guid:N}")
	got, err := tmpl.resolve(inv)
	if err != nil || !regexp.MustCompile(`^[0-9a-f-]{36}\.[0-9a-f]{32}$`).MatchString(got) {
		t.Errorf("%q, %v", got, err)
	}
}

// What a payload has goes before what the trigger has.
func TestPayloadGoesBeforeMetadata(t *testing.T) {
	t.Parallel()
	var d bindingData
	d.set("Id", "of the message")
	d.addPayload(`{"id": "of the order"}`)
	d.addPayload(`["no", "object"]`)
	d.addPayload(`{broken`)
	if v, _ := d.get("ID"); v != "of the order" || len(d.entries) != 1 {
		t.Errorf("%+v", d)
	}
}

func TestExpandSettings(t *testing.T) {
	t.Parallel()
	s := &settings{values: []string{"A=1", "Path=/bin"}}
	for _, c := range []struct {
		text, want string
		keep, bad  bool
	}{
		{text: "x%A%y%path%", want: "x1y/bin"}, {text: "100%", want: "100%"}, {text: "%B%", bad: true},
		{text: "%B% %A%", keep: true, want: "%B% 1"}, {text: "50% of %A%", keep: true, want: "50% of 1"},
	} {
		got, err := s.expand(c.text, c.keep)
		if (err != nil) != c.bad || got != c.want {
			t.Errorf("%s: %q, %v", c.text, got, err)
		}
	}
}

// The rules are those of the Functions host's own tests: text becomes JSON in text, objects stay objects.
func TestWireValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value any
		want  string
	}{
		{"stringTest", `"\"stringTest\""`},
		{"<a & b>", `"\"<a & b>\""`},
		{4, `"4"`},
		{nil, `"null"`},
		{true, `"true"`},
		{[]byte("hello"), `"aGVsbG8="`},
		{[]json.RawMessage{[]byte(`{"a":1}`)}, `"[{\"a\":1}]"`},
		{struct {
			Name string
			Id   int
		}{"TestName", 1234}, `{"Name":"TestName","Id":1234}`},
		{time.Date(2019, 10, 1, 0, 0, 0, 5, time.FixedZone("", 3600)), `"2019-09-30T23:00:00+00:00"`},
	} {
		got, err := marshal(wireValue(c.value))
		if err != nil || string(got) != c.want {
			t.Errorf("%v: %s, %v, want %s", c.value, got, err, c.want)
		}
	}
	if got := dotNetTime(time.Date(2019, 10, 9, 17, 58, 32, 220539990, time.UTC)); got != "2019-10-09T17:58:32.2205399Z" {
		t.Error(got)
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ route, path, want string }{
		{"orders", "orders", "{}"}, {"orders", "ORDERS", "{}"}, {"orders", "order", "-"}, {"orders", "orders/1", "-"},
		{"/orders/", "orders", "{}"},
		{"orders/{id}", "orders/7", `{"id":"7"}`}, {"orders/{id}", "orders", "-"},
		{"orders/{id:int}", "orders/7", `{"id":"7"}`}, {"orders/{id:int}", "orders/x", "-"},
		{"orders/{id:int}", "orders/99999999999", "-"},
		{"orders/{id:int?}", "orders", `{"id":null}`}, {"orders/{id:int?}", "orders/7", `{"id":"7"}`},
		{"orders/{id:int?}", "orders/x", "-"},
		{"orders/{id=5}", "orders", `{"id":"5"}`}, {"orders/{id:int=5}", "orders", `{"id":"5"}`},
		{"{a}/{b:alpha}", "x/y", `{"a":"x","b":"y"}`}, {"{a}/{b:alpha}", "x/1", "-"},
		{"files/{*rest}", "files/a/b.txt", `{"rest":"a/b.txt"}`}, {"files/{*rest}", "files", `{"rest":null}`},
		{"{*all}", "x/y", `{"all":"x/y"}`},
		{"f/{name}.{ext}", "f/a.b.c", `{"ext":"b.c","name":"a"}`}, {"f/{name}.{ext?}", "f/a", `{"ext":null,"name":"a"}`},
		{"f/{name}.{ext?}", "f/a.b", `{"ext":"b","name":"a"}`},
		{"v{n:int}", "v2", `{"n":"2"}`}, {"v{n:int}", "vx", "-"},
		{"{id:guid}", "6f9619ff-8b86-d011-b42d-00c04fc964ff", `{"id":"6f9619ff-8b86-d011-b42d-00c04fc964ff"}`},
		{"{id:guid}", "7", "-"},
		{"{d:datetime}", "2020-01-02", `{"d":"2020-01-02"}`}, {"{d:datetime}", "soon", "-"},
		{"{b:bool}", "TRUE", `{"b":"TRUE"}`}, {"{b:bool}", "1", "-"}, {"{x:decimal}", "1.5", `{"x":"1.5"}`},
		{"{x:long}", "99999999999", `{"x":"99999999999"}`},
		{"{s:length(3)}", "abc", `{"s":"abc"}`}, {"{s:length(3)}", "ab", "-"}, {"{s:length(1,2)}", "ab", `{"s":"ab"}`},
		{"{s:minlength(3)}", "ab", "-"}, {"{s:maxlength(3)}", "abcd", "-"},
		{"{n:min(3)}", "2", "-"}, {"{n:max(3)}", "4", "-"}, {"{n:range(3,5)}", "4", `{"n":"4"}`},
		{"{n:int:min(3)}", "4", `{"n":"4"}`},
		{`{n:regex(^\d{{3}}$)}`, "123", `{"n":"123"}`}, {`{n:regex(^\d{{3}}$)}`, "12", "-"},
		{`{n:regex(^a:b$)}`, "a:b", `{"n":"a:b"}`},
		{"", "", "{}"},
	} {
		r, err := parseRoute(c.route)
		if err != nil {
			t.Errorf("%s: %v", c.route, err)
			continue
		}
		var path []string
		if c.path != "" {
			path = strings.Split(c.path, "/")
		}
		got := "-"
		if values, ok := r.find(path); ok {
			text, _ := marshal(values)
			got = string(text)
		}
		if got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.route, c.path, got, c.want)
		}
	}
	for _, route := range []string{"{", "a//b", "{a}/{A}", "{*a}/b", "x{*a}", "{1}", "{a:x}", "{a:range(1)}",
		"{a:regex([)}", "a}", "admin/x", "{a:length()}", "{a:int(}"} {
		if _, err := parseRoute(route); err == nil {
			t.Errorf("%q is taken", route)
		}
	}
}

func FuzzRoute(f *testing.F) {
	f.Add("a/{b:int=5}/{c:regex(^[a]{{2}}$)?}", "a/5/aa")
	f.Add("{a}.{b?}", "x.y")
	f.Fuzz(func(t *testing.T, source, path string) {
		defer workbudget.Default.Start(t, len(source)+len(path))()
		if r, err := parseRoute(source); err == nil {
			r.find(strings.Split(path, "/"))
		}
	})
}

func FuzzTemplate(f *testing.F) {
	f.Add("{datetime:yyyy'x'fff\\}{a.b}{{")
	f.Fuzz(func(t *testing.T, source string) {
		defer workbudget.Default.Start(t, len(source))()
		inv := &invocation{function: &function{}}
		inv.data.set("a", map[string]string{"b": "c"})
		if tmpl, err := parseTemplate(source); err == nil {
			_, _ = tmpl.resolve(inv)
		}
	})
}

func TestOrderOfRoutes(t *testing.T) {
	t.Parallel()
	var routes []*route
	for _, s := range []string{"{*rest}", "{a}", "{a:int}", "orders", "orders/{id}", "orders/new"} {
		r, err := parseRoute(s)
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, r)
	}
	for i, a := range routes {
		for k, b := range routes {
			// In this list later ones are more special, but for orders, which is a shorter beginning of the last two.
			want := compareRoutes(a, b) < 0
			if i > k && min(i, k) < 3 && !want {
				t.Errorf("%s does not come before %s", a.source, b.source)
			}
		}
	}
	if compareRoutes(routes[5], routes[4]) >= 0 {
		t.Error("orders/new does not come before orders/{id}")
	}
}
