package peering

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

func peers() []Peer {
	return []Peer{{Name: "n1", Address: "127.0.0.1:6201"}, {Name: "n2", Address: "127.0.0.1:6202"},
		{Name: "n3", Address: "127.0.0.1:6203"}}
}

func TestConfigMistakes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no name":               {func(c *Config) { c.Node = "" }, "the node's name"},
		"bad name":              {func(c *Config) { c.Node = "N_1" }, "the node's name"},
		"bad address":           {func(c *Config) { c.Listen = "6201" }, "host:port"},
		"port 0":                {func(c *Config) { c.Listen = "127.0.0.1:0" }, "from 1 to 65535"},
		"not a peer":            {func(c *Config) { c.Node = "n4" }, "not among the peers"},
		"two peers":             {func(c *Config) { c.Peers = c.Peers[:2] }, "3 to 7 nodes"},
		"a name twice":          {func(c *Config) { c.Peers[2].Name = "n1" }, "given twice"},
		"an address twice":      {func(c *Config) { c.Peers[2].Address = c.Peers[0].Address }, "the same address"},
		"a peer without host":   {func(c *Config) { c.Peers[2].Address = ":6203" }, "host:port"},
		"a bad peer":            {func(c *Config) { c.Peers[2].Name = "n.3" }, "the name \"n.3\" of a peer"},
		"exposed listener":      {func(c *Config) { c.Listen = "0.0.0.0:6201" }, "not a loopback address"},
		"exposed peer":          {func(c *Config) { c.Peers[1].Address = "lazuli-2:6202" }, "not a loopback address"},
		"authority alone":       {func(c *Config) { c.CAFile = "ca.pem" }, "go together"},
		"certificate and key":   {func(c *Config) { c.CertFile, c.KeyFile = "cert.pem", "key.pem" }, "go together"},
		"every address, no TLS": {func(c *Config) { c.Listen = ":6201" }, "not a loopback address"},
	} {
		c := Config{Node: "n1", Listen: "127.0.0.1:6201", Peers: peers()}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		tc.change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
	c := Config{Node: "n1", Listen: "0.0.0.0:6201", Peers: peers(), SecretFile: "secret"}
	if err := c.Validate(); err != nil {
		t.Errorf("with a secret: %v", err)
	}
}

