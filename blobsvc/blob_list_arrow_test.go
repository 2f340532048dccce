package blobsvc_test

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/test/arrowread"
)

const acceptArrow = "application/vnd.apache.arrow.stream,application/xml"

// listArrow lists the container "box" with that query in the Arrow format.
func (f *fixture) listArrow(t *testing.T, query string) arrowread.Stream {
	t.Helper()
	return f.listArrowOf(t, "box", query)
}

func (f *fixture) listArrowOf(t *testing.T, container, query string) arrowread.Stream {
	t.Helper()
	r := f.do("GET", "/"+container+"?restype=container&comp=list"+query, "", "x-ms-version", "2026-10-06", "Accept",
		acceptArrow).want(t, 200, "")
	r.wantHeader(t, "Content-Type", "application/vnd.apache.arrow.stream")
	return arrowread.Read(t, []byte(r.body))
}

// asXML has the values of a row as XML would have them.
func asXML(row map[string]any) map[string]string {
	out := map[string]string{}
	for name, v := range row {
		switch v := v.(type) {
		case map[string]string:
			for key, value := range v {
				out[name+"/"+key] = value
			}
		case int64:
			if out[name] = strconv.FormatInt(v, 10); strings.Contains(name, "Time") || strings.HasPrefix(name, "Last") ||
				strings.HasSuffix(name, "Date") {
				out[name] = time.UnixMicro(v).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
			}
		default:
			out[name] = fmt.Sprint(v)
		}
	}
	return out
}

type anyElement struct {
	XMLName  xml.Name
	Text     string       `xml:",chardata"`
	Children []anyElement `xml:",any"`
}

// itemsOf has the items of a listing in XML: elements and their text, without those that are empty.
func itemsOf(t *testing.T, document string) (items []map[string]string) {
	t.Helper()
	var x struct {
		Blobs struct {
			Items []anyElement `xml:",any"`
		}
	}
	if err := xml.Unmarshal([]byte(strings.TrimPrefix(document, "\ufeff")), &x); err != nil {
		t.Fatal(err)
	}
	for _, item := range x.Blobs.Items {
		out := map[string]string{}
		for _, e := range item.Children {
			switch name := e.XMLName.Local; {
			case name == "Tags":
				for _, tag := range e.Children[0].Children {
					out["Tags/"+tag.Children[0].Text] = tag.Children[1].Text
				}
			case name == "Metadata":
				for _, m := range e.Children {
					out["Metadata/"+m.XMLName.Local] = m.Text
				}
			case name == "Properties":
				for _, p := range e.Children {
					if p.Text != "" {
						out[p.XMLName.Local] = p.Text
					}
				}
			case e.Text != "":
				out[name] = e.Text
			}
		}
		if item.XMLName.Local == "BlobPrefix" {
			out["ResourceType"] = "blobprefix" // as in Arrow
		}
		items = append(items, out)
	}
	return items
}

// everyKindOfBlob makes a container with blobs of every kind and state.
func everyKindOfBlob(t *testing.T) *fixture {
	t.Helper()
	f := managed(t, accountprops.Blob{Versioning: true, AccessTimes: true, Immutability: true, Expiry: true,
		Scopes: []string{"secret"}})
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/?restype=service&comp=properties",
		`<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>3</Days></DeleteRetentionPolicy></StorageServiceProperties>`).want(t, 202, "")
	put := func(name, kind string, headers ...string) {
		t.Helper()
		content := ""
		if kind == "BlockBlob" {
			content = "x"
		}
		f.do("PUT", "/box/"+name, content, append(headers, "x-ms-blob-type", kind)...).want(t, 201, "")
	}
	put("block", "BlockBlob", "x-ms-meta-one", "1", "x-ms-meta-two", "2", "x-ms-tags", "k=v&l=", "Content-Type", "a/b",
		"Content-Encoding", "e", "Content-Language", "l",
		"Cache-Control", "c", "x-ms-blob-content-disposition", "d")
	put("block", "BlockBlob", "x-ms-meta-one", "2")
	f.do("PUT", "/box/block?comp=snapshot", "").want(t, 201, "")
	f.do("PUT", "/box/block?comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1").want(t, 201, "")
	put("page", "PageBlob", "x-ms-blob-content-length", "512", "x-ms-blob-sequence-number", "7")
	put("append", "AppendBlob")
	f.do("PUT", "/box/append?comp=seal", "", "x-ms-version", "2021-12-02").want(t, 200, "")
	put("smart", "BlockBlob", "x-ms-access-tier", "Smart")
	put("archived", "BlockBlob", "x-ms-access-tier", "Archive")
	f.do("PUT", "/box/archived?comp=tier", "", "x-ms-access-tier", "Cool").want(t, 202, "")
	put("dir/a", "BlockBlob", "x-ms-expiry-option", "RelativeToNow", "x-ms-expiry-time", "9999999")
	put("dir/b", "BlockBlob", "x-ms-immutability-policy-until-date", f.now().Add(time.Hour).UTC().Format(http.TimeFormat),
		"x-ms-legal-hold", "true")
	put("scope", "BlockBlob", "x-ms-encryption-scope", "secret")
	f.do("PUT", "/box/copy", "", "x-ms-copy-source", f.base+"/box/smart").want(t, 202, "")
	put("gone", "BlockBlob")
	f.do("DELETE", "/box/gone", "").want(t, 202, "")
	f.do("PUT", "/box/uncommitted?comp=block&blockid=AA==", "x").want(t, 201, "")
	c := f.service().NewContainerClient("box")
	must(c.NewBlockBlobClient("keyed").Upload(ctx, body("x"),
		&blockblob.UploadOptions{CPKInfo: cpk(1), HTTPHeaders: &blob.HTTPHeaders{BlobContentMD5: nil}}))(t)
	return f
}

