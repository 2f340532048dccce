package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/help"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/moment"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/server/admin"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
)

// placeHelp describes the arguments of the verbs of backups.
const placeHelp = `PLACE is a folder, the URL of a container of a storage account on Azure, Lazuli or Azurite (with a
SAS, or with --connection-string of that account), or s3://BUCKET/PREFIX with the variables of the
AWS tools. With --key-file it is encrypted.`

// newBackupCommand makes `lazuli backup`.
func newBackupCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup PLACE",
		Short: "Back up a running server or cluster to a folder, container or bucket",
		Long: `Back up a running server, or through any of its nodes a cluster: tables, queues and blobs of all
accounts as they are at one moment, with ETags, times, leases, snapshots, versions, soft-deleted
data, uncommitted blocks, event subscriptions, and messages with their identifiers, dequeue counts
and pop receipts. The server serves requests meanwhile. Backups are incremental: the command writes
only what no earlier backup in PLACE contains, and does not read the content of blobs that the newest
one contains.

` + placeHelp + `

--admin-host and --admin-port name the server. If an account has a secret key, the server requires a token:
$LAZULI_BACKUP_TOKEN, which permits nothing else (option backup-token of the server), or $LAZULI_ADMIN_TOKEN. A
server with the options --backup-to and --backup-every makes backups itself. Accounts and their keys are not in
a backup, except those that were added while the server ran (managed-accounts): keep the accounts file and the
configuration too.

In a cluster the moments of tables, queues and blobs may differ by some milliseconds. With --hold-writes they
are one: if a write was acknowledged before another one began, a backup with the second has the first, whichever
services and nodes they went to. The writes of all nodes wait meanwhile, for some milliseconds and a second at
most. A backup of a single server is always one moment.`,
		Example: `  lazuli backup /mnt/backups --keep 30
  lazuli backup "https://account.blob.core.windows.net/backups?$SAS"
  lazuli backup /mnt/backups --hold-writes
  lazuli backup check /mnt/backups`,
		Args:        cobra.ExactArgs(1),
		Annotations: map[string]string{help.TakesPlace: ""},
	}
	open := placeFlag(cmd)
	var o backup.Options
	config.AddFlags(cmd.Flags(), "admin-host", "admin-port")
	cmd.Flags().IntVar(&o.Keep, "keep", 0, "remove all but this number of the newest backups; 0 keeps all")
	cmd.Flags().DurationVar(&o.KeepFor, "keep-for", 0,
		"with --keep, also keep backups younger than this, such as 720h")
	hold := cmd.Flags().Bool("hold-writes", false,
		"in a cluster, hold all writes while the moment is taken, a second at most, so that it is one moment of all "+
			"services")
	check := cmd.Flags().Bool("check", false, "check the backup afterwards, as lazuli backup check does")
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Keep < 0 || o.KeepFor < 0 || o.KeepFor > 0 && o.Keep == 0 {
			return console.Usagef("--keep is a number of backups, and --keep-for a time that needs --keep")
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return console.Usagef("%q is no verb of lazuli backup; %s. For a folder of that name: .%c%s", args[0],
				help.Hint(cmd, near), filepath.Separator, args[0])
		}
		place, err := open(args[0])
		if err != nil {
			return err
		}
		server, err := target.Admin(m.Environ, cmd)
		if err != nil {
			return err
		}
		if token := os.Getenv("LAZULI_BACKUP_TOKEN"); token != "" {
			server.Token = token
		}
		if _, err := server.Send(cmd.Context(), http.MethodGet, "/healthz", nil); err != nil {
			return err // before anything is created
		}
		progress := console.NewMeter(cmd, "backed up", console.BytesUnit)
		defer progress.End()
		o.Progress = func(read, _ int64) { progress.At(read, 0) }
		began := time.Now()
		waited := time.Duration(0) // by the writes of clients
		r, err := backup.Make(cmd.Context(), place, func(ctx context.Context, held backup.Held) (backup.Source, error) {
			request, err := json.Marshal(held)
			if err != nil {
				return nil, err
			}
			path := admin.BackupPath
			if *hold {
				path += "?" + admin.HoldWrites + "=true"
			}
			answer, err := server.Stream(ctx, http.MethodPost, path, bytes.NewReader(request))
			if err != nil {
				return nil, err
			}
			source, err := backup.Receive(answer)
			if err != nil {
				return nil, err
			}
			if *hold && !source.Info().Held {
				_ = source.Close()
				return nil, errors.New("the server is of a release that cannot hold writes for a backup")
			}
			waited = time.Duration(source.Info().HeldSeconds * float64(time.Second))
			return source, nil
		}, o)
		progress.End()
		if err != nil {
			return err
		}
		if *check {
			if err := checkBackup(cmd, place, r.Manifest); err != nil {
				return err
			}
		}
		took := time.Since(began)
		row := backupRow{rowOf(r.Manifest), r.Removed, r.Incomplete, waited.Seconds(), took.Seconds()}
		return output(row, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s in %s: %s, of which %s are new; %s\n", r.Name, place,
				console.BytesUnit(float64(r.Bytes)),
				console.BytesUnit(float64(r.New)), took.Round(time.Millisecond))
			if waited > 0 {
				_, err = fmt.Fprintf(w, "the writes of the cluster waited for %s\n", waited.Round(time.Millisecond))
			}
			if n := len(r.Removed); n > 0 {
				_, err = fmt.Fprintf(w, "%s removed\n", console.Count(n, "older backup"))
			}
			if len(r.Incomplete) > 0 {
				_, err = fmt.Fprintf(w, "pieces are missing: these backups cannot be restored: %s\n",
					strings.Join(r.Incomplete, ", "))
			}
			return err
		})
	}
	cmd.AddCommand(newBackupLs(), newBackupCheck(), moment.NewLog(placeFlag, placeHelp))
	return cmd
}

