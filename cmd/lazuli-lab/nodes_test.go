package main

import (
	"errors"
	"testing"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
)

func TestNodesMistakes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--turns", "0"}, {"--clients", "0"}, {"--turn", "0s"}, {"--warmup", "-1s"},
		{"--share", "-1"}, {"--sync", "-1s"}, {"--sizes", "2"}, {"--sizes", "3,10"}, {"--sizes", ""},
		{"--shards", "0"}, {"--shards", "65"}, {"--shards", "36"}, {"--shards", "2", "--forwarding=false"}} {
		root := newRootCommand(&lab{program: "none"})
		root.SetArgs(append([]string{"bench", "nodes"}, args...))
		if err := root.ExecuteContext(t.Context()); !errors.As(err, new(bench.SettingsError)) {
			t.Errorf("%q: error %v", args, err)
		}
	}
}
