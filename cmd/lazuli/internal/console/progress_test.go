package console

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// Progress is shown after two seconds, with rate and time left, and leaves nothing behind; without a terminal there is
// none.
func TestMeter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := &Meter{out: &out, what: "read", unit: BytesUnit, now: func() time.Time { return now }, began: now}
	now = now.Add(time.Second)
	m.At(1<<20, 10<<20)
	if out.Len() > 0 {
		t.Errorf("after a second: %q", &out)
	}
	now = now.Add(time.Second)
	m.At(2<<20, 10<<20)
	if got, want := out.String(), "\rread 2.0 MiB of 10.0 MiB, 20 %, 1.0 MiB/s, 8s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	m.At(3<<20, 10<<20) // too soon
	m.Line("a line")
	if !strings.HasSuffix(out.String(), "\ra line\n") || strings.Count(out.String(), "MiB of") != 1 {
		t.Errorf("%q", &out)
	}
	now = now.Add(time.Second)
	m.At(3<<20, 0)
	if !strings.HasSuffix(out.String(), "read 3.0 MiB, 1.0 MiB/s") {
		t.Errorf("%q", &out)
	}

	var stderr bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetErr(&stderr)
	if none := NewMeter(cmd, "read", BytesUnit); none != nil {
		t.Error("a file is no terminal")
	} else {
		none.At(1, 2)
		none.End()
	}
}
