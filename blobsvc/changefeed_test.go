package blobsvc_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
)

func startFeed(t *testing.T) *fixture {
	t.Helper()
	return managed(t, accountprops.Blob{ChangeFeed: true})
}

// avroRecord is an event: its fields, and those of its data.
type avroRecord map[string]any

// text is a field as text, "" for null; of a map it is its form in Go.
func (r avroRecord) text(name string) string {
	if r[name] == nil {
		return ""
	}
	return fmt.Sprint(r[name])
}

// avroReader reads values as a schema describes them.
type avroReader struct {
	*bytes.Reader
	t *testing.T
}

func (r avroReader) number() int64 {
	n, err := binary.ReadVarint(r)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r avroReader) string() string {
	s := make([]byte, r.number())
	if _, err := io.ReadFull(r, s); err != nil {
		r.t.Fatal(err)
	}
	return string(s)
}

func (r avroReader) value(schema any) any {
	switch s := schema.(type) {
	case string:
		switch s {
		case "string":
			return r.string()
		case "int", "long":
			return r.number()
		case "null":
			return nil
		}
	case []any:
		return r.value(s[r.number()])
	case map[string]any:
		switch s["type"] {
		case "map":
			m := map[string]any{}
			for n := r.number(); n > 0; n = r.number() {
				for range n {
					key := r.string()
					m[key] = r.value(s["values"])
				}
			}
			return m
		case "record":
			rec := avroRecord{}
			for _, f := range s["fields"].([]any) {
				f := f.(map[string]any)
				switch v := r.value(f["type"]).(type) {
				case avroRecord:
					maps.Copy(rec, v)
				default:
					rec[f["name"].(string)] = v
				}
			}
			return rec
		}
		return r.value(s["type"])
	}
	r.t.Fatalf("schema %v", schema)
	return nil
}

// avroFile reads the records of an object container file of the feed.
func avroFile(t *testing.T, b []byte) (records []avroRecord) {
	t.Helper()
	r := avroReader{bytes.NewReader(b), t}
	magic := make([]byte, 4)
	_, _ = r.Read(magic)
	if string(magic) != "Obj\x01" || r.number() != 2 || r.string() != "avro.schema" {
		t.Fatal("no head")
	}
	var schema any
	if err := json.Unmarshal([]byte(r.string()), &schema); err != nil {
		t.Fatalf("schema: %v", err)
	}
	if r.string() != "avro.codec" || r.string() != "null" || r.number() != 0 {
		t.Fatal("no codec")
	}
	marker, again := make([]byte, 16), make([]byte, 16)
	_, _ = r.Read(marker)
	for r.Len() > 0 {
		n, size := r.number(), r.number()
		end := int64(r.Len()) - size
		for range n {
			records = append(records, r.value(schema).(avroRecord))
		}
		if int64(r.Len()) != end {
			t.Fatalf("a block ends %d bytes off", int64(r.Len())-end)
		}
		if _, _ = r.Read(again); !bytes.Equal(again, marker) {
			t.Fatal("no marker after a block")
		}
	}
	return records
}

// feed reads all events as "type api blob".
func (f *fixture) feed() (events []string, records []avroRecord) {
	f.t.Helper()
	t := f.t.(*testing.T)
	if err := f.parts.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	r := f.do("GET", "/$blobchangefeed?restype=container&comp=list&prefix=log/", "").want(t, 200, "")
	for part := range strings.SplitSeq(r.body, "<Name>") {
		name, _, ok := strings.Cut(part, "</Name>")
		if !ok {
			continue
		}
		for _, rec := range avroFile(t, []byte(f.do("GET", "/$blobchangefeed/"+name, "").want(t, 200, "").body)) {
			records = append(records, rec)
			_, name, _ := strings.Cut(rec.text("subject"), "/blobs/")
			events = append(events, rec.text("eventType")+" "+rec.text("api")+" "+name)
		}
	}
	return events, records
}

