package config

import (
	"slices"
	"strings"
	"testing"
)

func TestCluster(t *testing.T) {
	good := []string{"--cluster-node", "n1", "--cluster-listen", "127.0.0.1:6201", "--cluster-peers",
		"n1=127.0.0.1:6201,n2=127.0.0.1:6202,n3=127.0.0.1:6203", "--services", "queue,table"}
	r := mustLoad(t, good, nil, "")
	if p := r.Cluster.Peering(); !r.Cluster.Enabled() || p.Node != "n1" || p.Listen != "127.0.0.1:6201" ||
		len(p.Peers) != 3 {
		t.Errorf("got %+v", p)
	}
	mustLoad(t, append(slices.Clone(good), "--roles", "archive,search-index", "--admin-state"), nil, "")
	if all := mustLoad(t, good[:len(good)-2], nil, ""); !all.Serves("blob") {
		t.Error("a node does not serve blobs by default")
	}
	for want, args := range map[string][]string{
		"nats-unproven are for an external server": {"--nats-unproven"},
		"nats-monitor and nats-unproven":           {"--nats-monitor", "http://a:8222"},
		"cannot be used with nats-monitor": {"--nats-url", "nats://a", "--nats-monitor",
			"http://a:8222", "--nats-unproven"},
		"nats-services is about an external server": {"--nats-services", "queue,table"},
		"nats-services must have queue":             {"--nats-url", "nats://a", "--nats-services", "table"},
		"\"file\"": {"--nats-url", "nats://a", "--nats-services",
			"queue,file"},
		"blobs need a data folder": {"--nats-url", "nats://a", "--nats-services",
			"queue,blob", "--in-memory"},
		"no relaxed durability": {"--nats-url", "nats://a", "--nats-services",
			"queue,table", "--durability", "relaxed"},
		"cluster-node, cluster-listen and cluster-peers go together": {"--cluster-node", "n1", "--services", "queue"},
		"set cluster-node":                {"--cluster-secret-file", "f"},
		"it cannot be used with nats-url": append(slices.Clone(good), "--nats-url", "nats://a"),
		"cannot be used with in-memory":   append(slices.Clone(good), "--in-memory"),
		"events need the service blob": append(slices.Clone(good), "--services", "queue,table",
			"--events"),
		"have no relaxed durability": append(slices.Clone(good), "--services", "queue,blob",
			"--durability", "relaxed"),
		"the role table-index uses blobs": append(slices.Clone(good), "--roles",
			"archive,table-index"),
		"the role archive uses blobs": append(slices.Clone(good), "--roles", "archive",
			"--archive-to", "container:a"),
		"archive-to must be a table or a container": append(slices.Clone(good), "--roles", "archive",
			"--archive-to", "folder:a"),
		"follows the table's changes": append(slices.Clone(good), "--roles", "search-index",
			"--search-index-queue", "q"),
		"it needs cluster-secret-file":   append(slices.Clone(good), "--oauth", "dev"),
		"durable needs the service blob": append(slices.Clone(good), "--durable"),
		"not a loopback address": append(slices.Clone(good), "--cluster-listen",
			"0.0.0.0:6201"),
		"not of the form name=host:port": append(slices.Clone(good), "--cluster-peers", "n1"),
		"3 to 7 nodes": append(slices.Clone(good), "--cluster-peers",
			"n1=127.0.0.1:6201"),
		"authority, certificate and key":        append(slices.Clone(good), "--cluster-ca", "ca.pem"),
		"not of the form host:port":             append(slices.Clone(good), "--cluster-listen", "6201"),
		"this node, n9, is not among the peers": append(slices.Clone(good), "--cluster-node", "n9"),
	} {
		if _, err := load(t, args, nil, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
	}
}

func TestCopiesOfShards(t *testing.T) {
	good := []string{"--cluster-node", "n1", "--cluster-listen", "127.0.0.1:6201", "--shards", "4", "--cluster-peers",
		"n1=127.0.0.1:6201@a,n2=127.0.0.1:6202@b,n3=127.0.0.1:6203@c,n4=127.0.0.1:6204@a", "--cluster-copies", "3"}
	r := mustLoad(t, good, nil, "")
	mustLoad(t, append(slices.Clone(good), "--events"), nil, "")
	if p := r.Cluster.Peering(); p.Copies != 3 || p.Peers[3].Zone != "a" {
		t.Errorf("got %+v", p)
	}
	for want, args := range map[string][]string{
		"each shard is on 3 nodes":       {"--cluster-copies", "2"},
		"set cluster-node":               nil,
		"it needs several shards":        {"--shards", "1"},
		"faults needs nodes that have":   {"--faults"},
		"backup-hold-writes needs nodes": {"--backup-to", "/backups", "--backup-hold-writes"},
		"seed needs nodes that have all": {"--seed", "seed.yaml"},
		"archive needs nodes that have":  {"--archive", "/archive"},
		"they need cluster-copies":       {"--cluster-copies", "0"},
	} {
		args = append(slices.Clone(good), args...)
		if want == "set cluster-node" {
			args = []string{"--cluster-copies", "3"}
		}
		if _, err := load(t, args, nil, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
	}
	front := []string{"--cluster-node", "f1", "--cluster-front", "--cluster-peers",
		"n1=127.0.0.1:6201@a,n2=127.0.0.1:6202@b,n3=127.0.0.1:6203@c"}
	mustLoad(t, front, nil, "")
	if _, err := load(t, append(front, "--cluster-copies", "3"), nil, ""); err == nil ||
		!strings.Contains(err.Error(), "needs no cluster-copies") {
		t.Errorf("a front-end: got %v", err)
	}
}

// A front-end has the options of listeners, limits and the process, and refuses those about data and accounts.
func TestFrontOptions(t *testing.T) {
	good := []string{"--cluster-node", "f1", "--cluster-front", "--cluster-peers",
		"n1=127.0.0.1:6201,n2=127.0.0.1:6202,n3=127.0.0.1:6203"}
	r := mustLoad(t, append(slices.Clone(good), "--max-requests", "100", "--admin-port", "0", "--log-level", "warn"),
		[]string{"LAZULI_LOCATION=/data"}, "")
	if p := r.Cluster.Peering(); !p.Front || p.Node != "f1" || len(p.Peers) != 3 || r.Dashboard() {
		t.Errorf("got %+v", p)
	}
	// Of the name of a pod the last characters count, which no other pod has.
	pod := mustLoad(t, append(slices.Clone(good), "--cluster-node", "a-long-release-lazuli-front-5d8f7c9b6d-abcde"), nil,
		"")
	if got := pod.Cluster.Peering().Node; got != "se-lazuli-front-5d8f7c9b6d-abcde" {
		t.Errorf("the front-end is %q", got)
	}
	for want, args := range map[string][]string{
		"the node's name \"F 1\"": append(slices.Clone(good), "--cluster-node", "F 1"),
		"set cluster-node":        {"--cluster-front"},
		"has no cluster-listen":   append(slices.Clone(good), "--cluster-listen", "127.0.0.1:6204"),
		"needs cluster-node and":  {"--cluster-front", "--cluster-node", "f1"},
		"location is for nodes":   append(slices.Clone(good), "--location", "x"),
		"roles is for nodes":      append(slices.Clone(good), "--roles", "archive"),
		"accounts-file is for":    append(slices.Clone(good), "--accounts-file", "x"),
		"backup-to is for nodes":  append(slices.Clone(good), "--backup-to", "x"),
		"oauth is for nodes":      append(slices.Clone(good), "--oauth", "dev"),
		"admin-state is for":      append(slices.Clone(good), "--admin-state"),
	} {
		_, err := load(t, args, nil, "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", args, err, want)
		}
	}
}
