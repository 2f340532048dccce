package peering

import (
	"errors"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestFormatRisesByDecision covers the format of a cluster's data: a member keeps it until it is raised, tells it to
// nodes that join and to members that were away, and never takes an older one.
func TestFormatRisesByDecision(t *testing.T) {
	t.Parallel()
	secret := write(t, strings.Repeat("s", MinSecret))
	withSecret := func(c *Config) { c.SecretFile = secret }
	newer := Supported.Newest
	// A cluster of the release before: its founder has stored the older format.
	older := newer - 1
	founder, away, joining := open(t, "n1", withSecret), open(t, "n2", withSecret), open(t, "n3", withSecret)
	for _, s := range []*Site{founder, away} {
		check.OK(t, s.settle("c1", Founding))
		s.identity.Format = older
		check.Must(s.BecameMember())(t)
	}
	meet := func(from, to *Site) error {
		user, password := from.Credentials()
		return to.Admit(user, password, "")
	}
	formats := func(want ...int) {
		t.Helper()
		for i, s := range []*Site{founder, away, joining} {
			if i < len(want) && s.Format() != want[i] {
				t.Errorf("node %s has format %d, want %d", s.Node(), s.Format(), want[i])
			}
		}
	}
	check.OK(t, meet(founder, away))
	check.OK(t, meet(away, founder))
	formats(older, older)

	// It is durable, and does not fall.
	check.OK(t, founder.Raise(newer))
	check.OK(t, founder.Raise(older))
	formats(newer, older)
	stored, err := ReadIdentity(founder.config.Dir)
	check.OK(t, err)
	if stored.Format != newer {
		t.Errorf("stored format %d, want %d", stored.Format, newer)
	}
	if err := founder.Raise(newer + 1); !errors.Is(err, ErrFormat) {
		t.Errorf("a format that the program does not know: %v", err)
	}
	formats(newer)

	// The member that was away takes it with the next connection, and a node that joins with the list of members. One
	// that joins decides nothing: it may have been in another cluster.
	check.OK(t, joining.settle("c1", Joining))
	joining.identity.Format = newer
	check.OK(t, meet(joining, away))
	formats(newer, older)
	joining.identity.Format = 0
	check.OK(t, meet(joining, founder))
	check.OK(t, joining.Adopt(founder.Roster()))
	check.OK(t, meet(founder, away))
	formats(newer, newer, newer)

	// A release that does not know the format is refused by the others, and by the folder.
	h := Hello{Node: "n2", Incarnation: away.identity.Incarnation, Process: "p", Cluster: "c1", State: Member,
		Format: older, Oldest: older}
	_, password := away.Credentials()
	if err := founder.Admit(h.encode(), password, ""); err == nil || !strings.Contains(err.Error(), "update that node") {
		t.Errorf("a node of the release before: %v", err)
	}
	id := founder.Identity()
	id.Format = newer + 1
	check.OK(t, id.write(founder.config.Dir))
	_, err = Open(founder.config)
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "use the newer release") {
		t.Errorf("a folder of a newer release: %v", err)
	}
}