func TestChangeFeed(t *testing.T) {
	t.Parallel()
	f := startFeed(t)
	c := f.container()
	b := c.NewBlockBlobClient("a b/ü")
	put := must(b.Upload(ctx, body("hello"), nil))(t)
	must(b.SetMetadata(ctx, map[string]*string{"a": to.Ptr("b")}, nil))(t)
	must(b.SetTags(ctx, map[string]string{"a": "b"}, nil))(t)
	must(b.SetTier(ctx, blob.AccessTierCool, nil))(t)
	snap := must(b.CreateSnapshot(ctx, nil))(t)
	must(c.NewBlobClient("copy").StartCopyFromURL(ctx, b.URL(), nil))(t)
	must(c.NewAppendBlobClient("log").Create(ctx, nil))(t)
	must(c.NewAppendBlobClient("log").AppendBlock(ctx, body("x"), nil))(t) // in no feed
	if _, err := b.Upload(ctx, body("x"), &blockUpload{AccessConditions: &blob.AccessConditions{
		ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: to.Ptr[azcore.ETag](`"0x1"`)}}}); err == nil {
		t.Fatal("a refused write went through")
	}
	must(b.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)}))(t)
	want := []string{"BlobCreated PutBlob a b/ü", "BlobPropertiesUpdated SetBlobMetadata a b/ü",
		"BlobPropertiesUpdated SetBlobTags a b/ü",
		"BlobTierChanged SetBlobTier a b/ü", "BlobSnapshotCreated SnapshotBlob a b/ü", "BlobCreated CopyBlob copy",
		"BlobCreated PutBlob log",
		"BlobDeleted DeleteBlob a b/ü", "BlobDeleted DeleteBlob a b/ü"}
	events, records := f.feed()
	if diff := cmp.Diff(want, events); diff != "" {
		t.Error(diff)
	}
	first := records[0]
	url := strings.ReplaceAll(b.URL(), "%2F", "/")
	if first.text("schemaVersion") != "5" || first.text("etag") != strings.Trim(string(*put.ETag), `"`) ||
		first.text("contentType") != "application/octet-stream" ||
		first.text("contentLength") != "5" || first.text("blobType") != "BlockBlob" || first.text("url") != url ||
		first["previousInfo"] != nil || len(first.text("containerVersion")) != 16 {
		t.Errorf("%q", first)
	}
	if records[4].text("snapshot") != *snap.Snapshot {
		t.Errorf("snapshot %q", records[4])
	}
	ids, last := map[string]bool{}, ""
	for _, r := range records {
		if ids[r.text("id")] || r.text("sequencer") <= last {
			t.Errorf("id or sequence again: %q", r)
		}
		ids[r.text("id")], last = true, r.text("sequencer")
	}
	// What was written stays, what comes is added, also after a restart.
	f.reopen()
	f.do("PUT", "/"+containerOf(c.URL())+"/more", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	f.reopen()
	if events, _ = f.feed(); len(events) != len(want)+1 || events[len(want)] != "BlobCreated PutBlob more" {
		t.Errorf("%q", events)
	}
	if again, _ := f.feed(); len(again) != len(events) {
		t.Error("reading it changed the feed")
	}
	// Only the system writes there.
	for _, r := range []reply{
		f.do("PUT", "/$blobchangefeed/x", "x", "x-ms-blob-type", "BlockBlob"),
		f.do("DELETE", "/$blobchangefeed?restype=container", ""),
		f.do("DELETE", "/$blobchangefeed/meta/segments.json", ""),
		f.do("PUT", "/$blobchangefeed/meta/segments.json?comp=tags", ""),
		f.do("PUT", "/$blobchangefeed/meta/segments.json?comp=lease", "", "x-ms-lease-action", "acquire",
			"x-ms-lease-duration", "-1"),
	} {
		r.want(t, 403, "InsufficientAccountPermissions")
	}
}

// An hour's segment is finalized some minutes after it, and its records say how far readers may read.
func TestChangeFeedSegments(t *testing.T) {
	t.Parallel()
	f := startFeed(t)
	c := "/" + containerOf(f.container().URL())
	document := func(path string) (m map[string]any) {
		t.Helper()
		if err := json.Unmarshal([]byte(f.do("GET", "/$blobchangefeed/"+path, "").want(t, 200, "").body), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	f.do("PUT", c+"/one", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	hour := f.now().UTC().Truncate(time.Hour)
	f.feed()
	path := hour.Format("idx/segments/2006/01/02/1500/meta.json")
	if m := document(path); m["status"] != "Publishing" || m["begin"] != hour.Format("2006-01-02T15:04:05.000Z") ||
		fmt.Sprint(m["chunkFilePaths"]) != hour.Format("[$blobchangefeed/log/00/2006/01/02/1500/]") {
		t.Errorf("%v", m)
	}
	if m := document("idx/segments/1601/01/01/0000/meta.json"); m["status"] != "Finalized" {
		t.Errorf("%v", m)
	}
	before := document("meta/segments.json")["lastConsumable"]
	if before != hour.Format("2006-01-02T15:04:05.000Z") {
		t.Errorf("consumable to %v", before)
	}
	f.advance(hour.Add(time.Hour + 6*time.Minute).Sub(f.now()))
	f.do("PUT", c+"/two", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	if events, _ := f.feed(); len(events) != 2 {
		t.Errorf("%q", events)
	}
	if m := document(path); m["status"] != "Finalized" {
		t.Errorf("%v", m)
	}
	if m := document("meta/segments.json"); m["lastConsumable"] != hour.Add(time.Hour).Format("2006-01-02T15:04:05.000Z") {
		t.Errorf("consumable to %v", m["lastConsumable"])
	}
	document(hour.Add(time.Hour).Format("idx/segments/2006/01/02/1500/meta.json"))
}
