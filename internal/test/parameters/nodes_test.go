package parameters

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// spread is the number of nodes, and of shards, each of which is on three of them.
const spread = 4

// A node that does not have an account's shard answers each operation as one that has it, and as a single server: the
// same status, headers and body, of requests that succeed and of requests that are refused.
func TestNodesAnswerAsASingleServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts four nodes")
	}
	t.Parallel()
	places := openNodes(t)
	t.Run("over a connection", places.raw)
	for name, sc := range scenes {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each write waits for the disks of two nodes
			places.compare(t, sc)
		})
	}
}

// places are the same services at a single server, at a node that has the account, and at one that does not.
type places []*fixture

// placeNames are their names, in this order.
var placeNames = []string{"a single server", "a node with the account", "a node without it"}

// compare sends the request of a scene, and variants that are refused, to all places.
func (p places) compare(t *testing.T, sc scene) {
	bare, anonymous, bad := sc, sc, sc
	bare.prepare, bare.after = nil, nil
	anonymous.request.anonymous, anonymous.request.bearer, anonymous.after = true, false, nil
	bad.request = sc.request.with("header x-ms-version", "1999-01-01")
	for _, v := range []struct {
		name string
		scene
	}{{"the scene", sc}, {"without what it needs", bare}, {"without a signature", anonymous}, {"of no version", bad}} {
		want := p[0].transcript(t, v.scene)
		for i, f := range p[1:] {
			if got := f.transcript(t, v.scene); got != want {
				t.Errorf("%s: %s and %s differ:\n%s", v.name, placeNames[0], placeNames[i+1], difference(want, got))
			}
		}
	}
}

// transcript returns all answers of a scene in an account of its own, without what differs from time to time.
func (f *fixture) transcript(t *testing.T, sc scene) string {
	s := f.stage(t, sc.service, sc.scoped)
	var b strings.Builder
	for _, r := range slices.Concat(sc.prepare, []request{sc.request}, sc.after) {
		answer := s.send(t, r)
		text := answer.text
		if strings.Contains(answer.header.Get("Content-Type"), "arrow") { // which has times as numbers
			text, _, _ = strings.Cut(text, "\n\n")
		}
		for _, m := range times {
			text = m.ReplaceAllString(text, "T")
		}
		fmt.Fprintf(&b, "%s %s\n%s\n\n", r.method, r.target, text)
	}
	return b.String()
}

// times are the forms that times and addresses have in answers, besides those of moves.
var times = []*regexp.Regexp{
	regexp.MustCompile(`\w{3}, \d\d \w{3} 20\d\d \d\d:\d\d:\d\d GMT`),
	regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d(:|%3[Aa])\d\d(:|%3[Aa])\d\dZ`),
	regexp.MustCompile(`(127\.0\.0\.1|localhost):\d+`),
}

// difference returns the lines of two texts that differ, with the request that they belong to.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var b strings.Builder
	for i := range max(len(w), len(g)) {
		var x, y string
		if i < len(w) {
			x = w[i]
		}
		if i < len(g) {
			y = g[i]
		}
		if x != y {
			fmt.Fprintf(&b, "line %d\n- %s\n+ %s\n", i, x, y)
		}
		if b.Len() > 2000 {
			break
		}
	}
	return b.String()
}

// openNodes starts a single server and a cluster in which no node has all shards.
func openNodes(t *testing.T) places {
	t.Helper()
	certificate := httptest.NewTLSServer(nil) // for tokens, which need TLS
	t.Cleanup(certificate.Close)
	first, accounts, oauth := withAccounts(t, time.Now)
	config := server.Config{Accounts: accounts, OAuth: oauth, CopySources: first.sources(), DataLake: "127.0.0.1:0",
		TLS: &tls.Config{Certificates: certificate.TLS.Certificates}, Log: slog.New(slog.DiscardHandler)}
	var peers []peering.Peer
	var hosts []shardmap.Place
	for i := range spread {
		name := fmt.Sprint("n", i)
		peers = append(peers, peering.Peer{Name: name, Address: check.FreeAddress(t)})
		hosts = append(hosts, shardmap.Place{Node: name})
	}
	servers, dir := map[string]*server.Server{}, t.TempDir()
	t.Cleanup(func() { stopAll(servers) })
	var starting sync.WaitGroup
	var filling sync.Mutex
	start := func(name string, c server.Config) {
		c.Location = filepath.Join(dir, name)
		starting.Go(func() {
			s, err := server.StartContext(t.Context(), c)
			if err != nil {
				t.Error(err)
				return
			}
			filling.Lock()
			defer filling.Unlock()
			servers[name] = s
		})
	}
	start("alone", config)
	config.Shards = spread
	for _, p := range peers {
		c := config
		c.Cluster = &peering.Config{Node: p.Name, Listen: p.Address, Peers: peers, Copies: shardmap.Copies}
		start(p.Name, c)
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	placed, table := check.Must(shardmap.New(spread))(t), check.Must(shardmap.NewHosts(hosts, spread))(t)
	node := func(has bool) func(service, account string) *server.Server {
		return func(service, account string) *server.Server {
			if service == "dfs" {
				service = shardmap.Blob
			}
			for _, name := range table.Names() {
				if table.On(name, placed.Of(service, account)) == has {
					return servers[name]
				}
			}
			panic("parameters: each shard is on three nodes of four")
		}
	}
	return places{first.at(0, func(string, string) *server.Server { return servers["alone"] }), first.at(1, node(true)),
		first.at(2, node(false))}
}

// stopAll stops servers at the same time: one after the other, the last ones would wait for a majority.
func stopAll(servers map[string]*server.Server) {
	var stopping sync.WaitGroup
	for _, s := range servers {
		stopping.Go(func() { _ = s.Stop(context.Background()) })
	}
	stopping.Wait()
}

// at returns a fixture of the same accounts at servers, which has a part of its own of the accounts.
func (f *fixture) at(part int, of func(service, account string) *server.Server) *fixture {
	g := &fixture{now: f.now, token: f.token, slow: f.slow}
	g.used.Store(int32(part * (accounts - trees) / 3))
	g.scoped.Store(int32(part * scoped / 3))
	g.trees.Store(int32(part * trees / 3))
	endpoints := map[string]wire.Service{"blob": wire.Blob, "queue": wire.Queue, "table": wire.Table, "dfs": wire.DataLake}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	g.address = func(service, account string) string {
		return strings.TrimSuffix(of(service, account).URL(endpoints[service], account), "/"+account)
	}
	g.serve = func(t *testing.T, _ string, r *http.Request) *http.Response {
		r.RequestURI = ""
		if r.ContentLength == 0 {
			r.Body = http.NoBody
		}
		r.TLS = nil
		return check.Must(client.Do(r))(t)
	}
	return g
}
