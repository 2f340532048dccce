package tablesvc

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// The SDK for .NET cannot run in these tests. What it sends, byte for byte, is known from its source
// (Azure.Data.Tables, and MultipartContent and RequestRequestContent of Azure.Core) and from its recorded sessions
// against the real service; so is what its reader (Multipart.ParseAsync of Azure.Core) makes of an answer.

// dotnetPart writes one request as it stands in a change set.
func (f *fixture) dotnetPart(method, path, body string, headers ...string) string {
	u, err := url.Parse(f.base)
	check.OK(f.t, err)
	lines := []string{
		method + " " + f.base + path + "?$format=application%2Fjson%3Bodata%3Dminimalmetadata HTTP/1.1",
		"Host: " + u.Hostname(), "x-ms-version: 2020-12-06", "DataServiceVersion: 3.0",
	}
	return strings.Join(append(lines, headers...), "\r\n") + "\r\n\r\n" + body
}

// dotnetBatch writes a whole body.
func dotnetBatch(parts ...string) string {
	const batch, changes = "batch_3a088655-16dc-3297-811e-468846815a7a", "changeset_ccc5003d-3b20-d4a1-d760-80fa262a8a66"
	const head = "Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
	return "--" + batch + "\r\nContent-Type: multipart/mixed; boundary=" + changes + "\r\n\r\n--" + changes + "\r\n" +
		head + strings.Join(parts, "\r\n--"+changes+"\r\n"+head) +
		"\r\n--" + changes + "--\r\n\r\n--" + batch + "--\r\n"
}

// dotnetAnswer is one of the responses that the SDK makes of an answer.
type dotnetAnswer struct {
	status int
	reason string
	header map[string]string
	body   string
}

// readDotnet reads an answer by the rules of the SDK, where they are stricter than others.
func readDotnet(t *testing.T, r reply) (answers []dotnetAnswer) {
	t.Helper()
	boundary := func(contentType string) string { // taken as it stands, quotes and all
		b, found := strings.CutPrefix(contentType, "multipart/mixed; boundary=")
		if !found {
			t.Fatalf("Content-Type %q", contentType)
		}
		return b
	}
	lines := func(s string) (header map[string]string, rest string) {
		head, rest, found := strings.Cut(s, "\r\n\r\n")
		if !found {
			t.Fatalf("no blank line in %q", s)
		}
		header = map[string]string{}
		for line := range strings.SplitSeq(head, "\r\n") {
			if i := strings.IndexByte(line, ':'); i <= 0 {
				t.Fatalf("header line %q", line)
			} else {
				header[line[:i]] = strings.TrimSpace(line[i+1:])
			}
		}
		return header, rest
	}
	outer := "--" + boundary(r.header.Get("Content-Type"))
	body, found := strings.CutPrefix(r.body, outer+"\r\n")
	if !found {
		t.Fatalf("the answer does not begin with its boundary: %q", r.body)
	}
	header, body := lines(body)
	inner := "--" + boundary(header["Content-Type"])
	body, trailer, found := strings.Cut(body, "\r\n"+inner+"--\r\n")
	if !found || trailer != outer+"--\r\n" {
		t.Fatalf("the answer does not end with its boundaries: %q", r.body)
	}
	for section := range strings.SplitSeq("\r\n"+body, "\r\n"+inner+"\r\n") {
		if section == "" {
			continue
		}
		_, content := lines(section)
		statusLine, rest, _ := strings.Cut(content, "\r\n")
		fields := strings.SplitN(statusLine, " ", 3)
		if len(fields) != 3 || fields[0] != "HTTP/1.1" {
			t.Fatalf("status line %q", statusLine)
		}
		status, err := strconv.Atoi(fields[1])
		check.OK(t, err)
		a := dotnetAnswer{status: status, reason: fields[2]}
		a.header, a.body = lines(rest)
		answers = append(answers, a)
	}
	return answers
}

