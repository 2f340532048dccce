package fsck

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/server"
	must "github.com/lazuli-storage/lazuli/internal/test/check"
)

// lakeStack is a server whose account has a hierarchical namespace.
type lakeStack struct {
	*server.Server
	t *testing.T
}

func startLake(t *testing.T, folder string) lakeStack {
	t.Helper()
	key, err := auth.ParseKey(auth.DevelopmentKey)
	must.OK(t, err)
	accounts, err := auth.NewManagedAccounts(accountprops.Blob{Hierarchical: true},
		auth.Account{Name: auth.DevelopmentAccount, Keys: []auth.Key{key}})
	must.OK(t, err)
	s, err := server.Start(server.Config{Location: folder, Accounts: accounts, Relaxed: true,
		Log: slog.New(slog.DiscardHandler)})
	must.OK(t, err)
	return lakeStack{s, t}
}

func (s lakeStack) do(method, path, content string, headers ...string) (status int, body string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method,
		s.InProcessURL(wire.DataLake, auth.DevelopmentAccount)+path, strings.NewReader(content))
	must.OK(s.t, err)
	r.Header.Set("x-ms-version", "2021-12-02")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := s.InProcess().RoundTrip(r)
	must.OK(s.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must.OK(s.t, err)
	return answer.StatusCode, string(text)
}

func (s lakeStack) must(method, path, content string, headers ...string) string {
	s.t.Helper()
	status, body := s.do(method, path, content, headers...)
	if status >= 300 {
		s.t.Fatalf("%s %s: %d %s", method, path, status, body)
	}
	return body
}

func (s lakeStack) stop() {
	s.t.Helper()
	must.OK(s.t, s.Stop(context.WithoutCancel(s.t.Context())))
}

var pathName = regexp.MustCompile(`"name":"([^"]*)"`)

// files returns the contents of the files of all filesystems, by content. A file that answers an error has none.
func (s lakeStack) files() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for _, fs := range pathName.FindAllStringSubmatch(s.must("GET", "/?resource=account", ""), -1) {
		page := s.must("GET", "/"+fs[1]+"?resource=filesystem&recursive=true", "")
		for _, m := range pathName.FindAllStringSubmatch(page, -1) {
			path := "/" + fs[1] + "/" + m[1]
			if status, body := s.do("GET", path, ""); status == http.StatusOK && strings.HasPrefix(body, "content ") {
				all[body] = path
			}
		}
	}
	return all
}

// plantTree makes a folder with a tree of files whose contents differ, and returns the paths by content. One directory
// of the tree is deleted; the background that removes it does parts steps, each for one directory. There are eight of
// them. The caller runs no other test beside this.
func plantTree(t *testing.T, parts int) (folder string, files map[string]string) {
	t.Helper()
	const collecting = "lake/collecting"
	var plan *fault.Plan
	plan = fault.NewPlan(fault.Rule{Point: collecting, Do: func(fault.Name) error {
		if plan.Hits(collecting) >= parts {
			return fault.ErrInjected
		}
		return nil
	}})
	defer fault.Activate(plan)()
	folder = filepath.Join(t.TempDir(), "data")
	s := startLake(t, folder)
	s.must("PUT", "/files?resource=filesystem", "")
	for i := range 300 {
		path := fmt.Sprintf("/files/directory-%d/%d/file-%d", i%10, i%7, i)
		s.must("PUT", path+"?resource=file", "")
		text := fmt.Sprintf("content %d", i)
		s.must("PATCH", path+"?action=append&position=0&flush=true", text)
	}
	s.must("PATCH", "/files/directory-1?action=setAccessControl", "", "x-ms-permissions", "0711")
	s.must("DELETE", "/files/directory-9?recursive=true", "")
	must.Eventually(t, func() bool { return plan.Hits(collecting) >= parts }, "%d removed parts", parts)
	files = s.files()
	if len(files) != 270 {
		t.Fatalf("%d files", len(files))
	}
	s.stop()
	return folder, files
}

// A page of the database with the names and records of a tree is overwritten, one page at a time. The check finds it; a
// repair leaves a clean folder, in which each file can be read, at its place or in lost+found, or is reported as lost.
// LAZULI_CORRUPTIONS=all overwrites every page.
func TestTreesWithoutAPage(t *testing.T) {
	// A removal of which one part of eight is done, and one that is over.
	for _, parts := range []int{1, 8} {
		folder, want := plantTree(t, parts)
		t.Run(fmt.Sprintf("%d parts", parts), func(t *testing.T) {
			t.Parallel()
			treesWithoutAPage(t, folder, want)
		})
	}
}

func treesWithoutAPage(t *testing.T, folder string, want map[string]string) {
	image := imageOf(t, folder)
	db := image["blobs.db"]
	pages := len(db.used) / 4096
	step := 3
	if os.Getenv("LAZULI_CORRUPTIONS") == "all" {
		step = 1
	}
	outcomes := map[string]int{}
	for page := 2; page < pages; page += step {
		p := bytes.Clone(db.used)
		for i := range 4096 {
			p[page*4096+i] ^= 0xa5
		}
		damaged := maps.Clone(image)
		damaged["blobs.db"] = fileImage{p, db.size}
		dir := damaged.write(t)
		before := checkDir(t, dir)
		if before.Clean {
			outcomes["not in use"]++
			continue
		}
		r, err := Check(t.Context(), dir, Options{Repair: true})
		must.OK(t, err)
		if after := checkDir(t, dir); !after.Clean {
			t.Errorf("page %d: after a repair: %v\nbefore: %v", page, after.Findings, before.Findings)
			continue
		}
		s := startLake(t, dir)
		got := s.files()
		moved, lost := 0, 0
		for content, path := range want {
			switch now, ok := got[content]; {
			case !ok:
				lost++
			case now != path:
				moved++
			}
		}
		for content := range got {
			if want[content] == "" {
				t.Errorf("page %d: a deleted file is there again: %s", page, got[content])
			}
		}
		if lost > 0 && len(r.Lost) == 0 {
			t.Errorf("page %d: %d files are lost, and the report says nothing of it: %v", page, lost, r.Repaired)
		}
		switch {
		case lost > 0:
			outcomes["lost files, reported"]++
		case moved > 0:
			outcomes["files in lost+found"]++
		default:
			outcomes["all files in their places"]++
		}
		s.stop()
	}
	t.Logf("%d pages: %v", pages, outcomes)
	if outcomes["all files in their places"] == 0 {
		t.Error("no damaged page was repaired without loss: the test shows nothing")
	}
}
