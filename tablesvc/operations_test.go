package tablesvc

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// reference lists the operations of the REST reference.
// https://learn.microsoft.com/rest/api/storageservices/table-service-rest-api
var reference = []string{
	"SetTableServiceProperties", "GetTableServiceProperties", "PreflightTableRequest", "GetTableServiceStats",
	"QueryTables",
	"CreateTable", "DeleteTable", "GetTableAcl", "SetTableAcl", "QueryEntities", "InsertEntity", "InsertOrMergeEntity",
	"InsertOrReplaceEntity", "UpdateEntity", "MergeEntity", "DeleteEntity", "EntityGroupTransaction",
}

// TestOperationsTable: every operation of the reference has a row, every row is one of the reference, and each has a
// test of its name. That no request matches two rows is checked by frontend.New.
func TestOperationsTable(t *testing.T) {
	t.Parallel()
	tests := testNames(t)
	rows := make(map[string]bool)
	for _, row := range operations {
		rows[row.Name] = true
		if !slices.Contains(reference, row.Name) {
			t.Errorf("row %s is not in the reference", row.Name)
		}
	}
	for _, name := range reference {
		if !rows[name] {
			t.Errorf("%s has no row", name)
		}
		if !tests["Test"+name] {
			t.Errorf("%s has no test Test%s", name, name)
		}
	}
}

func testNames(t *testing.T) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}
