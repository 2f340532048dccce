package console

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A terminal takes nothing of what is stored for a command, whichever way a verb prints it.
func TestOutputIsPrintable(t *testing.T) {
	t.Parallel()
	const name, want = "a\x1b[2Jb\u009b1m\tc", `a\x1b[2Jb\u009b1m`
	var out bytes.Buffer
	command := func() *cobra.Command {
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		out.Reset()
		return cmd
	}
	list := ListOutput(command())("NAME", "ERROR")
	check.OK(t, list.Add(nil, name, errors.New(name)))
	list.Below("below %s", name)
	check.OK(t, list.End(nil))
	line := want + `\x09c`
	if !bytes.Contains(out.Bytes(), []byte(line+"  "+line+"\nbelow "+line+"\n")) {
		t.Errorf("the table is %q", out.String())
	}
	check.OK(t, LineOutput(command())(nil, "name %s", name))
	if got := "name " + want + "\tc\n"; out.String() != got {
		t.Errorf("the line is %q, want %q", out.String(), got)
	}
	failed := errors.New("failed")
	err := ReportOutput(command())(nil, func(w io.Writer) error {
		fmt.Fprintln(w, name)
		return failed
	})
	if got := want + "\tc\n"; out.String() != got || !errors.Is(err, failed) {
		t.Errorf("the report is %q, %v, want %q and the error", out.String(), err, got)
	}
}
