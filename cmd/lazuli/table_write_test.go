package main

import (
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/storageverb"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

func TestTableWriteVerbs(t *testing.T) {
	t.Setenv(connstr.Variable, lazulitest.Start(t).ConnectionString())
	const entity = `{"PartitionKey":"a b","RowKey":"1","Whole":1.0,"Text":"e.g.","Big":"5","Big@odata.type":"Edm.Int64"}` +
		"\n"
	for _, tc := range []struct{ args, stdin, want, wrong string }{
		{"create|Tab", "", "", ""},
		{"create|Tab", "", "", "TableAlreadyExists"},
		{"create|Tab|--if-absent", "", "", ""},
		{"put|Tab", entity + "\n" + `{"PartitionKey":"a b","RowKey":"2","N":7}` + "\n", "2 entities written\n", ""},
		{"get|Tab|a b|1", "", `"Whole":1.0`, ""},
		{"get|Tab|a b|1", "", `"Big@odata.type":"Edm.Int64"`, ""},
		{"put|Tab|--mode|insert", entity, "0 entities written\n", "line 1: "},
		{"put|Tab|--mode|merge", `{"PartitionKey":"a b","RowKey":"1","More":true}`, "1 entity written\n", ""},
		{"query|Tab|--filter|RowKey eq '1' and More eq true and Whole eq 1.0", "", `"More":true`, ""},
		{"put|Tab", `{"RowKey":"1"}`, "0 entities written\n", "line 1: the entity lacks PartitionKey or RowKey"},
		{"put|Tab|--mode|twice", "", "", "is not insert, replace or merge"},
		{"put|Tab", `{"PartitionKey":"","RowKey":"","Empty":1}`, "1 entity written\n", ""},
		{"put|Tab|--mode|insert", `{"PartitionKey":"","RowKey":""}`, "0 entities written\n", "EntityAlreadyExists"},
		{"put|Tab", `{"PartitionKey":5,"RowKey":""}`, "0 entities written\n", "field .PartitionKey of type string"},
		{"get|Tab||", "", `"Empty":1`, ""},
		{"rm|Tab||", "", "", ""},
		{"get|Tab||", "", "", "ResourceNotFound"},
		{"rm|Tab|a b|1", "", "", ""},
		{"rm|Tab|a b|1", "", "", "ResourceNotFound"},
		{"get|Tab|a b|1", "", "", "ResourceNotFound"},
		{"query|Tab", "", `"N":7`, ""},
		{"rm|Tab", "", "", "Delete the table Tab with all its entities? Give --yes"},
		{"rm|Tab|--yes", "", "", ""},
		{"rm|Tab|--yes", "", "", "ResourceNotFound"},
	} {
		out, err := runVerb(t, storageverb.NewTable(), tc.stdin, strings.Split(tc.args, "|")...)
		switch {
		case tc.wrong == "" && err != nil:
			t.Errorf("lazuli table %s: %v", tc.args, err)
		case tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong)):
			t.Errorf("lazuli table %s: error %v, want one with %q", tc.args, err, tc.wrong)
		case !strings.Contains(out, tc.want):
			t.Errorf("lazuli table %s prints %q, want it to contain %q", tc.args, out, tc.want)
		}
	}
}
