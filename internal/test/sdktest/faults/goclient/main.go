// Command goclient is the client for Go of run.py; see the README in this folder.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

var content = bytes.Repeat([]byte("0123456789"), 20_000)

func main() {
	connection := os.Getenv("LAZULI_CONNECTION_STRING")
	retry := policy.ClientOptions{Retry: policy.RetryOptions{RetryDelay: time.Millisecond, TryTimeout: 3 * time.Second}}
	blobs, err1 := azblob.NewClientFromConnectionString(connection, &azblob.ClientOptions{ClientOptions: retry})
	queue, err2 := azqueue.NewQueueClientFromConnectionString(connection, "faults",
		&azqueue.ClientOptions{ClientOptions: retry})
	if err := errors.Join(err1, err2); err != nil {
		log.Fatal(err)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		operation, argument, _ := strings.Cut(in.Text(), " ")
		fmt.Println(outcome(do(context.Background(), blobs, queue, operation, argument)))
	}
}

// The outcomes of a try that are no errors of the service. The SDK for Go has no option for a secondary endpoint.
var (
	errWrongBytes = errors.New("wrong bytes")
	errNoOption   = errors.New("no such option")
)

func do(ctx context.Context, blobs *azblob.Client, queue *azqueue.QueueClient, operation, argument string) error {
	switch operation {
	case "put":
		_, err := blobs.UploadBuffer(ctx, "faults", argument, content, nil)
		return err
	case "get":
		got, err := blobs.DownloadStream(ctx, "faults", "b", nil)
		if err != nil {
			return err
		}
		body := got.NewRetryReader(ctx, nil)
		defer body.Close()
		text, err := io.ReadAll(body)
		if err == nil && !bytes.Equal(text, content) {
			return errWrongBytes
		}
		return err
	case "secondary":
		return errNoOption
	}
	_, err := queue.EnqueueMessage(ctx, argument, nil)
	return err
}

// outcome returns the name of an error in the table.
func outcome(err error) string {
	var e *azcore.ResponseError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &e):
		return e.ErrorCode
	case errors.Is(err, errWrongBytes), errors.Is(err, errNoOption):
		return err.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "DeadlineExceeded"
	}
	return "connection error"
}
