package rig

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCensus(t *testing.T) {
	k := func(row string) Key { return Key{"p", row} }
	loaded := Contents{k("kept"): "1", k("moved"): "2", k("both"): "3", k("lost"): "4", k("changed"): "5"}
	current := Contents{k("kept"): "1", k("both"): "3", k("stranger"): "9"}
	archived := Contents{k("moved"): "2", k("both"): "3", k("changed"): "6"}
	got := Take(loaded, current, archived)
	slices.SortFunc(got.Moved, func(a, b Key) int { return strings.Compare(a.Row, b.Row) })
	want := Census{
		Moved: []Key{k("changed"), k("moved")}, Kept: []Key{k("kept")}, Both: []Key{k("both")},
		Lost: []Key{k("lost")}, Changed: []Key{k("changed")},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Key{})); diff != "" {
		t.Errorf("census want(-) got(+):\n%s", diff)
	}
	if got := Strangers(loaded, current); !slices.Equal(got, []Key{k("stranger")}) {
		t.Errorf("strangers %v", got)
	}
}
