package route

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

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
		r, err := Parse(c.route)
		if err != nil {
			t.Errorf("%s: %v", c.route, err)
			continue
		}
		var path []string
		if c.path != "" {
			path = strings.Split(c.path, "/")
		}
		got := "-"
		if values, ok := r.Find(path); ok {
			text, _ := json.Marshal(values)
			got = string(text)
		}
		if got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.route, c.path, got, c.want)
		}
	}
	for _, route := range []string{"{", "a//b", "{a}/{A}", "{*a}/b", "x{*a}", "{1}", "{a:x}", "{a:range(1)}",
		"{a:regex([)}", "a}", "admin/x", "{a:length()}", "{a:int(}"} {
		if _, err := Parse(route); err == nil {
			t.Errorf("%q is taken", route)
		}
	}
}

func FuzzRoute(f *testing.F) {
	f.Add("a/{b:int=5}/{c:regex(^[a]{{2}}$)?}", "a/5/aa")
	f.Add("{a}.{b?}", "x.y")
	f.Fuzz(func(t *testing.T, source, path string) {
		defer workbudget.Default.Start(t, len(source)+len(path))()
		if r, err := Parse(source); err == nil {
			r.Find(strings.Split(path, "/"))
		}
	})
}

func TestOrderOfRoutes(t *testing.T) {
	t.Parallel()
	var routes []*Route
	for _, s := range []string{"{*rest}", "{a}", "{a:int}", "orders", "orders/{id}", "orders/new"} {
		r, err := Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, r)
	}
	for i, a := range routes {
		for k, b := range routes {
			// In this list later ones are more special, but for orders, which is a shorter beginning of the last two.
			want := Compare(a, b) < 0
			if i > k && min(i, k) < 3 && !want {
				t.Errorf("%s does not come before %s", a.Source, b.Source)
			}
		}
	}
	if Compare(routes[5], routes[4]) >= 0 {
		t.Error("orders/new does not come before orders/{id}")
	}
}
