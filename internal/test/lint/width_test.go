package lint

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is the width of a line of Go, in characters.
const maxColumns = 120

// unbroken matches lines that cannot be broken: addresses, drawings in comments,
// and literals without a place for a break.
var unbroken = regexp.MustCompile("https?://| {20}|^\\t*//(\\t|  )|^// source:|^// Code generated|[\"`][^ ]{40,}|`[^`]*$|^[^`]*`\\)?[,;]?$|// Output:|`[^`]{60,}`|\"[^\"]{60,}\"")

func TestLinesAreShort(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("git", "-C", top, "ls-files", "*.go").Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	files := strings.Fields(string(out))
	if len(files) < 100 {
		t.Fatalf("found %d files; the rule would check nothing", len(files))
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".pb.go") { // generated
			continue
		}
		text, err := os.ReadFile(top + file)
		if os.IsNotExist(err) {
			continue // removed, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		raw := false // inside a raw string of several lines
		for i, line := range strings.Split(string(text), "\n") {
			was := raw
			raw = raw != (strings.Count(line, "`")%2 == 1)
			if was || raw || utf8.RuneCountInString(line) <= maxColumns || unbroken.MatchString(line) {
				continue
			}
			t.Errorf("%s:%d: %d characters, want at most %d", file, i+1, utf8.RuneCountInString(line), maxColumns)
		}
	}
}
