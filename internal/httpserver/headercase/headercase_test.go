package headercase

import (
	"fmt"
	"testing"
)

func TestNamesKeepTheirCase(t *testing.T) {
	t.Parallel()
	var n Names
	for _, line := range []string{"Host: h", "X-Ms-Meta-OneTwo: 1", "x-ms-meta-Three: 3", "x-ms-meta-four: 4",
		"not-x-ms-meta-Five: 5", "x-ms-meta-Six"} {
		n.Keep([]byte(line))
	}
	for lower, want := range map[string]string{"x-ms-meta-onetwo": "X-Ms-Meta-OneTwo",
		"x-ms-meta-three": "x-ms-meta-Three",
		"x-ms-meta-four":  "x-ms-meta-four", "x-ms-meta-five": "x-ms-meta-five", "x-ms-meta-six": "x-ms-meta-six"} {
		if got := n.Original(lower); got != want {
			t.Errorf("%s is %s, want %s", lower, got, want)
		}
	}
	if got := Original(NewContext(t.Context(), &n), "x-ms-meta-three"); got != "x-ms-meta-Three" {
		t.Errorf("by the context: %s", got)
	}
	if got := Original(t.Context(), "x-ms-meta-three"); got != "x-ms-meta-three" {
		t.Errorf("without a connection: %s", got)
	}
}

func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	var n Names
	for i := range 2 * maxNames {
		n.Keep(fmt.Appendf(nil, "X-Ms-Meta-Name%d: 1", i))
	}
	if len(n.names) != maxNames {
		t.Errorf("%d names are kept, want %d", len(n.names), maxNames)
	}
}
