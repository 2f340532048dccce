package tables_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/tables"
)

// person is the entity of which the bodies below are.
type person struct {
	PartitionKey, RowKey string
	Name                 string
	Active               bool
	Age                  int32
	Visits               int64
	Score, Ratio         float64
	NotANumber, Most     *float64
	Hired                time.Time
	Badge                uuid.UUID
	Photo                []byte
}

func examplePerson() person {
	nan, inf := math.NaN(), math.Inf(1)
	return person{PartitionKey: "Sales", RowKey: "O'Neil 1", Name: "Grüße \"quoted\" \\ <a&b>", Active: true, Age: 42,
		Visits: 9007199254740993, Score: 5, Ratio: 0.1,
		NotANumber: &nan, Most: &inf, Hired: time.Date(2026, 3, 1, 21, 30, 0, 123456700, time.UTC),
		Badge: uuid.MustParse("c9da6455-213d-42c9-9a79-3e9149a57833"), Photo: []byte{0, 1, 254, 255}}
}

const (
	// javaBody holds what azure-data-tables 12.5.0 for Java sends for the entity, recorded from createEntity; upsertEntity
	// and updateEntity send the same. It sends NaN and infinities without their type, so that they become text: they are
	// left out.
	javaBody = `{"Visits@odata.type":"Edm.Int64","RowKey":"O'Neil 1","Photo":"AAH+/w==","Badge":"c9da6455-213d-42c9-9a79-3e9149a57833","Photo@odata.type":"Edm.Binary","Name":"Grüße \"quoted\" \\ <a&b>","Active":true,"Score":5.0,"Badge@odata.type":"Edm.Guid","Visits":"9007199254740993","Hired@odata.type":"Edm.DateTime","Hired":"2026-03-01T21:30:00.123456700Z","PartitionKey":"Sales","Ratio":0.1,"Age":42}`
	// dotnetBody holds what Azure.Data.Tables sends, by its source (ToOdataAnnotatedDictionary) and the rules of
	// Utf8JsonWriter: a whole double has no point, and is a Double by its type.
	dotnetBody = `{"PartitionKey":"Sales","RowKey":"O\u0027Neil 1","Name":"Gr\u00FC\u00DFe \u0022quoted\u0022 \\ \u003Ca\u0026b\u003E","Active":true,"Age":42,"Visits":"9007199254740993","Visits@odata.type":"Edm.Int64","Score":5,"Score@odata.type":"Edm.Double","Ratio":0.1,"Ratio@odata.type":"Edm.Double","NotANumber":"NaN","NotANumber@odata.type":"Edm.Double","Most":"Infinity","Most@odata.type":"Edm.Double","Hired":"2026-03-01T21:30:00.1234567Z","Hired@odata.type":"Edm.DateTime","Badge":"c9da6455-213d-42c9-9a79-3e9149a57833","Badge@odata.type":"Edm.Guid","Photo":"AAH+/w==","Photo@odata.type":"Edm.Binary"}`
)

// recorder keeps the body of the last request and answers it with success.
type recorder struct{ body string }

func (r *recorder) Do(q *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(q.Body)
	r.body = string(b)
	return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{"Etag": {"1"}}, Body: http.NoBody,
		Request: q}, err
}

// meaning holds what the service makes of a body: type and value of each property.
// https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations
func meaning(t *testing.T, body string) map[string]string {
	t.Helper()
	var all map[string]json.RawMessage
	check.OK(t, json.Unmarshal([]byte(body), &all))
	m := map[string]string{}
	for name, value := range all {
		if strings.HasSuffix(name, "@odata.type") {
			continue
		}
		kind := strings.Trim(string(all[name+"@odata.type"]), `"`)
		var v any
		check.OK(t, json.Unmarshal(value, &v))
		number, isNumber := v.(float64)
		switch {
		case kind == "" && isNumber && strings.ContainsAny(string(value), ".eE"):
			kind = "Edm.Double"
		case kind == "" && isNumber:
			kind = "Edm.Int32"
		case kind == "":
			kind = fmt.Sprintf("%T", v)
		case kind == "Edm.DateTime":
			at, err := time.Parse(time.RFC3339Nano, v.(string))
			check.OK(t, err)
			v = at.UTC()
		}
		if isNumber {
			v = number
		}
		m[name] = fmt.Sprintf("%s %v", kind, v)
	}
	return m
}

// The bodies mean to the service what those of the SDKs for Java and .NET mean for the same entity.
func TestBodiesAreThoseOfOtherSDKs(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	service, err := aztables.NewServiceClientWithNoCredential("http://127.0.0.1:1/a",
		&aztables.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: r}})
	check.OK(t, err)
	table, err := tables.New[person](service, "People")
	check.OK(t, err)
	entities, err := tables.New[tables.Entity](service, "People")
	check.OK(t, err)
	full := examplePerson()
	finite := full
	finite.NotANumber, finite.Most = nil, nil
	dynamic := tables.Entity{PartitionKey: full.PartitionKey, RowKey: full.RowKey,
		Properties: map[string]any{"Name": full.Name, "Active": true, "Age": int32(42), "Visits": int64(full.Visits),
			"Score": 5.0, "Ratio": 0.1, "Hired": full.Hired, "Badge": full.Badge, "Photo": full.Photo}}
	for _, c := range []struct {
		name, want string
		write      func() error
	}{
		{"Java, insert", javaBody, func() error { return table.Insert(t.Context(), &finite) }},
		{"Java, replace", javaBody, func() error { return table.Replace(t.Context(), &finite) }},
		{"Java, merge", javaBody, func() error { return table.InsertOrMerge(t.Context(), &finite) }},
		{"Java, dynamic", javaBody, func() error { return entities.Insert(t.Context(), &dynamic) }},
		{".NET, insert", dotnetBody, func() error { return table.Insert(t.Context(), &full) }},
		{".NET, upsert", dotnetBody, func() error { return table.InsertOrReplace(t.Context(), &full) }},
	} {
		check.OK(t, c.write())
		if d := cmp.Diff(meaning(t, c.want), meaning(t, r.body)); d != "" {
			t.Errorf("%s (-SDK +ours):\n%s", c.name, d)
		}
	}
}
