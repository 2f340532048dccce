package blobsvc_test

import (
	"strings"
	"testing"
)

// Copy Blob From URL answers with the CRC64 of the content, with its MD5 if the client named that, and with both from
// version 2026-10-06 on.
func TestChecksumsOfCopyFromURL(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	content := strings.Repeat("content", 1000)
	f.do("PUT", "/box/s", content, "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	md5, crc := md5Of([]byte(content)), crcOf([]byte(content))
	for _, tc := range []struct {
		version  string
		named    bool
		md5, crc string
	}{
		{"2018-11-09", false, md5, ""},
		{"2021-12-02", false, "", crc},
		{"2021-12-02", true, md5, ""},
		{"2026-10-06", false, "", crc},
		{"2026-10-06", true, md5, crc},
	} {
		headers := []string{"x-ms-copy-source", f.base + "/box/s", "x-ms-requires-sync", "true", "x-ms-version", tc.version}
		if tc.named {
			headers = append(headers, "x-ms-source-content-md5", md5)
		}
		r := f.do("PUT", "/box/c", "", headers...).want(t, 202, "")
		r.wantHeader(t, "Content-MD5", tc.md5)
		r.wantHeader(t, "x-ms-content-crc64", tc.crc)
	}
}

// The key of the account opens the source of a copy, not that of content that is written from a URL.
func TestPrivateSourceNeedsASignature(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/private?restype=container", "").want(t, 201, "")
	f.do("PUT", "/private/s", strings.Repeat("x", 512), "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	f.do("PUT", "/private/append", "", "x-ms-blob-type", "AppendBlob").want(t, 201, "")
	f.do("PUT", "/private/page", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512").want(t, 201, "")
	with := func(more ...string) []string {
		return append([]string{"x-ms-copy-source", f.base + "/private/s"}, more...)
	}
	for path, headers := range map[string][]string{
		"/private/b":                         with("x-ms-blob-type", "BlockBlob"),
		"/private/b?comp=block&blockid=AA==": with(),
		"/private/append?comp=appendblock":   with(),
		"/private/page?comp=page": with("x-ms-page-write", "update", "x-ms-range", "bytes=0-511",
			"x-ms-source-range", "bytes=0-511"),
	} {
		f.do("PUT", path, "", headers...).want(t, 401, "CannotVerifyCopySource")
		f.do("PUT", path, "", append(headers, "x-ms-version", "2019-07-07")...).want(t, 404, "CannotVerifyCopySource")
	}
	f.do("PUT", "/private/c", "", with()...).want(t, 202, "")
	f.do("PUT", "/private/c", "", with("x-ms-requires-sync", "true")...).want(t, 202, "")
}

// Append Block refuses an entity tag that is the time of no blob; other operations do not match it.
func TestEarlyEntityTagOfAppendBlock(t *testing.T) {
	t.Parallel()
	f := recordedBox(t)
	f.do("PUT", "/box/a", "", "x-ms-blob-type", "AppendBlob").want(t, 201, "")
	for tag, code := range map[string]string{"0x111111111111111": "OutOfRangeInput", "garbage": "ConditionNotMet",
		`"0x8D6D419B4AD292F"`: "ConditionNotMet"} {
		status := map[string]int{"OutOfRangeInput": 400, "ConditionNotMet": 412}[code]
		f.do("PUT", "/box/a?comp=appendblock", "x", "If-Match", tag).want(t, status, code)
		f.do("PUT", "/box/a?comp=metadata", "", "If-Match", tag).want(t, 412, "ConditionNotMet")
	}
	f.do("PUT", "/box/a?comp=appendblock", "", "If-Match", "0x111111111111111", "x-ms-copy-source",
		f.base+"/box/b").want(t, 412, "ConditionNotMet")
}
