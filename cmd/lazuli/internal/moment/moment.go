// Package moment has the verbs about an archive of the log: which moments it has, and the restore of one.
package moment

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
)

// Opener adds flags to a command, and returns how to open the place of an argument.
type Opener func(*cobra.Command) func(string) (backup.Place, error)

// NewLog makes `lazuli backup log`. placeHelp describes the arguments of the verbs of backups.
func NewLog(open Opener, placeHelp string) *cobra.Command {
	cmd := &cobra.Command{Use: "log", Short: "Inspect the archive of a server's log",
		Long: "Inspect the archive that a server with --archive keeps in a place."}
	cmd.AddCommand(newLs(open, placeHelp), newRelease(open, placeHelp))
	return cmd
}

// newLs makes `lazuli backup log ls`.
func newLs(opener Opener, placeHelp string) *cobra.Command {
	cmd := &cobra.Command{Use: "ls PLACE", Short: "List the times to which an archive can restore",
		Args: cobra.ExactArgs(1),
		Long: `List the times to which "lazuli restore --to-time" can restore from the archive in PLACE, the oldest
first. There is a line for each time without a gap, and MISSING names a segment that should be there. If the server
has several shards, the lines "all" are the times that can be restored, and those below are what each shard has.

` + placeHelp,
		Example: "  lazuli backup log ls /mnt/archive"}
	open := opener(cmd)
	begin := console.ListOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		place, err := open(args[0])
		if err != nil {
			return err
		}
		shards, err := archive.ReachableShards(cmd.Context(), place)
		if err != nil {
			return err
		}
		if err := mustExist(cmd.Context(), place); err != nil {
			return err
		}
		return listReach(begin, place, shards)
	}
	return cmd
}

// line is the JSON of a time to whose moments an archive can restore.
type line struct {
	// Shard is that of which the archive has the moments; nil for all shards.
	Shard *int `json:"shard,omitempty"`
	archive.Reach
}

// listReach prints the times to whose moments an archive can restore, and with more than one shard those of each.
func listReach(begin func(columns ...string) *console.List, place backup.Place, shards [][]archive.Reach) error {
	columns := []string{"FROM", "UNTIL", "BASES", "SEGMENTS", "MISSING"}
	if len(shards) > 1 {
		columns = append([]string{"SHARD"}, columns...)
	}
	out := begin(columns...).Or("%s has no archive yet; a server with --archive makes one", place)
	add := func(shard *int, name string, list []archive.Reach) error {
		for _, r := range list {
			cells := []any{r.From.Local().Format(time.RFC3339), r.Until.Local().Format(time.RFC3339),
				strconv.Itoa(len(r.Bases)), strconv.Itoa(r.Segments), cmp.Or(r.Missing, "-")}
			if len(shards) > 1 {
				cells = append([]any{name}, cells...)
			}
			if err := out.Add(line{shard, r}, cells...); err != nil {
				return err
			}
		}
		return nil
	}
	err := add(nil, "all", archive.Common(shards))
	for n := 0; n < len(shards) && len(shards) > 1 && err == nil; n++ {
		err = add(&n, strconv.Itoa(n), shards[n])
	}
	return out.End(err)
}

// mustExist returns why a place cannot hold an archive. As with lazuli backup ls, a mistyped path must not look like an
// empty place.
func mustExist(ctx context.Context, place backup.Place) error {
	exists, err := place.Exists(ctx)
	if err == nil && !exists {
		err = fmt.Errorf("%s does not exist; a server with --archive creates it", place)
	}
	return err
}

// newRelease makes `lazuli backup log release`.
func newRelease(opener Opener, placeHelp string) *cobra.Command {
	cmd := &cobra.Command{Use: "release PLACE", Short: "Release an archive from the server to which it belongs",
		Args: cobra.ExactArgs(1),
		Long: `Take the archive in PLACE from the server to which it belongs, so that the next server that starts
with --archive PLACE gets it: after its machine was lost and its data was restored into another
folder. The former server does not write to PLACE any more; with --archive-fence it acknowledges no
writes 10 seconds later, and its next start is refused.

` + placeHelp,
		Example: "  lazuli backup log release /mnt/archive"}
	open := opener(cmd)
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		place, err := open(args[0])
		if err != nil {
			return err
		}
		if err := mustExist(cmd.Context(), place); err != nil {
			return err
		}
		former, err := archive.Release(cmd.Context(), place, time.Now())
		if err != nil {
			return err
		}
		return output(former, func(w io.Writer) error {
			if former.Server == "" {
				_, err := fmt.Fprintf(w, "%s belongs to no server\n", place)
				return err
			}
			_, err := fmt.Fprintf(w, "%s does not belong to %s any more\n", place, former.Name)
			return err
		})
	}
	return cmd
}

// restored is the JSON of `lazuli restore --to-time`.
type restored struct {
	Time     time.Time `json:"time"`
	Base     string    `json:"base"`
	Segments int       `json:"segments"`
}

// Restore restores the state of a moment, which text names, from an archive into a new folder, which verify checks. It
// returns the report as an object and as text.
func Restore(cmd *cobra.Command, place backup.Place, text, folder string,
	verify func(context.Context, string) error) (any, func(io.Writer) error, error) {
	at, err := parse(text, time.Now())
	if err != nil {
		return nil, nil, console.Usage(err)
	}
	// The segments go beside the folder, whose disk has to have room for all of it.
	beside, err := filepath.Abs(folder)
	if err != nil {
		return nil, nil, err
	}
	progress := console.NewMeter(cmd, "restored", console.BytesUnit)
	defer progress.End()
	m, err := archive.Open(cmd.Context(), place, at, filepath.Dir(beside), func(read int64) { progress.At(read, 0) })
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = m.Close() }()
	if err := backup.RestoreSource(cmd.Context(), m, folder, backup.RestoreOptions{Verify: verify}); err != nil {
		return nil, nil, err
	}
	r := restored{Time: at}
	r.Base, r.Segments = m.Base()
	return r, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "the state of %s is in %s, checked; start it with: lazuli serve --location %s\n",
			at.Format(time.RFC3339Nano), folder, folder)
		return err
	}, nil
}

// units are the words for durations that time.ParseDuration lacks.
var units = map[string]string{"second": "s", "minute": "m", "hour": "h"}

// parse parses what [console.ParseMoment] does, and "10 minutes ago".
func parse(text string, now time.Time) (time.Time, error) {
	ago, _ := strings.CutSuffix(strings.TrimSpace(text), " ago")
	if number, unit, found := strings.Cut(ago, " "); found {
		if short := units[strings.TrimSuffix(unit, "s")]; short != "" {
			ago = number + short
		}
	}
	if len(text) == 36 && strings.Count(text, "-") == 4 {
		return time.Time{}, fmt.Errorf("%s is the ID of a request, which the archive does not have: give the time of its "+
			"answer, which is in its Date header and in the server's log", text)
	}
	t, err := console.ParseMoment(ago, now)
	if err != nil {
		return t, fmt.Errorf("--to-time is a time such as 2026-12-01T10:00:00Z, or \"10 minutes ago\": not %q", text)
	}
	return t, nil
}
