package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// One node of a cluster is killed again and again while blobs are written through the others: the metrics have each of
// their requests that succeeded once, and the logs have a line for it. What the killed node had counted may be lost.
// The test runs only with LAZULI_TEST_KILL_NODES.
func TestAnalyticsOfAClusterWithAKilledNode(t *testing.T) {
	t.Parallel()
	cluster := startNodes(t)
	blobs, err := azblob.NewClientFromConnectionString(cluster.ConnectionString(), nil)
	check.OK(t, err)
	_, err = blobs.CreateContainer(t.Context(), "written", nil)
	check.OK(t, err)
	metrics := &service.Metrics{Version: to.Ptr("1.0"), Enabled: to.Ptr(true), IncludeAPIs: to.Ptr(true),
		RetentionPolicy: &service.RetentionPolicy{Enabled: to.Ptr(false)}}
	_, err = blobs.ServiceClient().SetProperties(t.Context(),
		&service.SetPropertiesOptions{HourMetrics: metrics, MinuteMetrics: metrics,
			Logging: &service.Logging{Version: to.Ptr("1.0"), Read: to.Ptr(false), Write: to.Ptr(true), Delete: to.Ptr(false),
				RetentionPolicy: metrics.RetentionPolicy}})
	check.OK(t, err)
	for _, n := range cluster.Nodes { // each has applied the settings when it answers a read
		_, err := nodeBlobs(t, n).ServiceClient().GetProperties(t.Context(), nil)
		check.OK(t, err)
	}

	killed := killrig.Cluster{Nodes: cluster.Nodes[2:]}
	ctx, stop := context.WithTimeout(t.Context(), workTime)
	defer stop()
	var (
		load sync.WaitGroup
		mu   sync.Mutex
		ids  []string // of the requests that succeeded
	)
	for at, n := range cluster.Nodes[:2] {
		client := nodeBlobs(t, n)
		for writer := range 3 {
			load.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					answer, err := client.UploadBuffer(t.Context(), "written", fmt.Sprintf("%d-%d-%d", at, writer, i),
						[]byte("content"), nil)
					if err == nil {
						mu.Lock()
						ids = append(ids, *answer.RequestID)
						mu.Unlock()
					}
				}
			})
		}
	}
	kills, err := killed.Harass(ctx, rand.New(rand.NewPCG(5, 1)), maxNodeDown, t.Logf)
	check.OK(t, err)
	load.Wait()
	for _, n := range cluster.Nodes { // a node that stops writes what it has counted
		check.OK(t, n.Terminate())
		check.OK(t, n.Start())
		check.OK(t, cluster.Whole(t.Context()))
	}
	if len(ids) == 0 || kills == 0 {
		t.Fatalf("%d requests succeeded during %d kills", len(ids), kills)
	}
	for _, resolution := range []string{"Hour", "Minute"} {
		if got := countedPuts(t, cluster, resolution); got != int64(len(ids)) {
			t.Errorf("the metrics of each %s have %d requests, want %d", strings.ToLower(resolution), got, len(ids))
		}
	}
	lines := loggedRequests(t, blobs)
	for _, id := range ids {
		if lines[id] != 1 {
			t.Errorf("request %s has %d lines in the logs", id, lines[id])
		}
	}
	t.Logf("%d kills, %d requests of the other nodes, each counted and logged once", kills, len(ids))
}

// nodeBlobs returns a client of one node that tries each request once.
func nodeBlobs(t *testing.T, n *killrig.Node) *azblob.Client {
	t.Helper()
	key, err := azblob.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	check.OK(t, err)
	client, err := azblob.NewClientWithSharedKeyCredential("http://"+n.Blob+"/"+auth.DevelopmentAccount, key,
		&azblob.ClientOptions{ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}})
	check.OK(t, err)
	return client
}

// countedPuts returns the sum of the successful Put Blob requests in the metrics.
func countedPuts(t *testing.T, cluster *killrig.Cluster, resolution string) (sum int64) {
	t.Helper()
	tables, err := aztables.NewServiceClientFromConnectionString(cluster.ConnectionString(), nil)
	check.OK(t, err)
	pager := tables.NewClient("$Metrics" + resolution + "PrimaryTransactionsBlob").NewListEntitiesPager(
		&aztables.ListEntitiesOptions{Filter: to.Ptr("RowKey eq 'user;PutBlob'")})
	for pager.More() {
		page, err := pager.NextPage(t.Context())
		check.OK(t, err)
		for _, stored := range page.Entities {
			var e aztables.EDMEntity
			check.OK(t, json.Unmarshal(stored, &e))
			n, ok := e.Properties["Success"].(aztables.EDMInt64)
			if !ok || e.Properties["TotalRequests"].(aztables.EDMInt64) < n {
				t.Errorf("row %s of %s is not whole: %v", e.RowKey, e.PartitionKey, e.Properties)
			}
			sum += int64(n)
		}
	}
	return sum
}

// loggedRequests returns how many lines of the logs each request has.
func loggedRequests(t *testing.T, blobs *azblob.Client) map[string]int {
	t.Helper()
	const fields, id = 30, 13 // https://learn.microsoft.com/rest/api/storageservices/storage-analytics-log-format
	lines := map[string]int{}
	for pager := blobs.NewListBlobsFlatPager("$logs", nil); pager.More(); {
		page, err := pager.NextPage(t.Context())
		check.OK(t, err)
		for _, item := range page.Segment.BlobItems {
			content := make([]byte, *item.Properties.ContentLength)
			_, err := blobs.DownloadBuffer(t.Context(), "$logs", *item.Name, content, nil)
			check.OK(t, err)
			r := csv.NewReader(bytes.NewReader(content))
			r.Comma, r.FieldsPerRecord = ';', fields
			records, err := r.ReadAll()
			check.OK(t, err)
			for _, record := range records {
				lines[record[id]]++
			}
		}
	}
	return lines
}
