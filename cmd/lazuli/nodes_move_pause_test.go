package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// movesVar is the number of moves of TestPausesOfMoves in place of its own.
const movesVar = "LAZULI_TEST_MOVES"

// A shard moves many times while clients write, to it and to a shard that stays: no request fails, and the log has
// the longest write during each move, of both. What the writes to the other shard take is due to the load of the
// machine. It runs only with LAZULI_TEST_FULL.
func TestPausesOfMoves(t *testing.T) {
	if !check.Size(false, true) {
		t.Skip("starts four nodes, which is done with " + check.FullVariable)
	}
	moves := 20
	if text := os.Getenv(movesVar); text != "" {
		moves = check.Must(strconv.Atoi(text))(t)
	}
	moving, staying := accountOfShard(t, 1), accountOfShard(t, 2)
	accounts := filepath.Join(t.TempDir(), "accounts")
	key := auth.DevelopmentKey
	// Beside other accounts than the development one, the admin listeners ask for it.
	const token = "0123456789abcdef"
	check.OK(t, os.WriteFile(accounts, fmt.Appendf(nil, "%s:%s\n%s:%[2]s\n", moving, key, staying), 0o600))
	self := check.Must(os.Executable())(t)
	cluster, err := killrig.StartCluster(t.Context(), t.TempDir(), 4, func(args ...string) *exec.Cmd {
		cmd := lazuliCommand(self, append(args, "--shards", fmt.Sprint(movedShards), "--cluster-copies", "3",
			"--accounts-file", accounts)...)
		cmd.Env = append(cmd.Env, "LAZULI_ADMIN_TOKEN="+token)
		return cmd
	})
	check.OK(t, err)
	t.Cleanup(cluster.Close)
	c := &movingCluster{Cluster: cluster, t: t, shard: 1}
	for _, n := range cluster.Nodes {
		n.HTTP = &http.Client{Transport: withToken(token)}
	}
	ctx, stop := context.WithCancel(t.Context())
	load := startWritingTo(ctx, t, cluster.ConnectionStringOf(moving, key))
	beside := startWritingTo(ctx, t, cluster.ConnectionStringOf(staying, key))
	check.Eventually(t, func() bool { return load.count() > 50 && beside.count() > 50 }, "clients write")
	var longest, others []time.Duration
	for i := range moves {
		load.forget()
		beside.forget()
		c.choose()
		began := time.Now()
		c.begin()
		var steps []string
		check.Eventually(t, func() bool {
			l := c.layout()
			if l.Move == nil {
				return false
			}
			if step := string(l.Move.Step); len(steps) == 0 || !strings.HasPrefix(steps[len(steps)-1], step+" ") {
				steps = append(steps, step+" "+time.Now().Format("05.000"))
			}
			return l.Ended
		}, "the move ends")
		took := time.Since(began)
		a, b := load.slowest(), beside.slowest()
		longest, others = append(longest, a.took), append(others, b.took)
		t.Logf("move %d from %s to %s took %v: the longest write %v; of the shard that stays %v; steps %v", i, c.from.Name,
			c.to.Name, took.Round(time.Millisecond), a, b, steps)
		for _, failed := range load.failures() {
			t.Errorf("move %d: a request failed: %v", i, failed)
		}
	}
	stop()
	load.check(t)
	beside.check(t)
	slices.Sort(longest)
	slices.Sort(others)
	t.Logf("the longest write of each move: %v", longest)
	t.Logf("that of the shard that stays: %v", others)
}

