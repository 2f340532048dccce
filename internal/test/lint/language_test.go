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

// dialect are expressions that are not plain technical English, with what to write instead. Each contains its word in
// lower case: a search for a word is much faster than one for a pattern.
var dialect = []struct {
	word    string
	pattern *regexp.Regexp
	instead string
}{
	{"told", regexp.MustCompile(`(?i)\b(is|are|be) told\b`),
		"name the subject: the request says, the caller passes, the service reports"},
	{"body", regexp.MustCompile(`(?i)\b(no|some|any|every)body\b`), "name the actor: no process, a client, the caller"},
	{"ever", regexp.MustCompile(`(?i)\b(whoever|whomever)\b`), "name the actor: the process that, a client that"},
	{"none", regexp.MustCompile(`(?i)\b(is|are) none\b`), "does not exist, is not a ..."},
	{"lack", regexp.MustCompile(`(?i)\b(what lacks|who lacks|those who lack)\b`), "name the thing that is missing"},
	{"anew", regexp.MustCompile(`(?i)\banew\b`), "again, from the start"},
	{"hopeless", regexp.MustCompile(`(?i)\bhopeless\b`), "cannot be processed"},
	{"in vain", regexp.MustCompile(`(?i)\bin vain\b`), "without a result"},
	{"mend", regexp.MustCompile(`(?i)\b(mend|mends|mended|mending)\b`), "fix, repair, correct"},
	{"lively", regexp.MustCompile(`(?i)\blively\b`), "active"},
	{"trying on", regexp.MustCompile(`(?i)\btrying on\b`), "retrying"},
	{"forsake", regexp.MustCompile(`(?i)\bforsake`), "abandon, delete"},
	{" off", regexp.MustCompile(`(?i)\b(break|breaks|broke|broken) off\b`), "interrupt, cancel"},
	{"as good as", regexp.MustCompile(`(?i)\bas good as\b`), "counts as, equals"},
	{"to be had", regexp.MustCompile(`(?i)\bto be had\b`), "available, supported"},
	{"for ever", regexp.MustCompile(`(?i)\bfor ever\b`), "without a limit"},
	{"", regexp.MustCompile(`^\w+ (is|are) (how|when|where|what|whether) `), "begin with what the thing does or holds"},
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
			lower := strings.ToLower(text.line)
			for _, d := range dialect {
				if !strings.Contains(lower, d.word) {
					continue
				}
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
