package content

import (
	"bytes"
	"crypto/md5"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

func openExtents(t *testing.T) *extent.Store {
	t.Helper()
	s, err := extent.Open(t.TempDir(), extent.Options{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A reader of content with gaps, from any offset and in any way, encrypted or not.
func TestReaderOfSparseContent(t *testing.T) {
	t.Parallel()
	extents := openExtents(t)
	scopes, err := encryption.OpenScopes("", func(string) []string { return []string{"s"} })
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []encryption.ID{{}, {Scope: "s"}} {
		// zeros, "abcde", zeros, "fghij", zeros
		want := make([]byte, 40)
		x := NewExtract(0, 40)
		for i, text := range []string{"abcde", "fghij"} {
			sealer, err := scopes.NewSealer("a", id, nil)
			if err != nil {
				t.Fatal(err)
			}
			up, err := Store(extents, strings.NewReader(text), 5, Options{Sealer: sealer})
			if err != nil {
				t.Fatal(err)
			}
			up.Close()
			p := up.Pieces(nil)[0]
			p.Start = int64(10 + 15*i)
			x.Add(&p)
			copy(want[p.Start:], text)
		}
		block, err := scopes.Unlock("a", id, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.Open(extents, id, block)
		if err != nil {
			t.Fatal(err)
		}
		if err := iotest.TestReader(r, want); err != nil { // Read, Seek and ReadAt
			t.Errorf("%+v: %v", id, err)
		}
		if err := r.Rewind(); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := r.CopyTo(&out); err != nil || !bytes.Equal(out.Bytes(), want) {
			t.Errorf("%+v: copied %q, %v", id, out.Bytes(), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if id != (encryption.ID{}) {
			if _, err := x.Open(extents, id, nil); !errors.Is(err, encryption.ErrKeyMissing) {
				t.Errorf("without a cipher: %v", err)
			}
		}
	}
}

// A body that ends early, or fails, is distinguished from a failure of the extents.
func TestStoreReportsTheBody(t *testing.T) {
	t.Parallel()
	extents := openExtents(t)
	broken := errors.New("broken")
	for n, body := range map[int64]io.Reader{5: strings.NewReader("abc"), ChunkSize + 5: strings.NewReader("abc"),
		6: iotest.ErrReader(broken)} {
		_, err := Store(extents, body, n, Options{MD5: true})
		var e *BodyError
		if !errors.As(err, &e) {
			t.Errorf("%d bytes: %v, want a BodyError", n, err)
		}
	}
}

// Many large uploads at a time compute their MD5 together.
func TestMD5OfParallelUploads(t *testing.T) {
	t.Parallel()
	extents := openExtents(t)
	const uploads = 3 * parallelMD5
	var reading, done sync.WaitGroup
	reading.Add(uploads)
	for i := range uploads {
		done.Go(func() {
			p := bytes.Repeat([]byte{byte(i), 1, 2}, (ChunkSize+1000*i)/2)
			first := &waitingReader{Reader: bytes.NewReader(p), wait: func() { reading.Done(); reading.Wait() }}
			up, err := Store(extents, first, int64(len(p)), Options{MD5: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer up.Close()
			if want := md5.Sum(p); !bytes.Equal(up.MD5, want[:]) {
				t.Errorf("upload %d: MD5 %x, want %x", i, up.MD5, want)
			}
		})
	}
	done.Wait()
	if n := hashing.Load(); n != 0 {
		t.Errorf("%d hashes are counted as under way", n)
	}
}

// waitingReader calls wait before its first Read.
type waitingReader struct {
	io.Reader
	wait func()
}

func (r *waitingReader) Read(p []byte) (int, error) {
	if r.wait != nil {
		r.wait()
		r.wait = nil
	}
	return r.Reader.Read(p)
}
