package expression

import (
	"regexp"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

func TestExpressions(t *testing.T) {
	t.Parallel()
	d := &Data{Function: "F", Began: time.Date(2018, 2, 16, 7, 59, 5, 123456700, time.UTC)}
	d.Set("name", "photo")
	d.Set("InsertionTime", time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))
	d.Set("Properties", map[string]any{"ContentLength": 5})
	d.AddPayload(
		`{"orderId": 17, "big": 12345678901234567890, "ok": true, "none": null, "list": [1], ` +
			`"customer": {"name": "Ada", "address": {"city": "Rome"}}, "NAME2": "x"}`)
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
		tmpl, err := Parse(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := tmpl.Resolve(d); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", source, got, err, want)
		}
	}
	for _, source := range []string{"{none}", "{list}", "{nobody}", "{customer.age}", "{name.first}", "{rand-guid:X}",
		"{datetime:'x}", "{datetime:ffffffff}"} {
		tmpl, err := Parse(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if got, err := tmpl.Resolve(d); err == nil {
			t.Errorf("%s is %q", source, got)
		}
	}
	for _, source := range []string{"{", "a}", "{}", "{a{b}}", "{a b}", "{a"} {
		if _, err := Parse(source); err == nil {
			t.Errorf("%q is taken", source)
		}
	}
	tmpl, _ := Parse("{rand-guid}.{rand-guid:N}")
	got, err := tmpl.Resolve(d)
	if err != nil || !regexp.MustCompile(`^[0-9a-f-]{36}\.[0-9a-f]{32}$`).MatchString(got) {
		t.Errorf("%q, %v", got, err)
	}
}

// What a payload has goes before what the trigger has.
func TestPayloadGoesBeforeMetadata(t *testing.T) {
	t.Parallel()
	var d Data
	d.Set("Id", "of the message")
	d.AddPayload(`{"id": "of the order"}`)
	d.AddPayload(`["no", "object"]`)
	d.AddPayload(`{broken`)
	if v, _ := d.Get("ID"); v != "of the order" || len(d.entries) != 1 {
		t.Errorf("%+v", d)
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("{datetime:yyyy'x'fff\\}{a.b}{{")
	f.Fuzz(func(t *testing.T, source string) {
		defer workbudget.Default.Start(t, len(source))()
		d := &Data{}
		d.Set("a", map[string]string{"b": "c"})
		if tmpl, err := Parse(source); err == nil {
			_, _ = tmpl.Resolve(d)
		}
	})
}