func TestBatchDotnet(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	const partition, quoted = "partition'key''with'''singlequotes'",
		"partition%27%27key%27%27%27%27with%27%27%27%27%27%27singlequotes%27%27"
	add(t, client, partition, "0'1", "A", 1)
	add(t, client, partition, "02", "A", 1)
	add(t, client, partition, "03", "A", 1)
	at := func(row string) string { return "/people(PartitionKey='" + quoted + "',RowKey='" + row + "')" }
	entity := func(row, more string) string {
		return `{"PartitionKey":"` + strings.ReplaceAll(partition, "'", `\u0027`) + `","RowKey":"` + row + `"` + more + `}`
	}
	const typed = `,"Timestamp":null,"T":"2020-01-01T01:04:00.0000000Z","T@odata.type":"Edm.DateTime","G":"0d391d16-97f1-4b9a-be68-4cc871f90003","G@odata.type":"Edm.Guid",` +
		`"B":"AQIDBAU=","B@odata.type":"Edm.Binary","L":"3","L@odata.type":"Edm.Int64","D":3,"D@odata.type":"Edm.Double","I":3`
	send := func(parts ...string) reply {
		return f.send("POST", "/$batch",
			headers{"Content-Type", "multipart/mixed; boundary=batch_3a088655-16dc-3297-811e-468846815a7a",
				"DataServiceVersion", "3.0", "Accept", "application/json", "x-ms-version", "2020-12-06"},
			dotnetBatch(parts...)).want(t, "202")
	}
	const asJSON, asMinimal = "Accept: application/json", "Accept: application/json;odata=minimalmetadata"
	r := send(
		f.dotnetPart("PATCH", at("0%27%271"), entity(`0\u00271`, `,"MergedProperty":"foo"`), "If-Match: *", asJSON,
			"Content-Type: application/json"),
		f.dotnetPart("DELETE", at("02"), "", "If-Match: *", asMinimal)+"\r\n",
		f.dotnetPart("PUT", at("03"), entity("03", typed), asJSON, "Content-Type: application/json"),
		f.dotnetPart("PUT", at("04"), entity("04", typed), asJSON, "Content-Type: application/json"),
		f.dotnetPart("POST", "/people", entity("05", typed), "Prefer: return-no-content", asMinimal,
			"Content-Type: application/json;odata=nometadata"),
	)
	answers := readDotnet(t, r)
	if len(answers) != 5 {
		t.Fatalf("%d answers: %s", len(answers), r.body)
	}
	location := f.base + "/people(PartitionKey='" + strings.ReplaceAll(partition, "'", "''") + "',RowKey='05')"
	for i, want := range []map[string]string{
		{"DataServiceVersion": "1.0;", "ETag": "*"},
		{"DataServiceVersion": "1.0;"},
		{"DataServiceVersion": "1.0;", "ETag": "*"},
		{"DataServiceVersion": "1.0;", "ETag": "*"},
		{"DataServiceVersion": "3.0;", "ETag": "*", "Preference-Applied": "return-no-content", "Location": location,
			"DataServiceId": location},
	} {
		want["X-Content-Type-Options"], want["Cache-Control"] = "nosniff", "no-cache"
		a := answers[i]
		if a.status != 204 || a.reason != "No Content" || strings.TrimSpace(a.body) != "" {
			t.Errorf("answer %d is %d %s %q", i, a.status, a.reason, a.body)
		}
		for name, value := range a.header {
			if want[name] != value && want[name] != "*" {
				t.Errorf("answer %d has %s: %s, want %q", i, name, value, want[name])
			}
			delete(want, name)
		}
		if len(want) > 0 {
			t.Errorf("answer %d lacks %v", i, want)
		}
	}
	for row, want := range map[string]string{"0'1": "map[A:1 MergedProperty:foo]",
		"05": "map[B:AQIDBAU= D:3 G:0d391d16-97f1-4b9a-be68-4cc871f90003 I:3 L:3 T:2020-01-01T01:04:00Z]"} {
		m := read(t, client, partition, row)
		for name := range m {
			if strings.Contains(name, "odata") || name == "PartitionKey" || name == "RowKey" || name == "Timestamp" {
				delete(m, name)
			}
		}
		if got := fmt.Sprint(m); got != want {
			t.Errorf("%s is %s, want %s", row, got, want)
		}
	}

	// The client finds the failed entity by this expression, in an answer that is alone.
	index := regexp.MustCompile(`"value":"(\d+):`)
	r = send(
		f.dotnetPart("POST", "/people", entity("06", typed), "Prefer: return-no-content", asMinimal,
			"Content-Type: application/json;odata=nometadata"),
		f.dotnetPart("POST", "/people", entity("05", typed), "Prefer: return-no-content", asMinimal,
			"Content-Type: application/json;odata=nometadata"),
	)
	answers = readDotnet(t, r)
	if len(answers) != 1 || answers[0].status != 409 || answers[0].reason != "Conflict" ||
		answers[0].header["DataServiceVersion"] != "3.0;" ||
		answers[0].header["Preference-Applied"] != "return-no-content" ||
		answers[0].header["Content-Type"] != "application/json;odata=minimalmetadata;streaming=true;charset=utf-8" {
		t.Fatalf("failure: %s", r.body)
	}
	if m := index.FindStringSubmatch(answers[0].body); m == nil || m[1] != "1" {
		t.Errorf("no index in %s", answers[0].body)
	}
}

