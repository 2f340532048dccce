package functions

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestAnswersThatAreFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status           int
		kind, body, want string
	}{
		{500, "application/json", `{"error": "x"}`, `the handler answered 500 Internal Server Error: {"error": "x"}`},
		{302, "application/json", `{}`, "the handler answered 302 Found"},
		{404, "text/plain", "no such function", "404 Not Found: no such function"},
		{200, "text/plain", "hello", `content type "text/plain", want application/json: hello`},
		{200, "", "{}", `content type ""`},
		{200, "application/json", "", "is empty"},
		{200, "application/json", "  ", "is empty"},
		{200, "application/json", "Hello World", "is not {\"Outputs\""},
		{200, "application/json", `"text"`, "is not {\"Outputs\""},
		{200, "application/json", `[]`, "is not {\"Outputs\""},
		{200, "application/json", `null`, "is null"},
		{200, "application/json", `{"Outputs": []}`, "is not {\"Outputs\""},
		{200, "application/json", `{"Logs": "one"}`, "is not {\"Outputs\""},
		{200, "application/json", `{"Outputs": {}} {}`, "is not {\"Outputs\""},
	} {
		r, err := parseResponse(c.status, http.Header{"Content-Type": {c.kind}}, []byte(c.body))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d %s %q: %v, %v, want %q", c.status, c.kind, c.body, r, err, c.want)
		}
	}
}

func parsed(t *testing.T, text string) *response {
	t.Helper()
	r, err := parseResponse(200, http.Header{"Content-Type": {"application/json; charset=utf-8"}}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	r := parsed(t,
		`{"outputs": {"a": "x", "n": null}, "LOGS": ["one", 2, {"three": 3}], "returnValue": {"a": "y", "b": 5}, "key": "ignored"}`)
	if got := strings.Join(r.logs, "|"); got != `one|2|{"three":3}` {
		t.Error(got)
	}
	a, b, n, back := &binding{name: "a"}, &binding{name: "b"}, &binding{name: "n"}, &binding{name: returnName}
	plain, returns := &function{out: []*binding{a, b, n}}, &function{out: []*binding{a, b, back}}
	for _, c := range []struct {
		f    *function
		b    *binding
		want string
	}{
		{plain, a, `"y"`}, {plain, b, "5"}, {plain, n, ""}, // A returned object's members are outputs,
		{returns, a, `"x"`}, {returns, b, ""}, {returns, back, `{"a": "y", "b": 5}`}, // unless there is $return.
	} {
		if got := string(r.output(c.f, c.b).JSON); got != c.want {
			t.Errorf("%s: %s, want %s", c.b.name, got, c.want)
		}
	}
	if got := parsed(t, `{"key1": "value1"}`); got.output(plain, a).present() || len(got.logs) != 0 {
		t.Error("an object without Outputs has none")
	}
}

func TestContents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw    string
		binary bool
		want   string
	}{
		{`"plain text"`, false, "plain text"},
		{`"aGVsbG8="`, false, "hello"}, {`"aGVs bG8="`, false, "hello"}, {`"aGVsbG8="`, true, "aGVsbG8="},
		{`"test"`, false, "\xb5\xeb\x2d"}, // The host's trap, kept.
		{`"test"`, true, "test"}, {`""`, false, ""},
		{`100`, false, "100"}, {`true`, false, "true"}, {`12345678901234567890.0`, false, "12345678901234567890.0"},
		{`{ "a": 1 }`, false, `{"a":1}`}, {`"{ \"a\": 1 }"`, false, `{ "a": 1 }`},
		{`["a", "test", {"b": 2}, 3, null]`, false, `a|test|{"b":2}|3`}, {`"[\"a\", 1]"`, false, "a|1"}, {`[]`, false, ""},
		{`"[not a list"`, false, "[not a list"},
		{`"<&>"`, true, "<&>"},
	} {
		b := &binding{binary: c.binary}
		var got []string
		for _, item := range b.contents(Value{JSON: json.RawMessage(c.raw)}) {
			got = append(got, string(item.data))
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s: %q, want %q", c.raw, got, c.want)
		}
	}
}

func TestHTTPResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, output, answer string
		status               int
		kind, body           string
	}{
		{"an object", "res",
			`{"Outputs": {"res": {"statusCode": 201, "body": "made", "headers": {"X-A": "1", "x-b": ["2", "3"], "Content-Length": "99"}}}}`, 201, "text/plain; charset=utf-8", "made"},
		{"status in text", "res", `{"Outputs": {"res": {"statusCode": "201", "body": "my world"}}}`, 201,
			"text/plain; charset=utf-8", "my world"},
		{"status by its other name", "res", `{"Outputs": {"res": {"Status": 404}}}`, 404, "", ""},
		{"status that is none", "res", `{"Outputs": {"res": {"statusCode": "fine", "body": "x"}}}`, 200,
			"text/plain; charset=utf-8", "x"},
		{"JSON", "res", `{"Outputs": {"res": {"body": {"a": [1, 2]}}}}`, 200, "application/json; charset=utf-8",
			`{"a":[1,2]}`},
		{"a type of its own", "res", `{"Outputs": {"res": {"body": "<p>", "headers": {"content-type": "text/html"}}}}`, 200,
			"text/html", "<p>"},
		{"an object in text", "res", `{"Outputs": {"res": "{\"body\": \"hello\", \"statusCode\": \"300\"}"}}`, 300,
			"text/plain; charset=utf-8", "hello"},
		{"no output", "res", `{"Outputs": {}}`, 200, "", ""},
		{"text is no object", "res", `{"Outputs": {"res": "SomeBlah"}}`, 0, "", ""},
		{"status out of range", "res", `{"Outputs": {"res": {"statusCode": 42}}}`, 0, "", ""},
		{"base64 stays in a body", "res", `{"Outputs": {"res": {"body": "aGVsbG8="}}}`, 200, "text/plain; charset=utf-8",
			"aGVsbG8="},
		{"returned text", "$return", `{"ReturnValue": "hi there"}`, 200, "text/plain; charset=utf-8", "hi there"},
		{"returned JSON", "$return", `{"ReturnValue": {"a": 1}}`, 200, "application/json; charset=utf-8", `{"a":1}`},
		{"returned response", "$return", `{"ReturnValue": {"Body": "x", "StatusCode": 202}}`, 202,
			"text/plain; charset=utf-8", "x"},
		{"returned members", "res", `{"ReturnValue": {"res": {"body": "x", "statusCode": 203}}}`, 203,
			"text/plain; charset=utf-8", "x"},
		{"none asked for", "", `{"ReturnValue": "x"}`, 204, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &function{}
			if c.output != "" {
				f.out = []*binding{{name: c.output, kind: kindHTTP}}
			}
			got, err := parsed(t, c.answer).httpAnswer(f)
			if c.status == 0 {
				if err == nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.status != c.status || got.headers.Get("Content-Type") != c.kind || string(got.body) != c.body {
				t.Errorf("%d %v %s", got.status, got.headers, got.body)
			}
			if c.name == "an object" && (got.headers.Get("X-A") != "1" || len(got.headers["X-B"]) != 2 ||
				got.headers.Get("Content-Length") != "") {
				t.Errorf("headers are %v", got.headers)
			}
		})
	}
}
