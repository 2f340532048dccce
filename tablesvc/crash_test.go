package tablesvc

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// childFile is the environment variable that makes this test binary serve the file that it names.
const childFile = "LAZULI_TABLESVC_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		serveChild(path)
		return
	}
	check.FilesInMemory()
	os.Exit(m.Run())
}

// serveChild serves a file durably and prints its address, until it is killed or its parent, which holds the other end
// of its standard input, is gone.
func serveChild(path string) {
	svc, err := open(tablehost.Config{Path: path,
		Common: frontend.Common{Accounts: auth.Development(), Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	fmt.Println(l.Addr())
	fmt.Println(http.Serve(l, svc.Handler()))
}

// rounds is the number of times that the server is killed; transactionSize how many entities each transaction has.
const rounds, transactionSize, writers = 8, 40, 4

// TestTransactionsSurviveKill: a server is killed under load, again and again. After each time, every acknowledged
// transaction is there, and of each other one either all or nothing.
func TestTransactionsSurviveKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("kills processes for some seconds; -short")
	}
	f := &fixture{t: t, path: filepath.Join(t.TempDir(), "tables.db")}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var acked [writers]int // the last generation of each writer that was acknowledged
	for round := range rounds {
		killUnderLoad(t, f.path, round, rng.Int64N(60), &acked)
		f.check()
		f.open()
		client := f.sdk.NewClient("people")
		for w := range writers {
			generation := -1
			found := 0
			filter := fmt.Sprintf("PartitionKey eq 'w%d'", w)
			for p := client.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter}); p.More(); {
				page, err := p.NextPage(ctx)
				check.OK(t, err)
				for _, raw := range page.Entities {
					var e struct{ Generation int }
					check.OK(t, json.Unmarshal(raw, &e))
					if found > 0 && e.Generation != generation {
						t.Fatalf("round %d: writer %d has entities of generations %d and %d", round, w, generation, e.Generation)
					}
					generation = e.Generation
					found++
				}
			}
			if found != 0 && found != transactionSize || generation < acked[w]-1 {
				t.Fatalf("round %d: writer %d has %d entities of generation %d; generation %d was acknowledged", round, w, found,
					generation, acked[w]-1)
			}
			acked[w] = max(acked[w], generation+1)
		}
		check.OK(t, f.svc.Close())
	}
	if acked[0] == 0 {
		t.Error("nothing was ever acknowledged")
	}
}

// killUnderLoad starts a server, writes by transactions that replace all entities of a partition with those of the next
// generation, kills it once goal of them were acknowledged in all, and notes how many generations each writer has.
func killUnderLoad(t *testing.T, path string, round int, goal int64, acked *[writers]int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFile+"="+path)
	out, err := cmd.StdoutPipe()
	check.OK(t, err)
	life, err := cmd.StdinPipe()
	check.OK(t, err)
	check.OK(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	defer life.Close()
	address, err := bufio.NewReader(out).ReadString('\n')
	check.OK(t, err)
	cred, err := aztables.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	check.OK(t, err)
	sdk, err := aztables.NewServiceClientWithSharedKey("http://"+strings.TrimSpace(address)+"/"+auth.DevelopmentAccount,
		cred,
		&aztables.ClientOptions{ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}})
	check.OK(t, err)
	if round == 0 {
		_, err = sdk.CreateTable(ctx, "people", nil)
		check.OK(t, err)
	}
	client := sdk.NewClient("people")
	var wait sync.WaitGroup
	var total atomic.Int64
	enough := make(chan struct{})
	reached := sync.OnceFunc(func() { close(enough) })
	failed := make(chan error, writers)
	for w := range writers {
		wait.Go(func() {
			for generation := acked[w]; ; generation++ {
				actions := make([]aztables.TransactionAction, transactionSize)
				for i := range actions {
					actions[i] = aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace,
						Entity: entityJSON(fmt.Sprintf("w%d", w), fmt.Sprintf("%03d", i), "Generation", generation, "Text",
							strings.Repeat("x", 200))}
				}
				if _, err := client.SubmitTransaction(ctx, actions, nil); err != nil {
					failed <- fmt.Errorf("writer %d: %w", w, err)
					return
				}
				acked[w] = generation + 1
				if total.Add(1) >= goal {
					reached()
				}
			}
		})
	}
	select {
	case <-enough:
	case err := <-failed:
		t.Errorf("before the kill: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	wait.Wait()
}
