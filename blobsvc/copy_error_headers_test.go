package blobsvc_test

import "testing"

// Each operation that reads a source of this server says, in headers, how the source's own read failed.
func TestErrorsOfSourcesAreInHeaders(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "", "x-ms-blob-public-access", "container").want(t, 201, "")
	f.do("PUT", "/box/log", "", "x-ms-blob-type", "AppendBlob").want(t, 201, "")
	f.do("PUT", "/box/pages", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512").want(t, 201, "")
	source := []string{"x-ms-copy-source", f.base + "/box/none"}
	for path, headers := range map[string][]string{
		"/box/a":                         {"x-ms-requires-sync", "true"},
		"/box/b":                         {"x-ms-blob-type", "BlockBlob"},
		"/box/c?comp=block&blockid=YQ==": nil,
		"/box/log?comp=appendblock":      nil,
		"/box/pages?comp=page": {"x-ms-page-write", "update", "x-ms-range", "bytes=0-511",
			"x-ms-source-range", "bytes=0-511"},
	} {
		r := f.do("PUT", path, "", append(headers, source...)...).want(t, 404, "CannotVerifyCopySource")
		status, code := r.header.Get("x-ms-copy-source-status-code"), r.header.Get("x-ms-copy-source-error-code")
		if status != "404" || code == "" {
			t.Errorf("%s: the source's status %q and code %q", path, status, code)
		}
	}
}
