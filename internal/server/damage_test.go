package server_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// flipAll inverts a bit of every occurrence of a text in the files that match a pattern: databases keep former pages.
func flipAll(t *testing.T, pattern, text string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	check.OK(t, err)
	flipped := 0
	for _, name := range files {
		data, err := os.ReadFile(name)
		check.OK(t, err)
		for at := 0; ; at++ {
			i := bytes.Index(data[at:], []byte(text))
			if i < 0 {
				break
			}
			at += i
			data[at] ^= 1
			flipped++
		}
		check.OK(t, os.WriteFile(name, data, 0o600))
	}
	if flipped == 0 {
		t.Fatalf("no file of %s has %q", pattern, text)
	}
}

// Damage that requests find is visible: as metrics, and for queues in the list of queues. A damaged message does not
// hide the others.
func TestDamageIsVisible(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	folder := filepath.Join(t.TempDir(), "data")
	s, err := server.Start(server.Config{Location: folder})
	check.OK(t, err)
	_, err = tableClient(t, s).CreateTable(ctx, "people", nil)
	check.OK(t, err)
	_, err = tableClient(t, s).NewClient("people").AddEntity(ctx,
		[]byte(`{"PartitionKey":"p","RowKey":"r","Name":"entity-text"}`), nil)
	check.OK(t, err)
	_, err = blobClient(t, s).CreateContainer(ctx, "box", nil)
	check.OK(t, err)
	_, err = blobClient(t, s).UploadBuffer(ctx, "box", "blob", []byte("blob-text"), nil)
	check.OK(t, err)
	for _, queue := range []string{"intact", "aside"} {
		q := queueClient(t, s).NewQueueClient(queue)
		_, err = q.Create(ctx, nil)
		check.OK(t, err)
		for i := range 3 {
			_, err = q.EnqueueMessage(ctx, fmt.Sprintf("%s-%d-text", queue, i), nil)
			check.OK(t, err)
		}
	}
	check.OK(t, s.Stop(context.WithoutCancel(ctx)))

	flipAll(t, filepath.Join(folder, "tables.db"), "entity-text")
	flipAll(t, filepath.Join(folder, "extents", "*"), "blob-text")
	flipAll(t, filepath.Join(folder, "queues.db"), "aside-1-text")
	report, err := fsck.Check(ctx, folder, fsck.Options{})
	check.OK(t, err)
	found := 0
	for _, f := range report.Findings {
		if strings.Contains(f.String(), "aside") {
			found++
		}
	}
	if found != 1 {
		t.Errorf("fsck finds %d errors of one damaged message: %v", found, report.Findings)
	}
	metrics := prometheus.NewRegistry()
	c := server.Config{Location: folder, Metrics: metrics}
	s, err = server.Start(c)
	check.OK(t, err)
	defer func() { check.OK(t, s.Stop(context.WithoutCancel(ctx))) }()
	once := policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
	if _, err := tableClient(t, s).NewClient("people").GetEntity(once, "p", "r", nil); err == nil {
		t.Error("the damaged entity is served")
	}
	if _, err := blobClient(t, s).DownloadStream(once, "box", "blob", nil); err == nil {
		t.Error("the damaged blob is served")
	}
	got, err := queueClient(t, s).NewQueueClient("aside").DequeueMessages(ctx, nil)
	check.OK(t, err)
	if len(got.Messages) != 1 || *got.Messages[0].MessageText != "aside-0-text" {
		t.Errorf("got %+v, want the first message", got.Messages)
	}
	for range 2 { // the second message is found when its turn comes
		_, err = queueClient(t, s).NewQueueClient("aside").DequeueMessages(ctx, nil)
		check.OK(t, err)
	}
	counts, err := queuetool.Count(ctx, queueClient(t, s).NewQueueClient("aside")) // what the dashboard shows
	check.OK(t, err)
	if counts.Total != 3 || counts.SetAside != 1 {
		t.Errorf("the queue with a damaged message has %+v, want one of three set aside", counts)
	}
	queues, err := queuetool.List(ctx, queueClient(t, s), "")
	check.OK(t, err)
	byName := map[string]queuetool.Queue{}
	for _, q := range queues {
		byName[q.Name] = q
	}
	if q := byName["intact"]; q.Messages != 3 || q.SetAside != 0 || q.Unavailable != "" {
		t.Errorf("the intact queue is shown as %+v", q)
	}
	if q := byName["aside"]; q.SetAside != 1 || q.Unavailable != "" {
		t.Errorf("the queue with a damaged message is shown as %+v, want one set aside", q)
	}
	wanted := `
# HELP lazuli_damaged_queues Queues that are not used because records of them were lost.
# TYPE lazuli_damaged_queues gauge
lazuli_damaged_queues 0
# HELP lazuli_damaged_reads_total Reads that failed because the data on disk is damaged, by part: tables, blobs (metadata), content.
# TYPE lazuli_damaged_reads_total counter
lazuli_damaged_reads_total{part="blobs"} 0
lazuli_damaged_reads_total{part="content"} 1
lazuli_damaged_reads_total{part="tables"} 1
# HELP lazuli_queue_messages_set_aside Messages that cannot be read because of damage, in the queues that have been used since the start.
# TYPE lazuli_queue_messages_set_aside gauge
lazuli_queue_messages_set_aside 1
`
	err = testutil.GatherAndCompare(metrics, strings.NewReader(wanted), "lazuli_damaged_queues",
		"lazuli_damaged_reads_total", "lazuli_queue_messages_set_aside")
	if err != nil {
		t.Error(err)
	}
	// What is removed is not set aside any more.
	_, err = queueClient(t, s).NewQueueClient("aside").ClearMessages(ctx, nil)
	check.OK(t, err)
	if d, _ := s.Damage(); d.MessagesSetAside != 0 {
		t.Errorf("%d messages are set aside after the queue was cleared", d.MessagesSetAside)
	}
}
