package peering

import (
	"errors"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A move that is under way when a node is lost ends without it, whatever the node was to do.
func TestAMoveWhenANodeIsLost(t *testing.T) {
	t.Parallel()
	s := open(t, "n1", spread)
	check.OK(t, s.Discover(t.Context(), func(string) {}))
	hosts := s.Layout().Hosts
	shard, from, to := aMove(t, hosts)
	other := ""
	for _, name := range hosts.Shards[shard] {
		if name != from {
			other = name
		}
	}
	type result struct {
		step  Step
		lost  bool // the move's
		ended bool
	}
	for _, tc := range []struct {
		step            Step
		from, to, other result
	}{
		{StepJoin, result{step: StepCancel}, result{step: StepCancel}, result{step: StepCancel}},
		{StepCopy, result{step: StepCancel}, result{step: StepCancel}, result{step: StepCancel}},
		{StepStreams, result{step: StepStreams, lost: true}, result{step: StepReturn}, result{step: StepStreams}},
		{StepLeave, result{step: StepLeave, lost: true}, result{step: StepLeave}, result{step: StepLeave}},
		{StepDelete, result{step: StepDelete, ended: true}, result{step: StepDelete}, result{step: StepDelete}},
		{StepReturn, result{}, result{step: StepReturn}, result{step: StepReturn}}, // refused
		{StepCancel, result{step: StepCancel}, result{step: StepCancel}, result{step: StepCancel}},
		{StepClean, result{step: StepClean}, result{step: StepClean, ended: true}, result{step: StepClean}},
	} {
		for node, want := range map[string]result{from: tc.from, to: tc.to, other: tc.other} {
			move := Move{Number: 1, Shard: shard, From: from, To: to, Step: tc.step}
			l := Layout{Version: 1, Hosts: hosts, Move: &move, Filling: []string{node}}
			possible := l.Lose(node, "old")
			if possible != (want.step != "") {
				t.Errorf("%s, %s is lost: possible: %v", tc.step, node, possible)
			}
			if got := (result{l.Move.Step, l.Move.Lost, l.Ended}); possible && got != want {
				t.Errorf("%s, of %s to %s, and %s is lost: %+v, want %+v", tc.step, from, to, node, got, want)
			}
			if move.Step != tc.step || !l.IsLost(node) || len(l.Filling) > 0 {
				t.Errorf("the layout is %+v, and the move before %+v", l, move)
			}
		}
	}
}

// No node accepts the folder of a lost one, and the lost one learns of it. When it has left, nodes that were away
// forget its folder as well, and its name can join with another one.
func TestFolderOfALostNode(t *testing.T) {
	t.Parallel()
	var config Config
	s := open(t, "n1", func(c *Config) { spread(c); config = *c })
	check.OK(t, s.Discover(t.Context(), func(string) {}))
	lost := open(t, "n2", spread)
	check.OK(t, lost.settle(s.Identity().Cluster, Member))
	again := open(t, "n2", spread)
	check.OK(t, again.settle(s.Identity().Cluster, Joining))
	s.identity.State = Member
	admits := func(who *Site, text string) {
		t.Helper()
		user, password := who.Credentials()
		err := s.Admit(user, password, "127.0.0.1:1")
		if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
			t.Errorf("accepted: %v, want an error with %q", err, text)
		}
	}
	admits(lost, "")
	l := s.Layout()
	l.Version = 1
	if !l.Lose("n2", lost.Identity().Incarnation) {
		t.Fatal("the node cannot be lost")
	}
	check.Must(s.Take(l))(t)
	admits(lost, "is lost")
	admits(again, "has not left the cluster yet")
	for _, r := range s.Routes() {
		if r.Host == s.address("n2") {
			t.Error("the node connects to a lost one")
		}
	}
	if !s.Removed(lost.ServerName()) || s.Removed(again.ServerName()) || s.Lost() != nil {
		t.Error("the wrong folder counts as removed")
	}
	check.Must(lost.Take(l))(t)
	if err := lost.Lost(); !errors.Is(err, ErrLost) {
		t.Errorf("the lost node knows: %v", err)
	}
	if id := check.Must(ReadIdentity(config.Dir))(t); id.Version != lostVersion {
		t.Errorf("the file has version %d: a release before would call it damaged", id.Version)
	}

	left := Layout{Version: 2, Hosts: l.Hosts, Lost: l.Lost}
	for _, n := range left.Hosts.Of("n2") {
		step := check.Must(left.Hosts.Replace(n, "n2", func(to string) bool { return to != "n2" }))(t)
		left.Hosts = check.Must(left.Hosts.Moved(step.Shard, step.From, step.To))(t)
	}
	if err := left.Leave("n2"); err != nil || left.IsLost("n2") {
		t.Fatalf("the node has left: %v, %+v", err, left)
	}
	check.Must(s.Take(left))(t)
	if s.ServerNameOf("n2") != "" || s.HasPeer("n2") {
		t.Error("the node is still known")
	}
	admits(lost, "was removed")
	s = check.Must(Open(config))(t)
	if !s.Layout().IsRemoved("n2", lost.Identity().Incarnation) || !s.Removed(lost.ServerName()) {
		t.Error("after a restart the folder is no longer removed")
	}
}
