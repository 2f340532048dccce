package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/fault"
	lazuli "github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/state/blob/maintain"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/sweep"
)

// lakeChild is the environment variable that makes the test binary a server on a folder, which dies where fault.EnvVar
// says: "FOLDER METHOD PATH [RENAME-SOURCE]" is the request that takes it there.
const lakeChild = "LAZULI_TEST_LAKE_CHILD"

// filesBelow is the number of files below the directory: more than the background removes in one transaction.
const filesBelow = sweep.Batch + 200

// lakeServer is a server of this process on a folder, whose account has a hierarchical namespace.
type lakeServer struct{ *lazuli.Server }

func startLake(folder string) (s lakeServer, err error) {
	key, err := auth.ParseKey(auth.DevelopmentKey)
	if err != nil {
		return s, err
	}
	accounts, err := auth.NewManagedAccounts(accountprops.Blob{Hierarchical: true},
		auth.Account{Name: auth.DevelopmentAccount, Keys: []auth.Key{key}})
	if err != nil {
		return s, err
	}
	s.Server, err = lazuli.Start(lazuli.Config{Location: folder, Accounts: accounts, Log: slog.New(slog.DiscardHandler)})
	return s, err
}

func (s lakeServer) do(ctx context.Context, method, path, source string) (body string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, s.InProcessURL(wire.DataLake, auth.DevelopmentAccount)+path, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("x-ms-version", "2021-12-02")
	if source != "" {
		r.Header.Set("x-ms-rename-source", source)
	}
	answer, err := s.InProcess().RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 400 {
		err = fmt.Errorf("%s %s: %s %s", method, path, answer.Status, text)
	}
	return string(text), err
}

var listedName = regexp.MustCompile(`"name":"([^"]*)"`)

// paths lists the first level of the filesystem, and counts what is below it.
func (s lakeServer) paths(ctx context.Context) (top string, below int, err error) {
	page, err := s.do(ctx, "GET", "/files?resource=filesystem&recursive=true", "")
	var names []string
	for _, m := range listedName.FindAllStringSubmatch(page, -1) {
		if strings.Contains(m[1], "/") {
			below++
		} else {
			names = append(names, m[1])
		}
	}
	return strings.Join(names, " "), below, err
}

// runLakeChild makes the tree in the folder and sends the request. It should not return.
func runLakeChild(text string) error {
	plan, err := fault.ParsePlan(os.Getenv(fault.EnvVar))
	if err != nil {
		return err
	}
	words := append(strings.Fields(text), "")
	s, err := startLake(words[0])
	if err != nil {
		return err
	}
	ctx := context.Background()
	for _, path := range []string{"/files?resource=filesystem", "/files/d?resource=directory",
		"/files/keep?resource=directory"} {
		if _, err := s.do(ctx, "PUT", path, ""); err != nil {
			return err
		}
	}
	failed := make(chan error, 16)
	var wait sync.WaitGroup
	for worker := range 16 {
		wait.Go(func() {
			for i := worker; i < filesBelow; i += 16 {
				if _, err := s.do(ctx, "PUT", fmt.Sprintf("/files/d/%d?resource=file", i), ""); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wait.Wait()
	if len(failed) > 0 {
		return <-failed
	}
	fault.Activate(plan)
	if _, err := s.do(ctx, words[1], words[2], words[3]); err != nil {
		return err
	}
	<-time.After(patience) // the background dies
	return errors.New("the server was not killed")
}

// A kill at each step of a rename, of a recursive delete and of the removal in the background leaves a tree in which
// the change has happened or not, and space that comes back.
func TestKillLakeSteps(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		point, request string
		top            string
		below          int
	}{
		{"lake/before-rename=kill", "PUT /files/moved /files/d", "d keep", filesBelow},
		{"lake/before-unlink=kill", "DELETE /files/d?recursive=true", "d keep", filesBelow},
		{"lake/after-unlink=kill", "DELETE /files/d?recursive=true", "keep", 0},
		{"lake/collecting=kill@1", "DELETE /files/d?recursive=true", "keep", 0},
		{"lake/collecting=kill@2", "DELETE /files/d?recursive=true", "keep", 0},
	} {
		t.Run(tc.point, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "data")
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), lakeChild+"="+folder+" "+tc.request, fault.EnvVar+"="+tc.point)
			out, err := cmd.CombinedOutput()
			if state := cmd.ProcessState; err == nil || state == nil || state.ExitCode() != -1 {
				t.Fatalf("the server was not killed: %v\n%s", err, out)
			}
			fsckClean(t, folder)
			s, err := startLake(folder)
			if err != nil {
				t.Fatal(err)
			}
			top, below, err := s.paths(t.Context())
			if err != nil || top != tc.top || below != tc.below {
				t.Errorf("after the kill: %s, %d below (%v), want %s, %d", top, below, err, tc.top, tc.below)
			}
			if tc.below > 0 { // what was not done can be done
				if _, err := s.do(t.Context(), "DELETE", "/files/d?recursive=true", ""); err != nil {
					t.Error(err)
				}
			}
			if err := s.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			// The work that the kill interrupted goes on, until the root and the directory that was kept are left.
			dir, err := datadir.OpenExisting(folder)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = maintain.CompactFolder(t.Context(), dir.Blobs(), dir.Extents(), nil, 0, nil)
			if err := errors.Join(err, dir.Close()); err != nil {
				t.Fatal(err)
			}
			r, err := fsck.Check(t.Context(), folder, fsck.Options{})
			if err != nil || !r.Clean || r.Blobs.Blobs != 2 {
				t.Fatalf("fsck: %v %+v", err, r)
			}
		})
	}
}
