package content

import (
	"crypto/md5"
	"fmt"
	"io"
	"sync"

	"github.com/minio/crc64nvme"

	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// ChunkSize is the size in bytes of the buffers that bodies pass through. A body of at most this size is in memory as a
// whole.
const ChunkSize = 256 << 10

// Chunk is such a buffer.
type Chunk = [ChunkSize]byte

var chunks = sync.Pool{New: func() any { return new(Chunk) }}

// TakeChunk returns a buffer from the pool. [FreeChunk] puts it back.
func TakeChunk() *Chunk { return chunks.Get().(*Chunk) }

// FreeChunk puts a buffer back.
func FreeChunk(c *Chunk) { chunks.Put(c) }

// Log takes content that is made durable with a transaction: a [store.Tx] is one. See extent.Writer.CommitLogged.
type Log interface{ Attach(key, value []byte) }

// Upload is content that does not belong to a blob yet. It is durable, or becomes so with the transaction that makes a
// record refer to it. Close it once that record is committed, or will not be.
type Upload struct {
	// Length is in bytes.
	Length int64
	// MD5 is nil unless it was asked for.
	MD5 []byte
	// CRC64 is Azure's CRC64 (the NVMe polynomial), valid if HasCRC64.
	CRC64    uint64
	HasCRC64 bool

	w      *extent.Writer
	slices []extent.Slice
	logged extent.Logged
	inLog  bool // logged must go to the log
	sealer *encryption.Sealer
	sealed *Chunk // the buffer of encrypted bytes
}

// Options say what [Store] does beside storing.
type Options struct {
	// MD5 and CRC64 ask for the checksums.
	MD5, CRC64 bool
	// Sealer encrypts the content; nil stores it as it is.
	Sealer *encryption.Sealer
}

// BodyError is the error of a body that could not be read to its end.
type BodyError struct{ Err error }

// Error implements error.
func (e *BodyError) Error() string { return fmt.Sprintf("read content: %v", e.Err) }

// Unwrap returns the error of the reader.
func (e *BodyError) Unwrap() error { return e.Err }

// Store copies n bytes of body into extents. If body fails or ends early the error is a [*BodyError]. On error there is
// nothing to close.
func Store(extents *extent.Store, body io.Reader, n int64, o Options) (_ *Upload, err error) {
	u := &Upload{Length: n, HasCRC64: o.CRC64, sealer: o.Sealer}
	defer func() {
		if err != nil {
			u.Close()
		}
	}()
	if n == 0 {
		u.sum(nil, o.MD5)
		return u, nil
	}
	u.w = extents.NewWriter(n)
	switch {
	case n <= ChunkSize:
		err = u.copySmall(body, o.MD5)
	case o.MD5 || o.Sealer != nil:
		err = u.copyLarge(body, o.MD5)
	default:
		err = u.copyDirect(body)
	}
	if err != nil {
		return nil, err
	}
	u.slices, u.logged, u.inLog, err = u.w.CommitLogged()
	return u, err
}

// Sum returns the checksums of bytes that are not stored.
func Sum(b []byte, o Options) *Upload {
	u := &Upload{Length: int64(len(b)), HasCRC64: o.CRC64}
	u.sum(b, o.MD5)
	return u
}

func (u *Upload) sum(b []byte, wantMD5 bool) {
	if wantMD5 {
		sum := md5.Sum(b)
		u.MD5 = sum[:]
	}
	if u.HasCRC64 {
		u.CRC64 = crc64nvme.Checksum(b)
	}
}

// Close releases what u holds. The content stays; without a record that refers to it, compaction removes it.
func (u *Upload) Close() {
	if u.sealed != nil {
		FreeChunk(u.sealed)
		u.sealed = nil
	}
	if u.w != nil {
		_ = u.w.Close()
		u.w = nil
	}
}

// Encryption identifies the key that the content is encrypted with.
func (u *Upload) Encryption() encryption.ID { return u.sealer.ID() }

// Pieces returns the content as one piece; none if it is empty. log is the transaction that makes a record refer to the
// piece: it takes what is not durable yet.
func (u *Upload) Pieces(log Log) []Piece {
	if u.Length == 0 {
		return nil
	}
	if u.inLog {
		log.Attach(u.logged.Key, u.logged.Value)
	}
	return []Piece{{Length: u.Length, Slices: u.slices, Seal: u.sealer.Seal(), Encryption: u.sealer.ID()}}
}

func (u *Upload) copySmall(body io.Reader, wantMD5 bool) error {
	chunk := TakeChunk()
	defer FreeChunk(chunk)
	b := chunk[:u.Length]
	if _, err := io.ReadFull(body, b); err != nil {
		return &BodyError{err}
	}
	u.sum(b, wantMD5)
	return u.write(b)
}

// write stores the next bytes of the content, at most ChunkSize, encrypted if they are to be. It leaves b as it is.
func (u *Upload) write(b []byte) error {
	if u.sealer != nil {
		if u.sealed == nil {
			u.sealed = TakeChunk()
		}
		out := u.sealed[:len(b)]
		u.sealer.Encrypt(out, b)
		b = out
	}
	_, err := u.w.Write(b)
	return err
}

// copyDirect reads the body into the records of the extent, where it stays until it is written.
func (u *Upload) copyDirect(body io.Reader) error {
	r := summingReader{in: body, left: u.Length, u: u}
	_, err := u.w.ReadFrom(&r)
	return err
}

// summingReader reads a body of a known length and adds to the CRC64 of u. Its errors are a [*BodyError].
type summingReader struct {
	in   io.Reader
	left int64
	u    *Upload
}

// Read implements io.Reader.
func (r *summingReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.in.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if r.u.HasCRC64 {
		r.u.CRC64 = crc64nvme.Update(r.u.CRC64, p[:n])
	}
	switch {
	case r.left == 0 || err == nil: // after the last byte the body is complete, whatever follows
		return n, nil
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, &BodyError{err}
}

// copyLarge is copyDirect for a body of which the MD5 is wanted, or that is encrypted. It reads and writes in this
// goroutine while another computes the MD5, which is the slowest of the steps. At most four chunks are in use.
func (u *Upload) copyLarge(body io.Reader, wantMD5 bool) error {
	type filled struct {
		chunk *Chunk
		n     int
	}
	var full chan filled
	var free chan *Chunk
	hashed := make(chan []byte, 1)
	// Chunks go around: filled, hashed, filled again. The hash is the slowest, so some of them wait for it while the next
	// ones are written; their number bounds the memory.
	const ring = 4
	// A hash cannot change its kind, so it is chosen when all but one of the chunks are filled: of uploads that begin
	// together the first ones would find too few others.
	chosen, before := make(chan struct{}), ring-1
	if wantMD5 {
		hashing.Add(1)
		defer hashing.Add(-1)
		full, free = make(chan filled, ring), make(chan *Chunk, ring)
		for range ring {
			free <- TakeChunk()
		}
		go func() {
			<-chosen
			h, release := newMD5()
			defer release()
			for f := range full {
				h.Write(f.chunk[:f.n])
				free <- f.chunk
			}
			hashed <- h.Sum(nil)
		}()
		defer func() {
			// All chunks come back before they are freed, also after an error: the other goroutine may still read one.
			for range ring {
				FreeChunk(<-free)
			}
		}()
	}
	var chunk *Chunk
	if !wantMD5 {
		chunk = TakeChunk()
		defer FreeChunk(chunk)
	}
	err := func() error {
		for left := u.Length; left > 0; {
			if wantMD5 {
				chunk = <-free
			}
			b := chunk[:min(left, ChunkSize)]
			n, err := io.ReadFull(body, b)
			if err == nil {
				left -= int64(n)
				if u.HasCRC64 {
					u.CRC64 = crc64nvme.Update(u.CRC64, b)
				}
				err = u.write(b)
			} else {
				err = &BodyError{err}
			}
			// Sent in any case: the chunk must come back to free, or the deferred loop would wait for it without end.
			if wantMD5 {
				full <- filled{chunk, n}
				if before--; before == 0 {
					close(chosen)
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	}()
	if wantMD5 {
		// Also after an error, to end the goroutine; the sum is then of no use.
		close(full)
		if before > 0 {
			close(chosen)
		}
		u.MD5 = <-hashed
	}
	return err
}
