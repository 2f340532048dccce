package natsserver

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// TestProofOfARealServer reads what a real server says about itself.
func TestProofOfARealServer(t *testing.T) {
	t.Parallel()
	run := func(syncAlways bool) (url, monitor string) {
		n := external(t, &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, HTTPHost: "127.0.0.1",
			HTTPPort:  server.RANDOM_PORT,
			JetStream: true, StoreDir: t.TempDir(), SyncAlways: syncAlways, NoSigs: true, NoLog: true})
		return n.ClientURL(), "http://" + n.MonitorAddr().String()
	}
	url, monitor := run(true)
	start(t, Config{URL: url, Prove: true, Monitors: []string{monitor}})
	lax, laxMonitor := run(false)
	start(t, Config{URL: lax})
	for name, tc := range map[string]struct {
		c    Config
		want string
	}{
		"no sync":    {Config{URL: lax, Prove: true, Monitors: []string{laxMonitor}}, "sync_interval: always"},
		"no monitor": {Config{URL: url, Prove: true}, "nats-monitor"},
		"nobody there": {Config{URL: url, Prove: true, Monitors: []string{"http://127.0.0.1:1"}},
			"connection refused"},
		"not an address": {Config{URL: url, Prove: true, Monitors: []string{"127.0.0.1:8222"}}, "of the form http"},
		"another server": {Config{URL: lax, Prove: true, Monitors: []string{monitor}},
			"is not among those of nats-monitor"},
		"the same one twice": {Config{URL: url, Prove: true, Monitors: []string{monitor, monitor + "/"}},
			"are the same server"},
		"replicas of nothing": {Config{URL: url, Prove: true, Monitors: []string{monitor}, Replicas: 3},
			"the cluster has 1 servers"},
		"not a monitoring port": {Config{URL: url, Prove: true, Monitors: []string{notNATS(t)}}, "not that of a NATS server"},
	} {
		s, err := Start(tc.c)
		if err == nil {
			s.Close()
			t.Errorf("%s: connected", name)
		} else if !errors.Is(err, ErrUnproven) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want ErrUnproven with %q", name, err, tc.want)
		}
	}
}

func notNATS(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	t.Cleanup(s.Close)
	return s.URL
}

func TestJudgeOfClusters(t *testing.T) {
	t.Parallel()
	cluster := func(change func([]monitored)) []monitored {
		var list []monitored
		for _, name := range []string{"a", "b", "c"} {
			list = append(list, monitored{at: "http://" + name, id: name, name: name, version: "2.15.2", cluster: "x",
				jetstream: true, syncAlways: true, size: 3})
		}
		if change != nil {
			change(list)
		}
		return list
	}
	for _, tc := range []struct {
		name     string
		servers  []monitored
		replicas int
		want     string
	}{
		{"three synced servers", cluster(nil), 3, ""},
		{"a newer version", cluster(func(l []monitored) { l[2].version = "3.0.0-beta" }), 3, ""},
		{"one replica", cluster(nil), 1, "set nats-replicas to 3"},
		{"two replicas", cluster(nil), 2, "set nats-replicas to 3"},
		{"five replicas", cluster(nil), 5, "the cluster has 3 servers"},
		{"one server is not named", cluster(nil)[:2], 3, "name all of them"},
		{"one server does not sync", cluster(func(l []monitored) { l[1].syncAlways = false }), 3,
			"http://b does not sync each write"},
		{"one server is old", cluster(func(l []monitored) { l[2].version = "2.14.9" }), 3, "http://c has version 2.14.9"},
		{"one server is of another cluster", cluster(func(l []monitored) { l[2].cluster = "y" }), 3, "belongs to cluster"},
		{"one server has no JetStream", cluster(func(l []monitored) { l[2].jetstream = false }), 3,
			"http://c has no JetStream"},
		{"one address is no NATS server", cluster(func(l []monitored) { l[2].id = "" }), 3, "http://c is not a NATS server"},
	} {
		err := judge(tc.servers, "a", tc.replicas)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}
