package entity

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestEntities(t *testing.T) {
	t.Parallel()
	keys := map[string]string{"PartitionKey": "p"}
	for _, c := range []struct{ raw, want string }{
		{`{"RowKey": "r", "n": 5, "big": 5000000000, "x": 1.5, "s": "t", ` +
			`"at": "2020-01-02T03:04:05.5+01:00", "day": "2020-01-02", "b": true, "huge": 99999999999999999999, ` +
			`"o": {"a": 1}, "l": [1, 2], "none": null}`,
			`{"PartitionKey":"p","RowKey":"r","at":"2020-01-02T02:04:05.5000000Z",` +
				`"at@odata.type":"Edm.DateTime","b":true,"big":"5000000000",` +
				`"big@odata.type":"Edm.Int64","day":"2020-01-02","huge":1e+20,` +
				`"huge@odata.type":"Edm.Double","l":"[1,2]","n":"5",` +
				`"n@odata.type":"Edm.Int64","o":"{\"a\":1}","s":"t","x":1.5,"x@odata.type":"Edm.Double"}`},
		{`{"partitionKey": "own", "rowKey": 7}`, `{"PartitionKey":"own","RowKey":"7"}`},
		{`{"PartitionKey": null, "RowKey": "", "at@odata.type": "Edm.DateTime", "at": "2020-01-01T00:00:00Z"}`,
			`{"PartitionKey":"p","RowKey":"","at":"2020-01-01T00:00:00.0000000Z","at@odata.type":"Edm.DateTime"}`},
		{`{"n": 1}`, "it lacks PartitionKey or RowKey"}, {`"text"`, "not a JSON object"}, {`[1]`, "not a JSON object"},
	} {
		e, err := New(json.RawMessage(c.raw), keys)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.raw, err)
			}
			continue
		}
		if got, err := json.Marshal(e); err != nil || string(got) != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.raw, got, c.want)
		}
	}
}