// begin begins the move that choose has chosen.
func (c *movingCluster) begin() {
	c.t.Helper()
	body := fmt.Sprintf(`{"shard":%d,"from":%q,"to":%q}`, c.shard, c.from.Name, c.to.Name)
	answer, err := c.to.HTTP.Post("http://"+c.to.Admin+"/admin/cluster/move", "application/json", strings.NewReader(body))
	check.OK(c.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check.OK(c.t, err)
	if answer.StatusCode != http.StatusOK {
		c.t.Fatalf("the move does not begin: %s: %s", answer.Status, text)
	}
}

// withToken adds the token of the admin listeners to requests.
type withToken string

// RoundTrip implements http.RoundTripper.
func (token withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

// accountOfShard returns the name of an account whose tables, queues and blobs are in one shard.
func accountOfShard(t *testing.T, shard int) string {
	t.Helper()
	placed := check.Must(shardmap.New(movedShards))(t)
	for i := range 10_000 {
		name := fmt.Sprint("account", i)
		if placed.Of(shardmap.Blob, name) == shard && placed.Of(shardmap.Queue, name) == shard &&
			placed.Of(shardmap.Table, name) == shard {
			return name
		}
	}
	t.Fatal("no account is in one shard")
	return ""
}

// choose chooses the nodes of the next move: from the one that has had the shard longest to the one without it.
func (c *movingCluster) choose() {
	c.t.Helper()
	hosts := c.layout().Hosts
	last := c.to
	var from []*killrig.Node
	for _, n := range c.Nodes {
		switch on := hosts.On(n.Name, c.shard); {
		case !on:
			c.to = n
		case n != last:
			from = append(from, n)
		}
	}
	c.from = from[c.moves%len(from)]
	c.moves++
}

// A shard of 1 GiB moves while clients write: nothing is lost, and the log has the longest write, the time of the move,
// and where the bytes went. It runs only with LAZULI_TEST_FULL.
func TestALargeShardMoves(t *testing.T) {
	if !check.Size(false, true) {
		t.Skip("writes 3 GiB, which is done with " + check.FullVariable)
	}
	const blobs, size = 128, 8 << 20
	c := newMovingCluster(t, "")
	service := check.Must(azblob.NewClientFromConnectionString(c.ConnectionString(), nil))(t)
	_, err := service.CreateContainer(t.Context(), "large", nil)
	check.OK(t, err)
	name := func(i int) string { return fmt.Sprintf("%03d", i) }
	// Content that does not compress, and that tells which blob it is of.
	content := func(i int) []byte {
		b := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(b) // never fails
		return b
	}
	var all errgroup.Group
	all.SetLimit(4)
	for i := range blobs {
		all.Go(func() error {
			_, err := service.UploadBuffer(t.Context(), "large", name(i), content(i), nil)
			return err
		})
	}
	check.OK(t, all.Wait())
	check.Eventually(t, func() bool { code, _ := c.lazuli("status", "--wait=1m"); return code == exitOK },
		"every copy is complete")
	ctx, stop := context.WithCancel(t.Context())
	load := startWriting(ctx, t, c.Cluster)
	check.Eventually(t, func() bool { return load.count() > 200 }, "clients write")
	before, written := load.slowest(), c.written()
	load.forget()
	began := time.Now()
	c.begin()
	check.Eventually(t, func() bool { l := c.layout(); return l.Move != nil && l.Ended }, "the move ends")
	took := time.Since(began)
	stop()
	load.check(t)
	t.Logf("the move took %v; the longest write %v, and before %v", took, load.slowest(), before)
	for i, n := range c.written() {
		t.Logf("%s wrote %d MiB meanwhile", c.Nodes[i].Name, (n-written[i])>>20)
	}
	got := make([]byte, size)
	for i := range blobs {
		if _, err := service.DownloadBuffer(t.Context(), "large", name(i), got, nil); err != nil ||
			!bytes.Equal(got, content(i)) {
			t.Errorf("blob %d: other content, or %v", i, err)
		}
	}
	for _, failed := range load.failures() {
		t.Errorf("a request failed: %v", failed)
	}
	c.check(false)
}

// written returns the bytes that each node has written to its disk, zeros where the system does not tell.
func (c *movingCluster) written() (list []int64) {
	for _, n := range c.Nodes {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", n.Pid()))
		_, after, _ := strings.Cut(string(text), "\nwrite_bytes: ")
		var bytes int64
		_, _ = fmt.Sscan(after, &bytes)
		list = append(list, bytes)
	}
	return list
}
