package blobsvc_test

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"testing"

	"github.com/minio/crc64nvme"
)

const xsm = "XSM/1.0; properties=crc64"

// message makes a structured body of content in segments of size bytes.
func message(content []byte, size int) []byte {
	segments := max(1, (len(content)+size-1)/size)
	le := binary.LittleEndian
	b := []byte{1}
	b = le.AppendUint64(b, uint64(13+18*segments+len(content)+8))
	b = le.AppendUint16(b, 1)
	b = le.AppendUint16(b, uint16(segments))
	for i := range segments {
		part := content[i*size : min(len(content), (i+1)*size)]
		b = le.AppendUint16(b, uint16(i+1))
		b = le.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
		b = le.AppendUint64(b, crc64nvme.Checksum(part))
	}
	return le.AppendUint64(b, crc64nvme.Checksum(content))
}

func TestStructuredBodies(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	for _, n := range []int{0, 1, 1000, 300_000, 9 << 20} {
		content := pattern(n)
		sent := message(content, 100_000)
		r := f.do("PUT", "/box/b", string(sent), "x-ms-blob-type", "BlockBlob", "x-ms-structured-body", xsm,
			"x-ms-structured-content-length", strconv.Itoa(n)).want(t, 201, "")
		if r.header.Get("x-ms-structured-body") != xsm {
			t.Errorf("%d bytes: headers %v", n, r.header)
		}
		if got := f.do("GET", "/box/b", "").want(t, 200, ""); got.body != string(content) {
			t.Errorf("%d bytes: content differs", n)
		}
		r = f.do("GET", "/box/b", "", "x-ms-structured-body", xsm).want(t, 200, "")
		if want := message(content, 4<<20); r.body != string(want) ||
			r.header.Get("x-ms-structured-content-length") != strconv.Itoa(n) ||
			r.header.Get("Content-Length") != strconv.Itoa(len(want)) {
			t.Errorf("%d bytes: answer of %d, headers %v", n, len(r.body), r.header)
		}
	}
	content := pattern(9 << 20)
	r := f.do("GET", "/box/b", "", "x-ms-structured-body", xsm, "x-ms-range", "bytes=1000-5000000").want(t, 206, "")
	if r.body != string(message(content[1000:5_000_001], 4<<20)) ||
		r.header.Get("Content-Range") != "bytes 1000-5000000/9437184" {
		t.Errorf("range: %v", r.header)
	}
	// The other operations with content.
	page := string(message(pattern(1024), 512))
	headers := []string{"x-ms-structured-body", xsm, "x-ms-structured-content-length", "1024"}
	f.do("PUT", "/box/p", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "1024").want(t, 201, "")
	f.do("PUT", "/box/p?comp=page", page,
		append(headers, "x-ms-page-write", "update", "x-ms-range", "bytes=0-1023")...).want(t, 201, "")
	f.do("PUT", "/box/a", "", "x-ms-blob-type", "AppendBlob").want(t, 201, "")
	f.do("PUT", "/box/a?comp=appendblock", page, headers...).want(t, 201, "")
	f.do("PUT", "/box/c?comp=block&blockid=AAAA", page, headers...).want(t, 201, "")
	f.do("PUT", "/box/c?comp=blocklist", "<BlockList><Latest>AAAA</Latest></BlockList>").want(t, 201, "")
	f.lakeDo("PUT", "/box/l?resource=file", "").want(t, 201, "")
	r = f.lakeDo("PATCH", "/box/l?action=append&position=0", page, headers...).want(t, 202, "")
	if r.header.Get("x-ms-structured-body") != xsm {
		t.Errorf("append: headers %v", r.header)
	}
	f.lakeDo("PATCH", "/box/l?action=flush&position=1024", "").want(t, 200, "")
	for _, name := range []string{"p", "a", "c", "l"} {
		if got := f.do("GET", "/box/"+name, ""); got.body != string(pattern(1024)) {
			t.Errorf("%s: content differs", name)
		}
	}
}

func TestStructuredBodiesRefusals(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	content := pattern(1000)
	good := message(content, 400)
	changed := func(at int, b byte) string {
		c := bytes.Clone(good)
		c[at] ^= b
		return string(c)
	}
	last := len(good) - 1
	for _, tc := range []struct {
		name, body, form, length string
		status                   int
		code                     string
	}{
		{"another form", string(good), "XSM/2.0; properties=crc64", "1000", 400, "InvalidHeaderValue"},
		{"no length", string(good), xsm, "", 400, "MissingRequiredHeader"},
		{"no number", string(good), xsm, "x", 400, "InvalidHeaderValue"},
		{"too short", string(good), xsm, "999", 400, "InvalidInput"},
		{"too long", string(good), xsm, "1001", 400, "InvalidInput"},
		{"longer than all", string(good), xsm, "100000", 400, "InvalidHeaderValue"},
		{"content", changed(100, 1), xsm, "1000", 400, "Crc64Mismatch"},
		{"checksum of a segment", changed(13+10+400, 1), xsm, "1000", 400, "Crc64Mismatch"},
		{"checksum of all", changed(last, 1), xsm, "1000", 400, "Crc64Mismatch"},
		{"version", changed(0, 2), xsm, "1000", 400, "InvalidInput"},
		{"message length", changed(1, 1), xsm, "1000", 400, "InvalidInput"},
		{"flags", changed(9, 1), xsm, "1000", 400, "InvalidInput"},
		{"segment number", changed(13, 2), xsm, "1000", 400, "InvalidInput"},
		{"segment length", changed(13+8, 0xff), xsm, "1000", 400, "InvalidInput"},
		{"no message", "x", xsm, "1", 400, "IncompleteBody"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			headers := []string{"x-ms-blob-type", "BlockBlob", "x-ms-structured-body", tc.form}
			if tc.length != "" {
				headers = append(headers, "x-ms-structured-content-length", tc.length)
			}
			f.do("PUT", "/box/b", tc.body, headers...).want(t, tc.status, tc.code)
			f.do("HEAD", "/box/b", "").want(t, 404, "BlobNotFound")
		})
	}
	f.do("PUT", "/box/b?comp=blocklist", "<BlockList/>", "x-ms-structured-body", xsm).want(t, 400, "UnsupportedHeader")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	f.do("GET", "/box/b", "", "x-ms-structured-body", xsm, "x-ms-range", "bytes=0-0", "x-ms-range-get-content-crc64",
		"true").want(t, 400, "InvalidHeaderValue")
}
