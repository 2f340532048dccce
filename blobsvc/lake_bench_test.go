package blobsvc_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
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
	hr := f.lakeNew(method, path, "", headers...)
	in := httptest.NewRequest(method, hr.URL.RequestURI(), io.LimitReader(strings.NewReader(""), 0))
	in.Header, in.Host, in.ContentLength = hr.Header, hr.Host, 0
	return in
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
		if err := f.svc.Clean(ctx); err != nil {
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

func BenchmarkLakeList(b *testing.B) {
	f := managed(b, accountprops.Blob{Hierarchical: true})
	f.lakeServe(b, f.lakeLocal("PUT", "/box?resource=filesystem"), 201)
	for i := range 5000 {
		f.lakeServe(b, f.lakeLocal("PUT", fmt.Sprintf("/box/d%d/f%d?resource=file", i/100, i)), 201)
	}
	for b.Loop() {
		f.lakeServe(b, f.lakeLocal("GET", "/box?resource=filesystem&recursive=true"), 200)
	}
}

// BenchmarkLakePaths measures one directory with LAZULI_PATHS files in directories of a thousand: their creation, one
// rename and one recursive delete of the directory, a listing of all of it, the removal in the background, and memory.
func BenchmarkLakePaths(b *testing.B) {
	n, err := strconv.Atoi(os.Getenv("LAZULI_PATHS"))
	if err != nil {
		b.Skip("LAZULI_PATHS is the number of paths")
	}
	f := managed(b, accountprops.Blob{Hierarchical: true})
	f.lakeServe(b, f.lakeLocal("PUT", "/box?resource=filesystem"), 201)
	measure := func(unit string, per int, do func()) {
		began := time.Now()
		do()
		b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(per), unit)
	}
	for b.Loop() {
		measure("ns/create", n, func() {
			for i := range n {
				f.lakeServe(b, f.lakeLocal("PUT", fmt.Sprintf("/box/d/%d/f%d?resource=file", i/1000, i)), 201)
			}
		})
		measure("ns/rename", 1, func() {
			f.lakeServe(b, f.lakeLocal("PUT", "/box/e", "x-ms-rename-source", "/box/d"), 201)
		})
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
		measure("ns/delete", 1, func() { f.lakeServe(b, f.lakeLocal("DELETE", "/box/e?recursive=true"), 200) })
		measure("ns/collected", n, func() {
			if err := f.svc.Clean(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}
