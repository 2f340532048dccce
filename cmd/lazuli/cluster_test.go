package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

// TestServeCluster runs three nodes as `lazuli serve` does: a client uses any of them, and `lazuli cluster` shows and
// changes the cluster.
func TestServeCluster(t *testing.T) {
	t.Parallel()
	var peers []string
	for i := range 3 {
		peers = append(peers, fmt.Sprintf("n%d=127.0.0.1:%d", i+1, check.FreePort(t)))
	}
	secret := filepath.Join(t.TempDir(), "secret")
	check.OK(t, os.WriteFile(secret, []byte(strings.Repeat("s3cret", 6)), 0o600))
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	indexes := t.TempDir()
	serve := func(i int) *run {
		name, address, _ := strings.Cut(peers[i], "=")
		return start(t, Main{Args: []string{"serve", "--location", dirs[i], "--blob-port", "0", "--queue-port", "0",
			"--table-port", "0", "--admin-port", "0",
			"--cluster-node", name, "--cluster-listen", address, "--cluster-peers", strings.Join(peers, ","),
			"--cluster-secret-file", secret, "--admin-ui", "read-only", "--admin-state",
			"--roles", "archive,search-index", "--search-index-table", "people", "--search-index-fields", "Name:text",
			"--search-index-folder", filepath.Join(indexes, name)}})
	}
	nodes := []*run{serve(0), serve(1), serve(2)}
	var queues [3]*azqueue.QueueClient
	var tables [3]*aztables.Client
	var admins [3]string
	var archive *azqueue.QueueClient
	// more would overflow the SDK's pauses
	retry := policy.RetryOptions{MaxRetries: 35, RetryDelay: 100 * time.Millisecond, MaxRetryDelay: 5 * time.Second}
	for i, r := range nodes {
		admins[i] = r.wait(t, `Admin +http://127\.0\.0\.1:(\d+)`)[1]
		connection := r.wait(t, `(DefaultEndpointsProtocol=\S+)`)[1]
		s := check.Must(azqueue.NewServiceClientFromConnectionString(connection,
			&azqueue.ClientOptions{ClientOptions: policy.ClientOptions{Retry: retry}}))(t)
		queues[i], archive = s.NewQueueClient("orders"), s.NewQueueClient("archive")
		ts := check.Must(aztables.NewServiceClientFromConnectionString(connection,
			&aztables.ClientOptions{ClientOptions: policy.ClientOptions{Retry: retry}}))(t)
		tables[i] = ts.NewClient("people")
	}
	check.Eventually(t, func() bool { _, err := queues[0].Create(t.Context(), nil); return err == nil },
		"a queue on three nodes")
	check.Eventually(t, func() bool { _, err := queues[1].EnqueueMessage(t.Context(), "hello", nil); return err == nil },
		"a message at another node")
	check.Eventually(t, func() bool {
		got, err := queues[2].DequeueMessages(t.Context(), nil)
		return err == nil && len(got.Messages) == 1 && *got.Messages[0].MessageText == "hello"
	}, "the message at the third node")

	// An attempt whose outcome was unknown may have made the entity that the next one finds.
	insert := func(table *aztables.Client, entity string) {
		t.Helper()
		if _, err := table.AddEntity(t.Context(), []byte(entity), nil); !bloberror.HasCode(err, "EntityAlreadyExists") {
			check.OK(t, err)
		}
	}
	insert(tables[1], `{"PartitionKey":"p","RowKey":"r","Name":"Ada"}`)
	if e, err := tables[2].GetEntity(t.Context(), "p", "r", nil); err != nil || !strings.Contains(string(e.Value), "Ada") {
		t.Errorf("an entity at the third node: %v", err)
	}

	// Each node has an index of the table, and any node archives what a message names.
	lazuli := func(args ...string) (string, int) {
		var out, errs testlog.Buffer
		m := Main{Args: args, Stdout: &out, Stderr: &errs}
		code := m.Run(t.Context())
		return out.String() + errs.String(), code
	}
	command := func(args ...string) (string, int) { return lazuli(append([]string{"cluster"}, args...)...) }
	for _, admin := range admins {
		check.Eventually(t, func() bool {
			text, _ := lazuli("search", "query", "ada", "--admin-port", admin)
			return strings.Contains(text, "Ada")
		}, "the entity in the index of each node")
	}
	tableService := check.Must(aztables.NewServiceClientFromConnectionString(
		nodes[0].wait(t, `(DefaultEndpointsProtocol=\S+)`)[1],
		&aztables.ClientOptions{ClientOptions: policy.ClientOptions{Retry: retry}}))(t)
	insert(tableService.NewClient("Current"), `{"PartitionKey":"p","RowKey":"old"}`)
	check.Must(archive.EnqueueMessage(t.Context(),
		base64.StdEncoding.EncodeToString([]byte(`{"PartitionKey":"p","RowKey":"old"}`)), nil))(t)
	check.Eventually(t, func() bool {
		_, err := tableService.NewClient("Archive").GetEntity(t.Context(), "p", "old", nil)
		return err == nil
	}, "the archived entity")
	if text, code := command("status", "--wait=5m", "--admin-port", admins[2]); code != 0 {
		t.Errorf("waiting for complete copies: %d, %s", code, text)
	}
	if text, code := command("snapshot", "--admin-port", admins[1]); code != 0 ||
		!regexp.MustCompile(`log of tables: snapshot up to record [1-9]`).MatchString(text) {
		t.Errorf("a snapshot: %d, %s", code, text)
	}
	if status, body, err := request(t.Context(), "POST",
		"http://127.0.0.1:"+admins[2]+"/admin/reset?service=table&prefix=Archive"); err != nil || status != 200 ||
		!strings.Contains(body, `"tables":1`) {
		t.Errorf("a reset: %d, %s, %v", status, body, err)
	}
	if status, body, err := request(t.Context(), "POST", "http://127.0.0.1:"+admins[2]+"/admin/snapshots/a"); err != nil ||
		status != 501 || !strings.Contains(body, "node of a cluster") {
		t.Errorf("a snapshot of one node's folder: %d, %s, %v", status, body, err)
	}
	check.Eventually(t, func() bool {
		text, code := command("status", "--admin-port", admins[0])
		return code == 0 && strings.Count(text, "ready  always") == 3 &&
			len(regexp.MustCompile(`n[123] .* [1-9]\d* +0 +\d+ +\S+ \S+ +0 B`).FindAllString(text, -1)) == 3
	}, "three ready nodes that lack nothing in lazuli cluster status")
	for _, path := range []string{"/readyz", "/readyz?copies=complete"} {
		if status, body, err := fetch(t.Context(), "http://127.0.0.1:"+admins[0]+path); err != nil || status != 200 {
			t.Errorf("%s: %d, %s, %v", path, status, body, err)
		}
	}
	if status, page, err := fetch(t.Context(), "http://127.0.0.1:"+admins[0]+"/ui/cluster"); err != nil || status != 200 ||
		strings.Count(page, `<span class="tag">ready</span>`) != 3 || !strings.Contains(page, `href="/ui/cluster"`) {
		t.Errorf("the page of the cluster: %d, %s, %v", status, page, err)
	}
	if text, code := command("leave", "n2", "--yes", "--admin-port", admins[0]); code == 0 ||
		!strings.Contains(text, "stop it first") {
		t.Errorf("removing a running node: %d, %s", code, text)
	}
	if text, code := command("leave", "n7", "--yes", "--admin-port", admins[0]); code == 0 ||
		!strings.Contains(text, "no node of the cluster has that name") {
		t.Errorf("removing an unknown node: %d, %s", code, text)
	}
	_, metrics, err := fetch(t.Context(), "http://127.0.0.1:"+admins[0]+"/metrics")
	if err != nil || !strings.Contains(metrics, "lazuli_cluster_majority 1") ||
		!strings.Contains(metrics, "lazuli_cluster_connected_nodes 2") ||
		!strings.Contains(metrics, `lazuli_log_catching_up{log="tables"} 0`) ||
		!strings.Contains(metrics, "lazuli_content_missing_bytes 0\n") ||
		!regexp.MustCompile(`lazuli_log_bytes\{log="tables"\} [1-9]`).MatchString(metrics) {
		t.Errorf("metrics: %v", err)
	}
	// n2 made the snapshot, the others have not needed it.
	_, metrics, err = fetch(t.Context(), "http://127.0.0.1:"+admins[1]+"/metrics")
	if err != nil || !regexp.MustCompile(`lazuli_log_snapshot_bytes\{log="tables"\} [1-9]`).MatchString(metrics) ||
		!strings.Contains(metrics, `lazuli_log_snapshot_timestamp_seconds{log="tables"} 1.`) {
		t.Errorf("metrics of a snapshot: %v", err)
	}

	transferAccounts(t, nodes[1].wait(t, `(DefaultEndpointsProtocol=\S+)`)[1], lazuli)

	// One node goes; the others serve. Two go: the third answers 503, and is not ready.
	nodes[2].cancel()
	if code := nodes[2].end(t); code != 0 {
		t.Errorf("n3 ended with %d", code)
	}
	check.Eventually(t, func() bool { _, err := queues[0].EnqueueMessage(t.Context(), "again", nil); return err == nil },
		"a message with two nodes")
	nodes[1].cancel()
	nodes[1].end(t)
	check.Eventually(t, func() bool {
		status, body, err := fetch(t.Context(), "http://127.0.0.1:"+admins[0]+"/readyz")
		return err == nil && status == 503 && strings.Contains(body, "n2 and n3 cannot be reached")
	}, "/readyz without a majority")
	connection := nodes[0].wait(t, `(DefaultEndpointsProtocol=\S+)`)[1]
	once := check.Must(azqueue.NewServiceClientFromConnectionString(connection,
		&azqueue.ClientOptions{ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}))(t)
	_, err = once.NewQueueClient("orders").EnqueueMessage(t.Context(), "lost", nil)
	check.Code(t, err, "503 ServerBusy")
	nodes[1] = serve(1) // while it waits, it answers 503 as well
	check.Eventually(t, func() bool {
		_, err := once.NewQueueClient("orders").EnqueueMessage(t.Context(), "back", nil)
		return err == nil
	}, "messages with a majority")

	// fsck finds nothing wrong in the folder of a stopped node, and a flipped bit in one of its streams.
	if text, code := lazuli("fsck", dirs[2]); code != 0 || strings.Contains(text, "not part of a data folder") {
		t.Errorf("fsck of a node's folder: %d, %s", code, text)
	}
	blocks := check.Must(filepath.Glob(
		filepath.Join(dirs[2], "cluster", "*", "jetstream", "$G", "streams", "LAZULI_LOG_tables", "msgs", "*.blk")))(t)
	data := check.Must(os.ReadFile(blocks[0]))(t)
	data[30] ^= 1
	check.OK(t, os.WriteFile(blocks[0], data, 0o600))
	if text, code := lazuli("fsck", dirs[2]); code == 0 || !strings.Contains(text, "stream LAZULI_LOG_tables: block") ||
		!strings.Contains(text, "lazuli cluster leave n3") {
		t.Errorf("fsck of a damaged node's folder: %d, %s", code, text)
	}

	if text, code := lazuli("compact", dirs[2]); code == 0 || !strings.Contains(text, "folder of a node of a cluster") {
		t.Errorf("compact of a node's folder: %d, %s", code, text)
	}

	// A folder of a node is not served alone, and the folder of a single server is not a node's.
	nodes[0].cancel()
	nodes[1].cancel() // at the same time, since a node alone would wait for a majority before it stops
	nodes[0].end(t)
	nodes[1].end(t)
	var errs testlog.Buffer
	alone := Main{Args: []string{"--location", dirs[0], "--no-admin", "--blob-port", "0", "--queue-port", "0",
		"--table-port", "0"}, Stdout: &errs, Stderr: &errs}
	code := alone.Run(t.Context())
	if code != exitData || !strings.Contains(errs.String(), "belongs to node n1 of cluster") {
		t.Errorf("a node's folder alone: %d, %s", code, errs.String())
	}
	refused := func(reason string) {
		t.Helper()
		r := serve(0)
		select {
		case code := <-r.code:
			if text, _ := r.stderr.text(); code != exitData || !strings.Contains(text, reason) {
				t.Errorf("got %d, %s; want %s", code, text, reason)
			}
		case <-time.After(patience):
			t.Errorf("the folder is served: want %s", reason)
		}
	}
	check.OK(t, os.RemoveAll(filepath.Join(dirs[0], "cluster")))
	refused("cluster/node.json is missing")
	check.OK(t, os.RemoveAll(dirs[0]))
	d, err := datadir.Open(dirs[0])
	check.OK(t, err)
	check.OK(t, os.MkdirAll(d.Queues(), 0o700))
	check.OK(t, d.Close())
	refused("queues of a single server")
}
