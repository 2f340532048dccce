package headercase

import (
	"fmt"
	"testing"
)

func TestScanKeepsTheCaseOfMetadataNames(t *testing.T) {
	t.Parallel()
	const head = "PUT /a/b HTTP/1.1\r\nHost: h\r\nX-Ms-Meta-OneTwo: 1\r\nx-ms-meta-Three: 3\r\nx-ms-meta-four: 4\r\nnot-x-ms-meta-Five: 5\r\n\r\n"
	want := map[string]string{"x-ms-meta-onetwo": "X-Ms-Meta-OneTwo", "x-ms-meta-three": "x-ms-meta-Three", "x-ms-meta-four": "x-ms-meta-four",
		"x-ms-meta-five": "x-ms-meta-five", "x-ms-meta-none": "x-ms-meta-none"}
	for at := 1; at < len(head); at++ { // whole, and cut anywhere
		var n Names
		n.Scan([]byte(head[:at]), true)
		n.Scan([]byte(head[at:]), false)
		for lower, want := range want {
			if got := n.Original(lower); got != want {
				t.Fatalf("cut at %d: %s is %s, want %s", at, lower, got, want)
			}
		}
		if got := Original(NewContext(t.Context(), &n), "x-ms-meta-three"); got != "x-ms-meta-Three" {
			t.Fatalf("by the context: %s", got)
		}
	}
	if got := Original(t.Context(), "x-ms-meta-three"); got != "x-ms-meta-three" {
		t.Errorf("without a connection: %s", got)
	}
}

func TestScanIsBounded(t *testing.T) {
	t.Parallel()
	var n Names
	for i := range 2 * maxNames {
		n.Scan(fmt.Appendf(nil, "GET / HTTP/1.1\r\nX-Ms-Meta-Name%d: 1\r\n\r\n", i), false)
	}
	if len(n.names) != maxNames {
		t.Errorf("%d names are kept, want %d", len(n.names), maxNames)
	}
	n.Scan(make([]byte, 4096), true)
	if len(n.tail) > maxLine {
		t.Errorf("%d bytes of a line are kept, want at most %d", len(n.tail), maxLine)
	}
}

func BenchmarkScan(b *testing.B) {
	read := make([]byte, 4096)
	n := copy(read, "PUT /devstoreaccount1/a/b HTTP/1.1\r\nHost: 127.0.0.1:10000\r\nAuthorization: SharedKey devstoreaccount1:\r\nx-ms-date: Sun, 22 Nov 2026 23:00:00 GMT\r\n"+
		"x-ms-version: 2021-12-02\r\nx-ms-blob-type: BlockBlob\r\nContent-Length: 4096\r\n\r\n")
	for i := range read[n:] {
		read[n+i] = "abcdefghijklmnopqrstuvwxyz"[i*7%26]
	}
	var names Names
	for b.Loop() {
		names.Scan(read, false)
	}
}
