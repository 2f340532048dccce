package blobsvc_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
)

// reference are the operations of the REST reference.
// https://learn.microsoft.com/rest/api/storageservices/operations-on-the-blob-service
var reference = strings.Fields(`
	ListContainers GetBlobServiceProperties SetBlobServiceProperties GetBlobServiceStats GetAccountInformation
	GetUserDelegationKey BlobBatch FindBlobsByTags PreflightBlobRequest
	CreateContainer GetContainerProperties GetContainerMetadata SetContainerMetadata GetContainerACL SetContainerACL
	DeleteContainer RestoreContainer LeaseContainer ListBlobs FindBlobsByTagsInContainer
	PutBlob PutBlobFromURL GetBlob GetBlobProperties SetBlobProperties GetBlobMetadata SetBlobMetadata GetBlobTags SetBlobTags
	LeaseBlob SnapshotBlob CopyBlob CopyBlobFromURL AbortCopyBlob DeleteBlob UndeleteBlob SetBlobTier SetBlobExpiry
	SetBlobImmutabilityPolicy DeleteBlobImmutabilityPolicy SetBlobLegalHold QueryBlobContents
	PutBlock PutBlockFromURL PutBlockList GetBlockList PutPage PutPageFromURL GetPageRanges IncrementalCopyBlob
	AppendBlock AppendBlockFromURL SealAppendBlob`)

func TestEveryOperationHasARow(t *testing.T) {
	t.Parallel()
	var rows []string
	for _, row := range blobsvc.Rows() {
		rows = append(rows, row.Name)
	}
	for _, name := range reference {
		if !slices.Contains(rows, name) {
			t.Errorf("%s has no row", name)
		}
	}
	for _, name := range rows {
		if !slices.Contains(reference, name) && name != "RenameContainer" { // which clients have
			t.Errorf("%s is not in the reference", name)
		}
	}
}

func TestEveryOperationHasATest(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	tests := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				tests[fn.Name.Name] = true
			}
		}
	}
	for _, row := range blobsvc.Rows() {
		if row.State != frontend.NotImplemented && !tests["Test"+row.Name] {
			t.Errorf("there is no Test%s", row.Name)
		}
	}
}

// What is not there answers 501 in Azure's form, and partial rows say what is missing.
func TestMissingOperations(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	for _, row := range blobsvc.Rows() {
		if row.State == frontend.Partial && row.Note == "" {
			t.Errorf("%s is partial and does not say why", row.Name)
		}
		if row.State != frontend.NotImplemented {
			continue
		}
		path := map[frontend.Level]string{"service": "/", "container": "/box", "blob": "/box/b"}[row.On] + "?comp=" + row.Comp
		if row.Restype != "" {
			path += "&restype=" + row.Restype
		}
		r := f.do(row.Method, path, "").want(t, 501, "NotImplemented")
		if !strings.Contains(r.body, "<Code>NotImplemented</Code>") {
			t.Errorf("%s: %s", row.Name, r.body)
		}
	}
	f.do("GET", "/box/b?comp=nonsense", "").want(t, 400, "InvalidQueryParameterValue")
	f.do("PATCH", "/box/b", "").want(t, 405, "UnsupportedHttpVerb")
}
