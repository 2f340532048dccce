// Command lakefigures measures the same requests of the Data Lake SDK on two accounts of one server: one with a
// hierarchical namespace and a flat one. It prints a table.
//
//	lakefigures [FILES]
//
// LAZULI_CONNECTION_STRING is that of the hierarchical account, LAZULI_FLAT_CONNECTION_STRING that of the flat one.
// Both are used by turns, so that both meet the same other work of the machine.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/directory"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/filesystem"

	"github.com/lazuli-storage/lazuli/internal/test/clients/azurehosts"
)

const (
	workers  = 16
	rounds   = 3
	pieces   = 24      // of a large file
	piece    = 8 << 20 // bytes
	small    = 4 << 10 // bytes
	box      = "figures"
	inFolder = 100 // files of a directory
)

var ctx = context.Background()

// account is one of the two accounts, by both of its endpoints.
type account struct {
	name  string
	lake  *filesystem.Client
	blobs *container.Client
	// folder is the directory of the current round.
	folder string
}

func main() {
	log.SetFlags(0)
	files := 5000
	if len(os.Args) > 1 {
		var err error
		if files, err = strconv.Atoi(os.Args[1]); err != nil || files < inFolder {
			log.Fatal("usage: lakefigures [FILES]")
		}
	}
	if err := run(files); err != nil {
		log.Fatal(err)
	}
}

func run(files int) error {
	tree, err := open("hierarchical", os.Getenv("LAZULI_CONNECTION_STRING"))
	if err != nil {
		return err
	}
	flat, err := open("flat", os.Getenv("LAZULI_FLAT_CONNECTION_STRING"))
	if err != nil {
		return err
	}
	fmt.Printf("| requests | %s | %s | relation |\n| --- | --- | --- | --- |\n", tree.name, flat.name)
	all := steps(files)
	took := map[*account][][]float64{tree: make([][]float64, len(all)), flat: make([][]float64, len(all))}
	for round := range rounds {
		tree.folder, flat.folder = fmt.Sprintf("r%d", round), fmt.Sprintf("r%d", round)
		for i, s := range all {
			pair := []*account{tree, flat}
			if round%2 == 1 {
				slices.Reverse(pair)
			}
			for _, a := range pair {
				began := time.Now()
				if err := s.do(a); err != nil {
					return fmt.Errorf("%s, %s: %w", s.name, a.name, err)
				}
				took[a][i] = append(took[a][i], s.count/time.Since(began).Seconds())
			}
		}
	}
	for i, s := range all {
		a, b := median(took[tree][i]), median(took[flat][i])
		fmt.Printf("| %s | %.0f | %.0f | %.2f |\n", s.name, a, b, a/b)
	}
	return nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// step is one row of the table: what is done, and how many requests, files or MiB that is.
type step struct {
	name  string
	count float64
	do    func(*account) error
}

func steps(files int) []step {
	content := bytes.Repeat([]byte("lake"), small/4)
	large := bytes.Repeat([]byte("lake"), piece/4)
	path := func(a *account, kind string, i int) string {
		return fmt.Sprintf("%s/%s/%03d/%06d", a.folder, kind, i/inFolder, i)
	}
	each := func(do func(a *account, i int) error) func(*account) error {
		return func(a *account) error { return parallel(files, func(i int) error { return do(a, i) }) }
	}
	n := float64(files)
	// The steps build on each other: files that one writes are read, renamed and deleted by later ones.
	return []step{
		{"create a file (Path Create), a second", n, each(func(a *account, i int) error {
			_, err := a.lake.NewFileClient(path(a, "new", i)).Create(ctx, nil)
			return err
		})},
		{"write a file of 4 KiB (Put Blob), a second", n, each(func(a *account, i int) error {
			_, err := a.blobs.NewBlockBlobClient(path(a, "put", i)).Upload(ctx, body(content), nil)
			return err
		})},
		{"append and flush 4 KiB, a second", n, each(func(a *account, i int) error {
			f := a.lake.NewFileClient(path(a, "new", i))
			if _, err := f.AppendData(ctx, 0, body(content), nil); err != nil {
				return err
			}
			_, err := f.FlushData(ctx, small, nil)
			return err
		})},
		{"read a file of 4 KiB, a second", n, each(func(a *account, i int) error {
			r, err := a.lake.NewFileClient(path(a, "put", i)).DownloadStream(ctx, nil)
			if err != nil {
				return err
			}
			defer r.Body.Close()
			if got, err := io.Copy(io.Discard, r.Body); err != nil || got != small {
				return fmt.Errorf("read %d bytes: %v", got, err)
			}
			return nil
		})},
		{"properties of a file, a second", n, each(func(a *account, i int) error {
			_, err := a.lake.NewFileClient(path(a, "put", i)).GetProperties(ctx, nil)
			return err
		})},
		{"list paths, recursively, paths a second", n, func(a *account) error { return a.list(a.folder+"/put", files) }},
		{"append in pieces of 8 MiB and flush, MiB a second", pieces * piece >> 20, func(a *account) error {
			f := a.lake.NewFileClient(a.folder + "/large")
			if _, err := f.Create(ctx, nil); err != nil {
				return err
			}
			err := parallel(pieces, func(i int) error {
				_, err := f.AppendData(ctx, int64(i)*piece, body(large), nil)
				return err
			})
			if err != nil {
				return err
			}
			_, err = f.FlushData(ctx, pieces*piece, nil)
			return err
		}},
		{"read a file of 192 MiB, MiB a second", pieces * piece >> 20, func(a *account) error {
			return parallel(pieces, func(i int) error {
				r, err := a.blobs.NewBlobClient(a.folder+"/large").DownloadStream(ctx,
					&azblob.DownloadStreamOptions{Range: azblob.HTTPRange{Offset: int64(i) * piece, Count: piece}})
				if err != nil {
					return err
				}
				defer r.Body.Close()
				_, err = io.Copy(io.Discard, r.Body)
				return err
			})
		}},
		{"rename a file (flat: copy, delete), a second", n, each(func(a *account, i int) error {
			from, to := path(a, "put", i), path(a, "put", i)+".renamed"
			// A flat account has no rename: the comparison is with what its users have to do.
			if a.name == "hierarchical" {
				_, err := a.lake.NewFileClient(from).Rename(ctx, to, nil)
				return err
			}
			source := a.blobs.NewBlobClient(from)
			if _, err := a.blobs.NewBlobClient(to).StartCopyFromURL(ctx, source.URL(), nil); err != nil {
				return err
			}
			_, err := source.Delete(ctx, nil)
			return err
		})},
		// The same for a directory, one file after the other in parallel.
		{"rename a directory (flat: each file), files a second", n, func(a *account) error {
			if a.name == "hierarchical" {
				_, err := a.lake.NewDirectoryClient(a.folder+"/new").Rename(ctx, a.folder+"/moved", nil)
				return err
			}
			return parallel(files, func(i int) error {
				source := a.blobs.NewBlobClient(path(a, "new", i))
				if _, err := a.blobs.NewBlobClient(path(a, "moved", i)).StartCopyFromURL(ctx, source.URL(), nil); err != nil {
					return err
				}
				_, err := source.Delete(ctx, nil)
				return err
			})
		}},
		{"delete a file, a second", n, each(func(a *account, i int) error {
			_, err := a.lake.NewFileClient(path(a, "put", i)+".renamed").Delete(ctx, nil)
			return err
		})},
		{"delete a directory, recursively, files a second", n, func(a *account) error {
			_, err := a.lake.NewDirectoryClient(a.folder+"/moved").Delete(ctx, &directory.DeleteOptions{})
			return err
		}},
	}
}

// list lists everything below a directory, which has a number of files.
func (a *account) list(path string, files int) error {
	pager := a.lake.NewListPathsPager(true, &filesystem.ListPathsOptions{Prefix: to.Ptr(path)})
	found := 0
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, p := range page.Paths {
			if p.IsDirectory == nil || !*p.IsDirectory {
				found++
			}
		}
	}
	if found != files {
		return fmt.Errorf("listed %d files, want %d", found, files)
	}
	return nil
}

