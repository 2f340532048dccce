package buildinfo

import (
	"runtime/debug"
	"testing"
)

func TestInfo(t *testing.T) {
	t.Parallel()
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "0948944d8a1122334455"},
		{Key: "vcs.time", Value: "2026-11-23T12:00:00Z"}, {Key: "vcs.modified", Value: "true"}}
	for _, tc := range []struct {
		name string
		from Info
		main string
		vcs  []debug.BuildSetting
		want Info
		text string
	}{
		{"release", Info{Version: "0.1.0", Commit: "abc", Date: "d"}, "(devel)", vcs, Info{"0.1.0", "abc", "d", false},
			"0.1.0 (abc)"},
		{"go install at a tag", Info{}, "v0.1.0", nil, Info{Version: "0.1.0"}, "0.1.0"},
		{"go install at a commit", Info{}, "v0.0.0-20261123120000-0948944d8a11", nil, Info{Version: "0.1.0-dev"},
			"0.1.0-dev"},
		{"go build in a clone", Info{}, "v0.1.0+dirty", vcs,
			Info{"0.1.0-dev", "0948944d8a1122334455", "2026-11-23T12:00:00Z", true}, "0.1.0-dev (0948944d8a11, with changes)"},
		{"go test", Info{}, "", nil, Info{Version: "0.1.0-dev"}, "0.1.0-dev"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.from.with(&debug.BuildInfo{Main: debug.Module{Version: tc.main}, Settings: tc.vcs})
			if got != tc.want || got.String() != tc.text {
				t.Errorf("got %+v, %q; want %+v, %q", got, got, tc.want, tc.text)
			}
		})
	}
}
