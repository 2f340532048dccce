package tables_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/tables"
)

// canned answers every request at once, so that a benchmark measures the client alone.
type canned struct {
	status int
	body   []byte
}

func (c canned) Do(q *http.Request) (*http.Response, error) {
	if q.Body != nil {
		_, _ = io.Copy(io.Discard, q.Body)
	}
	return &http.Response{StatusCode: c.status, Header: http.Header{"Etag": {"1"}, "Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(c.body)), Request: q}, nil
}

func (c canned) service(t testing.TB) *aztables.ServiceClient {
	s, err := aztables.NewServiceClientWithNoCredential("http://127.0.0.1:1/a",
		&aztables.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: c}})
	check.OK(t, err)
	return s
}

// storedPerson is an entity as the service answers it.
func storedPerson(row string) string {
	return `{"odata.etag":"W/\"datetime'2026-11-22T10%3A00%3A00.1234567Z'\"","PartitionKey":"Sales","RowKey":"` + row +
		`","Timestamp":"2026-11-22T10:00:00.1234567Z",` +
		`"Name":"Ada Lovelace","Active":true,"Age":42,"Visits@odata.type":"Edm.Int64","Visits":"9007199254740993","Score":5.0,"Ratio":0.1,` +
		`"Hired@odata.type":"Edm.DateTime","Hired":"2026-03-01T21:30:00.1234567Z","Badge@odata.type":"Edm.Guid","Badge":"c9da6455-213d-42c9-9a79-3e9149a57833",` +
		`"Photo@odata.type":"Edm.Binary","Photo":"AAH+/w=="}`
}

// barePerson is the entity as a user of the SDK writes it.
func barePerson(p *person) ([]byte, error) {
	return json.Marshal(aztables.EDMEntity{Entity: aztables.Entity{PartitionKey: p.PartitionKey, RowKey: p.RowKey},
		Properties: map[string]any{
			"Name": p.Name, "Active": p.Active, "Age": p.Age, "Visits": aztables.EDMInt64(p.Visits), "Score": p.Score,
			"Ratio": p.Ratio,
			"Hired": aztables.EDMDateTime(p.Hired), "Badge": aztables.EDMGUID(p.Badge.String()),
			"Photo": aztables.EDMBinary(p.Photo),
		}})
}

// readBare makes a person of what the SDK returns.
func readBare(b []byte, p *person) error {
	var e aztables.EDMEntity
	if err := json.Unmarshal(b, &e); err != nil {
		return err
	}
	p.PartitionKey, p.RowKey = e.PartitionKey, e.RowKey
	p.Name, _ = e.Properties["Name"].(string)
	p.Active, _ = e.Properties["Active"].(bool)
	p.Age, _ = e.Properties["Age"].(int32)
	visits, _ := e.Properties["Visits"].(aztables.EDMInt64)
	p.Visits = int64(visits)
	p.Score, _ = e.Properties["Score"].(float64)
	p.Ratio, _ = e.Properties["Ratio"].(float64)
	hired, _ := e.Properties["Hired"].(aztables.EDMDateTime)
	p.Hired = time.Time(hired)
	badge, _ := e.Properties["Badge"].(aztables.EDMGUID)
	p.Badge, _ = uuid.Parse(string(badge))
	photo, _ := e.Properties["Photo"].(aztables.EDMBinary)
	p.Photo = photo
	return nil
}

// contest is one operation, by this package and by the SDK alone.
type contest struct {
	name        string
	typed, bare func(testing.TB) func() error
}

func contests() []contest {
	p := examplePerson()
	p.NotANumber, p.Most = nil, nil
	var page strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&page, "%s%s", map[bool]string{true: ",", false: ""}[i > 0], storedPerson(fmt.Sprintf("%05d", i)))
	}
	one := canned{http.StatusOK, []byte(storedPerson("1"))}
	many := canned{http.StatusOK, []byte(`{"odata.metadata":"x","value":[` + page.String() + `]}`)}
	none := canned{http.StatusNoContent, nil}
	type typedTable = *tables.Table[person]
	typed := func(c canned, do func(testing.TB, typedTable) error) func(testing.TB) func() error {
		return func(t testing.TB) func() error {
			table, err := tables.New[person](c.service(t), "People")
			check.OK(t, err)
			return func() error { return do(t, table) }
		}
	}
	bare := func(c canned, do func(testing.TB, *aztables.Client) error) func(testing.TB) func() error {
		return func(t testing.TB) func() error {
			client := c.service(t).NewClient("People")
			return func() error { return do(t, client) }
		}
	}
	return []contest{
		{"Insert", typed(none, func(t testing.TB, table typedTable) error { return table.Insert(t.Context(), &p) }),
			bare(none, func(t testing.TB, c *aztables.Client) error {
				b, err := barePerson(&p)
				if err == nil {
					_, err = c.AddEntity(t.Context(), b, nil)
				}
				return err
			})},
		{"Get", typed(one, func(t testing.TB, table typedTable) error {
			_, err := table.Get(t.Context(), tables.Key{PartitionKey: "Sales", RowKey: "1"})
			return err
		}), bare(one, func(t testing.TB, c *aztables.Client) error {
			r, err := c.GetEntity(t.Context(), "Sales", "1", nil)
			if err != nil {
				return err
			}
			var p person
			return readBare(r.Value, &p)
		})},
		{"Query1000", typed(many, func(t testing.TB, table typedTable) error {
			for _, err := range table.Query(tables.PartitionKey.Eq("Sales")).All(t.Context()) {
				if err != nil {
					return err
				}
			}
			return nil
		}), bare(many, func(t testing.TB, c *aztables.Client) error {
			for pager := c.NewListEntitiesPager(
				&aztables.ListEntitiesOptions{Filter: to.Ptr("PartitionKey eq 'Sales'")}); pager.More(); {
				page, err := pager.NextPage(t.Context())
				if err != nil {
					return err
				}
				for _, b := range page.Entities {
					var p person
					if err := readBare(b, &p); err != nil {
						return err
					}
				}
			}
			return nil
		})},
	}
}

// BenchmarkAgainstSDK compares this package with the SDK alone; docs/benchmarks.md has results.
func BenchmarkAgainstSDK(b *testing.B) {
	for _, c := range contests() {
		for name, prepare := range map[string]func(testing.TB) func() error{"typed": c.typed, "bare": c.bare} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				do := prepare(b)
				b.ReportAllocs()
				for b.Loop() {
					check.OK(b, do())
				}
			})
		}
	}
}

// The typed client may cost at most a tenth more allocations than the SDK, as its users use it. Time is measured by the
// benchmark alone: a test of it would depend on the machine.
func TestAllocationsAgainstSDK(t *testing.T) {
	for _, c := range contests() {
		typed, bare := c.typed(t), c.bare(t)
		measure := func(do func() error) float64 {
			return testing.AllocsPerRun(20, func() { check.OK(t, do()) })
		}
		if got, most := measure(typed), 1.1*measure(bare); got > most {
			t.Errorf("%s: %.0f allocations, at most %.0f are allowed", c.name, got, most)
		}
	}
}
