// Package sdk_test tests the packages of this folder against a server: one package, so that one binary has it.
package servertest

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// What the three services refuse is one line, wherever in a tree of errors it is, and the same line each time.
func TestTextOfErrors(t *testing.T) {
	t.Parallel()
	a := lazulitest.Start(t).Account(t)
	queue := func() error {
		_, err := a.Queues.NewQueueClient("none").GetProperties(t.Context(), nil) // with a query
		return err
	}
	put := func() error {
		_, err := a.Queues.NewQueueClient("none").EnqueueMessage(t.Context(), "x", nil)
		return err
	}
	table := func() error {
		_, err := a.Tables.NewClient("None").GetEntity(t.Context(), "p", "r", nil)
		return err
	}
	blob := func() error {
		_, err := a.Blobs.DownloadStream(t.Context(), "none", "a b", nil)
		return err
	}
	queues, blobs := a.Queues.URL(), a.Blobs.URL()
	q := "GET " + strings.TrimSuffix(queues, "/") + "/none: 404 QueueNotFound: The specified queue does not exist."
	p := "POST " + strings.TrimSuffix(queues, "/") +
		"/none/messages: 404 QueueNotFound: The specified queue does not exist."
	b := "GET " + strings.TrimSuffix(blobs, "/") +
		"/none/a%20b: 404 ContainerNotFound: The specified container does not exist."
	for range 2 {
		for want, err := range map[string]error{
			"":                             nil,
			"EOF":                          io.EOF,
			q:                              queue(),
			p:                              put(),
			b:                              blob(),
			"read it: " + q:                fmt.Errorf("read it: %w", queue()),
			q + "\nEOF\n" + p:              errors.Join(queue(), io.EOF, put()),
			"twice: " + q + " and " + b:    fmt.Errorf("twice: %w and %w", queue(), blob()),
			"deeper: two: " + p + "\n" + q: fmt.Errorf("deeper: %w", fmt.Errorf("two: %w", errors.Join(put(), queue()))),
		} {
			if got := sdkerr.Text(err); got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
		}
	}
	err := table()
	if got := sdkerr.Text(err); !strings.HasSuffix(got,
		"/None(PartitionKey='p',RowKey='r'): 404 ResourceNotFound: The specified resource does not exist.") {
		t.Errorf("got %s", got)
	}
	if short := sdkerr.Short(err); short.Error() != sdkerr.Text(err) || !errors.Is(short, err) {
		t.Error(short)
	}
	nobody := fmt.Errorf("look: %w",
		&url.Error{Op: "Get", URL: "http://127.0.0.1:1/a/q?sv=2025-01-05&sig=secret", Err: io.EOF})
	if got, want := sdkerr.Short(nobody), `look: Get "http://127.0.0.1:1/a/q": EOF`; got.Error() != want ||
		!errors.Is(got, io.EOF) {
		t.Errorf("got %v, want %s", got, want)
	}
	if sdkerr.Short(nil) != nil || sdkerr.Short(io.EOF) != io.EOF {
		t.Error("an error without a refusal is changed")
	}
}
