package inproc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
)

func client(h http.HandlerFunc) *http.Client {
	return &http.Client{Transport: &inproc.Transport{Handlers: map[string]http.Handler{"here:1": h}}}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	c := client(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header()["x-ms-lower"] = []string{"v"}
		w.Header().Set("Content-Length", "5")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, r.Method+string(body)+r.RequestURI[:1])
	})
	resp, err := c.Post("http://here:1/a%2Fb?c=d", "text/plain", strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 201 || string(b) != "POST/" || resp.Header.Get("X-Ms-Lower") != "v" ||
		resp.ContentLength != 5 {
		t.Errorf("got %d %q %v, %v", resp.StatusCode, b, resp.Header, err)
	}
}

// What net/http does not send over a connection does not reach a service either.
func TestInvalidHeadersAreRefused(t *testing.T) {
	t.Parallel()
	c := client(func(http.ResponseWriter, *http.Request) { t.Error("the request reaches the handler") })
	for name, value := range map[string]string{"X-Ms-Meta-1a b": "x", "X-Ms-Meta-A": "a\r\nb: c", "": "x"} {
		r, err := http.NewRequest(http.MethodGet, "http://here:1/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header[name] = []string{value}
		if resp, err := c.Do(r); err == nil {
			_ = resp.Body.Close()
			t.Errorf("%q: %q is sent", name, value)
		}
	}
}

func TestRequestAsServed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, body  string
		length, uri   string
		contentLength int64
	}{
		{"PUT", "abc", "3", "/x/a%20b//c?q=1", 3},
		{"PUT", "", "0", "/x/a%20b//c?q=1", 0},
		{"GET", "", "", "/x/a%20b//c?q=1", 0},
	} {
		c := client(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Content-Length") != tc.length || r.ContentLength != tc.contentLength || r.RequestURI != tc.uri ||
				r.Host != "here:1" {
				t.Errorf("%s: got length %q %d, uri %q, host %q", tc.method, r.Header.Get("Content-Length"), r.ContentLength,
					r.RequestURI, r.Host)
			}
		})
		var body io.Reader
		if tc.body != "" {
			body = strings.NewReader(tc.body)
		}
		r, err := http.NewRequest(tc.method, "http://here:1"+tc.uri, body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do(r); err != nil {
			t.Fatal(err)
		}
	}
}

// Clients set header names in any case; a server sees them in Go's canonical form, and metadata as it was written.
func TestHeaderNames(t *testing.T) {
	t.Parallel()
	c := client(func(w http.ResponseWriter, r *http.Request) {
		p, err := wire.Parse(wire.Blob, r, w, time.Now(), wire.Options{})
		if err != nil {
			t.Error(err)
			return
		}
		list, err := p.Metadata()
		if err != nil || len(list) != 1 || list[0].Name != "CamelCase" || p.Header("X-Ms-Blob-Type") != "BlockBlob" {
			t.Errorf("metadata %v, %v; type %q", list, err, p.Header("X-Ms-Blob-Type"))
		}
	})
	r, err := http.NewRequest("PUT", "http://here:1/devstoreaccount1/c/b", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header["x-ms-blob-type"] = []string{"BlockBlob"}
	r.Header["x-ms-meta-CamelCase"] = []string{"v"}
	if _, err := c.Do(r); err != nil {
		t.Fatal(err)
	}
}

func TestLargeBodyStreams(t *testing.T) {
	t.Parallel()
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // 8 MiB, over the window
	c := client(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})
	resp, err := c.Post("http://here:1/", "", bytes.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestBrokenOff(t *testing.T) {
	t.Parallel()
	c := client(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			_, _ = io.WriteString(w, "part")
		}
		panic(http.ErrAbortHandler)
	})
	if _, err := c.Get("http://here:1/early"); err == nil {
		t.Error("no error for a request broken off before its answer")
	}
	resp, err := c.Get("http://here:1/late")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || string(b) != "part" {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestUnknownHost(t *testing.T) {
	t.Parallel()
	if _, err := client(nil).Get("http://elsewhere/"); err == nil {
		t.Error("no error for a host without a service")
	}
}

func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		c := client(func(w http.ResponseWriter, r *http.Request) {
			defer func() { ended = true }()
			if r.URL.Path == "/slow" {
				<-r.Context().Done()
				return
			}
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		})
		resp, err := c.Get("http://here:1/endless")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		synctest.Wait()
		if !ended {
			t.Error("the handler goes on although nobody reads")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, "GET", "http://here:1/slow", nil)
		if _, err := c.Do(r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
	})
}

// A request that was cancelled before it is sent does not reach the service, as over a connection.
func TestCancelledBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reached := false
		c := client(func(http.ResponseWriter, *http.Request) { reached = true })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r, _ := http.NewRequestWithContext(ctx, "PUT", "http://here:1/", strings.NewReader("x"))
		if _, err := c.Transport.RoundTrip(r); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if reached {
			t.Error("the handler ran")
		}
	})
}

// A handler whose caller has given up gets no more of the request's body, which the caller may read again for another
// try.
func TestBodyAfterGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var read int
		var failed error
		c := client(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			time.Sleep(time.Second) // of the test's clock: the caller is gone by now
			var n int64
			n, failed = io.Copy(io.Discard, r.Body)
			read = int(n)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, "PUT", "http://here:1/", strings.NewReader("content"))
		if _, err := c.Transport.RoundTrip(r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if read != 0 || !errors.Is(failed, io.ErrUnexpectedEOF) {
			t.Errorf("the handler read %d bytes, %v", read, failed)
		}
	})
}
