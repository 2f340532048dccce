package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// grammars are the formats that clients send and services parse, with the fuzz target of each.
var grammars = []struct{ what, folder, target string }{
	{"path and query of a request", "internal/azure/wire", "FuzzParse"},
	{"XML documents that are decoded into a type", "internal/azure/wire", "FuzzParseXML"},
	{"Set Service Properties", "internal/azure/properties", "FuzzProperties"},
	{"Set ACL", "internal/azure/properties", "FuzzPolicies"},
	{"Authorization: SharedKey", "internal/azure/auth", "FuzzAuthorizationHeader"},
	{"Authorization: Bearer", "internal/azure/auth", "FuzzBearer"},
	{"shared access signatures", "internal/azure/auth", "FuzzSAS"},
	{"names in Create Table", "tablesvc", "FuzzTableName"},
	{"paths of tables and entities", "tablesvc", "FuzzParsePath"},
	{"options of a query for entities", "tablesvc", "FuzzOptions"},
	{"$filter", "internal/state/table/filter", "FuzzParse"},
	{"entities in JSON", "internal/state/table/entity", "FuzzParseJSON"},
	{"entities in Atom", "internal/state/table/entity", "FuzzParseAtom"},
	{"entity group transactions", "tablesvc", "FuzzReadBatch"},
	{"multipart bodies of transactions", "tablesvc", "FuzzMultipart"},
	{"queue messages", "queuesvc", "FuzzParseMessage"},
	{"pop receipts", "internal/state/queue", "FuzzReceipt"},
	{"Put Block List", "blobsvc", "FuzzParseBlockList"},
	{"block ids", "blobsvc", "FuzzParseBlockID"},
	{"ranges", "blobsvc", "FuzzParseRange"},
	{"Blob Batch", "blobsvc", "FuzzParseBatch"},
	{"conditions on tags", "blobsvc", "FuzzTagCondition"},
	{"markers of listings", "blobsvc", "FuzzMarker"},
	{"structured bodies", "blobsvc/internal/endpoint", "FuzzStructuredReader"},
	{"Query Blob Contents", "blobsvc/internal/query", "FuzzRequest"},
	{"SQL of Query Blob Contents", "blobsvc/internal/query", "FuzzStatement"},
	{"delimited text and JSON that is queried", "blobsvc/internal/query", "FuzzContent"},
	{"Parquet that is queried", "blobsvc/internal/parquet/parquettest", "FuzzFile"},
	{"x-ms-tags", "blobsvc", "FuzzTags"},
	{"Find Blobs by Tags", "blobsvc", "FuzzTagSearch"},
	{"schedules of timers", "internal/sdk/ncrontab", "FuzzParse"},
	{"routes of functions, and the paths that they match", "functions/internal/route", "FuzzRoute"},
	{"binding expressions", "functions/internal/expression", "FuzzTemplate"},
	{"files of functions", "functions/internal/jsonfile", "FuzzPlainJSON"},
	{"traces in messages", "workers", "FuzzTrace"},
	{"bodies of webhooks and handlers of functions", "functions", "FuzzBodies"},
	{"rows of large entities", "workers/roles/largeentity", "FuzzRow"},
	{"lines of Storage Analytics", "workers/roles/logstore", "FuzzSplitFields"},
	{"parameters of the HTTP API for workflows", "internal/durable/webhook", "FuzzParameters"},
	{"fields of the Durable Task protocol that the engine does not know", "internal/durable/record", "FuzzFields"},
	{"client assertions", "internal/server/devissuer", "FuzzAssertion"},
	{"content that the dashboard previews", "internal/server/dashboard/blobpages", "FuzzPreview"},
	{"fault rules", "internal/azure/faultrule", "FuzzRule"},
	{"seeds", "internal/server/seed", "FuzzParse"},
	{"content between nodes", "internal/cluster/mirror", "FuzzMessages"},
	{"requests that nodes pass on", "internal/cluster/forward", "FuzzMessages"},
	{"records of the replicated log", "internal/storage/replog", "FuzzDecode"},
	{"segments of an archive", "internal/server/archive", "FuzzSegment"},
	{"event subscriptions", "internal/server/events", "FuzzDecode"},
	{"searches", "workers/roles/searchindex", "FuzzQuery"},
	{"what a node of a cluster says of itself", "internal/cluster/peering", "FuzzHello"},
}

// notParsers are functions with a parameter "body []byte" that parse only a part of a grammar, or nothing.
var notParsers = []string{"Body", "Update", "reasonOf", "atomProperties", "request", "fromHTTP", "ask", "post"}

// Functions that parse client input are fuzzed: each grammar has a target, and each function with a parameter "body
// []byte" in the services and in the protocol, above their state, is called in a file with a target.
func TestParsersAreFuzzed(t *testing.T) {
	fuzzed := map[string]string{} // text of the test files with fuzz targets, by folder
	type function struct{ folder, name string }
	var parsers []function
	var states []string
	for _, service := range services {
		states = append(states, stateOf(service))
	}
	for _, root := range []string{"internal/azure", "tablesvc", "queuesvc", "blobsvc", "internal/state",
		"internal/server", "internal/durable", "functions", "workers", "internal/sdk/ncrontab", "internal/cluster/peering",
		"internal/cluster/mirror", "internal/cluster/forward", "internal/storage/replog"} {
		err := filepath.WalkDir(top+root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			relative, _ := filepath.Rel(top, path)
			folder := filepath.ToSlash(filepath.Dir(relative))
			if strings.HasSuffix(path, "_test.go") {
				text, err := os.ReadFile(path)
				if strings.Contains(string(text), "\nfunc Fuzz") {
					fuzzed[folder] += string(text)
				}
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, d := range file.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if ok && !slices.Contains(states, folder) && takesBody(fn) && !slices.Contains(notParsers, fn.Name.Name) {
					parsers = append(parsers, function{folder, fn.Name.Name})
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(parsers) < 5 {
		t.Fatalf("found %d functions that parse bodies; the rule would check nothing", len(parsers))
	}
	for _, f := range parsers {
		if !strings.Contains(fuzzed[f.folder], f.name+"(") {
			t.Errorf("%s: %s parses a body and no fuzz target in the folder calls it; add one with a workbudget", f.folder,
				f.name)
		}
	}
	for _, g := range grammars {
		_, target, found := strings.Cut(fuzzed[g.folder], "\nfunc "+g.target+"(")
		if !found {
			t.Errorf("%s: %s has no fuzz target %s", g.what, g.folder, g.target)
			continue
		}
		body, _, _ := strings.Cut(target, "\n}\n")
		// which goes through the whole service
		if !strings.Contains(strings.ToLower(body), "budget") && g.target != "FuzzMarker" {
			t.Errorf("%s: %s has no budget of time and memory", g.what, g.target)
		}
	}
}

// takesBody reports whether a function has a parameter "body []byte".
func takesBody(fn *ast.FuncDecl) bool {
	for _, p := range fn.Type.Params.List {
		slice, ok := p.Type.(*ast.ArrayType)
		if !ok || slice.Len != nil {
			continue
		}
		element, ok := slice.Elt.(*ast.Ident)
		named := slices.ContainsFunc(p.Names, func(n *ast.Ident) bool { return n.Name == "body" })
		if ok && element.Name == "byte" && named {
			return true
		}
	}
	return false
}
