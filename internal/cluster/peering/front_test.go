package peering

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// openFront returns the site of a front-end, which has no folder.
func openFront(t *testing.T, node string, change func(*Config)) (*Site, error) {
	t.Helper()
	c := Config{Node: node, Front: true, Peers: peers(), Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&c)
	}
	return Open(c)
}

// A member accepts a front-end of its cluster that has the secret, and keeps nothing about it.
func TestFrontIsAdmitted(t *testing.T) {
	t.Parallel()
	secret := write(t, strings.Repeat("s", MinSecret))
	dir := t.TempDir()
	member := open(t, "n1", func(c *Config) { c.Dir, c.SecretFile = dir, secret })
	check.OK(t, member.settle("c1", Founding))
	present := func(cluster string, change func(*Config)) error {
		t.Helper()
		front, err := openFront(t, "f1", func(c *Config) {
			c.SecretFile = secret
			if change != nil {
				change(c)
			}
		})
		check.OK(t, err)
		check.OK(t, front.settle(cluster, Fronting))
		user, password := front.Credentials()
		return member.Admit(user, password, "127.0.0.1:9")
	}
	if err := present("c1", nil); !errors.Is(err, errWaiting) {
		t.Errorf("before the cluster has formed: %v", err)
	}
	check.Must(member.BecameMember())(t)
	before := check.Must(os.ReadFile(dir + "/" + identityFile))(t)
	check.OK(t, present("c1", nil))
	if now := check.Must(os.ReadFile(dir + "/" + identityFile))(t); string(now) != string(before) {
		t.Errorf("the member remembers the front-end: %s", now)
	}
	if member.HasPeer("f1") || !member.HasPeer("n2") {
		t.Error("the front-end counts as a node, or a node does not")
	}
	other := write(t, strings.Repeat("o", MinSecret))
	if err := present("c1", func(c *Config) { c.SecretFile = other }); !errors.Is(err, errSecret) {
		t.Errorf("with another secret: %v", err)
	}
	if err := present("c2", nil); err == nil || !strings.Contains(err.Error(), "cluster c2") {
		t.Errorf("of another cluster: %v", err)
	}
	// Its own list of peers may lack a node whose name it has.
	if err := present("c1", func(c *Config) {
		c.Node, c.Peers = "n3", append(peers()[:2], Peer{Name: "n4", Address: "127.0.0.1:6204"})
	}); err == nil || !strings.Contains(err.Error(), "name of a node with data") {
		t.Errorf("with the name of a node: %v", err)
	}
}

func TestFrontMistakes(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"one of its own":         func(c *Config) { c.Node = "n2" },
		"no address for them":    func(c *Config) { c.Listen = "127.0.0.1:6201" },
		"and no folder":          func(c *Config) { c.Dir = "x" },
		"3 to 16 nodes":          func(c *Config) { c.Peers = c.Peers[:1] },
		"not a loopback address": func(c *Config) { c.Peers[1].Address = "lazuli-2:6202" },
	} {
		if _, err := openFront(t, "f1", change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
