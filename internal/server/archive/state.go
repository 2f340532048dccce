package archive

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

const (
	stateName = "state"
	stateKind = "lazuli archive state, format"
)

// state is what the folder of the archive says about the segments that are in the place.
type state struct {
	// Place is the place; another one begins another timeline.
	Place string `json:"place"`
	// Epoch is that in which the place belongs to this server, 0 before the first, and Lease that of its record.
	Epoch uint64        `json:"epoch,omitempty"`
	Lease time.Duration `json:"lease,omitempty"`
	// Fenced is set if this server has run with a fence. A node of a cluster has that before the place says so.
	Fenced bool `json:"fenced,omitempty"`
	// Timeline is the current one; "" before the first.
	Timeline string `json:"timeline"`
	// Announced is the timeline that the place has as the current one.
	Announced string `json:"announced,omitempty"`
	// Next is the number of the next segment, and Prev the sum of the one before it.
	Next uint64 `json:"next"`
	Prev string `json:"prev"`
	// Until is that of the last segment or head.
	Until int64 `json:"until"`
	// Groups are the numbers of the last groups of the databases that segments have.
	Groups map[string]uint64 `json:"groups"`
	// Times are the times of these groups, on a node of a cluster.
	Times map[string]int64 `json:"times,omitempty"`
	// Sends is set while this node of a cluster sends; only in what Shard.publish shows.
	Sends bool `json:"-"`
	// Content has, for each extent, up to which offset segments have its records, or need not have them.
	Content map[uint64]int64 `json:"content"`
	// Resend are extents that are to be sent from their beginning: the newest base may lack content of theirs that only
	// segments before it have.
	Resend []uint64 `json:"resend,omitempty"`
	// Keys is the sum of the file with the keys that segments have.
	Keys string `json:"keys"`
	// Pending is the sum of a segment with the number Next that may be in the place: its creation was begun.
	Pending string `json:"pending,omitempty"`
	// Base is the time of the newest base of the timeline; zero without one.
	Base time.Time `json:"base"`
}

// loadState reads the state in a folder; a state that is missing, damaged or of another place is a new one. "" is any
// place.
func loadState(dir, place string) (state, error) {
	var s state
	err := sumfile.Read(filepath.Join(dir, stateName), stateKind, format, &s)
	other := place != "" && s.Place != place
	if errors.Is(err, sumfile.ErrDamaged) || errors.Is(err, fs.ErrNotExist) || err == nil && other {
		s, err = state{}, nil
	}
	if place != "" {
		s.Place = place
	}
	if s.Groups == nil {
		s.Groups = map[string]uint64{}
	}
	if s.Times == nil {
		s.Times = map[string]int64{}
	}
	if s.Content == nil {
		s.Content = map[uint64]int64{}
	}
	return s, err
}

// save writes the state, durably.
func (s *state) save(dir string) error {
	return sumfile.Write(disk.OS, filepath.Join(dir, stateName), stateKind, format, s)
}

// begin makes the state that of a new timeline after the groups.
func (s *state) begin(now time.Time, groups map[string]uint64, content map[uint64]int64) {
	*s = state{Place: s.Place, Epoch: s.Epoch, Lease: s.Lease, Fenced: s.Fenced, Announced: s.Announced,
		Timeline: newTimeline(now), Groups: maps.Clone(groups), Content: content}
}

// timelineLayout begins the name of a timeline: the time at which it began, in UTC.
const timelineLayout = "20060102T150405Z"

func newTimeline(now time.Time) string {
	return now.UTC().Format(timelineLayout) + "-" + strings.ToLower(rand.Text()[:8])
}

// timelineBegan returns the time at which a timeline began, by its name.
func timelineBegan(name string) (time.Time, bool) {
	at, _, _ := strings.Cut(name, "-")
	t, err := time.Parse(timelineLayout, at)
	return t, err == nil
}
