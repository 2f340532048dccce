package peering

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestConvert(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cluster")
	if _, err := Convert(dir, "N1"); err == nil {
		t.Error("a wrong name was accepted")
	}
	id, err := Convert(dir, "n1")
	if err != nil || !id.Seed || !Converted(id.Cluster) || id.State != Founding || id.Folder() != "n1."+id.Incarnation {
		t.Fatalf("%+v, %v", id, err)
	}
	if _, err := Convert(dir, "n1"); err == nil || !strings.Contains(err.Error(), "belongs to node n1") {
		t.Errorf("a second conversion: %v", err)
	}
	found, err := ReadIdentity(dir)
	if err != nil || !found.Seed || found.Cluster != id.Cluster {
		t.Errorf("the folder has %+v, %v", found, err)
	}
}

// A program that does not know converted clusters would serve before the data is there.
func TestConvertedClusterNeedsItsFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cluster string
		format  int
		refused bool
	}{
		{"7xq2mzpc4kd3", 1, false}, {"7xq2mzpc4kd3", 2, false}, {"7xq2mzpc4kd3" + convertedSuffix, 1, true},
		{"7xq2mzpc4kd3" + convertedSuffix, 2, false},
	} {
		h := Hello{Cluster: c.cluster, Format: c.format, Oldest: 1}
		own := Identity{Cluster: c.cluster}.format()
		if err := h.checkFormats(own); (err != nil) != c.refused {
			t.Errorf("format %d in cluster %s: %v", c.format, c.cluster, err)
		}
		// The former release compares what this one needs with its format 1.
		if (own > 1) != Converted(c.cluster) {
			t.Errorf("cluster %s needs format %d", c.cluster, own)
		}
	}
}
