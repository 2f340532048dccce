package blobsvc_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

var nextMarker = regexp.MustCompile(`<NextMarker>([^<]+)</NextMarker>`)

// pages reads all pages of a listing and returns the names in them and the length of the longest.
func (f *fixture) pages(t *testing.T, path string) (names []string, pages, longest int) {
	t.Helper()
	name := regexp.MustCompile(`<Name>([^<]+)</Name>`)
	for marker := ""; ; pages++ {
		r := f.do("GET", path+"&marker="+url.QueryEscape(marker), "").want(t, 200, "")
		longest = max(longest, len(r.body))
		for _, m := range name.FindAllStringSubmatch(r.body, -1) {
			names = append(names, m[1])
		}
		m := nextMarker.FindStringSubmatch(r.body)
		if m == nil {
			return names, pages + 1, longest
		}
		marker = m[1]
	}
}

// A listing whose work ends answers a page with a marker, also if it has found nothing, and pages come to an end.
func TestWorkEndsPages(t *testing.T) {
	t.Parallel()
	f := startWith(t, func(c *blobhost.Config) { c.Options.Work = time.Nanosecond })
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	for i := range 300 {
		f.do("PUT", fmt.Sprintf("/box/b%03d", i), "", "x-ms-blob-type", "BlockBlob", "x-ms-tags", "n=1").want(t, 201, "")
	}
	f.do("PUT", "/box/uncommitted?comp=block&blockid=AAAA", "x").want(t, 201, "")
	for path, want := range map[string]int{
		"/box?restype=container&comp=list":                                       300,
		"/box?restype=container&comp=list&include=uncommittedblobs,metadata":     301,
		"/?comp=blobs&where=" + url.QueryEscape(`"n" = '1'`):                     300,
		"/?comp=blobs&where=" + url.QueryEscape(`"n" = '2'`):                     0,
		"/?comp=blobs&where=" + url.QueryEscape(`@container='box' AND "n">='0'`): 300,
	} {
		names, pages, _ := f.pages(t, path)
		seen := map[string]bool{}
		for _, n := range names {
			seen[n] = true
		}
		if len(names) != want || len(seen) != want || pages < 2 || pages > 300 {
			t.Errorf("%s: %d items, %d different ones, in %d pages; want %d", path, len(names), len(seen), pages, want)
		}
	}
}

// A page of containers ends at a size, whatever metadata they have.
func TestPagesOfContainersAreBounded(t *testing.T) {
	t.Parallel()
	f := start(t)
	metadata := strings.Repeat("&", 7000) // as &amp;
	for i := range 150 {
		f.do("PUT", fmt.Sprintf("/box%03d?restype=container", i), "", "x-ms-meta-m", metadata).want(t, 201, "")
	}
	names, pages, longest := f.pages(t, "/?comp=list&include=metadata")
	if len(names) != 150 || pages != 2 || longest > budget.Answer+64<<10 {
		t.Errorf("%d containers in %d pages of up to %d bytes", len(names), pages, longest)
	}
	if names, pages, _ := f.pages(t, "/?comp=list"); len(names) != 150 || pages != 1 {
		t.Errorf("without metadata: %d containers in %d pages", len(names), pages)
	}
}
