package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// Statements that compute without bounds end with an error, however small the content is.
func TestWorkIsBounded(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	object := `{"a":"` + long + `","b":1}`
	for _, tc := range []struct {
		name, content, sql, in string
		error                  string // "" for none
	}{
		{"LIKE with many wildcards", long, "SELECT * FROM BlobStorage WHERE _1 LIKE '%" + strings.Repeat("a", 10_000) + "b'", "", "TooMuchWork"},
		{"TRIM of many characters", strings.Repeat("ü", 1<<19), "SELECT TRIM('" + strings.Repeat("ä", 10_000) + "ü' FROM _1) FROM BlobStorage", "", "TooMuchWork"},
		{"a long IN list for many records", strings.Repeat("1\n", 10_000), "SELECT * FROM BlobStorage WHERE _1 IN (0" + strings.Repeat(",'x'", 30_000) + ")", "", "TooMuchWork"},
		{"functions of functions", long, "SELECT COUNT(*) FROM BlobStorage WHERE " + strings.Repeat("LOWER(", 150) + "_1" + strings.Repeat(")", 150) + " = 'x'", "", "TooMuchWork"},
		{"many fields of a long object", object, "SELECT * FROM BlobStorage WHERE b IN (0" + strings.Repeat(",c", 10_000) + ")", jsonLines, "TooMuchWork"},
		{"a long name for each record", strings.Repeat("1\n", 100_000), "SELECT _1 AS " + long[:500_000] + " FROM BlobStorage", "json out", "TooMuchWork"},
		{"more columns than can be read", strings.Repeat(",", maxCells) + "\n1\n", "SELECT * FROM BlobStorage", "", "TooManyColumns"},
		{"as many columns as can be read", strings.Repeat(",", maxCells-1) + "\n1\n", "SELECT * FROM BlobStorage", "", ""},
		{"a usual query", strings.Repeat("1,some text,2020-01-02\n", 50_000), "SELECT _1, UPPER(_2) FROM BlobStorage WHERE _1 BETWEEN 1 AND 3 AND _2 LIKE '%text%' AND EXTRACT(YEAR FROM _3) = 2020", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in, out := tc.in, ""
			if in == "json out" {
				in, out = "", jsonLines
			}
			a, err := ask(t, tc.content, tc.sql, in, out)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(a.errors); tc.error == "" && len(a.errors) > 0 || !strings.Contains(got, tc.error) {
				t.Errorf("errors %.300s, want %q", got, tc.error)
			}
		})
	}
}

// What the work of a statement grows with.
func TestWorkOfStatements(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, sql string
		most      int64
	}{
		{"BETWEEN in BETWEEN", "SELECT * FROM BlobStorage WHERE " + strings.Repeat("(", 60) + "1" + strings.Repeat(" BETWEEN _1 AND 2)", 60), 2_000},
		{"NOT in NOT", "SELECT * FROM BlobStorage WHERE " + strings.Repeat("NOT ", 10_000) + "TRUE", 2_000},
		{"a long sum", "SELECT 1" + strings.Repeat("+1", 30_000) + " FROM BlobStorage", 100_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			request, err := ParseRequest(body(tc.sql, "", ""), testTime)
			if err != nil {
				t.Fatal(err)
			}
			const content = "1\n"
			q, err := request.Open(t.Context(), Content{Reader: strings.NewReader(content), Size: int64(len(content))})
			if err != nil {
				t.Fatal(err)
			}
			if err := q.Run(io.Discard); err != nil {
				t.Fatal(err)
			}
			if spent := freeWork + workPerByte*int64(len(content)) + workPerRecord - q.row.left; spent > tc.most {
				t.Errorf("%d units of work, want at most %d", spent, tc.most)
			}
		})
	}
}

func TestLongStatementsAreRefused(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{"SELECT 1" + strings.Repeat("+1", 1<<18) + " FROM BlobStorage", "SELECT _1 FROM BlobStorage WHERE _1 IN (1" + strings.Repeat(",1", 1<<18) + ")"} {
		if _, err := ParseRequest(body(sql, "", ""), testTime); !strings.Contains(fmt.Sprint(err), "too long") {
			t.Errorf("%.30s: %v", sql, err)
		}
	}
}

// Rows of one object are not held all at once.
func TestRowsOfAnObjectTakeLittleMemory(t *testing.T) {
	content := `{"a":[0` + strings.Repeat(",0", maxRecord/2-100) + "]}"
	var before, after runtime.MemStats
	request, err := ParseRequest(body("SELECT COUNT(*) FROM BlobStorage[*].a[*]", jsonLines, ""), testTime)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&before)
	q, err := request.Open(t.Context(), Content{Reader: strings.NewReader(content), Size: int64(len(content))})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Run(io.Discard); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 30<<20 {
		t.Errorf("%d bytes are allocated for a record of %d", taken, len(content))
	}
}

// spaces is content without a separator.
type spaces struct{ read int }

func (s *spaces) Read(p []byte) (int, error) {
	if s.read > 64<<20 {
		return 0, io.EOF
	}
	for i := range p {
		p[i] = 'x'
	}
	s.read += len(p)
	return len(p), nil
}

// A record without an end is not read to the end of the content.
func TestEndlessRecordsAreNotKept(t *testing.T) {
	t.Parallel()
	for begin, in := range map[string]string{"": "", "\"": "", `{"a":"`: jsonLines, "[": jsonLines, `{"a`: jsonLines} {
		request, err := ParseRequest(body("SELECT * FROM BlobStorage", in, ""), testTime)
		if err != nil {
			t.Fatal(err)
		}
		content := &spaces{}
		q, err := request.Open(t.Context(), Content{Reader: io.MultiReader(strings.NewReader(begin), content), Size: 1 << 40})
		if err == nil {
			err = q.Run(io.Discard)
		}
		if err != nil || content.read > 2*maxRecord {
			t.Errorf("%q: %d bytes were read, %v", begin, content.read, err)
		}
	}
}

// A query whose client has gone ends in the middle of a record.
func TestWorkStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w := newWork(ctx)
	if err := w.spend(checkEvery + 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := w.spend(checkEvery + 1); !errors.Is(err, context.Canceled) {
		t.Errorf("after %d units: %v", checkEvery+1, err)
	}
}
