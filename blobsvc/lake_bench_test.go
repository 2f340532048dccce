package blobsvc_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

// lakeServe runs a signed request of the dfs endpoint, without a network.
func (f *fixture) lakeServe(b *testing.B, hr *http.Request, status int) {
	w := sink{header: http.Header{}}
	f.svc.LakeHandler().ServeHTTP(&w, hr)
	if w.status != status {
		b.Fatalf("status %d, want %d", w.status, status)
	}
}

func (f *fixture) lakeLocal(method, path string, headers ...string) *http.Request {
	return f.lakeLocalWith("", method, path, headers...)
}

func (f *fixture) lakeLocalWith(content, method, path string, headers ...string) *http.Request {
	hr := f.lakeNew(method, path, content, headers...)
	in := httptest.NewRequest(method, hr.URL.RequestURI(), nil)
	in.Header, in.Host, in.ContentLength = hr.Header, hr.Host, hr.ContentLength
	return in
}

// besideFlat runs the same work on an account without and on one with a hierarchical namespace. Each returns a request
// for the i-th time, and the content that it sends.
func besideFlat(b *testing.B, status int, content []byte, flat, tree func(f *fixture) func(i int) *http.Request) {
	for _, kind := range []struct {
		name    string
		setting accountprops.Blob
		prepare func(f *fixture) func(i int) *http.Request
	}{{"flat", accountprops.Blob{}, flat}, {"tree", accountprops.Blob{Hierarchical: true}, tree}} {
		b.Run(kind.name, func(b *testing.B) {
			f := managed(b, kind.setting)
			f.do("PUT", "/box?restype=container", "").want(b, 201, "")
			next := kind.prepare(f)
			handler := f.svc.Handler()
			if kind.setting.Hierarchical {
				handler = f.svc.LakeHandler()
			}
			b.SetBytes(int64(len(content)))
			i := 0
			for b.Loop() {
				b.StopTimer()
				hr := next(i)
				hr.Body = io.NopCloser(bytes.NewReader(content))
				w := sink{header: http.Header{}}
				i++
				b.StartTimer()
				handler.ServeHTTP(&w, hr)
				if w.status != status {
					b.Fatalf("status %d, want %d", w.status, status)
				}
			}
		})
	}
}

func BenchmarkCreateBesideFlat(b *testing.B) {
	besideFlat(b, 201, nil,
		func(f *fixture) func(int) *http.Request {
			return func(i int) *http.Request {
				return f.local("PUT", fmt.Sprintf("/box/d/f%08d", i), 0, "x-ms-blob-type", "BlockBlob")
			}
		},
		func(f *fixture) func(int) *http.Request {
			return func(i int) *http.Request { return f.lakeLocal("PUT", fmt.Sprintf("/box/d/f%08d?resource=file", i)) }
		})
}

func BenchmarkPropertiesBesideFlat(b *testing.B) {
	const path = "/box/a/b/c/d/e/f/g/h/i/f"
	besideFlat(b, 200, nil,
		func(f *fixture) func(int) *http.Request {
			f.do("PUT", path, "", "x-ms-blob-type", "BlockBlob").want(b, 201, "")
			return func(int) *http.Request { return f.local("HEAD", path, 0) }
		},
		func(f *fixture) func(int) *http.Request {
			f.lakeDo("PUT", path+"?resource=file", "").want(b, 201, "")
			return func(int) *http.Request { return f.lakeLocal("HEAD", path) }
		})
}

func BenchmarkReadBesideFlat(b *testing.B) {
	const path = "/box/a/b/f"
	besideFlat(b, 200, nil,
		func(f *fixture) func(int) *http.Request {
			f.do("PUT", path, string(randomBytes(4096)), "x-ms-blob-type", "BlockBlob").want(b, 201, "")
			return func(int) *http.Request { return f.local("GET", path, 0) }
		},
		func(f *fixture) func(int) *http.Request {
			f.do("PUT", path, string(randomBytes(4096)), "x-ms-blob-type", "BlockBlob").want(b, 201, "")
			return func(int) *http.Request { return f.lakeLocal("GET", path) }
		})
}