func body(b []byte) io.ReadSeekCloser { return streaming.NopCloser(bytes.NewReader(b)) }

// parallel calls do for 0 to n-1, by several workers.
func parallel(n int, do func(i int) error) error {
	var next atomic.Int64
	failed := make([]error, workers)
	var wait sync.WaitGroup
	for w := range failed {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed[w] == nil; i = int(next.Add(1)) - 1 {
				failed[w] = do(i)
			}
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}

// open makes the filesystem of an account. The SDK finds its endpoints by host names, which all lead to this machine.
func open(name, connection string) (*account, error) {
	at := azurehosts.ParseConnection(connection)
	_, port, err := net.SplitHostPort(at.Endpoints["blob"])
	if err != nil {
		return nil, err
	}
	transport := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
		}}}
	options := azcore.ClientOptions{Transport: transport}
	url := "http://" + at.Name + ".dfs.localhost:" + port + "/" + box
	lakeKey, err := azdatalake.NewSharedKeyCredential(at.Name, at.Key)
	if err != nil {
		return nil, err
	}
	a := &account{name: name}
	a.lake, err = filesystem.NewClientWithSharedKeyCredential(url, lakeKey,
		&filesystem.ClientOptions{ClientOptions: options})
	if err != nil {
		return nil, err
	}
	key, err := container.NewSharedKeyCredential(at.Name, at.Key)
	if err != nil {
		return nil, err
	}
	a.blobs, err = container.NewClientWithSharedKeyCredential(strings.Replace(url, ".dfs.", ".blob.", 1), key,
		&container.ClientOptions{ClientOptions: options})
	if err != nil {
		return nil, err
	}
	_, err = a.blobs.Create(ctx, nil)
	return a, err
}