// A listing in the Arrow format says what one in XML says, of blobs of all kinds.
func TestListBlobsInArrow(t *testing.T) {
	t.Parallel()
	f := everyKindOfBlob(t)
	for _, query := range []string{
		"", "&delimiter=/", "&prefix=dir/", "&include=metadata", "&include=tags",
		"&include=snapshots,versions,metadata,tags,deleted,copy,immutabilitypolicy,legalhold",
		"&include=uncommittedblobs", "&include=deletedwithversions", "&endBefore=b&startFrom=ar", "&prefix=none",
	} {
		t.Run(query, func(t *testing.T) {
			want := itemsOf(t, f.do("GET", "/box?restype=container&comp=list"+query, "", "x-ms-version", "2026-10-06").want(t,
				200, "").body)
			stream := f.listArrow(t, query)
			var got []map[string]string
			for _, row := range stream.Rows {
				got = append(got, asXML(row))
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if n := stream.Metadata["NumberOfRecords"]; n != strconv.Itoa(len(want)) || stream.Metadata["NextMarker"] != "" {
				t.Errorf("metadata %v of %d items", stream.Metadata, len(want))
			}
		})
	}
}

func TestListBlobsInArrowByPages(t *testing.T) {
	t.Parallel()
	f := everyKindOfBlob(t)
	var names, want []string
	for _, row := range f.listArrow(t, "").Rows {
		want = append(want, row["Name"].(string))
	}
	pages := 0
	for marker := ""; ; pages++ {
		s := f.listArrow(t, "&maxresults=3&marker="+url.QueryEscape(marker))
		if len(s.Rows) > 3 {
			t.Fatalf("%d rows in a page", len(s.Rows))
		}
		for _, row := range s.Rows {
			names = append(names, row["Name"].(string))
		}
		if marker = s.Metadata["NextMarker"]; marker == "" {
			break
		}
	}
	if d := cmp.Diff(want, names); d != "" || pages < 2 {
		t.Errorf("%d pages; %s", pages, d)
	}
}

// Types are those that the client libraries expect.
func TestTypesOfListBlobsInArrow(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	types := map[string][3]int{}
	s := f.listArrow(t, "&include=metadata")
	for i, name := range s.Columns {
		types[name] = s.Types[i]
	}
	for name, want := range map[string][3]int{"Name": {5}, "Last-Modified": {10, 2}, "Content-Length": {2, 64, 0},
		"ServerEncrypted": {6},
		"TagCount":        {2, 64, 0}, "x-ms-blob-sequence-number": {2, 64, 0}, "RemainingRetentionDays": {2, 64, 0},
		"Metadata": {17}} {
		if types[name] != want {
			t.Errorf("%s has type %v, want %v", name, types[name], want)
		}
	}
	if _, ok := types["Tags"]; ok {
		t.Error("tags that the request does not include")
	}
}

// Older versions, and requests that do not accept Arrow, get XML.
func TestListBlobsInXML(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	for _, headers := range [][]string{{"x-ms-version", "2026-06-06", "Accept", acceptArrow},
		{"x-ms-version", "2026-10-06", "Accept", "application/xml"}, {"x-ms-version", "2026-10-06"}} {
		f.do("GET", "/box?restype=container&comp=list", "", headers...).want(t, 200, "").wantHeader(t, "Content-Type",
			"application/xml")
	}
	f.do("GET", "/none?restype=container&comp=list", "", "x-ms-version", "2026-10-06", "Accept", acceptArrow).want(t, 404,
		"ContainerNotFound").wantHeader(t, "Content-Type", "application/xml")
}

// A page whose items are large ends early, with a token for the rest.
func TestListBlobsInArrowIsBounded(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	value := strings.Repeat("x", 7<<10)
	const blobs = 1100
	for i := range blobs {
		f.do("PUT", fmt.Sprintf("/box/%04d", i), "", "x-ms-blob-type", "AppendBlob", "x-ms-meta-a", value).want(t, 201, "")
	}
	first := f.listArrow(t, "&include=metadata")
	if len(first.Rows) >= blobs || first.Metadata["NextMarker"] == "" {
		t.Fatalf("%d rows in a page, metadata %v", len(first.Rows), first.Metadata)
	}
	rest := f.listArrow(t, "&include=metadata&marker="+url.QueryEscape(first.Metadata["NextMarker"]))
	if n := len(first.Rows) + len(rest.Rows); n < blobs && rest.Metadata["NextMarker"] == "" {
		t.Errorf("%d rows in two pages", n)
	}
}