// placeFlag adds --connection-string and --key-file to cmd, and returns how to open the place of an argument.
func placeFlag(cmd *cobra.Command) func(string) (backup.Place, error) {
	connection := target.AccountFlag(cmd)
	key := cmd.Flags().String("key-file", "", "file with the key of an encrypted PLACE: 64 hexadecimal digits")
	return func(text string) (backup.Place, error) {
		bucket := strings.HasPrefix(text, "s3://")
		if bucket && cmd.Flags().Changed("connection-string") {
			return nil, console.Usagef("a bucket has no connection string: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
		}
		account, err := connection()
		if err != nil && !bucket {
			return nil, err
		}
		place, err := backup.OpenSealed(text, account, *key)
		if err != nil {
			return nil, console.Usage(err)
		}
		return place, nil
	}
}

// backupLine is the JSON of a backup.
type backupLine struct {
	Name    string    `json:"name"`
	Time    time.Time `json:"time"`
	Release string    `json:"release"`
	Bytes   int64     `json:"bytes"`
	New     int64     `json:"new"`
}

// backupRow is the JSON of `lazuli backup`.
type backupRow struct {
	backupLine
	Removed []string `json:"removed,omitempty"`
	// Incomplete are older backups that lack pieces.
	Incomplete []string `json:"incomplete,omitempty"`
	// HeldSeconds is the time that writes waited, with --hold-writes on a cluster.
	HeldSeconds float64 `json:"held_seconds,omitempty"`
	Seconds     float64 `json:"seconds"`
}

func rowOf(m *backup.Manifest) backupLine {
	return backupLine{m.Name, m.Time, m.Release, m.Bytes, m.New}
}

// newBackupLs makes `lazuli backup ls`.
func newBackupLs() *cobra.Command {
	cmd := &cobra.Command{Use: "ls PLACE", Short: "List backups, the oldest first", Args: cobra.ExactArgs(1),
		Long: "List the backups in PLACE, the oldest first.\n\n" + placeHelp, Example: "  lazuli backup ls /mnt/backups"}
	open := placeFlag(cmd)
	begin := console.ListOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		place, err := open(args[0])
		if err != nil {
			return err
		}
		names, err := backup.Names(cmd.Context(), place)
		if err != nil {
			return err
		}
		// A place without backups and a place that does not exist both list no names; a mistyped path must not look like an
		// empty place.
		if exists, err := place.Exists(cmd.Context()); err != nil || !exists {
			return cmp.Or(err, fmt.Errorf("%s does not exist; lazuli backup creates it with the first backup", place))
		}
		out := begin("NAME", "TIME", "SIZE", "NEW", "RELEASE").Or("%s has no backups yet; lazuli backup makes one", place)
		for _, name := range names {
			list, err := backup.Read(cmd.Context(), place, name)
			if err != nil {
				return out.End(err)
			}
			// People read the local time. The name contains the time in UTC, by which backups are sorted.
			if err := out.Add(rowOf(list), list.Name, list.Time.Local().Format(time.DateTime),
				console.BytesUnit(float64(list.Bytes)),
				console.BytesUnit(float64(list.New)), list.Release); err != nil {
				return out.End(err)
			}
		}
		return out.End(nil)
	}
	return cmd
}

