package blobsvc_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/management"
)

func startFeed(t *testing.T) *fixture {
	t.Helper()
	return managed(t, management.Blob{ChangeFeed: true})
}

// avroFile reads the records of an object container file of the feed: the texts of each, in order.
func avroFile(t *testing.T, b []byte) (records [][]string) {
	t.Helper()
	r := bytes.NewReader(b)
	number := func() int64 {
		n, err := binary.ReadVarint(r)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	text := func() string {
		s := make([]byte, number())
		if n, err := r.Read(s); n != len(s) && err != nil {
			t.Fatal(err)
		}
		return string(s)
	}
	magic := make([]byte, 4)
	_, _ = r.Read(magic)
	if string(magic) != "Obj\x01" || number() != 2 || text() != "avro.schema" {
		t.Fatal("no head")
	}
	var schema struct{ Fields []struct{ Name string } }
	if err := json.Unmarshal([]byte(text()), &schema); err != nil || len(schema.Fields) != 7 {
		t.Fatalf("schema: %v", err)
	}
	text()
	text()
	number()
	marker := make([]byte, 16)
	_, _ = r.Read(marker)
	for r.Len() > 0 {
		n := number()
		end := r.Len() - int(number())
		for range n {
			rec := []string{fmt.Sprint(number())}
			for range 10 { // topic to contentType
				rec = append(rec, text())
			}
			rec = append(rec, fmt.Sprint(number()), text())
			optional := func() {
				if number() == 0 {
					rec = append(rec, "")
				} else {
					rec = append(rec, text())
				}
			}
			optional()
			optional()
			optional()
			rec = append(rec, text(), text(), fmt.Sprint(number()))
			optional()
			if number() == 1 {
				for i := number(); i > 0; i-- {
					rec = append(rec, text(), text())
				}
				number()
			}
			records = append(records, rec)
		}
		if end -= r.Len(); end != 1 && end != 0 && end < 0 {
			t.Fatalf("a block ends %d bytes off", end)
		}
		again := make([]byte, 16)
		_, _ = r.Read(again)
		if !bytes.Equal(again, marker) {
			t.Fatal("no marker after a block")
		}
	}
	return records
}

// feed reads all events as "type api blob".
func (f *fixture) feed() (events []string, records [][]string) {
	f.t.Helper()
	t := f.t.(*testing.T)
	if err := f.svc.Clean(ctx); err != nil {
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
			events = append(events, rec[3]+" "+rec[6]+" "+rec[2][strings.Index(rec[2], "/blobs/")+7:])
		}
	}
	return events, records
}

func TestChangeFeed(t *testing.T) {
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
	want := []string{"BlobCreated PutBlob a b/ü", "BlobPropertiesUpdated SetBlobMetadata a b/ü", "BlobPropertiesUpdated SetBlobTags a b/ü",
		"BlobTierChanged SetBlobTier a b/ü", "BlobSnapshotCreated SnapshotBlob a b/ü", "BlobCreated CopyBlob copy", "BlobCreated PutBlob log",
		"BlobDeleted DeleteBlob a b/ü", "BlobDeleted DeleteBlob a b/ü"}
	events, records := f.feed()
	if diff := cmp.Diff(want, events); diff != "" {
		t.Error(diff)
	}
	first := records[0]
	url := strings.ReplaceAll(b.URL(), "%2F", "/")
	if first[0] != "3" || first[9] != strings.Trim(string(*put.ETag), `"`) || first[10] != "application/octet-stream" || first[11] != "5" || first[12] != "BlockBlob" || first[16] != url {
		t.Errorf("%q", first)
	}
	if records[4][19] != *snap.Snapshot {
		t.Errorf("snapshot %q", records[4])
	}
	ids, last := map[string]bool{}, ""
	for _, r := range records {
		if ids[r[5]] || r[17] <= last {
			t.Errorf("id or sequence again: %q", r)
		}
		ids[r[5]], last = true, r[17]
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
	// Nobody but the system writes there.
	for _, r := range []reply{
		f.do("PUT", "/$blobchangefeed/x", "x", "x-ms-blob-type", "BlockBlob"), f.do("DELETE", "/$blobchangefeed?restype=container", ""),
		f.do("DELETE", "/$blobchangefeed/meta/segments.json", ""), f.do("PUT", "/$blobchangefeed/meta/segments.json?comp=tags", ""),
		f.do("PUT", "/$blobchangefeed/meta/segments.json?comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1"),
	} {
		r.want(t, 403, "InsufficientAccountPermissions")
	}
}

// An hour's segment is finalized some minutes after it, and readers are told how far they may read.
func TestChangeFeedSegments(t *testing.T) {
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
	if before != hour.Add(-time.Hour).Format("2006-01-02T15:04:05.000Z") {
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
	if m := document("meta/segments.json"); m["lastConsumable"] != hour.Format("2006-01-02T15:04:05.000Z") {
		t.Errorf("consumable to %v", m["lastConsumable"])
	}
	document(hour.Add(time.Hour).Format("idx/segments/2006/01/02/1500/meta.json"))
}
