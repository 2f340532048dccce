package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/storageverb"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// tableCommand runs `lazuli table ARGS` and returns what it prints.
func tableCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return runVerb(t, storageverb.NewTable(), "", args...)
}

// tableClient is a client of the account of the environment.
func tableClient(t *testing.T) (*aztables.ServiceClient, error) {
	return target.ServiceFlag(&cobra.Command{}, "table",
		func(s *workers.Storage) *aztables.ServiceClient { return s.Tables })(t.Context())
}

func TestTableVerbs(t *testing.T) {
	t.Setenv(connstr.Variable, lazulitest.Start(t).ConnectionString())
	service, err := tableClient(t)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.CreateTable(t.Context(), "Employees", nil); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		entity := fmt.Sprintf(`{"PartitionKey":"Sales","RowKey":"%04d","Age":%d,"Name":"Jürgen \"%d\""}`, i, 20+i, i)
		if _, err := service.NewClient("Employees").AddEntity(t.Context(), []byte(entity), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ args, want string }{
		{"ls", "TABLE\nEmployees\n"},
		{"ls|emp", "TABLE\nEmployees\n"},
		{"ls|x", "there are no tables whose names begin with x\n"},
		{"query|Employees|--filter|Age ge 40|--select|RowKey,Age|--top|2",
			`{"RowKey":"0020","Age":40}` + "\n" + `{"RowKey":"0021","Age":41}` + "\n"},
		{"explain|Employees|--filter|PartitionKey eq 'Sales' and RowKey eq '0007'", `plan        PointQuery
cost        point query: one read for each key
key ranges  PartitionKey eq 'Sales' and RowKey eq '0007'
scanned     1 entity
returned    1 entity in 1 page
`},
		{"explain|Employees|--filter|(PartitionKey eq 'Sales' or PartitionKey eq 'Ü') and Age eq 25",
			`plan        PartitionScan
cost        partition scan: all entities of the partition
on Azure    table scan: an or over several partitions narrows nothing
key ranges  PartitionKey eq 'Sales'
            PartitionKey eq 'Ü'
then        the rest of the filter is checked on each entity in them
scanned     30 entities
returned    1 entity in 1 page
hint        Bound the RowKey: RowKey ge '...' and RowKey lt '...' makes this a range query.
            If the property is asked for often, keep a second copy of the entities in this partition with its value in the RowKey (intra-partition secondary index pattern).
            29 of 30 entities were read and did not match: only keys have an index, properties do not.
`},
	} {
		out, err := tableCommand(t, strings.Split(tc.args, "|")...)
		if err != nil {
			t.Fatalf("table %s: %v", tc.args, err)
		}
		if out != tc.want {
			t.Errorf("table %s printed\n%s\nwant\n%s", tc.args, out, tc.want)
		}
	}
	for args, says := range map[string]string{
		"explain|Employees|--filter|Age eq": "at position",
		"explain|Nobody":                    "TableNotFound",
		"query|Nobody":                      "TableNotFound",
	} {
		if _, err := tableCommand(t, strings.Split(args, "|")...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("table %s: %v, want an error saying %q", args, err, says)
		}
	}
}

// Types that JSON does not show are shown; texts and numbers are as the service sends them.
func TestTableQueryShowsTypes(t *testing.T) {
	t.Setenv(connstr.Variable, lazulitest.Start(t).ConnectionString())
	service, err := tableClient(t)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.CreateTable(t.Context(), "Types", nil); err != nil {
		t.Fatal(err)
	}
	const properties = `"Big":"7","Big@odata.type":"Edm.Int64","Born":"1984-05-01T00:00:00Z","Born@odata.type":"Edm.DateTime","Int":7,"Name":"R&D <ü>","Whole":5.0,"Whole@odata.type":"Edm.Double"`
	if _, err := service.NewClient("Types").AddEntity(t.Context(),
		[]byte(`{"PartitionKey":"p","RowKey":"r",`+properties+`}`), nil); err != nil {
		t.Fatal(err)
	}
	out, err := tableCommand(t, "query", "Types", "--select", "Big,Born,Int,Name,Whole")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"Big@odata.type":"Edm.Int64"`, `"Born@odata.type":"Edm.DateTime"`, `"Int":7`,
		`"Name":"R&D <ü>"`, `"Whole":5.0`} {
		if !strings.Contains(out, want) {
			t.Errorf("%s lacks %s", out, want)
		}
	}
	if strings.Contains(out, "odata.etag") || strings.Contains(out, "odata.metadata") {
		t.Errorf("%s has the service's annotations", out)
	}
}

func TestTableMistakes(t *testing.T) {
	// Nothing may be sent.
	t.Setenv(connstr.Variable, "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://192.0.2.1")
	for args, says := range map[string]string{
		"query|people|--top|-1":           "--top",
		"explain|people|--pages|-1":       "--pages",
		"ls|--connection-string|nonsense": "connection string",
		"ls|--connection-string|BlobEndpoint=http://127.0.0.1:1/a;SharedAccessSignature=sig=x": "no table endpoint",
	} {
		_, err := tableCommand(t, strings.Split(args, "|")...)
		if !errors.As(err, new(console.UsageError)) || !strings.Contains(err.Error(), says) {
			t.Errorf("table %s: %v, want a usage error saying %q", args, err, says)
		}
	}
}
