package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// The options, addresses and clients of docs/dotnet.md are those of the program, and the documentation leads there.
func TestPageForDotNet(t *testing.T) {
	t.Parallel()
	read := func(path string) string { return string(check.Must(os.ReadFile("../../" + path))(t)) }
	page := read("docs/dotnet.md")
	if !strings.Contains(read("docs/README.md"), "(dotnet.md)") {
		t.Error("docs/README.md has no link to docs/dotnet.md")
	}
	if !strings.Contains(page, "AccountName="+auth.DevelopmentAccount+";AccountKey="+auth.DevelopmentKey+";") {
		t.Error("the connection string is not that of the development account")
	}
	// Each option, and each address of the page, is in the reference that is made of the options.
	reference := config.Reference()
	for _, option := range regexp.MustCompile("(?m)^lazuli serve (.*)$").FindAllStringSubmatch(page, -1) {
		for _, flag := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(option[1], -1) {
			if !strings.Contains(reference, "`"+flag[1]+"`") && !strings.Contains(reference, "--"+flag[1]) {
				t.Errorf("no option %s", flag[0])
			}
		}
	}
	for _, address := range regexp.MustCompile(`127\.0\.0\.1:(\d+)`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(reference, address[1]) {
			t.Errorf("no default of an option has the port of %s", address[0])
		}
	}
	clients := read(".ci/clients")
	for _, client := range regexp.MustCompile("`.ci/clients ([a-z-]+)`").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(clients, "client_"+client[1]+"()") {
			t.Errorf("no client %s", client[1])
		}
	}
}
