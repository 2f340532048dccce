package archive_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

const (
	// historyVar holds the folders of a server that writes a history until it is killed: the data and the place.
	historyVar = "LAZULI_ARCHIVE_HISTORY"
	// promoteVar holds the folders of a standby that is promoted, in a process that may be killed meanwhile.
	promoteVar = "LAZULI_ARCHIVE_PROMOTE"
)

// The history: for each number a message, then an entity, then a blob, one after another. So of a state of one moment
// the three services have all numbers up to one, but for that which was being written.

// planned returns the plan of this process, which may be none.
func planned() (plan *fault.Plan, err error) {
	if text := os.Getenv(fault.EnvVar); text != "" {
		return fault.ParsePlan(text)
	}
	return plan, nil
}

// runHistory writes the history, and prints the number and the time after each acknowledgement of a whole number.
func runHistory(text string) error {
	var folders [2]string
	if err := json.Unmarshal([]byte(text), &folders); err != nil {
		return err
	}
	plan, err := planned()
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	a := archive.New(archive.Options{Place: backup.Folder(folders[1]), Every: 20 * time.Millisecond, Fence: true,
		Log: log})
	s, err := server.Start(server.Config{Location: folders[0], Archive: a, Log: log})
	if err != nil {
		return err
	}
	go a.Run(context.Background(), s.ArchiveMoment)
	storage, err := workers.OpenStorage(s.ConnectionString())
	if err != nil {
		return err
	}
	ctx := context.Background()
	_, err1 := storage.Queues.CreateQueue(ctx, "queue", nil)
	_, err2 := storage.Tables.NewClient("Table").CreateTable(ctx, nil)
	_, err3 := storage.Blobs.CreateContainer(ctx, "container", nil)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	fmt.Println("begun")
	for i := 1; ; i++ {
		if i == 20 { // the base is there, and segments are sent
			fault.Activate(plan)
		}
		_, err := storage.Queues.NewQueueClient("queue").EnqueueMessage(ctx, strconv.Itoa(i), nil)
		if err == nil {
			_, err = storage.Tables.NewClient("Table").AddEntity(ctx,
				[]byte(fmt.Sprintf(`{"PartitionKey":"p","RowKey":"%d"}`, i)), nil)
		}
		if err == nil {
			_, err = storage.Blobs.UploadBuffer(ctx, "container", strconv.Itoa(i),
				[]byte(strings.Repeat(strconv.Itoa(i)+" ", 200+i%7*10000)), nil)
		}
		if err != nil {
			return err
		}
		fmt.Println(i, time.Now().UnixNano())
	}
}

// acknowledged is a number of the history with the time after its acknowledgement.
type acknowledged struct {
	number int
	at     time.Time
}

// history runs a process that writes the history, and kills it after a number, once there is a base, or at the points
// of a plan.
func history(t *testing.T, data, place string, until int, plan string, at func(number int)) (list []acknowledged) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), historyVar+"="+string(check.Must(json.Marshal([]string{data, place}))(t)))
	if plan != "" {
		cmd.Env = append(cmd.Env, fault.EnvVar+"="+plan)
	}
	out := check.Must(cmd.StdoutPipe())(t)
	var errs strings.Builder
	cmd.Stderr = &errs
	check.OK(t, cmd.Start())
	lines, ended := bufio.NewScanner(out), false
	for lines.Scan() {
		number, text, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		nanos := check.Must(strconv.ParseInt(text, 10, 64))(t)
		list = append(list, acknowledged{n, time.Unix(0, nanos)})
		if at != nil {
			at(n)
		}
		if n >= until && !ended {
			names, err := backup.Names(t.Context(), backup.Folder(place))
			check.OK(t, err)
			if ended = len(names) > 0; ended { // otherwise there is nothing to begin with
				check.OK(t, cmd.Process.Kill())
			}
		}
	}
	_ = cmd.Wait()
	if errs.Len() > 0 {
		t.Fatalf("the server ended by itself: %s", errs.String())
	}
	return list
}

// missing reports whether an error says that the queue, table or container does not exist: the moment of an archive
// that has a base alone may be before the history created it.
func missing(err error) bool {
	var e *azcore.ResponseError
	codes := []string{"QueueNotFound", "TableNotFound", "ContainerNotFound"}
	return errors.As(err, &e) && slices.Contains(codes, e.ErrorCode)
}

// numbers returns how many numbers of the history each service has, all up to one.
func numbers(t *testing.T, s *workers.Storage) (queue, table, blobs int) {
	t.Helper()
	for {
		r, err := s.Queues.NewQueueClient("queue").DequeueMessages(t.Context(), nil)
		if missing(err) {
			break
		}
		check.OK(t, err)
		if len(r.Messages) == 0 {
			break
		}
		for _, m := range r.Messages {
			queue = max(queue, check.Must(strconv.Atoi(*m.MessageText))(t))
		}
	}
	rows := 0
	for pages := s.Tables.NewClient("Table").NewListEntitiesPager(&aztables.ListEntitiesOptions{}); pages.More(); {
		page, err := pages.NextPage(t.Context())
		if missing(err) {
			break
		}
		check.OK(t, err)
		rows += len(page.Entities)
	}
	for pages := s.Blobs.NewListBlobsFlatPager("container", nil); pages.More(); {
		page, err := pages.NextPage(t.Context())
		if missing(err) {
			break
		}
		check.OK(t, err)
		for _, b := range page.Segment.BlobItems {
			n := check.Must(strconv.Atoi(*b.Name))(t)
			if want := int64(len(strconv.Itoa(n))+1) * int64(200+n%7*10000); *b.Properties.ContentLength != want {
				t.Errorf("blob %d has %d bytes, want %d", n, *b.Properties.ContentLength, want)
			}
			blobs++
		}
	}
	return queue, rows, blobs
}

