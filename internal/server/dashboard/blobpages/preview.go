package blobpages

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/hex"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
)

// The bounds of a preview.
const (
	previewBytes = 64 << 10
	previewRows  = 20
	previewCells = 50
	imageBytes   = 20 << 20
)

// preview is the beginning of a blob's content. One of its fields is set.
type preview struct {
	Text  string
	Rows  [][]string // a table; the first row is its head
	Image string     // the address of an image
	Note  string     // why there is no preview
	Cut   bool       // there is more
}

// images are the image types that are shown: those that cannot contain scripts.
var images = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true,
	"image/bmp": true}

// preview reads the beginning of a blob.
func (d *blobPages) preview(ctx context.Context, client *blob.Client, p *blob.GetPropertiesResponse,
	address string) (preview, error) {
	size, name := ptr.Value(p.ContentLength), client.URL()
	name, _, _ = strings.Cut(name, "?")
	kind, _, _ := mime.ParseMediaType(ptr.Value(p.ContentType))
	// The browser loads it from its own address; "inline" serves it with headers that keep it from running as a page.
	if images[kind] && size <= imageBytes {
		return preview{Image: address + "&inline=1"}, nil
	}
	if size == 0 {
		return preview{Note: "The blob is empty."}, nil
	}
	// The footer is at the end of the file, so the beginning is of no use; Query Blob Contents reads what is needed.
	if path.Ext(name) == ".parquet" || kind == "application/vnd.apache.parquet" {
		rows, err := d.parquetRows(ctx, name)
		return preview{Rows: rows, Cut: len(rows) > previewRows}, err
	}
	// Only the beginning is read, however large the blob is.
	got, err := client.DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Count: previewBytes}})
	if err != nil {
		return preview{}, err
	}
	defer drain(got.Body)
	text, err := io.ReadAll(io.LimitReader(got.Body, previewBytes))
	if err != nil {
		return preview{}, err
	}
	out := previewOf(text, kind, path.Ext(name))
	out.Cut = out.Cut || int64(len(text)) < size
	return out, nil
}

// previewOf shows bytes as a table, as text, or in hexadecimal.
func previewOf(text []byte, kind, ext string) preview {
	if kind == "text/csv" || ext == ".csv" {
		if rows, more := csvRows(text); len(rows) > 0 {
			return preview{Rows: rows, Cut: more}
		}
	}
	if kind == "application/json" || ext == ".json" {
		if out, ok := display.Indent(text); ok {
			return preview{Text: out}
		}
	}
	for cut := 0; cut < utf8.UTFMax && len(text) > cut; cut++ { // the last character may be cut off
		if t := text[:len(text)-cut]; utf8.Valid(t) && !bytes.ContainsRune(t, 0) {
			return preview{Text: string(t)}
		}
	}
	return preview{Text: hex.Dump(text[:min(len(text), 1024)]), Cut: len(text) > 1024}
}

// csvRows are the first rows of delimited text.
func csvRows(text []byte) (rows [][]string, more bool) {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord, r.LazyQuotes = -1, true
	for {
		row, err := r.Read()
		if err != nil {
			return rows, more
		}
		if len(rows) > previewRows {
			return rows, true
		}
		rows = append(rows, row[:min(len(row), previewCells)])
	}
}

// content sends a blob: as a file to save, or with ?inline=1 as an image of a type without scripts.
func (d *blobPages) content(w http.ResponseWriter, r *http.Request) error {
	client, _, err := d.blobOf(r)
	if err != nil {
		return err
	}
	got, err := client.DownloadStream(r.Context(), nil)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	kind, _, _ := mime.ParseMediaType(ptr.Value(got.ContentType))
	h := w.Header()
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	if r.URL.Query().Get("inline") != "" && images[kind] {
		h.Set("Content-Type", kind)
	} else {
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Disposition", mime.FormatMediaType("attachment",
			map[string]string{"filename": path.Base(r.URL.Query().Get("name"))}))
	}
	if ptr.Value(got.ContentEncoding) != "" {
		h.Set("Content-Encoding", ptr.Value(got.ContentEncoding))
	}
	h.Set("Content-Length", strconv.FormatInt(ptr.Value(got.ContentLength), 10))
	if _, err := io.Copy(w, got.Body); err != nil {
		panic(http.ErrAbortHandler) // the browser must not take what came for the whole
	}
	return nil
}
