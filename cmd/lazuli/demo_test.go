package main

import (
	"bytes"
	"encoding/json"
	"testing"
)

// With --json, a demonstration prints one object with what its table has, also when it fails.
func TestDemoJSON(t *testing.T) {
	t.Parallel()
	var report struct {
		Name   string
		Passed bool
		Report struct {
			Seed   string
			Rounds []struct {
				Killed []struct {
					Step                      string
					Hit, Done, Lost, Messages int
				}
				Items, OK, Lost int
				Complete        bool
			}
			Problems []string
		}
	}
	run := func(args ...string) int {
		var out, errs bytes.Buffer
		m := Main{Args: append([]string{"demo", "compound-key", "--fault=compound-key/after-term", "--records=12",
			"--seed=18446744073709551615", "--json", "--quiet"}, args...), Stdout: &out, Stderr: &errs}
		code := m.Run(t.Context())
		d := json.NewDecoder(&out)
		if err := d.Decode(&report); err != nil || d.More() {
			t.Fatalf("%v, more %v; %s", err, d.More(), &errs)
		}
		return code
	}
	code := run()
	rounds := report.Report.Rounds
	if code != exitOK || !report.Passed || report.Name != "compound-key" || report.Report.Seed != "18446744073709551615" ||
		len(report.Report.Problems) != 0 || len(rounds) != 1 || len(rounds[0].Killed) != 1 ||
		rounds[0].Killed[0].Step != "compound-key/after-term" || rounds[0].Killed[0].Hit == 0 || !rounds[0].Complete ||
		rounds[0].Items != 12 || rounds[0].OK != 12 || rounds[0].Lost != 0 {
		t.Errorf("ended with %d: %+v", code, report)
	}
	code = run("--patience=1ms")
	if code == exitOK || report.Passed {
		t.Errorf("without time ended with %d: %+v", code, report)
	}
}
