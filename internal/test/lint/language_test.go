package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
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
	{regexp.MustCompile(`(?i)\b(is|are|be) told\b`),
		"name the subject: the request says, the caller passes, the service reports"},
	{regexp.MustCompile(`(?i)\b(nobody|somebody|anybody|everybody|whoever|whomever)\b`),
		"name the actor: no process, a client, the caller"},
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
	{regexp.MustCompile(`^\w+ (is|are) (how|when|where|what|whether) `), "begin with what the thing does or holds"},
}

// plainFolders are the folders in whose Go files and pages, at any depth, the dialect is not allowed: all of them.
var plainFolders = []string{"blobsvc", "cmd", "docs", "examples", "functions", "internal", "lazulitest", "queuesvc",
	"server", "tables", "tablesvc", "workers"}

// plainFiles are the pages at the top.
var plainFiles = []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}

// languageExceptions are the lines in which an expression of the dialect is right, by file and a part of the line, with
// the reason.
var languageExceptions = []struct{ file, part, reason string }{}

// Of tests the comments are checked. Generated SDK data is not checked.
func TestPlainLanguage(t *testing.T) {
	t.Parallel()
	files := slices.Clone(plainFiles)
	for _, folder := range plainFolders {
		err := filepath.WalkDir(top+folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name := entry.Name()
			if entry.IsDir() && (name == "testdata" || name == "node_modules") {
				return fs.SkipDir
			}
			if filepath.Ext(name) == ".md" || filepath.Ext(name) == ".go" {
				files = append(files, strings.TrimPrefix(path, top))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		for _, text := range proseOf(t, top+file) {
			for _, d := range dialect {
				if found := d.pattern.FindString(text.line); found != "" && !excepted(file, text.line) {
					t.Errorf("%s:%d: %q: write: %s", file, text.number, found, d.instead)
				}
			}
		}
	}
}

type proseLine struct {
	number int
	line   string
}

// proseOf returns the comments and strings of a Go file, the comments of a test, or all lines of another file.
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
	if strings.HasSuffix(file, "_test.go") {
		return lines
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
