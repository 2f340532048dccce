package main

import (
	"os"
	"strings"
	"testing"
)

// The page on workflows quotes the program and its test whole.
func TestThePageQuotesTheProgram(t *testing.T) {
	page, err := os.ReadFile("../../docs/durable.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main.go", "main_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "```go\n"+string(text)+"```\n") {
			t.Errorf("docs/durable.md does not quote %s: copy it", name)
		}
	}
}
