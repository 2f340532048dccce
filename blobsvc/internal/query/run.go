package query

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

// Content is the content to query.
type Content struct {
	io.Reader
	// ReaderAt is needed for Parquet, which is read from its end.
	io.ReaderAt
	// Size is the length in bytes.
	Size int64
}

// reader reads the records of a content.
type reader interface {
	// open reads the part before the first record and resolves fields. The error is an *Error or a recordError.
	open(fields []*field) error
	// next returns the next record, which is valid until the following call; io.EOF at the end, a recordError for a record
	// that cannot be read.
	next() (record, error)
	// position returns the offset of the last record, and the offset up to which the content has been read.
	position() (at, end int64)
}

// Query is a request that is open on its content.
type Query struct {
	statement *statement
	reader    reader
	writer    writer
	output    output
	size      int64
	frames    *frames

	row    row
	out    []byte  // output that has not been sent
	values []value // of one record
	rows   int64   // that were written
	told   int64   // the position of the last progress report
	client *client
	whole  bool // the content was read to its end
}

const (
	// flushSize is the size in bytes at which output is sent.
	flushSize = 64 << 10
	// progressEvery is the distance between two progress records in bytes. Tests of the official clients depend on it.
	progressEvery = 4 << 20
)

// Open begins to read the content. The error is an *Error if the query does not fit the content, or an error of the
// reader. The query spends w, and ends with the error of its context when that is done.
func (r *Request) Open(w *budget.Work, c Content) (*Query, error) {
	q := &Query{statement: r.statement, size: c.Size, output: r.output, row: row{Work: w}}
	switch r.input.format {
	case jsonFormat:
		q.reader = newJSONReader(c.Reader, r.input.separator, r.statement.from, w)
	case parquetFormat:
		q.reader = newParquetReader(c.ReaderAt, c.Size, r.statement.star, w)
	default:
		q.reader = newCSVReader(c.Reader, r.input.delimited, w)
	}
	switch r.output.format {
	case jsonFormat:
		q.writer = &jsonWriter{separator: r.output.separator}
	case arrowFormat:
		q.writer = newArrowWriter(r.output.schema)
	default:
		q.writer = newCSVWriter(r.output.delimited)
	}
	// Nothing was sent yet: an error at the beginning of the content still refuses the request.
	err := q.reader.open(r.statement.fields)
	if bad := (*recordError)(nil); errors.As(err, &bad) {
		err = &Error{CodeInput, bad.description}
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}

// client is the place where a response goes.
type client struct {
	io.Writer
	work *budget.Work
	at   time.Time // of the last write
}

// Write implements io.Writer. Its time is not work of the query.
func (c *client) Write(p []byte) (n int, err error) {
	err = c.work.Wait(func() error { n, err = c.Writer.Write(p); return err })
	c.at = c.work.Seen()
	return n, err
}

// flush sends what the connection has buffered.
func (c *client) flush() error {
	w, ok := c.Writer.(http.ResponseWriter)
	if !ok {
		return nil
	}
	err := c.work.Wait(http.NewResponseController(w).Flush)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}

// Run writes the response to w. It returns an error only if the content cannot be read, w cannot be written, or the
// context of Open's work is done. Errors in records are part of the response.
func (q *Query) Run(w io.Writer) (err error) {
	q.client = &client{Writer: w, work: q.row.Work}
	if q.frames, err = newFrames(q.client); err != nil {
		return err
	}
	q.out = q.writer.begin(make([]byte, 0, flushSize+flushSize/4), q.statement.names())
	if q.statement.split > 0 {
		err = q.split()
	} else {
		err = q.scan()
	}
	if errors.Is(err, budget.ErrExhausted) {
		err = errTimedOut
	}
	// The status was sent long ago: an error in the content is a record of the answer, and only what keeps the answer
	// from being written is returned.
	var bad *recordError
	switch {
	case errors.As(err, &bad):
		if err = q.fatal(bad); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		if q.out, err = q.writer.flush(q.out, true); err != nil {
			return err
		}
		if err := q.flush(); err != nil {
			return err
		}
		_, end := q.reader.position()
		if q.whole {
			end = q.size
		}
		if q.told != end || end == 0 {
			if err := q.frames.progress(end, q.size); err != nil {
				return err
			}
		}
	}
	return q.frames.end(q.size)
}

// fatal ends the response with an error record.
func (q *Query) fatal(bad *recordError) (err error) {
	if q.output.format == arrowFormat { // the records before are a whole stream
		if q.out, err = q.writer.flush(q.out, true); err != nil {
			return err
		}
	}
	if err := q.flush(); err != nil {
		return err
	}
	if q.output.defaulted && q.rows == 0 { // Azure returns an empty record
		if err := q.frames.result([]byte(q.output.separator)); err != nil {
			return err
		}
	}
	return q.frames.error(bad)
}

// scan runs the statement over all records. The error is a fatal recordError, or an error of reading or writing.
func (q *Query) scan() error {
	st := q.statement
	q.values = make([]value, len(st.columns))
	// The limit of an aggregate is for its one result, so that all records are read.
	for st.limit < 0 || q.rows < st.limit || st.aggregate != nil {
		r, err := q.reader.next()
		if err == io.EOF {
			q.whole = true
			break
		}
		if err == nil {
			err = q.take(r)
		}
		if err != nil {
			if err := q.skip(err); err != nil {
				return err
			}
		}
		if err := q.progress(); err != nil {
			return err
		}
	}
	if st.aggregate != nil && st.limit != 0 {
		q.rows++
		var err error
		q.out, err = q.writer.values(q.out, []value{st.aggregate.result()})
		return err
	}
	return nil
}

// skip reports a record that could not be processed. It returns an error that ends the query.
func (q *Query) skip(err error) error {
	var bad *recordError
	if !errors.As(err, &bad) || bad.fatal {
		return err
	}
	told := *bad
	told.at, _ = q.reader.position()
	return q.frames.error(&told)
}

// take evaluates the statement on one record. After an error the result contains no part of the record.
func (q *Query) take(record record) (err error) {
	st := q.statement
	q.row.record = record
	r := &q.row
	if st.where != nil {
		v, err := truth(st.where, r)
		if err != nil || v.kind != boolean || v.n == 0 {
			return err
		}
	}
	if st.aggregate != nil {
		return st.aggregate.add(r)
	}
	// An error truncates the output to this length: a part of a record must not be sent.
	before, held := len(q.out), q.writer.held()
	if st.star {
		q.out, err = q.writer.all(q.out, record)
	} else {
		length := 0
		for i, c := range st.columns {
			if q.values[i], err = c.eval(r); err != nil {
				return err
			}
			if length += len(q.values[i].b); length > maxRecord { // one column can be selected many times
				return errRecordTooLong
			}
		}
		q.out, err = q.writer.values(q.out, q.values)
	}
	if err == nil {
		// names of columns may be long, and are written for each record
		err = r.Spend(len(q.out) - before + q.writer.held() - held)
	}
	if err != nil {
		q.out = q.out[:before]
		return err
	}
	q.rows++
	return nil
}

// progress sends output if there is enough of it, and reports how far the content has been read.
func (q *Query) progress() error {
	if err := q.row.Spend(4); err != nil { // a file of a few bytes can have any number of rows of which none is written
		return err
	}
	_, end := q.reader.position()
	late := q.row.Seen().Sub(q.client.at) > budget.FirstByte
	if len(q.out)+q.writer.held() < flushSize && end-q.told < progressEvery && !late {
		return nil
	}
	var err error
	if q.out, err = q.writer.flush(q.out, false); err != nil {
		return err
	}
	if err := q.flush(); err != nil {
		return err
	}
	for end-q.told >= progressEvery {
		q.told += progressEvery
		if err := q.frames.progress(q.told, q.size); err != nil {
			return err
		}
	}
	// A query that finds nothing for long still has to send something, since clients give up.
	if late {
		if err := q.frames.progress(min(end, q.size), q.size); err != nil {
			return err
		}
		return q.client.flush()
	}
	return nil
}

func (q *Query) flush() error {
	if len(q.out) == 0 {
		return nil
	}
	err := q.frames.result(q.out)
	q.out = q.out[:0]
	return err
}

// split writes the lengths of batches of whole records. Each but the last has at least the requested length.
func (q *Query) split() error {
	from := int64(0)
	batch := func(to int64) (err error) {
		q.out, err = q.writer.values(q.out, []value{intValue(to - from)})
		from = to
		return err
	}
	for {
		_, err := q.reader.next()
		_, end := q.reader.position()
		if err == io.EOF {
			// The statistics at the end then report all bytes as read.
			q.whole = true
			if end > from {
				return batch(end)
			}
			return nil
		}
		// A batch ends with the record that reaches the length: a cut within it would give two halves of a record to two
		// readers.
		if err == nil && end-from >= q.statement.split {
			err = batch(end)
		}
		if err == nil {
			err = q.progress()
		}
		if err != nil {
			return err
		}
	}
}
