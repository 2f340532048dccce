// Package buckets serves buckets of S3 in memory, for tests of places: PUT with conditions, GET with ranges, HEAD,
// DELETE and ListObjectsV2, as strict about what it needs as a store is. It checks that requests are signed by the key
// of the tests and that the content has the SHA-256 that was signed, not the signature itself.
package buckets

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// keyID is the key with which clients sign.
const keyID = "KEYOFTESTS"

// page is the number of names of a page of a listing: few, so that tests see several pages.
const page = 3

// Store is a server with the bucket "bucket".
type Store struct {
	// URL is the endpoint.
	URL string
	// Down makes all requests fail with 503.
	Down atomic.Bool
	// Ignore is the name of a condition that writes do not look at; "" for none. Set it before use.
	Ignore string
	// Late is added to the clock that answers show. Objects keep the time of their write.
	Late atomic.Int64

	mu      sync.Mutex
	objects map[string]object
}

type object struct {
	content []byte
	etag    string
	at      time.Time
}

var keys = sync.OnceFunc(func() {
	_ = os.Setenv("AWS_ACCESS_KEY_ID", keyID)
	_ = os.Setenv("AWS_SECRET_ACCESS_KEY", "secret of tests")
})

// Start starts a store until the test ends. It sets the variables with the keys for the whole process.
func Start(t testing.TB) *Store {
	t.Helper()
	keys()
	s := &Store{objects: map[string]object{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Place is the address of a place at a prefix of the bucket.
func (s *Store) Place(prefix string) string {
	return "s3://bucket/" + prefix + "?endpoint=" + url.QueryEscape(s.URL) + "&region=eu-central-1"
}

// Names are the keys of the objects.
func (s *Store) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%[1]s</Message></Error>", code)
}

// ServeHTTP implements [http.Handler].
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	w.Header().Set("Date", time.Now().Add(time.Duration(s.Late.Load())).UTC().Format(http.TimeFormat))
	sum := sha256.Sum256(body)
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, "IncompleteBody")
	case s.Down.Load():
		refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable")
	case !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="+keyID+"/") ||
		!strings.Contains(r.Header.Get("Authorization"), "/eu-central-1/s3/aws4_request"):
		refuse(w, http.StatusForbidden, "AccessDenied")
	case r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]):
		refuse(w, http.StatusBadRequest, "XAmzContentSHA256Mismatch")
	case bucket != "bucket":
		refuse(w, http.StatusNotFound, "NoSuchBucket")
	case key == "" && r.Method == http.MethodGet && r.URL.Query().Get("list-type") == "2":
		s.list(w, r.URL.Query())
	case key == "":
		refuse(w, http.StatusNotImplemented, "NotImplemented")
	default:
		s.object(w, r, key, body)
	}
}

func (s *Store) object(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, found := s.objects[key]
	switch r.Method {
	case http.MethodPut:
		// Conditions are looked at under the lock of the write: of several callers one creates the object.
		if m := r.Header.Get("If-None-Match"); m != "" && s.Ignore != "If-None-Match" && found {
			refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		if m := r.Header.Get("If-Match"); m != "" && s.Ignore != "If-Match" {
			if !found {
				refuse(w, http.StatusNotFound, "NoSuchKey")
				return
			}
			if m != o.etag {
				refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
				return
			}
		}
		sum := md5.Sum(body)
		o = object{body, `"` + hex.EncodeToString(sum[:]) + `"`, time.Now()}
		s.objects[key] = o
		w.Header().Set("Etag", o.etag)
	case http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case http.MethodGet, http.MethodHead:
		if !found {
			refuse(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		first := strings.TrimPrefix(strings.Split(r.Header.Get("Range"), "-")[0], "bytes=")
		if n, err := strconv.Atoi(first); err == nil && n >= len(o.content) {
			refuse(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
			return
		}
		w.Header().Set("Etag", o.etag)
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", o.at, bytes.NewReader(o.content))
	default:
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed")
	}
}

// listing is the answer of ListObjectsV2.
type listing struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	EncodingType          string
	IsTruncated           bool
	NextContinuationToken string
	Contents              []listed
}

type listed struct {
	Key          string
	Size         int
	ETag         string
	LastModified string
}

func (s *Store) list(w http.ResponseWriter, q url.Values) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := listing{EncodingType: q.Get("encoding-type")}
	after, _ := hex.DecodeString(q.Get("continuation-token")) // a token is no key: clients must not read it
	last := ""
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(key, q.Get("prefix")) || key <= string(after) {
			continue
		}
		if len(answer.Contents) == page {
			answer.IsTruncated, answer.NextContinuationToken = true, hex.EncodeToString([]byte(last))
			break
		}
		o := s.objects[key]
		shown := key
		last = key
		if q.Get("encoding-type") == "url" {
			shown = url.QueryEscape(key)
		}
		answer.Contents = append(answer.Contents, listed{shown, len(o.content), o.etag, o.at.UTC().Format(time.RFC3339)})
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(answer)
}
