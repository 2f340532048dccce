// Command gocloud uses go-cloud's bucket for Azure: writes in parts, ranges, attributes, pages and folders of listings,
// copies, signed URLs.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
	"gocloud.dev/gcerrors"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	client, err := container.NewClientFromConnectionString(os.Getenv("LAZULI_CONNECTION_STRING"), "gocloud", nil)
	if err != nil {
		return err
	}
	if _, err := client.Create(ctx, nil); err != nil {
		return err
	}
	bucket, err := azureblob.OpenBucket(ctx, client, nil)
	if err != nil {
		return err
	}
	defer bucket.Close()
	// More than a block, so that the library uploads blocks at the same time.
	content := make([]byte, 20<<20)
	_, _ = rand.Read(content)
	if err := bucket.WriteAll(ctx, "dir/large", content,
		&blob.WriterOptions{BufferSize: 4 << 20, ContentType: "a/b", Metadata: map[string]string{"k": "v"}}); err != nil {
		return err
	}
	got, err := bucket.ReadAll(ctx, "dir/large")
	if err != nil || !bytes.Equal(got, content) {
		return fmt.Errorf("read: %d bytes, %v", len(got), err)
	}
	// A range across the border of two blocks.
	r, err := bucket.NewRangeReader(ctx, "dir/large", 5<<20, 100, nil)
	if err != nil {
		return err
	}
	part, err := io.ReadAll(r)
	_ = r.Close()
	if err != nil || !bytes.Equal(part, content[5<<20:][:100]) {
		return fmt.Errorf("range: %d bytes, %v", len(part), err)
	}
	a, err := bucket.Attributes(ctx, "dir/large")
	if err != nil || a.ContentType != "a/b" || a.Metadata["k"] != "v" || a.Size != int64(len(content)) {
		return fmt.Errorf("attributes: %+v, %v", a, err)
	}
	// More than two pages of ten.
	for i := range 25 {
		if err := bucket.WriteAll(ctx, fmt.Sprintf("many/%02d", i), []byte("x"), nil); err != nil {
			return err
		}
	}
	names, token := 0, blob.FirstPageToken
	for {
		list, next, err := bucket.ListPage(ctx, token, 10, &blob.ListOptions{Prefix: "many/"})
		if err != nil {
			return err
		}
		names += len(list)
		if token = next; len(next) == 0 {
			break
		}
	}
	if names != 25 {
		return fmt.Errorf("%d names", names)
	}
	// Directories only at this level, which the library makes from prefixes.
	list, _, err := bucket.ListPage(ctx, blob.FirstPageToken, 10, &blob.ListOptions{Delimiter: "/"})
	if err != nil || len(list) != 2 || !list[0].IsDir || list[1].Key != "many/" {
		return fmt.Errorf("folders: %v, %v", list, err)
	}
	if err := bucket.Copy(ctx, "copy", "dir/large", nil); err != nil {
		return err
	}
	// The library signs by the account's key; the URL is fetched without it.
	url, err := bucket.SignedURL(ctx, "copy", &blob.SignedURLOptions{Expiry: time.Minute})
	if err != nil {
		return err
	}
	answer, err := http.Get(url)
	if err != nil {
		return err
	}
	got, err = io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || !bytes.Equal(got, content) {
		return fmt.Errorf("signed URL: status %d, %d bytes, %v", answer.StatusCode, len(got), err)
	}
	err = bucket.WriteAll(ctx, "copy", nil, &blob.WriterOptions{IfNotExist: true})
	if gcerrors.Code(err) != gcerrors.FailedPrecondition {
		return fmt.Errorf("written over a blob: %w", errors.Join(err))
	}
	if err := bucket.Delete(ctx, "copy"); err != nil {
		return err
	}
	if _, err := bucket.ReadAll(ctx, "copy"); gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("read a deleted blob: %w", err)
	}
	return nil
}