// wantHistory compares the state of a promoted server with the history that was acknowledged.
func wantHistory(t *testing.T, s *workers.Storage, list []acknowledged, until time.Time) {
	t.Helper()
	queue, table, blobs := numbers(t, s)
	if queue < table || table < blobs || queue > blobs+1 {
		t.Errorf("%d messages, %d entities, %d blobs: not the state of one moment", queue, table, blobs)
	}
	for _, a := range list {
		if a.at.Before(until) && a.number > blobs {
			t.Errorf("%d was acknowledged at %s, and everything up to %s should be there; there is up to %d", a.number, a.at,
				until, blobs)
		}
	}
	if len(list) == 0 || queue > list[len(list)-1].number+1 {
		t.Errorf("%d messages, and %d were acknowledged", queue, len(list))
	}
}

// The server is killed at any time: the promoted standby has everything that was acknowledged up to the moment that it
// names, of one moment over all services, and the archive goes on from it.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	plans := []string{"", "logarchive/pending=kill", "logarchive/created=kill@2", "logarchive/sent=kill@3"}
	for i := range check.Size(4, 24) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			folder, first := filepath.Join(t.TempDir(), "place"), filepath.Join(t.TempDir(), "first")
			data := filepath.Join(t.TempDir(), "second")
			var s *second
			list := history(t, first, folder, 60+rand.IntN(60), plans[i%len(plans)], func(n int) {
				if n == 10 { // while the server writes
					s = startStandby(t, data, backup.Folder(folder), nil)
				}
			})
			if s == nil {
				t.Fatalf("only %d numbers", len(list))
			}
			promotion := check.Must(s.Promote(t.Context(), false))(t)
			wantHistory(t, s.storage, list, promotion.Until)
			s.end()
			wantClean(t, data)
			if err := startOwned(first, archive.Options{Place: backup.Folder(folder), Fence: true}); !errors.Is(err,
				archive.ErrOwned) {
				t.Errorf("the killed server starts again: %v", err)
			}
		})
	}
}

// runPromotion starts a standby and promotes it.
func runPromotion(text string) error {
	var folders [2]string
	if err := json.Unmarshal([]byte(text), &folders); err != nil {
		return err
	}
	plan, err := planned()
	if err != nil {
		return err
	}
	fault.Activate(plan)
	s, err := server.Start(standbyConfig(folders[0], backup.Folder(folders[1]), nil))
	if err != nil {
		return err
	}
	if _, err := s.Promote(context.Background(), false); err != nil {
		return err
	}
	return s.Stop(context.Background())
}

// A standby that is killed at each of its steps goes on when it is started again, and when it is promoted again.
func TestStandbyIsKilled(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"standby/seeded", "standby/swapped", "standby/applying", "standby/applied",
		"standby/applying=kill@2", "standby/applied=kill@2", "standby/taken", "standby/sealed", "standby/filled",
		"standby/promoted"} {
		t.Run(strings.ReplaceAll(point, "/", " "), func(t *testing.T) {
			t.Parallel()
			folder, first := filepath.Join(t.TempDir(), "place"), filepath.Join(t.TempDir(), "first")
			data := filepath.Join(t.TempDir(), "second")
			list := history(t, first, folder, 60, "", nil)
			if !strings.Contains(point, "=") {
				point += "=kill"
			}
			run := func(plan string) error {
				ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
				defer cancel()
				cmd := exec.CommandContext(ctx, os.Args[0])
				cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // shows where it hangs
				cmd.Env = append(os.Environ(), promoteVar+"="+string(check.Must(json.Marshal([]string{data, folder}))(t)))
				if plan != "" {
					cmd.Env = append(cmd.Env, fault.EnvVar+"="+plan)
				}
				out, err := cmd.CombinedOutput()
				if err != nil {
					err = fmt.Errorf("%w: %s", err, out)
				}
				return err
			}
			err := run(point)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() == 1 {
				t.Fatalf("the process was not killed: %v", err)
			}
			if err := run(""); err != nil && !strings.Contains(err.Error(), archive.ErrPromoted.Error()) {
				t.Fatalf("the second time: %v", err)
			}
			wantClean(t, data)
			// Without the archive it must not write, until a person says that nothing else does.
			if s, err := server.Start(server.Config{Location: data, Log: slog.New(slog.DiscardHandler)}); !errors.Is(err,
				archive.ErrFenced) {
				if err == nil {
					_ = s.Stop(context.Background())
				}
				t.Errorf("a promoted server without its archive: %v", err)
			}
			check.OK(t, os.RemoveAll(filepath.Join(data, "archive")))
			s, err := server.Start(server.Config{Location: data, Log: slog.New(slog.DiscardHandler)})
			check.OK(t, err)
			defer func() { check.OK(t, s.Stop(context.Background())) }()
			// The history was written to the end, so what was acknowledged in the last 15 s may be missing: a server with
			// a fence acknowledges nothing while the place is further behind. The last write began after the one before
			// was acknowledged.
			storage := check.Must(workers.OpenStorage(s.ConnectionString()))(t)
			wantHistory(t, storage, list, list[max(len(list)-2, 0)].at.Add(-15*time.Second))
		})
	}
}
