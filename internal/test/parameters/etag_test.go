package parameters

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// withoutETag are the operations that write and answer no ETag of what can be read afterwards. Operations of queues
// have none.
var withoutETag = strings.Split(`blob Blob.AbortCopyFromURL
blob Blob.Delete
blob Blob.DeleteImmutabilityPolicy
blob Blob.SetImmutabilityPolicy
blob Blob.SetLegalHold
blob Blob.SetTags
blob Blob.SetTier
blob Blob.Undelete
blob BlockBlob.StageBlock
blob BlockBlob.StageBlockFromURL
blob Container.Delete
blob Container.Restore
blob Container.SubmitBatch
blob Service.GetUserDelegationKey
blob Service.SetProperties
blob Service.SubmitBatch
table Service.SetProperties
table Table.Create
table Table.Delete
table Table.DeleteEntity
table Table.SetAccessPolicy
dfs FileSystem.Delete
dfs Path.AppendData
dfs Path.Delete
dfs Path.SetAccessControlRecursive
dfs Path.Undelete`, "\n")

// furtherWrites are requests of operations whose scene writes in another way.
var furtherWrites = map[string]scene{
	"table Insert Or Replace Entity": {service: "table", prepare: prepare(table, entity),
		request: req("PUT /Table(PartitionKey='p',RowKey='r')", json, bare, `= {"N":3}`)},
	"table Insert Or Merge Entity": {service: "table", prepare: prepare(table, entity),
		request: req("PATCH /Table(PartitionKey='p',RowKey='r')", json, bare, `= {"N":3}`)},
	"table Insert Or Replace Entity (new)": {service: "table", prepare: prepare(table),
		request: req("PUT /Table(PartitionKey='p',RowKey='r')", json, bare, `= {"N":3}`)},
	"dfs Path.AppendData (flush)": {service: "dfs", prepare: prepare(files, file),
		request: req("PATCH /files/d/f?action=append&position=0&flush=true", "= hello")},
	"dfs Path.Create (of a directory)": {service: "dfs", prepare: prepare(files),
		request: req("PUT /files/d?resource=directory")},
}

// A client sends the ETag that a write answered as the condition of its next one. So it must be the one that the next
// read answers: of each operation of all services that answers one.
func TestETagOfAWriteIsThatOfTheNextRead(t *testing.T) {
	t.Parallel()
	f := open(t)
	compared := 0
	cases := maps.Clone(furtherWrites)
	for _, o := range load(t) {
		name := o.service + " " + o.name
		if sc, ok := scenes[name]; ok && sc.request.method != http.MethodGet && sc.request.method != http.MethodHead {
			cases[name] = sc
		}
		if sc, ok := renames[name]; ok {
			sc.service = o.service
			cases[name+" (rename)"] = sc
		}
	}
	for name, sc := range cases {
		s := f.stage(t, sc.service, false)
		for _, r := range sc.prepare {
			s.send(t, r)
		}
		wrote := s.send(t, sc.request)
		etag := wrote.header.Get("Etag")
		without := sc.service == "queue" || slices.Contains(withoutETag, name)
		if wrote.status >= 300 || (etag == "") != without {
			t.Errorf("%s answers %d with ETag %q", name, wrote.status, etag)
		}
		if etag == "" {
			continue
		}
		read := s.send(t, reading(sc))
		if got := read.header.Get("Etag"); got != etag {
			t.Errorf("%s answers ETag %s, the next read %s:\n%s", name, etag, got, read.text)
		}
		compared++
	}
	if compared < 30 {
		t.Errorf("compared %d operations", compared)
	}
}

// reading returns a request that reads what a scene's request writes.
func reading(sc scene) request {
	path, query, _ := strings.Cut(sc.request.target, "?")
	switch {
	case sc.service == "table":
		return req("GET /Table(PartitionKey='p',RowKey='r')", bare)
	case strings.Contains(query, "restype=container"):
		return req("HEAD " + path + "?restype=container")
	case strings.Contains(query, "resource=filesystem"):
		return req("HEAD " + path + "?resource=filesystem")
	}
	return req("HEAD " + path)
}
