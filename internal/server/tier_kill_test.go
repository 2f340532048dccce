package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/state/blob/maintain"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// tierVariable has the load of a process with a tier that is killed.
const tierVariable = "LAZULI_TEST_TIER"

const (
	tierShards = 3
	// tierWorkers write blobs of their own, at the same time, to accounts of all shards.
	tierWorkers = 4
	// tierNames is the number of names of a worker: its blobs are replaced and deleted.
	tierNames = 12
)

// tierLoad is what such a process does until it is killed: at a hit of a point, or by the test.
type tierLoad struct {
	Folder, Objects string
	Point           fault.Name
	On              int
	Seed            uint64 // other than those of other processes of the folder
}

// tierOf returns the options of the tier of the tests: nearly all content leaves the machine, and objects that are not
// needed do so at the next sweep, of which there is one every two seconds.
func tierOf(folder string) (*tier.Options, error) {
	objects, err := backup.OpenObjects(folder, "")
	began := time.Now()
	return &tier.Options{Objects: objects, Cache: tierShards << 21, Keep: -1, Least: 1,
		Now: func() time.Time { return began.Add(2000 * time.Since(began)) }}, err
}

// tierContent is the content of a blob that was written with a seed.
func tierContent(seed uint64) []byte {
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)})
	p := make([]byte, 50<<10+random.Uint64()%(300<<10))
	_, _ = random.Read(p)
	return p
}

// tierClient is the client of a worker, which has an account of its own. The workers take turns at the shards.
func tierClient(s *Server, names []string, worker int) (*azblob.Client, error) {
	open := s.services.Load()
	list := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return open.of(wire.Blob, name).Number != worker%tierShards
	})
	account := list[worker/tierShards]
	return azblob.NewClientFromConnectionString(s.ConnectionStringOf(account, otherKey), &azblob.ClientOptions{
		ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}})
}

// loadTierUntilKilled writes, deletes and reads. It prints each change before it begins and once it is acknowledged,
// with the seed of the content, which is 0 for a deletion.
func loadTierUntilKilled(text string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	var c tierLoad
	fail(json.Unmarshal([]byte(text), &c))
	if c.Point != "" {
		fault.Activate(fault.NewPlan(fault.Rule{Point: c.Point, On: c.On, Do: fault.Kill}))
	}
	options, err := tierOf(c.Objects)
	fail(err)
	names, accounts, err := spreadAccounts()
	fail(err)
	s, err := Start(Config{Location: c.Folder, Shards: tierShards, Accounts: accounts, Tier: options,
		Log: slog.New(slog.DiscardHandler)})
	fail(err)
	ctx := context.Background()
	for w := range tierWorkers {
		client, err := tierClient(s, names, w)
		fail(err)
		if _, err := client.CreateContainer(ctx, "box", nil); !bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
			fail(err)
		}
		random := rand.New(rand.NewPCG(c.Seed, uint64(w)))
		go func() {
			mine := map[string]uint64{}
			for n := uint64(1); ; n++ {
				name, seed := fmt.Sprint("blob", random.IntN(tierNames)), c.Seed<<16|uint64(w)<<12|n
				if random.IntN(5) == 0 {
					seed = 0
				}
				fmt.Println("begin", w, name, seed)
				if seed == 0 {
					if _, err := client.DeleteBlob(ctx, "box", name, nil); !bloberror.HasCode(err, bloberror.BlobNotFound) {
						fail(err)
					}
				} else {
					_, err := client.UploadBuffer(ctx, "box", name, tierContent(seed), nil)
					fail(err)
				}
				fmt.Println("end", w, name, seed)
				mine[name] = seed
				for name, seed := range mine { // any of them
					fail(tierRead(ctx, client, name, seed))
					break
				}
			}
		}()
	}
	select {}
}

// tierRead returns an error unless a blob has the content of one of the seeds.
func tierRead(ctx context.Context, client *azblob.Client, name string, seeds ...uint64) error {
	r, err := client.DownloadStream(ctx, "box", name, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound) && slices.Contains(seeds, 0) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s, which has %v: %w", name, seeds, err)
	}
	got, err := io.ReadAll(r.Body)
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if !slices.ContainsFunc(seeds, func(seed uint64) bool { return seed != 0 && bytes.Equal(got, tierContent(seed)) }) {
		return fmt.Errorf("%s has %d bytes, which are not those of %v", name, len(got), seeds)
	}
	return nil
}

// tierModel has, by worker and name, the seeds of which one is that of the blob: two after a change whose answer was
// lost.
type tierModel [tierWorkers]map[string][]uint64