// 5,000 paths of 50 directories, listed by both endpoints of both accounts.
func BenchmarkListBesideFlat(b *testing.B) {
	for _, kind := range []struct {
		name    string
		setting accountprops.Blob
	}{{"flat", accountprops.Blob{}}, {"tree", accountprops.Blob{Hierarchical: true}}} {
		f := managed(b, kind.setting)
		f.do("PUT", "/box?restype=container", "").want(b, 201, "")
		for i := range 5000 {
			f.serve(b, f.local("PUT", fmt.Sprintf("/box/d%d/f%d", i/100, i), 0, "x-ms-blob-type", "BlockBlob"), http.NoBody,
				201)
		}
		for _, file := range []bool{false, true} {
			place := "memory"
			if file {
				place = "file"
				f.reopen()
			}
			b.Run("blob/"+place+"/"+kind.name, func(b *testing.B) {
				hr := f.local("GET", "/box?restype=container&comp=list", 0)
				for b.Loop() {
					f.serve(b, hr, http.NoBody, 200)
				}
			})
			b.Run("dfs/"+place+"/"+kind.name, func(b *testing.B) {
				hr := f.lakeLocal("GET", "/box?resource=filesystem&recursive=true")
				for b.Loop() {
					f.lakeServe(b, hr, 200)
				}
			})
		}
	}
}

// BenchmarkListPaths5000 is a page of List Paths of a tree.
func BenchmarkListPaths5000(b *testing.B) {
	f := managed(b, accountprops.Blob{Hierarchical: true})
	f.do("PUT", "/box?restype=container", "").want(b, 201, "")
	for i := range 5000 {
		f.serve(b, f.local("PUT", fmt.Sprintf("/box/d%d/f%d", i/100, i), 0, "x-ms-blob-type", "BlockBlob"), http.NoBody, 201)
	}
	hr := f.lakeLocal("GET", "/box?resource=filesystem&recursive=true")
	b.ReportAllocs()
	for b.Loop() {
		f.lakeServe(b, hr, 200)
	}
}

func BenchmarkAppendBesideFlat(b *testing.B) {
	content := randomBytes(8 << 20)
	for _, part := range []struct {
		name   string
		status int
		flat   bool
	}{{"block", 201, true}, {"append", 202, false}} {
		b.Run(part.name, func(b *testing.B) {
			f := managed(b, accountprops.Blob{Hierarchical: !part.flat})
			f.do("PUT", "/box?restype=container", "").want(b, 201, "")
			handler, hr := f.svc.Handler(), f.local("PUT", "/box/f?comp=block&blockid=YQ==", len(content))
			if !part.flat {
				f.lakeDo("PUT", "/box/f?resource=file", "").want(b, 201, "")
				handler, hr = f.svc.LakeHandler(), f.lakeLocalWith(string(content), "PATCH", "/box/f?action=append&position=0")
			}
			b.SetBytes(int64(len(content)))
			for b.Loop() {
				hr.Body = io.NopCloser(bytes.NewReader(content))
				w := sink{header: http.Header{}}
				handler.ServeHTTP(&w, hr)
				if w.status != part.status {
					b.Fatalf("status %d, want %d", w.status, part.status)
				}
			}
		})
	}
}

// A rename, and a recursive delete, at three sizes of what is below the directory: the time is the same.
func BenchmarkLakeRename(b *testing.B) {
	for _, files := range []int{1, 1000, 50_000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			f := managed(b, accountprops.Blob{Hierarchical: true})
			f.lakeServe(b, f.lakeLocal("PUT", "/box?resource=filesystem"), 201)
			for i := range files {
				f.lakeServe(b, f.lakeLocal("PUT", fmt.Sprintf("/box/d0/%d/f%d?resource=file", i/1000, i)), 201)
			}
			i := 0
			for b.Loop() {
				b.StopTimer()
				hr := f.lakeLocal("PUT", fmt.Sprintf("/box/d%d", i+1), "x-ms-rename-source", fmt.Sprintf("/box/d%d", i))
				i++
				b.StartTimer()
				f.lakeServe(b, hr, 201)
			}
		})
	}
}

func BenchmarkLakeDelete(b *testing.B) {
	const files = 50_000
	f := managed(b, accountprops.Blob{Hierarchical: true})
	f.lakeServe(b, f.lakeLocal("PUT", "/box?resource=filesystem"), 201)
	for b.Loop() {
		b.StopTimer()
		for i := range files {
			f.lakeServe(b, f.lakeLocal("PUT", fmt.Sprintf("/box/d/%d/f%d?resource=file", i/1000, i)), 201)
		}
		hr := f.lakeLocal("DELETE", "/box/d?recursive=true")
		b.StartTimer()
		f.lakeServe(b, hr, 200)
		if err := f.parts.Clean(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*files)/b.Elapsed().Seconds(), "names/s")
}

