package logstore

import (
	"errors"
	"html"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// AnalyticsContainer holds the logs of Storage Analytics.
const AnalyticsContainer = "$logs"

// parseAnalytics reads a line of Storage Analytics, version 1.0 or 2.0.
// https://learn.microsoft.com/rest/api/storageservices/storage-analytics-log-format
func parseAnalytics(line []byte) (Record, error) {
	f, err := splitFields(string(line))
	if err != nil {
		return Record{}, err
	}
	if !(f[0] == "1.0" && len(f) == 30 || f[0] == "2.0" && len(f) == 38) {
		return Record{}, errors.New("not a line of version 1.0 or 2.0")
	}
	at, err := time.Parse(time.RFC3339Nano, f[1])
	if err != nil {
		return Record{}, err
	}
	// The number of the status is empty for a connection that ended without an answer.
	status := f[3]
	if f[4] != "" {
		status = f[4] + " " + status
	}
	return Record{
		Time: at, Level: analyticsLevel(f[3], f[4]), ID: f[13] + "/" + f[14],
		Message: f[2] + " " + status + " " + f[12] + " " + f[5] + "ms",
	}, nil
}

// analyticsLevel sorts a request by its status: what the service failed at is an error, what it refused a warning.
func analyticsLevel(status, code string) slog.Level {
	n, err := strconv.Atoi(code)
	for _, of := range []string{"ServerOtherError", "ServerTimeoutError", "ThrottlingError", "NetworkError"} {
		if strings.HasSuffix(status, of) {
			return slog.LevelError
		}
	}
	switch {
	case err != nil || n >= 500:
		return slog.LevelError
	case n >= 400:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// splitFields splits at semicolons outside quotes, and takes quotes and HTML's encoding away.
func splitFields(line string) ([]string, error) {
	var fields []string
	for {
		if rest, quoted := strings.CutPrefix(line, `"`); quoted {
			value, after, ok := strings.Cut(rest, `"`)
			if !ok || after != "" && after[0] != ';' {
				return nil, errors.New("a quote is not closed")
			}
			fields = append(fields, html.UnescapeString(value))
			if after == "" {
				return fields, nil
			}
			line = after[1:]
			continue
		}
		// Outside quotes nothing is encoded: the service quotes each field that may have a semicolon.
		value, after, more := strings.Cut(line, ";")
		fields = append(fields, value)
		if !more {
			return fields, nil
		}
		line = after
	}
}