func TestPeersAreWrittenAsTheyAreRead(t *testing.T) {
	t.Parallel()
	const text = "n1=127.0.0.1:6201,n2=127.0.0.1:6202,n3=127.0.0.1:6203"
	if got := FormatPeers(check.Must(ParsePeers(text))(t)); got != text {
		t.Errorf("got %s", got)
	}
	if _, err := ParsePeers("n1=a:1,n2"); err == nil {
		t.Error("a peer without an address is accepted")
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	check.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func open(t *testing.T, node string, change func(*Config)) *Site {
	t.Helper()
	c := Config{Node: node, Listen: "127.0.0.1:6201", Peers: peers(), Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&c)
	}
	return check.Must(Open(c))(t)
}

func TestSecretMistakes(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"missing": filepath.Join(t.TempDir(), "none"), "short": write(t, "short"),
		"blank": write(t, strings.Repeat(" ", 64))} {
		if _, err := Open(Config{Node: "n1", Listen: "127.0.0.1:6201", Peers: peers(), Dir: t.TempDir(),
			SecretFile: path}); err == nil || !strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	authority := write(t, "no certificate")
	if _, err := Open(Config{Node: "n1", Listen: "127.0.0.1:6201", Peers: peers(), Dir: t.TempDir(), CAFile: authority,
		CertFile: authority, KeyFile: authority}); err == nil ||
		!strings.Contains(err.Error(), "authority") {
		t.Errorf("a file that is not an authority: %v", err)
	}
}

// TestIdentity covers what a folder says about its node.
func TestIdentity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := ReadIdentity(dir); !errors.Is(err, ErrNoIdentity) {
		t.Errorf("an empty folder: %v", err)
	}
	s := open(t, "n1", func(c *Config) { c.Dir = dir })
	check.OK(t, s.settle("c1", Founding))
	if joined, err := s.BecameMember(); joined || err != nil {
		t.Errorf("the founder: joined %v, %v", joined, err)
	}
	if got := check.Must(ReadIdentity(dir))(t); got.Cluster != "c1" || got.State != Member ||
		got.Incarnation != s.Identity().Incarnation {
		t.Errorf("got %+v", got)
	}
	_, err := Open(Config{Node: "n2", Listen: "127.0.0.1:6202", Peers: peers(), Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "belongs to node n1 of cluster c1") {
		t.Errorf("the folder of another node: %v", err)
	}
	for text, want := range map[string]string{"{": "damaged",
		`{"version": 99, "node": "n1", "incarnation": "x"}`: "newer release"} {
		check.OK(t, os.WriteFile(filepath.Join(dir, identityFile), []byte(text), 0o600))
		if _, err := ReadIdentity(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// Each flipped bit of the file with the identity is noticed, or changes nothing.
func TestDamagedIdentity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, identityFile)
	id := Identity{Cluster: "c1", Node: "n1", Incarnation: "abcdefgh", State: Member,
		Members: map[string]string{"n1": "abcdefgh", "n2": "ijklmnop"},
		Removed: map[string][]string{"n3": {"qrstuvwx"}}}
	check.OK(t, id.write(dir))
	want := check.Must(ReadIdentity(dir))(t)
	text := check.Must(os.ReadFile(path))(t)
	refused := 0
	for bit := range 8 * len(text) {
		text[bit/8] ^= 1 << (bit % 8)
		got, err := parseIdentity(path, text)
		text[bit/8] ^= 1 << (bit % 8)
		if err != nil {
			refused++
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("bit %d of byte %d: the identity is %+v", bit%8, bit/8, got)
		}
	}
	if refused < 4*len(text) {
		t.Errorf("%d of %d flipped bits were refused", refused, 8*len(text))
	}
	check.OK(t, os.WriteFile(path,
		[]byte(`{"version": 1, "cluster": "c1", "node": "n1", "incarnation": "x", "state": "member"}`), 0o600))
	if got, err := ReadIdentity(dir); err != nil || got.Incarnation != "x" {
		t.Errorf("a file of version 1: %+v, %v", got, err)
	}
}

// TestAdmission covers which nodes a member accepts.
func TestAdmission(t *testing.T) {
	t.Parallel()
	secret := write(t, strings.Repeat("s", MinSecret))
	withSecret := func(c *Config) { c.SecretFile = secret }
	member := open(t, "n1", withSecret)
	check.OK(t, member.settle("c1", Founding))
	check.Must(member.BecameMember())(t)
	_, password := member.Credentials()
	if password == "" || strings.Contains(password, "sss") {
		t.Errorf("password %q", password)
	}
	hello := func(change func(*Hello)) string {
		h := Hello{Node: "n2", Incarnation: "i2", Process: "p2", Cluster: "c1", State: Joining, Format: Supported.Newest,
			Oldest: Supported.Oldest}
		if change != nil {
			change(&h)
		}
		return h.encode()
	}
	for _, tc := range []struct {
		name, user, password, want string
	}{
		{"no hello", "route", password, "not a Lazuli node"},
		{"a long hello", strings.Repeat("x", maxHello+1), password, "not a Lazuli node"},
		{"another secret", hello(nil), "x", "another secret"},
		{"no secret", hello(nil), "", "another secret"},
		{"another cluster", hello(func(h *Hello) { h.Cluster = "c2" }), password, "it belongs to cluster c2"},
		{"a stranger", hello(func(h *Hello) { h.Node = "n4" }), password, "not among the peers"},
		{"this node's name", hello(func(h *Hello) { h.Node = "n1" }), password, "two nodes are named n1"},
		{"a newer format", hello(func(h *Hello) { h.Format, h.Oldest = Supported.Newest+2, Supported.Newest+1 }), password,
			"update this node"},
		{"an older format", hello(func(h *Hello) { h.Format, h.Oldest = Supported.Oldest-1, 0 }), password,
			"update that node"},
		{"it knows another incarnation", hello(func(h *Hello) { h.Members = map[string]string{"n1": "other"} }), password,
			"knows this node with another data folder"},
		{"the first time", hello(nil), password, ""},
		{"again", hello(nil), password, ""},
		{"another incarnation", hello(func(h *Hello) { h.Incarnation = "i3" }), password, "lazuli cluster leave n2"},
	} {
		err := member.Admit(tc.user, tc.password, "192.0.2.1:1")
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	if got := member.Refused("n2"); !strings.Contains(got, "leave n2") {
		t.Errorf("n2 was refused: %q", got)
	}
	own, _ := member.Credentials()
	if err := member.Admit(own, password, "127.0.0.1:1"); err != nil {
		t.Errorf("the node itself: %v", err)
	}
	check.OK(t, member.Forget("n2", ""))
	if err := member.Admit(hello(func(h *Hello) { h.Incarnation = "i3" }), password, ""); err != nil {
		t.Errorf("after it was removed: %v", err)
	}
	if got := member.ServerNameOf("n2"); got != "n2.i3" {
		t.Errorf("server name %q", got)
	}

	// Nodes that ask different archives before they acknowledge a write, or none, refuse each other.
	fenced := open(t, "n1", func(c *Config) { c.SecretFile, c.Fence = secret, "a" })
	check.OK(t, fenced.settle("c1", Founding))
	for fence, want := range map[string]string{"": "has no archive-fence", "b": "with another archive", "a": ""} {
		err := fenced.Admit(hello(func(h *Hello) { h.Fence = fence }), password, "")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("a node with the fence %q: %v", fence, err)
		}
	}
	if err := member.Admit(hello(func(h *Hello) { h.Incarnation, h.Fence = "i3", "a" }), password, ""); err == nil ||
		!strings.Contains(err.Error(), "it has archive-fence, and this node has not") {
		t.Errorf("a node with a fence at one without: %v", err)
	}
	if user, _ := fenced.Credentials(); check.Must(decodeHello(user))(t).Fence != "a" {
		t.Error("a node does not say what its fence is")
	}

	// A node that joins accepts only others that join: what the others present may be older than their decision about it.
	joining := open(t, "n3", withSecret)
	check.OK(t, joining.settle("c1", Joining))
	if err := joining.Admit(own, password, ""); !errors.Is(err, errWaiting) {
		t.Errorf("a node that joins accepts a member: %v", err)
	}
	if err := joining.Admit(hello(nil), password, ""); err != nil {
		t.Errorf("two nodes that join: %v", err)
	}
	if err := joining.Adopt(member.Roster()); !errors.Is(err, ErrNotAccepted) {
		t.Errorf("the roster of a member that has not accepted the node: %v", err)
	}
	user, _ := joining.Credentials()
	check.OK(t, member.Admit(user, password, ""))
	check.OK(t, joining.Adopt(member.Roster()))
	if got, want := joining.Roster(), member.Roster(); !reflect.DeepEqual(got, want) || got.Members["n1"] == "" ||
		len(got.Removed["n2"]) != 1 {
		t.Errorf("a node that joins knows %v, and the member %v", got, want)
	}
	if err := joining.Admit(hello(nil), password, ""); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("a folder that the member had removed: %v", err)
	}
	if joined, err := joining.BecameMember(); !joined || err != nil {
		t.Errorf("joined %v, %v", joined, err)
	}
	if err := joining.Admit(own, password, ""); err != nil {
		t.Errorf("two members: %v", err)
	}

	// A member learns from its own connections, but nothing else than before, and nothing that was removed.
	check.OK(t, member.Forget("n2", ""))
	for _, tc := range []struct{ node, incarnation, want string }{
		{"n2", "i3", ""}, {"n2", "i4", "n2.i4"}, {"n2", "i5", "n2.i4"}, {"n4", "i1", ""},
	} {
		check.OK(t, member.Learn(tc.node, tc.incarnation))
		if got := member.ServerNameOf(tc.node); got != tc.want {
			t.Errorf("after %s was connected as %s, it is known as %q, want %q", tc.node, tc.incarnation, got, tc.want)
		}
	}
}

func FuzzHello(f *testing.F) {
	h := Hello{Node: "n2", Incarnation: "i2", Cluster: "c1"}
	f.Add(h.encode())
	f.Add("e30")
	f.Fuzz(func(t *testing.T, text string) {
		defer workbudget.Default.Start(t, len(text))()
		if h, err := decodeHello(text); err == nil && (h.Node == "" || h.Cluster == "" || h.Incarnation == "") {
			t.Errorf("accepted %+v", h)
		}
	})
}

// Callers that are no nodes cannot fill the log, from whatever addresses and with whatever texts.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	check.OK(t, os.WriteFile(secret, []byte(strings.Repeat("s", 40)), 0o600))
	site := open(t, "n1", func(c *Config) { c.SecretFile = secret })
	var log strings.Builder
	site.log = slog.New(slog.NewTextHandler(&log, nil))
	for i := range 1000 {
		if site.Admit(strings.Repeat("x", i), "wrong", fmt.Sprintf("192.0.2.1:%d", i)) == nil {
			t.Fatal("a stranger was accepted")
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 {
		t.Errorf("%d lines for 1000 strangers", lines)
	}
}
