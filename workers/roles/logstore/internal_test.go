package logstore

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// The sample lines of the reference, and what is not a line.
func TestParseAnalytics(t *testing.T) {
	const v1 = `1.0;2011-08-09T18:52:40.9241789Z;GetBlob;AnonymousSuccess;200;18;10;anonymous;;myaccount;blob;"https://myaccount.blob.core.windows.net/thumb&amp;nails/lake.jpg?timeout=30000";"/myaccount/thumbnails/lake.jpg";a84aa705-8a85-48c5-b064-b43bd22979c3;0;123.100.2.10;2009-09-19;252;0;265;100;0;;;"0x8CE1B6EA95033D5";Friday, 09-Aug-11 21:44:36 GMT;;;;"8/9/2011 6:52:40 PM ba98eb12-700b-4d53-9230-33a3330571fc"`
	r, err := parseAnalytics([]byte(v1))
	if err != nil || r.ID != "a84aa705-8a85-48c5-b064-b43bd22979c3/0" || r.Level != slog.LevelInfo ||
		!r.Time.Equal(time.Date(2011, 8, 9, 18, 52, 40, 924178900, time.UTC)) ||
		r.Message != "GetBlob 200 AnonymousSuccess /myaccount/thumbnails/lake.jpg 18ms" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := parseAnalytics([]byte("2" + v1[1:] + ";;;;;;;;")); err != nil {
		t.Error(err)
	}
	fields, err := splitFields(`a;"b;&quot;c&amp;";;"d"`)
	if want := []string{"a", `b;"c&`, "", "d"}; err != nil || !slices.Equal(fields, want) {
		t.Errorf("%q, %v", fields, err)
	}
	for _, bad := range []string{"", "1.0", "2" + v1[1:], "3" + v1[1:], strings.Replace(v1, "2011-08-09T", "x", 1),
		v1 + `;"`, v1[:200] + `"x`} {
		if _, err := parseAnalytics([]byte(bad)); err == nil {
			t.Errorf("%.40q was taken for a line", bad)
		}
	}
	for status, want := range map[string]slog.Level{
		"Success 200": slog.LevelInfo, "SASSuccess 304": slog.LevelInfo, "QueueNotFound 404": slog.LevelWarn,
		"AuthorizationError 403": slog.LevelWarn,
		"ServerOtherError 500":   slog.LevelError, "ThrottlingError 503": slog.LevelError,
		"AnonymousNetworkError Unknown": slog.LevelError,
	} {
		name, code, _ := strings.Cut(status, " ")
		if got := analyticsLevel(name, code); got != want {
			t.Errorf("%s: %v, want %v", status, got, want)
		}
	}
}

func FuzzSplitFields(f *testing.F) {
	f.Add(`1.0;"a;b";c`)
	f.Fuzz(func(t *testing.T, s string) {
		defer workbudget.Default.Start(t, len(s))()
		_, _ = parseAnalytics([]byte(s))
		_, _ = slotOf("queue", s)
	})
}

func TestCover(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse("2006-01-02 15:04", s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		from, to string
		want     []string
	}{
		{"2026-03-01 12:10", "2026-03-01 12:20", []string{"q/2026/03/01/12"}},
		{"2026-03-01 12:00", "2026-03-01 13:00", []string{"q/2026/03/01/12"}},
		{"2026-03-01 23:59", "2026-03-02 00:01", []string{"q/2026/03/01/23", "q/2026/03/02/00"}},
		{"2026-12-31 23:00", "2027-01-02 01:00", []string{"q/2026/12/31/23", "q/2027/01/01/", "q/2027/01/02/00"}},
		{"2026-03-01 00:30", "2026-03-01 23:30", []string{"q/2026/03/01/"}},
	} {
		if got := cover("q", at(c.from), at(c.to)); !slices.Equal(got, c.want) {
			t.Errorf("%s to %s: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

func TestSlotOf(t *testing.T) {
	if at, ok := slotOf("queue", "queue/2026/03/01/1230/000012.log"); !ok ||
		!at.Equal(time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)) {
		t.Errorf("%v, %v", at, ok)
	}
	for _, name := range []string{"", "queue", "queue/2026/03/01/1230/x.log", "queue/2026/13/01/1230/000000.log",
		"other/2026/03/01/1230/000000.log", "queue/2026/03/01/1230/a/000000.log"} {
		if _, ok := slotOf("queue", name); ok {
			t.Errorf("%q is in the layout", name)
		}
	}
}

// Logs as Storage Analytics keeps them: an hour's blob may have lines that began the hour before, and its metadata has
// whole seconds.
func TestReadsAnalytics(t *testing.T) {
	a := testaccount.Open(t)
	name := a.Container("analytics")
	hour := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	line := func(at time.Time, status, code, id string) string {
		return fmt.Sprintf(
			`1.0;%s;PutMessage;%s;%s;5;5;authenticated;a;a;queue;"http://h/a/q";"/a/q";%s;0;1.2.3.4:5;2020-10-02;1;1;1;1;1;;;;;;;;`+"\n", at.Format("2006-01-02T15:04:05.0000000Z"), status, code, id)
	}
	put := func(blob string, start, end time.Time, text string) {
		t.Helper()
		const layout = "2006-01-02T15:04:05Z"
		s, e, kind, v := start.Format(layout), end.Format(layout), "write", "1.0"
		_, err := a.Blobs.UploadBuffer(t.Context(), name, blob, []byte(text),
			&azblob.UploadBufferOptions{Metadata: map[string]*string{"StartTime": &s, "EndTime": &e, "LogType": &kind,
				"LogVersion": &v}})
		if err != nil {
			t.Fatal(err)
		}
	}
	before, within := hour.Add(-time.Second), hour.Add(500*time.Millisecond)
	put("queue/2026/03/01/1100/000000.log", hour.Add(-time.Minute), before,
		line(hour.Add(-time.Minute), "Success", "201", "1"))
	put("queue/2026/03/01/1200/000000.log", before, within,
		line(before, "ServerOtherError", "500", "2")+"rubbish\n"+line(within, "ServerTimeoutError", "500", "3"))
	put("queue/2026/03/01/1200/000001.log", within, within,
		line(within, "ServerTimeoutError", "500", "3")+line(within, "QueueNotFound", "404", "4"))
	r := &Reader{blobs: a.Blobs, container: name, late: time.Hour}
	for what, c := range map[string]struct {
		from, to time.Time
		level    slog.Leveler
		want     string
	}{
		"the hour before":    {hour.Add(-time.Hour), hour, nil, "1/0 2/0"},
		"a moment":           {within, within.Add(1), nil, "3/0 4/0"},
		"errors":             {hour.Add(-time.Hour), hour.Add(time.Hour), slog.LevelError, "2/0 3/0"},
		"after whole second": {hour.Add(time.Second), hour.Add(time.Hour), nil, ""},
	} {
		var ids []string
		var stats Stats
		for e, err := range r.Query(context.Background(), Query{Service: "queue", From: c.from, To: c.to, Level: c.level},
			&stats) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, e.ID)
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%s: %q, want %q; %+v", what, got, c.want, stats)
		}
	}
}