// newBackupCheck makes `lazuli backup check`.
func newBackupCheck() *cobra.Command {
	cmd := &cobra.Command{Use: "check PLACE [NAME]", Short: "Check that a backup can be restored",
		Args: cobra.RangeArgs(1, 2),
		Long: `Check that a backup, the newest one without NAME, can be restored: it is restored into a temporary
folder ($TMPDIR), which needs room for it, checked as by lazuli fsck, and removed.

` + placeHelp,
		Example: "  lazuli backup check /mnt/backups"}
	open := placeFlag(cmd)
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		place, err := open(args[0])
		if err != nil {
			return err
		}
		list, err := backup.Read(cmd.Context(), place, nameArgument(args, 1))
		if err != nil {
			return err
		}
		// Only a whole restore shows that each piece is there and has its bytes; a look at the list of pieces would not
		// open them.
		if err := checkBackup(cmd, place, list); err != nil {
			return err
		}
		return output(rowOf(list), func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s: clean, %s\n", list.Name, console.BytesUnit(float64(list.Bytes)))
			return err
		})
	}
	return cmd
}

func nameArgument(args []string, i int) string {
	if len(args) > i {
		return args[i]
	}
	return ""
}

func checkBackup(cmd *cobra.Command, place backup.Place, list *backup.Manifest) error {
	progress := console.NewMeter(cmd, "read", console.BytesUnit)
	defer progress.End()
	return backup.Check(cmd.Context(), place, list, backup.RestoreOptions{Verify: verifyRestored,
		Progress: func(read int64) { progress.At(read, list.Bytes) }})
}

// verifyRestored returns an error if `lazuli fsck` would not call a folder clean.
func verifyRestored(ctx context.Context, path string) error {
	report, err := fsck.Check(ctx, path, fsck.Options{})
	if err != nil || report.Clean {
		return err
	}
	for _, f := range report.Findings {
		if f.Severity == fsck.Error {
			return fmt.Errorf("the restored folder has %s, and was removed; the first: %s",
				console.Count(report.Errors, "error"),
				f)
		}
	}
	return errNotClean
}

// newRestoreCommand makes `lazuli restore`.
func newRestoreCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "restore PLACE FOLDER", Short: "Make a data folder from a backup", Args: cobra.ExactArgs(2),
		Long: `Make a data folder for a single server from a backup in PLACE: the newest one, or the one that
--name names. FOLDER must not exist, or be empty. The command renames the folder to its name after it is
complete and has passed the checks of lazuli fsck. It does not touch a running server: start one on the folder
with "lazuli serve --location FOLDER", or make it the first node of a cluster with "lazuli cluster convert
FOLDER".

With --to-time, PLACE is the archive of a server (option --archive), and FOLDER gets the state of that moment:
every change that was acknowledged before it, and none that began after it. "lazuli backup log ls" lists the
times that can be restored; the command refuses others.

` + placeHelp,
		Example: `  lazuli restore /mnt/backups /var/lib/lazuli-restored
  lazuli restore /mnt/backups /tmp/monday --name 20260105T020000.000Z
  lazuli restore /mnt/archive /tmp/before --to-time "10 minutes ago"`}
	open := placeFlag(cmd)
	name := cmd.Flags().String("name", "", "name of the backup, as lazuli backup ls shows it (default: the newest)")
	at := cmd.Flags().String("to-time", "", `restore a moment from the archive in PLACE: RFC 3339, or "10 minutes ago"`)
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		place, err := open(args[0])
		if err != nil {
			return err
		}
		switch {
		case *at != "" && *name != "":
			return console.Usagef("--name and --to-time exclude each other")
		case *at != "":
			row, text, err := moment.Restore(cmd, place, *at, args[1], verifyRestored)
			if err != nil {
				return err
			}
			return output(row, text)
		}
		list, err := backup.Read(cmd.Context(), place, *name)
		if err != nil {
			return err
		}
		progress := console.NewMeter(cmd, "restored", console.BytesUnit)
		// The folder is checked before it gets its name, so a restore that failed leaves nothing that a server could be
		// started on.
		err = backup.Restore(cmd.Context(), place, list, args[1], backup.RestoreOptions{Verify: verifyRestored,
			Progress: func(read int64) { progress.At(read, list.Bytes) }})
		progress.End()
		if err != nil {
			return err
		}
		return output(rowOf(list), func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s is in %s, checked; start it with: lazuli serve --location %s\n", list.Name, args[1],
				args[1])
			return err
		})
	}
	return cmd
}