func BenchmarkLakeCreate(b *testing.B) {
	f := managed(b, accountprops.Blob{Hierarchical: true})
	f.lakeServe(b, f.lakeLocal("PUT", "/box?resource=filesystem"), 201)
	i := 0
	for b.Loop() {
		b.StopTimer()
		hr := f.lakeLocal("PUT", fmt.Sprintf("/box/d/f%08d?resource=file", i))
		i++
		b.StartTimer()
		f.lakeServe(b, hr, 201)
	}
}

func BenchmarkLakeStat(b *testing.B) {
	f := managed(b, accountprops.Blob{Hierarchical: true})
	f.lakeServe(b, f.lakeLocal("PUT", "/box?resource=filesystem"), 201)
	for _, path := range []string{"f", "a/b/c/d/e/f/g/h/i/f"} {
		f.lakeServe(b, f.lakeLocal("PUT", "/box/"+path+"?resource=file"), 201)
		b.Run(fmt.Sprintf("depth %d", strings.Count(path, "/")+1), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				hr := f.lakeLocal("HEAD", "/box/"+path)
				b.StartTimer()
				f.lakeServe(b, hr, 200)
			}
		})
	}
}

// BenchmarkLakePaths measures a directory with LAZULI_PATHS files in directories of a thousand: its creation, without
// waiting for the disk; then, durably, one more file, renames and a recursive delete of the directory, and a listing of
// all of it; the removal in the background, and memory.
func BenchmarkLakePaths(b *testing.B) {
	n, err := strconv.Atoi(os.Getenv("LAZULI_PATHS"))
	if err != nil {
		b.Skip("LAZULI_PATHS is the number of paths")
	}
	relaxed := true
	f := startWith(b, func(c *blobhost.Config) {
		manage(c, accountprops.Blob{Hierarchical: true})
		c.Relaxed = relaxed
	})
	f.lakeServe(b, f.lakeLocal("PUT", "/box?resource=filesystem"), 201)
	measure := func(unit string, per int, do func()) {
		began := time.Now()
		do()
		b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(per), unit)
	}
	// median measures requests of a kind, one after another.
	median := func(unit string, next func(i int) *http.Request) float64 {
		took := make([]float64, 201)
		for i := range took {
			hr := next(i)
			began := time.Now()
			f.lakeServe(b, hr, 201)
			took[i] = float64(time.Since(began).Nanoseconds())
		}
		slices.Sort(took)
		b.ReportMetric(took[len(took)/2], unit)
		return took[len(took)/2]
	}
	for b.Loop() {
		measure("ns/create", n, func() {
			for i := range n {
				f.lakeServe(b, f.lakeLocal("PUT", fmt.Sprintf("/box/d0/%d/f%d?resource=file", i/1000, i)), 201)
			}
		})
		relaxed = false
		f.reopen()
		insert := median("ns/insert", func(i int) *http.Request {
			return f.lakeLocal("PUT", fmt.Sprintf("/box/other/f%d?resource=file", i))
		})
		rename := median("ns/rename", func(i int) *http.Request {
			return f.lakeLocal("PUT", fmt.Sprintf("/box/d%d", (i+1)%2), "x-ms-rename-source", fmt.Sprintf("/box/d%d", i%2))
		})
		b.ReportMetric(rename/insert, "renames/insert")
		measure("ns/listed", n, func() {
			for marker := ""; ; {
				w := httptest.NewRecorder()
				f.svc.LakeHandler().ServeHTTP(w, f.lakeLocal("GET",
					"/box?resource=filesystem&recursive=true&continuation="+url.QueryEscape(marker)))
				marker = ""
				for name, values := range w.Header() { // which the service does not write in Go's form
					if strings.EqualFold(name, "x-ms-continuation") {
						marker = values[0]
					}
				}
				if marker == "" {
					break
				}
			}
		})
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/float64(n), "heapB/path")
		measure("ns/delete", 1, func() { f.lakeServe(b, f.lakeLocal("DELETE", "/box/d1?recursive=true"), 200) })
		began := time.Now()
		if err := f.parts.Clean(ctx); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(n)/time.Since(began).Seconds(), "collected/s")
	}
}
