package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestSVG(t *testing.T) {
	t.Parallel()
	r := &Report{Targets: []*TargetReport{{Name: "lazuli"}, {Name: "<other>"}}, Workloads: []*WorkloadReport{
		{Name: "point-get", Results: []*Result{{Target: "lazuli", OpsPerS: 23081},
			{Target: "<other>", OpsPerS: 1554, Ratio: 14.85}}},
		{Name: "nothing", Results: []*Result{{Target: "lazuli"}, {Target: "<other>"}}},
	}}
	var b strings.Builder
	if err := r.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	bars, texts := 0, ""
	d := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			if e.Name.Local == "rect" {
				bars++
			}
		case xml.CharData:
			texts += string(e) + "\n"
		}
	}
	if bars != 6 || !strings.Contains(texts, "1554 (lazuli is 14.8×)") || !strings.Contains(texts, "23081\n") {
		t.Errorf("%d bars and keys, texts %s", bars, texts)
	}
}