// TestDotnetSingle: the requests that the SDK for .NET sends outside of transactions, and answers of which it reads
// more than the body.
func TestDotnetSingle(t *testing.T) {
	t.Parallel()
	f := start(t)
	const format = "?$format=application%2Fjson%3Bodata%3Dminimalmetadata"
	send := func(method, path, body string, more ...string) reply {
		return f.send(method, path, append(
			headers{"DataServiceVersion", "3.0", "x-ms-version", "2020-12-06", "Accept",
				"application/json;odata=minimalmetadata",
				"Content-Type", "application/json;odata=nometadata", "x-ms-return-client-request-id", "true",
				"x-ms-client-request-id", "fa99fa2cad79900d9f72fb91b886c233",
				"traceparent", "00-511b223c16d573404d930b5202f6c5fd-983ad9fb9895bbdc-00"}, more...), body)
	}
	r := send("POST", "/Tables"+format, `{"TableName":"people"}`).want(t, "201")
	if r.header.Get("X-Ms-Client-Request-Id") != "fa99fa2cad79900d9f72fb91b886c233" ||
		!strings.Contains(r.body, `"TableName":"people"`) || !strings.Contains(r.body, "#Tables/@Element") {
		t.Errorf("create table: %v %s", r.header, r.body)
	}
	r = send("POST", "/people"+format,
		`{"PartitionKey":"p","RowKey":"\u0027","Timestamp":null,"D":1,"D@odata.type":"Edm.Double"}`, "Prefer",
		"return-no-content").want(t, "204")
	if r.header.Get("Preference-Applied") != "return-no-content" || r.header.Get("Etag") == "" ||
		r.header.Get("Dataserviceid") != f.base+"/people(PartitionKey='p',RowKey='''')" {
		t.Errorf("insert: %v", r.header)
	}
	etag := r.header.Get("Etag")
	r = send("GET", "/people()"+format, "", "Content-Type", "").want(t, "200")
	if !strings.Contains(r.body, `"D":1.0`) ||
		!strings.Contains(r.body, `"odata.etag":"`+strings.ReplaceAll(etag, `"`, `\"`)+`"`) {
		t.Errorf("query: %s, want the entity tag %s", r.body, etag)
	}
	send("GET", "/people(PartitionKey='p',RowKey='%27%27')"+format, "", "Content-Type", "").want(t, "200")
	send("PATCH", "/people(PartitionKey='p',RowKey='%27%27')"+format, `{"PartitionKey":"p","RowKey":"\u0027","E":1}`,
		"If-Match", etag, "Accept", "application/json", "Content-Type", "application/json").want(t, "204")
	send("PUT", "/people(PartitionKey='p',RowKey='%27%27')"+format, `{"E":1}`, "If-Match", etag, "Accept",
		"application/json", "Content-Type", "application/json").want(t, "412 UpdateConditionNotSatisfied")
	send("DELETE", "/people(PartitionKey='p',RowKey='%27%27')"+format, "", "If-Match", "*", "Content-Type", "").want(t,
		"204")
	send("DELETE", "/Tables('people')", "", "Accept", "application/json", "Content-Type", "").want(t, "204")
}
