package query

import (
	"bytes"
	"fmt"
	"io"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

// Statements that compute without bounds end with an error, however small the content is.
func TestWorkIsBounded(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	object := `{"a":"` + long + `","b":1}`
	for _, tc := range []struct {
		name, content, sql, in string
		error                  string // "" for none
	}{
		{"LIKE with many wildcards", long, "SELECT * FROM BlobStorage WHERE _1 LIKE '%" + strings.Repeat("a", 10_000) + "b'",
			"", "OperationTimedOut"},
		{"TRIM of many characters", strings.Repeat("ü", 1<<19),
			"SELECT TRIM('" + strings.Repeat("ä", 10_000) + "ü' FROM _1) FROM BlobStorage", "", "OperationTimedOut"},
		{"a long IN list for many records", strings.Repeat("1\n", 10_000),
			"SELECT * FROM BlobStorage WHERE _1 IN (0" + strings.Repeat(",'x'", 30_000) + ")", "", "OperationTimedOut"},
		{"remainders of distant numbers", strings.Repeat("1e308,1e-300\n", 10_000),
			"SELECT COUNT(*) FROM BlobStorage WHERE 0 = 1" + strings.Repeat(" OR _1 % _2 = 1", 500), "", "OperationTimedOut"},
		{"many fields of a long object", object,
			"SELECT * FROM BlobStorage WHERE b IN (0" + strings.Repeat(",c", 10_000) + ")", jsonLines, "OperationTimedOut"},
		{"a long name for each record", strings.Repeat("1\n", 10_000), "SELECT _1 AS " + long[:500_000] + " FROM BlobStorage",
			"json out", "OperationTimedOut"},
		{"more columns than can be read", strings.Repeat(",", maxCells) + "\n1\n", "SELECT * FROM BlobStorage", "",
			"TooManyColumns"},
		{"as many columns as can be read", strings.Repeat(",", maxCells-1) + "\n1\n", "SELECT * FROM BlobStorage", "", ""},
		{"a usual query", strings.Repeat("1,some text,2020-01-02\n", 50_000),
			"SELECT _1, UPPER(_2) FROM BlobStorage WHERE _1 BETWEEN 1 AND 3 AND _2 LIKE '%text%' AND EXTRACT(YEAR FROM _3) = " +
				"2020", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in, out := tc.in, ""
			if in == "json out" {
				in, out = "", jsonLines
			}
			limit := 20 * time.Millisecond
			if tc.error != "OperationTimedOut" {
				limit = 2 * time.Second
			}
			a := run(t, Content{Reader: strings.NewReader(tc.content), Size: int64(len(tc.content))}, tc.sql, in, out, limit)
			if got := fmt.Sprint(a.errors); tc.error == "" && len(a.errors) > 0 || !strings.Contains(got, tc.error) {
				t.Errorf("errors %.300s, want %q", got, tc.error)
			}
		})
	}
}

// run runs a query with a budget of work.
func run(t *testing.T, c Content, sql, in, out string, limit time.Duration) answer {
	t.Helper()
	request, err := ParseRequest(body(sql, in, out), testTime)
	if err != nil {
		t.Fatal(err)
	}
	q, err := request.Open(budget.New(t.Context(), limit), c)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := q.Run(&b); err != nil {
		t.Fatal(err)
	}
	return decode(t, b.Bytes())
}

// The work of a statement does not grow with the square of its length, nor with a power of its depth.
func TestWorkOfStatements(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		"SELECT * FROM BlobStorage WHERE " + strings.Repeat("(", 60) + "1" + strings.Repeat(" BETWEEN _1 AND 2)", 60),
		"SELECT * FROM BlobStorage WHERE " + strings.Repeat("NOT ", 10_000) + "TRUE",
		"SELECT 1" + strings.Repeat("+1", 30_000) + " FROM BlobStorage",
	} {
		if a := run(t, Content{Reader: strings.NewReader("1\n"), Size: 2}, sql, "", "", time.Second); len(a.errors) > 0 {
			t.Errorf("%.80s: %v", sql, a.errors)
		}
	}
}

// A file of 100 bytes has 2^31 rows, all null.
func TestNullsOfParquetAreBounded(t *testing.T) {
	t.Parallel()
	const file = "PAR1\x16\x00\x16\x1e\x16\x1e\x16\xb1\xb8\xf7\xe3\f\x1c\x16\xfe\xff\xff\xff\x0f\x16\x00\x16\x06\x00\x00\v\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x16\x02" +
		"\x19\xfc\x02H\x04root\x16\x02\x00\x16\f&\x02\x18\x01x\x00\x16\xfe\xff\xff\xff\x0f\x19\xfc\x01\x19\xfc\x01<\x16\f6\x00\x16\xfe\xff\xff\xff\x0f&P&\b\x00\x00&\xfe\xff\xff\xff\x0f\x00\x00;\x00\x00\x00PAR1"
	a := run(t, Content{ReaderAt: strings.NewReader(file), Size: int64(len(file))}, "SELECT COUNT(*) FROM BlobStorage",
		"<Type>parquet</Type>", "", 50*time.Millisecond)
	if len(a.errors) != 1 || a.errors[0].name != "OperationTimedOut" || !a.errors[0].fatal {
		t.Errorf("errors %v", a.errors)
	}
}

// flushed is a client that counts how often it was sent what there is.
type flushed struct {
	*httptest.ResponseRecorder
	times int
}

func (f *flushed) FlushError() error { f.times++; return nil }

// A query that finds nothing for a long time sends its progress, so that clients and proxies do not give up.
func TestLongQueriesBegin(t *testing.T) {
	t.Parallel()
	request, err := ParseRequest(body("SELECT COUNT(*) FROM BlobStorage", "", ""), testTime)
	if err != nil {
		t.Fatal(err)
	}
	content := strings.Repeat("1\n", 100)
	q, err := request.Open(budget.New(t.Context(), budget.Request),
		Content{Reader: strings.NewReader(content), Size: int64(len(content))})
	if err != nil {
		t.Fatal(err)
	}
	out := &flushed{ResponseRecorder: httptest.NewRecorder()}
	q.client = &client{Writer: out, work: q.row.Work}
	if q.frames, err = newFrames(q.client); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if i == 5 {
			q.client.at = q.client.at.Add(-budget.FirstByte - time.Second)
		}
		if _, err := q.reader.next(); err != nil {
			t.Fatal(err)
		}
		if err := q.progress(); err != nil {
			t.Fatal(err)
		}
	}
	if out.times != 1 {
		t.Errorf("sent %d times", out.times)
	}
}

func TestLongStatementsAreRefused(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{"SELECT 1" + strings.Repeat("+1", 1<<18) + " FROM BlobStorage",
		"SELECT _1 FROM BlobStorage WHERE _1 IN (1" + strings.Repeat(",1", 1<<18) + ")"} {
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
	q, err := request.Open(budget.New(t.Context(), budget.Request),
		Content{Reader: strings.NewReader(content), Size: int64(len(content))})
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
		q, err := request.Open(budget.New(t.Context(), budget.Request),
			Content{Reader: io.MultiReader(strings.NewReader(begin), content), Size: 1 << 40})
		if err == nil {
			err = q.Run(io.Discard)
		}
		if err != nil || content.read > 2*maxRecord {
			t.Errorf("%q: %d bytes were read, %v", begin, content.read, err)
		}
	}
}
