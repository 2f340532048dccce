package accountarchive_test

import (
	"archive/tar"
	"strings"
)

// tarOf makes a tar archive of names and contents.
func tarOf(members ...string) string {
	var b strings.Builder
	w := tar.NewWriter(&b)
	for i := 0; i+1 < len(members); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: members[i], Size: int64(len(members[i+1])), Mode: 0o600}); err != nil {
			panic(err)
		}
		if _, err := w.Write([]byte(members[i+1])); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

// hugeTar claims to hold a blob of 8 PiB.
func hugeTar() string {
	var b strings.Builder
	w := tar.NewWriter(&b)
	const description = `{"name":"x","type":"BlockBlob","length":9007199254740992}`
	_ = w.WriteHeader(&tar.Header{Name: "00000001.json", Size: int64(len(description)), Mode: 0o600})
	_, _ = w.Write([]byte(description))
	_ = w.WriteHeader(&tar.Header{Name: "00000001.data", Size: 9007199254740992, Mode: 0o600})
	_ = w.Flush() // it refuses, since the content is missing; the header is written
	return b.String()
}
