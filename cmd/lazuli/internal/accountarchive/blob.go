package accountarchive

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/laketool"
)

// Blob describes a blob, snapshot or version in a container's segment.
type Blob struct {
	Name string `json:"name"`
	// Snapshot is the time of a snapshot, Version the ID of a previous version. Both are absent for the blob itself.
	Snapshot string `json:"snapshot,omitempty"`
	Version  string `json:"version,omitempty"`
	Type     string `json:"type"`
	Length   int64  `json:"length"`

	ContentType        string `json:"contentType,omitempty"`
	ContentEncoding    string `json:"contentEncoding,omitempty"`
	ContentLanguage    string `json:"contentLanguage,omitempty"`
	ContentDisposition string `json:"contentDisposition,omitempty"`
	CacheControl       string `json:"cacheControl,omitempty"`
	MD5                []byte `json:"contentMD5,omitempty"`

	Metadata map[string]string `json:"metadata,omitempty"`
	Tags     map[string]string `json:"tags,omitempty"`
	// Tier is absent if it was inferred.
	Tier string `json:"accessTier,omitempty"`
	// Sequence is the sequence number of a page blob; Ranges are its pages, as first byte and length. The content has the
	// ranges alone.
	Sequence int64      `json:"sequenceNumber,omitempty"`
	Ranges   [][2]int64 `json:"ranges,omitempty"`
	Sealed   bool       `json:"sealed,omitempty"`
	// Access is that of a file or directory of an account with a hierarchical namespace. A directory has the metadata
	// hdi_isfolder.
	Access *laketool.Access `json:"accessControl,omitempty"`

	// For information: the service sets its own.
	Modified time.Time `json:"lastModified"`
	ETag     string    `json:"etag"`
}

// stored is the size of the content in the archive.
func (b *Blob) stored() (n int64) {
	if b.Type != "PageBlob" {
		return b.Length
	}
	for _, r := range b.Ranges {
		n += r[1]
	}
	return n
}

// maxDescription bounds the description of a blob: 10,000 ranges and 8 KiB of metadata need less.
const maxDescription = 4 << 20

// writeBlob writes the two members of a blob. content must have the length that b says.
func writeBlob(w io.Writer, n int, b *Blob, content io.Reader) error {
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	if err := writeMember(t, fmt.Sprintf("%08d.json", n), b, int64(len(data))); err != nil {
		return err
	}
	if _, err := t.Write(data); err != nil {
		return err
	}
	if err := writeMember(t, fmt.Sprintf("%08d.data", n), b, b.stored()); err != nil {
		return err
	}
	if _, err := io.Copy(t, content); err != nil {
		return err
	}
	return t.Flush() // without the mark of the end of an archive: it is written once for the segment
}

func writeMember(t *tar.Writer, name string, b *Blob, size int64) error {
	return t.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: b.Modified.Truncate(time.Second),
		Format: tar.FormatPAX})
}

// blobReader reads the blobs of a segment.
type blobReader struct{ t *tar.Reader }

// next returns the next blob, whose content is read before the call after it. It fails with io.EOF at the end.
func (r *blobReader) next() (*Blob, io.Reader, error) {
	h, err := r.t.Next()
	if errors.Is(err, io.EOF) {
		return nil, nil, io.EOF
	}
	if err != nil {
		return nil, nil, invalid("not an archive of blobs: %w", err)
	}
	if h.Size > maxDescription {
		return nil, nil, invalid("%s has %d bytes", h.Name, h.Size)
	}
	var b Blob
	if err := json.NewDecoder(r.t).Decode(&b); err != nil {
		return nil, nil, invalid("%s: %w", h.Name, err)
	}
	h, err = r.t.Next()
	if err != nil {
		return nil, nil, invalid("no content of %s: %w", b.Name, err)
	}
	if h.Size != b.stored() {
		return nil, nil, invalid("the content of %s has %d bytes, not %d", b.Name, h.Size, b.stored())
	}
	return &b, r.t, nil
}
