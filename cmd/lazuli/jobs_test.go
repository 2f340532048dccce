package main

import (
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

func TestJobsVerbs(t *testing.T) {
	lazuli := lazulitest.Start(t)
	t.Setenv(connstr.Variable, lazuli.ConnectionString())
	run := func(line string) string {
		t.Helper()
		out, err := runVerb(t, newJobsCommand(), "", strings.Split(line, "|")...)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return out
	}
	id := strings.TrimSpace(run("put|orders|x|--unique|it's one|--keep|1h|--delay|1h"))
	if again := run("put|orders|x|--unique|it's one"); !strings.Contains(again, id) {
		t.Errorf("the second: %q, not %q", again, id)
	}
	if job, err := lazuli.Default(t).Job(t.Context(), id); err != nil || job.State != workers.JobWaiting ||
		job.UniqueKey != "it's one" || time.Until(job.RunAt) < 59*time.Minute {
		t.Errorf("got %+v, %v", job, err)
	}
	for line, says := range map[string]string{
		"ls":                             id,
		"ls|orders|--state|waiting,done": "waiting until ",
		"show|" + id:                     "it's one",
		"show|" + id + "|--json":         `"state":"waiting"`,
		"ls|orders|--state|done":         "there are no such jobs",
		"ls|other":                       "there are no such jobs",
	} {
		if out := run(line); !strings.Contains(out, says) {
			t.Errorf("%s: %q, want %q", line, out, says)
		}
	}
	if out := run("cancel|" + id); !strings.Contains(out, id+" is cancelled") {
		t.Errorf("got %q", out)
	}
	for line, says := range map[string]string{
		"cancel|" + id:                           "has ended",
		"cancel|orders":                          "is not the ID of a job",
		"show|orders.aaaaaaaaaaaaaaaaaaaaaaaaaa": "there is no such job",
		"ls|--state|waitin":                      "unknown state",
		"ls|--top|-1":                            "must not be negative",
		"put|orders|x|--unique-for|1h":           "UniqueFor needs Unique",
		"put|No|x":                               "queue name",
	} {
		if _, err := runVerb(t, newJobsCommand(), "", strings.Split(line, "|")...); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", line, err, says)
		}
	}
}