// runUntilKilled runs a process with a load until it is killed, by the test after a number of acknowledgements at
// the latest. reached reports whether it was at the point.
func (m *tierModel) runUntilKilled(t *testing.T, c tierLoad, most int) (reached bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), tierVariable+"="+string(check.Must(json.Marshal(c))(t)))
	out := check.Must(cmd.StdoutPipe())(t)
	var errs strings.Builder
	cmd.Stderr = &errs
	check.OK(t, cmd.Start())
	pending, done := [tierWorkers]func(){}, 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var what, name string
		var w int
		var seed uint64
		if _, err := fmt.Sscan(lines.Text(), &what, &w, &name, &seed); err != nil {
			continue // cut by the kill
		}
		if what == "begin" {
			pending[w] = func() {
				if len(m[w][name]) == 0 {
					m[w][name] = []uint64{0}
				}
				m[w][name] = append(m[w][name], seed)
			}
			continue
		}
		pending[w], m[w][name] = nil, []uint64{seed}
		if done++; done == most {
			check.OK(t, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait()
	if errs.Len() > 0 {
		t.Fatalf("the process that was to be killed at %q ended by itself: %s", c.Point, errs.String())
	}
	for _, change := range pending {
		if change != nil {
			change()
		}
	}
	return done < most
}

// A server with shards and a tier is killed under load: at each step of the tier, and at random moments.
// Nothing acknowledged is lost or wrong, and once it was compacted the object store has no object that nothing needs.
func TestTierKilledUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("kills a server many times")
	}
	t.Parallel()
	c := tierLoad{Folder: filepath.Join(t.TempDir(), "data"), Objects: filepath.Join(t.TempDir(), "objects")}
	var m tierModel
	for w := range m {
		m[w] = map[string][]uint64{}
	}
	reached := map[fault.Name]bool{}
	kill := func(point fault.Name, on, most int) {
		c.Point, c.On, c.Seed = point, on, c.Seed+1
		if m.runUntilKilled(t, c, most) {
			reached[point] = true
		}
	}
	kill("", 0, 100)
	random := rand.New(rand.NewPCG(3, 4))
	for n, point := range fault.Points() {
		if !strings.HasPrefix(string(point), "tier/") {
			continue
		}
		kill(point, 1, 400)
		// The quick test has either in turn.
		if n%2 == 0 || check.Size(false, true) {
			kill(point, 2+random.IntN(4), 400)
		}
		if n%2 == 1 || check.Size(false, true) {
			kill("", 0, 1+random.IntN(60))
		}
		if !reached[point] {
			t.Errorf("%s was not reached", point)
		}
	}

	options := check.Must(tierOf(c.Objects))(t)
	names, accounts := shardAccounts(t)
	s := check.Must(Start(Config{Location: c.Folder, Accounts: accounts, Tier: options,
		Log: slog.New(slog.DiscardHandler)}))(t)
	var readers sync.WaitGroup
	blobs := 0
	for w, mine := range m {
		client := check.Must(tierClient(s, names, w))(t)
		blobs += len(mine)
		readers.Go(func() {
			for name, seeds := range mine {
				if err := tierRead(t.Context(), client, name, seeds...); err != nil {
					t.Errorf("worker %d: %v", w, err)
				}
			}
		})
	}
	readers.Wait()
	check.OK(t, s.Stop(context.Background()))
	if blobs != tierWorkers*tierNames {
		t.Errorf("%d blobs were written: the test shows little", blobs)
	}
	for n := range tierShards {
		of, options := datadir.ShardOf(c.Folder, n), options.OfShard(s.dir.Tier(), n, tierShards)
		_, _, err := maintain.CompactFolder(t.Context(), of.Blobs(), of.Extents(), options, 0, nil)
		check.OK(t, err)
		node := check.Must(replica.Open(replica.Config{Path: of.Blobs(), Extents: of.Extents(), Grace: -1,
			Tier: options}))(t)
		removed := check.Must(node.Tier.Sweep(t.Context()))(t)
		unneeded := check.Must(node.Tier.Check(t.Context(), true, func(id uint64, problem string) {
			t.Errorf("shard %d, extent %x: %s", n, id, problem)
		}))(t)
		if unneeded > 0 {
			t.Errorf("shard %d: %d objects that nothing needs are left", n, unneeded)
		}
		if figures := node.Tier.Stats(); figures.Remote+figures.Local == 0 {
			t.Errorf("shard %d has no content: the test shows little", n)
		}
		t.Logf("shard %d: %d objects removed in the end", n, removed)
		check.OK(t, node.Close())
	}
}
