package logstore_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

func TestParseLevel(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]slog.Level{
		"TRACE": logstore.LevelTrace, "Verbose": logstore.LevelTrace, "debug": slog.LevelDebug, "Information": slog.LevelInfo,
		"info":   slog.LevelInfo,
		"notice": logstore.LevelNotice, "WARN": slog.LevelWarn, "WARNING": slog.LevelWarn, "Error": slog.LevelError,
		"err":      slog.LevelError,
		"CRITICAL": logstore.LevelCritical, "FATAL": logstore.LevelFatal, "INFO+1": slog.LevelInfo + 1,
		"error-2": slog.LevelError - 2,
		"-4":      slog.LevelDebug, "0": slog.LevelInfo, "8": slog.LevelError,
		"10": logstore.LevelTrace, "20": slog.LevelDebug, "30": slog.LevelInfo, "40": slog.LevelWarn, "50": slog.LevelError,
		"60": logstore.LevelFatal,
	} {
		got, ok := logstore.ParseLevel(text)
		if !ok || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, ok, want)
		}
		if again, ok := logstore.ParseLevel(logstore.LevelName(got)); !ok || again != got {
			t.Errorf("%s is written as %s, which is read as %v", text, logstore.LevelName(got), again)
		}
	}
	for _, text := range []string{"", "loud", "70", "-9", "NaN", "1e99"} {
		if l, ok := logstore.ParseLevel(text); ok {
			t.Errorf("%q is read as %v", text, l)
		}
	}
}

// Nothing that a record says is dropped.
func TestRecordKeepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]logstore.Record{
		`{"service":"web","time":"2026-03-01T12:00:00Z","level":"WARNING","message":"a","id":"1","attrs":{"x":1}}`: {Service: "web", Time: at, Level: slog.LevelWarn, Message: "a", ID: "1", Attrs: json.RawMessage(`{"x":1}`)},
		`{"Service":"web","Message":"a","Level":30}`:                                                               {Service: "web", Message: "a"},
		`{"service":"web","message":"a","level":50,"host":"h","pid":7}`:                                            {Service: "web", Message: "a", Level: slog.LevelError, Attrs: json.RawMessage(`{"host":"h","pid":7}`)},
		`{"service":"web","message":"a","attrs":{"host":"h"},"host":"other","_host":"?"}`:                          {Service: "web", Message: "a", Attrs: json.RawMessage(`{"_host":"?","__host":"other","host":"h"}`)},
		`{"service":"web","message":"a","attrs":[1],"pid":7}`:                                                      {Service: "web", Message: "a", Attrs: json.RawMessage(`{"attrs":[1],"pid":7}`)},
		`{"service":"web","message":"a","level":"loud","time":"yesterday"}`:                                        {Service: "web", Message: "a", Attrs: json.RawMessage(`{"level":"loud","time":"yesterday"}`)},
		`{"service":"web","message":"a","level":null,"time":null,"attrs":null}`:                                    {Service: "web", Message: "a"},
	} {
		var got logstore.Record
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		equal := cmp.Comparer(func(a, b json.RawMessage) bool {
			var x, y any
			_ = json.Unmarshal(a, &x)
			_ = json.Unmarshal(b, &y)
			return cmp.Equal(x, y)
		})
		if diff := cmp.Diff(want, got, equal); diff != "" {
			t.Errorf("%s: want(-) got(+):\n%s", text, diff)
		}
		written, err := json.Marshal(got)
		var again logstore.Record
		if err == nil {
			err = json.Unmarshal(written, &again)
		}
		if diff := cmp.Diff(got, again, equal); diff != "" || err != nil {
			t.Errorf("%s is written as %s: %v\n%s", text, written, err, diff)
		}
	}
	for _, text := range []string{"null", "[]", "7", `{"service":7}`, `{"message":{}}`} {
		var r logstore.Record
		if err := json.Unmarshal([]byte(text), &r); err == nil {
			t.Errorf("%s is read as %v", text, fmt.Sprintf("%+v", r))
		}
	}
}
