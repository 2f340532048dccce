package queuesvc

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
)

// reference is the list of the Queue service's operations in its REST reference.
// https://learn.microsoft.com/rest/api/storageservices/queue-service-rest-api
var reference = []string{
	"ListQueues", "SetQueueServiceProperties", "GetQueueServiceProperties", "GetQueueServiceStats",
	"PreflightQueueRequest",
	"CreateQueue", "DeleteQueue", "GetQueueMetadata", "SetQueueMetadata", "GetQueueACL", "SetQueueACL",
	"PutMessage", "GetMessages", "PeekMessages", "DeleteMessage", "ClearMessages", "UpdateMessage", "GetUserDelegationKey",
}

func TestEveryOperationHasARow(t *testing.T) {
	t.Parallel()
	rows := make(map[string]bool)
	for _, name := range Operations() {
		rows[name] = true
	}
	for _, name := range reference {
		if !rows[name] {
			t.Errorf("%s has no row", name)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("%s is not in the reference", name)
	}
}

// Every row that does something has a test that bears its name, or a part of it: TestGetAndSetQueueACL.
func TestEveryOperationHasATest(t *testing.T) {
	t.Parallel()
	var tests []string
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") {
				tests = append(tests, fn.Name.Name)
			}
		}
	}
	for _, row := range operations {
		// the latter by the service properties
		if row.State == frontend.NotImplemented || row.Name == "PreflightQueueRequest" {
			continue
		}
		verb := row.Name[:3]
		found := false
		for _, name := range tests {
			found = found || name == "Test"+row.Name ||
				name == "TestGetAndSet"+row.Name[3:] && (verb == "Get" || verb == "Set")
		}
		if !found {
			t.Errorf("%s has no test", row.Name)
		}
	}
}

// Operations that are not there answer so, and never anything else.
func TestNotImplementedOperationsHaveNoHandler(t *testing.T) {
	t.Parallel()
	for _, o := range operations {
		if (o.State == frontend.NotImplemented) != (o.Do == nil) {
			t.Errorf("%s: state %s, handler %v", o.Name, o.State, o.Do != nil)
		}
	}
}
