package blobsvc_test

import (
	"encoding/xml"
	"fmt"
	"net/url"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// listPage is an answer of List Blobs.
type listPage struct {
	Blobs struct {
		Items []item `xml:",any"`
	}
	NextMarker                    string
	MaxResults, Prefix, Delimiter string
}

type item struct {
	XMLName    xml.Name
	Name       string
	Snapshot   string
	Properties struct {
		ContentLength string `xml:"Content-Length"`
		BlobType      string
		Etag          string
	}
	Metadata *struct {
		Inner string `xml:",innerxml"`
	}
	Tags *struct {
		Inner string `xml:",innerxml"`
	}
}

func (f *fixture) list(name, query string) listPage {
	f.t.Helper()
	r := f.do("GET", "/"+name+"?restype=container&comp=list&"+query, "").want(f.t, 200, "")
	var p listPage
	if err := xml.Unmarshal([]byte(r.body), &p); err != nil {
		f.t.Fatalf("%v in %s", err, r.body)
	}
	return p
}

// listAll reads all pages and returns names, with a slash before those of prefixes and @ behind those of snapshots.
func (f *fixture) listAll(name string, query url.Values, size int) []string {
	f.t.Helper()
	var got []string
	marker := ""
	for {
		q := url.Values{"maxresults": {fmt.Sprint(size)}}
		for k, v := range query {
			q[k] = v
		}
		if marker != "" {
			q.Set("marker", marker)
		}
		p := f.list(name, strings.ReplaceAll(q.Encode(), "+", "%20"))
		if len(p.Blobs.Items) > size {
			f.t.Fatalf("a page of %d, want at most %d", len(p.Blobs.Items), size)
		}
		for _, i := range p.Blobs.Items {
			text := i.Name
			if i.XMLName.Local == "BlobPrefix" {
				text = "prefix " + text
			}
			if i.Snapshot != "" {
				text += "@"
			}
			got = append(got, text)
		}
		if marker = p.NextMarker; marker == "" {
			return got
		}
		if len(p.Blobs.Items) == 0 {
			f.t.Fatal("an empty page that is not the last")
		}
	}
}

func TestListBlobs(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	put := func(name string, headers ...string) {
		f.do("PUT", "/box/"+name, "x", append(headers, "x-ms-blob-type", "BlockBlob")...).want(t, 201, "")
	}
	for _, name := range []string{"a", "a/1", "a/2", "a/b/3", "a0", "b/1", "b/2", "c", "Z"} {
		put(name, "x-ms-meta-Of", name, "x-ms-tags", "of="+strings.ReplaceAll(name, "/", ":"))
	}
	f.do("PUT", "/box/a?comp=snapshot", "").want(t, 201, "")
	f.do("PUT", "/box/b/1?comp=snapshot", "").want(t, 201, "")
	f.do("PUT", "/box/aa?comp=block&blockid=YQ==", "x").want(t, 201, "")
	f.do("PUT", "/box/b/1?comp=block&blockid=YQ==", "x").want(t, 201, "")
	f.do("PUT", "/box/u/x?comp=block&blockid=YQ==", "x").want(t, 201, "")
	for _, tc := range []struct {
		query string
		want  []string
	}{
		{"", []string{"Z", "a", "a/1", "a/2", "a/b/3", "a0", "b/1", "b/2", "c"}},
		{"prefix=a", []string{"a", "a/1", "a/2", "a/b/3", "a0"}},
		{"prefix=a/", []string{"a/1", "a/2", "a/b/3"}},
		{"prefix=x", nil},
		{"delimiter=/", []string{"Z", "a", "prefix a/", "a0", "prefix b/", "c"}},
		{"delimiter=/&prefix=a/", []string{"a/1", "a/2", "prefix a/b/"}},
		{"delimiter=/&prefix=a", []string{"a", "prefix a/", "a0"}},
		{"delimiter=/b/", []string{"Z", "a", "a/1", "a/2", "prefix a/b/", "a0", "b/1", "b/2", "c"}},
		{"include=snapshots", []string{"Z", "a@", "a", "a/1", "a/2", "a/b/3", "a0", "b/1@", "b/1", "b/2", "c"}},
		{"include=uncommittedblobs", []string{"Z", "a", "a/1", "a/2", "a/b/3", "a0", "aa", "b/1", "b/2", "c", "u/x"}},
		{"include=uncommittedblobs&delimiter=/", []string{"Z", "a", "prefix a/", "a0", "aa", "prefix b/", "c", "prefix u/"}},
		{"include=uncommittedblobs,snapshots&prefix=b", []string{"b/1@", "b/1", "b/2"}},
	} {
		for _, size := range []int{1, 2, 3, 100} {
			t.Run(fmt.Sprint(tc.query, " by ", size), func(t *testing.T) {
				query, err := url.ParseQuery(tc.query)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, f.listAll("box", query, size)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
	p := f.list("box", "include=metadata,tags&prefix=a/&maxresults=1&delimiter=/")
	if i := p.Blobs.Items[0]; i.Metadata.Inner != "<Of>a/1</Of>" ||
		i.Tags.Inner != "<TagSet><Tag><Key>of</Key><Value>a:1</Value></Tag></TagSet>" ||
		i.Properties.ContentLength != "1" || i.Properties.BlobType != "BlockBlob" ||
		strings.Contains(i.Properties.Etag, `"`) {
		t.Errorf("item %+v", i)
	}
	if p.MaxResults != "1" || p.Prefix != "a/" || p.Delimiter != "/" {
		t.Errorf("parameters are not repeated: %+v", p)
	}
	for query, code := range map[string]string{"maxresults=0": "OutOfRangeQueryParameterValue",
		"marker=x":    "InvalidQueryParameterValue",
		"include=all": "InvalidQueryParameterValue", "include=snapshots&delimiter=/": "InvalidQueryParameterValue"} {
		f.do("GET", "/box?restype=container&comp=list&"+query, "").want(t, 400, code)
	}
	f.do("GET", "/none?restype=container&comp=list", "").want(t, 404, "ContainerNotFound")
}

// A page that is sent in parts is one page.
func TestListLargePage(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	var want []string
	for i := range 1234 {
		name := fmt.Sprintf("%05d", i)
		f.do("PUT", "/box/"+name, "", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
		want = append(want, name)
	}
	for _, size := range []int{5000, 1234, 1233, 1000, 501, 500} {
		p := f.list("box", fmt.Sprint("maxresults=", size))
		if len(p.Blobs.Items) != min(size, 1234) || (p.NextMarker == "") != (size >= 1234) {
			t.Errorf("page of %d: %d items, marker %q", size, len(p.Blobs.Items), p.NextMarker)
		}
		if diff := cmp.Diff(want, f.listAll("box", nil, size)); diff != "" {
			t.Errorf("pages of %d: %s", size, diff)
		}
	}
}

// Any names, prefix, delimiter and page size give what sorting and cutting a list in memory gives.
func TestListBlobsLikeAModel(t *testing.T) {
	t.Parallel()
	f := start(t)
	name := rapid.StringOfN(rapid.RuneFrom([]rune("ab/é😀-")), 1, 6, -1)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		box := fmt.Sprintf("model%04d", n)
		n++
		f.do("PUT", "/"+box+"?restype=container", "").want(t, 201, "")
		names := rapid.SliceOfNDistinct(name, 0, 12, rapid.ID).Draw(rt, "names")
		for _, s := range names {
			f.do("PUT", "/"+box+"/"+url.PathEscape(s), "", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
		}
		prefix := rapid.SampledFrom([]string{"", "a", "a/", "é", "😀", "b-"}).Draw(rt, "prefix")
		delimiter := rapid.SampledFrom([]string{"", "/", "-", "//", "é"}).Draw(rt, "delimiter")
		sort.Strings(names)
		var want []string
		for _, s := range names {
			if !strings.HasPrefix(s, prefix) {
				continue
			}
			if i := strings.Index(s[len(prefix):], delimiter); delimiter != "" && i >= 0 {
				s = "prefix " + s[:len(prefix)+i+len(delimiter)]
				if len(want) > 0 && want[len(want)-1] == s {
					continue
				}
			}
			want = append(want, s)
		}
		query := url.Values{}
		if prefix != "" {
			query.Set("prefix", prefix)
		}
		if delimiter != "" {
			query.Set("delimiter", delimiter)
		}
		got := f.listAll(box, query, rapid.IntRange(1, 5).Draw(rt, "page size"))
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("prefix %q, delimiter %q: %s", prefix, delimiter, diff)
		}
	})
}

func FuzzMarker(f *testing.F) {
	fx := start(f)
	fx.do("PUT", "/box?restype=container", "").want(f, 201, "")
	for _, n := range []string{"a", "b/c"} {
		fx.do("PUT", "/box/"+n, "x", "x-ms-blob-type", "BlockBlob").want(f, 201, "")
	}
	for _, s := range []string{"1!", "1!YQ", "1!AAAAAAAAAAA", "2!x", "1!____", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, marker string) {
		fx.t = t
		for _, more := range []string{"", "&delimiter=/", "&include=uncommittedblobs"} {
			r := fx.do("GET", "/box?restype=container&comp=list&marker="+url.QueryEscape(marker)+more, "")
			if r.status != 200 && r.status != 400 {
				t.Fatalf("marker %q: %d", marker, r.status)
			}
		}
	})
}

// A permission to list opens names and properties, and not tags.
func TestListBlobsWithTagsNeedsTheirPermission(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "", "x-ms-blob-public-access", "container").want(t, 201, "")
	f.do("PUT", "/box/a", "x", "x-ms-blob-type", "BlockBlob", "x-ms-tags", "k=v").want(t, 201, "")
	key, err := auth.ParseKey(auth.DevelopmentKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		permissions, include string // "": a request without a signature
		status               int
		code                 string
	}{
		{"l", "metadata", 200, ""},
		{"l", "metadata,tags", 403, "AuthorizationPermissionMismatch"},
		{"lt", "metadata,tags", 200, ""},
		{"", "metadata", 200, ""},
		{"", "tags", 403, "AuthorizationPermissionMismatch"},
	} {
		query, token := "restype=container&comp=list&include="+tc.include, ""
		if tc.permissions != "" {
			if token, err = (auth.Token{Permissions: tc.permissions, Expiry: "2999-01-01"}).Sign(auth.DevelopmentAccount, key,
				wire.Blob, "box"); err != nil {
				t.Fatal(err)
			}
		}
		r := f.anonymous("GET", "/box?"+query+"&"+token).want(t, tc.status, tc.code)
		if got := strings.Contains(r.body, "<Value>v</Value>"); got != (tc.status == 200 &&
			strings.Contains(tc.include, "tags")) {
			t.Errorf("%q, %s: tags are shown: %v", tc.permissions, tc.include, got)
		}
	}
}
