package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dialect are expressions that are not plain technical English, with what to write instead.
var dialect = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\b(is|are|be) told\b`), "name the subject: the request says, the caller passes, the service reports"},
	{regexp.MustCompile(`(?i)\b(nobody|somebody|whoever|whomever)\b`), "name the actor: no process, a client, the caller"},
	{regexp.MustCompile(`(?i)\b(is|are) none\b`), "does not exist, is not a ..."},
	{regexp.MustCompile(`(?i)\banew\b`), "again, from the start"},
	{regexp.MustCompile(`(?i)\bhopeless\b`), "cannot be processed"},
	{regexp.MustCompile(`(?i)\bin vain\b`), "without a result"},
	{regexp.MustCompile(`(?i)\b(mend|mends|mended|mending)\b`), "fix, repair, correct"},
	{regexp.MustCompile(`(?i)\blively\b`), "active"},
	{regexp.MustCompile(`(?i)\btrying on\b`), "retrying"},
	{regexp.MustCompile(`(?i)\bforsake`), "abandon, delete"},
	{regexp.MustCompile(`(?i)\b(break|breaks|broke|broken) off\b`), "interrupt, cancel"},
	{regexp.MustCompile(`(?i)\bas good as\b`), "counts as, equals"},
	{regexp.MustCompile(`(?i)\bto be had\b`), "available, supported"},
	{regexp.MustCompile(`(?i)\bfor ever\b`), "without a limit"},
}

// plainFiles are the files and folders in which the dialect is not allowed. To add one, rewrite it, then list it here.
//
// To do: internal/azure, internal/httpserver, internal/server (other than config), tables, and the other pages of docs. Tests are not
// checked.
var plainFiles = []string{
	"README.md", "docs/cli.md", "docs/configuration.md", "docs/getting-started.md", "docs/workers.md",
	"internal/cli/chaos/*.go", "cmd/lazuli/*.go", "internal/server/config/*.go", "internal/sdk/connstr/*.go", "internal/sdk/emptykey/*.go",
	"workers/*.go", "workers/bindings/*.go", "workers/otelfunc/*.go", "workers/roles/*/*.go", "workers/durable/*.go", "workers/durable/*/*.go", "workers/durabletask/*.go",
	"examples/*/*.go", "examples/patterns/*/*.go", "examples/*.md", "CONTRIBUTING.md", "docs/functions.md", "docs/testing.md", "docs/extensions.md", "docs/patterns.md", "internal/fault/*.go", "internal/sdk/*/*.go", "lazulitest/*.go", "workers/customhandler/*.go", "internal/cli/devcert/*.go", "internal/cli/seed/*.go", "internal/cli/bench/*.go", "internal/cli/demo/*.go", "docs/dashboard.md", "docs/durable.md", "docs/faults.md", "docs/guide.md", "docs/tables.md", "docs/benchmarks.md", "CHANGELOG.md",
	"internal/cli/fsck/*.go", "internal/storage/bboltpage/*.go", "internal/storage/datadir/*.go", "internal/storage/disk/*.go",
	"internal/storage/diskspace/*.go", "internal/storage/extent/*.go", "internal/storage/filelock/*.go",
	"internal/storage/jetstreamfiles/*.go", "internal/storage/natsserver/*.go", "internal/storage/secretfile/*.go",
	"internal/storage/store/*.go", "internal/storage/sweep/*.go", "internal/storage/ticks/*.go", "internal/test/authmatrix/*.go",
	"internal/test/browsertest/*.go", "internal/test/check/*.go", "internal/test/clock/*.go", "internal/test/compat/*.go",
	"internal/test/crashimage/*.go", "internal/test/crashtest/*.go", "internal/test/faultdisk/*.go", "internal/test/fulldisk/*.go",
	"internal/test/lint/*.go", "internal/test/sdktest/faults/goclient/*.go", "internal/test/signer/*.go",
	"internal/test/testaccount/*.go", "internal/test/testlog/*.go", "internal/test/workbudget/*.go", "queuesvc/*.go",
	"queuesvc/internal/history/*.go", "queuesvc/internal/state/*.go",
	"docs/operations.md", "docs/queue.md",
	"blobsvc/*.go", "blobsvc/internal/avro/*.go", "blobsvc/internal/changefeed/*.go", "blobsvc/internal/content/*.go",
	"blobsvc/internal/copysource/*.go", "blobsvc/internal/encryption/*.go", "blobsvc/internal/parquet/*.go",
	"blobsvc/internal/query/*.go", "blobsvc/internal/state/*.go", "blobsvc/internal/website/*.go", "docs/DESIGN.md", "docs/blob.md",
	"docs/table.md", "tablesvc/*.go", "tablesvc/internal/entity/*.go", "tablesvc/internal/filter/*.go",
	"tablesvc/internal/state/*.go",
}

// languageExceptions are the lines in which an expression of the dialect is right, by file and a part of the line, with the reason.
var languageExceptions = []struct{ file, part, reason string }{}

func TestPlainLanguage(t *testing.T) {
	t.Parallel()
	for _, pattern := range plainFiles {
		files, err := filepath.Glob(top + pattern)
		if err != nil || len(files) == 0 {
			t.Errorf("%s matches no file: %v", pattern, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, text := range proseOf(t, file) {
				for _, d := range dialect {
					if found := d.pattern.FindString(text.line); found != "" && !excepted(file, text.line) {
						t.Errorf("%s:%d: %q: write: %s", strings.TrimPrefix(file, top), text.number, found, d.instead)
					}
				}
			}
		}
	}
}

type proseLine struct {
	number int
	line   string
}

// proseOf returns the comments and strings of a Go file, or all lines of another file.
func proseOf(t *testing.T, file string) (lines []proseLine) {
	t.Helper()
	add := func(first int, text string) {
		for i, line := range strings.Split(text, "\n") {
			lines = append(lines, proseLine{first + i, line})
		}
	}
	if filepath.Ext(file) != ".go" {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		add(1, string(text))
		return lines
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range parsed.Comments {
		for _, c := range group.List {
			add(set.Position(c.Pos()).Line, c.Text)
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING {
			add(set.Position(s.Pos()).Line, s.Value)
		}
		return true
	})
	return lines
}

func excepted(file, line string) bool {
	return slices.ContainsFunc(languageExceptions, func(e struct{ file, part, reason string }) bool {
		return strings.HasSuffix(file, e.file) && strings.Contains(line, e.part)
	})
}

// Every exception names a file and has a reason.
func TestLanguageExceptionsAreExplained(t *testing.T) {
	t.Parallel()
	for _, e := range languageExceptions {
		if _, err := os.Stat(top + e.file); err != nil || e.reason == "" {
			t.Errorf("exception %+v: %v", e, err)
		}
	}
}
