// Package buildinfo says which release this program is. It knows from the linker, or from what the go command notes in
// every binary.
//
// A release is built with
//
//	-ldflags "-X github.com/lazuli-storage/lazuli/internal/buildinfo.version=0.1.0 -X ....commit=HASH -X ....date=2026-11-23T12:00:00Z"
package buildinfo

import (
	"cmp"
	"runtime/debug"
	"strings"
	"sync"
)

// Set by the linker.
var version, commit, date string

// next is the release that development builds precede.
const next = "0.1.0"

// Info describes a build.
type Info struct {
	// Version is the number of the release, such as "0.1.0", or "0.1.0-dev" for any other build.
	Version string `json:"version"`
	// Commit is the hash of the commit, and Date its time as in RFC 3339; empty if they are not known.
	Commit string `json:"commit,omitempty"`
	Date   string `json:"date,omitempty"`
	// Modified means that the build has changes that are not in the commit.
	Modified bool `json:"modified,omitempty"`
}

// Current returns what this program is.
var Current = sync.OnceValue(func() Info {
	i := Info{Version: version, Commit: commit, Date: date}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		i.Version = cmp.Or(i.Version, next+"-dev")
		return i
	}
	return i.with(build)
})

// with fills in what the linker did not set.
func (i Info) with(build *debug.BuildInfo) Info {
	if number, tagged := strings.CutPrefix(build.Main.Version, "v"); i.Version == "" && tagged &&
		!strings.ContainsAny(number, "-+") {
		i.Version = number // as `go install ...@v0.1.0` notes it; others are pseudo-versions
	}
	i.Version = cmp.Or(i.Version, next+"-dev")
	if i.Commit != "" {
		return i
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.time":
			i.Date = cmp.Or(i.Date, s.Value)
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	return i
}

// String returns the version, and the commit in short, such as "0.1.0 (0948944d8a11)".
func (i Info) String() string {
	if i.Commit == "" {
		return i.Version
	}
	text := i.Version + " (" + i.Commit[:min(12, len(i.Commit))]
	if i.Modified {
		text += ", with changes"
	}
	return text + ")"
}
