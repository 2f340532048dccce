package extent

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

func BenchmarkCommit4KiB(b *testing.B) {
	p := random(1, 4096)
	for _, writers := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := open(b, b.TempDir(), Options{})
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range writers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						w := s.NewWriter(4096)
						w.Write(p)
						if _, err := w.Commit(); err != nil {
							b.Error(err)
						}
						w.Close()
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

// zeros is a reader without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func BenchmarkWrite64MiB(b *testing.B) {
	const size = 64 << 20
	for _, writers := range []int{1, 4, 8} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := open(b, b.TempDir(), Options{Grace: -1})
			b.SetBytes(size * int64(writers))
			b.ReportAllocs()
			for range b.N {
				var wg sync.WaitGroup
				for range writers {
					wg.Go(func() {
						w := s.NewWriter(size)
						defer w.Close()
						if _, err := io.Copy(w, io.LimitReader(zeros{}, size)); err != nil {
							b.Error(err)
						}
						if _, err := w.Commit(); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				if _, err := s.Compact(b.Context(), (&catalogue{}).owner(), CompactOptions{}); err != nil {
					b.Error(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkRead64MiB sends over a TCP connection, as the Blob service does: content that was read before, and content
// that was not.
func BenchmarkRead64MiB(b *testing.B) {
	const size = 64 << 20
	s := open(b, b.TempDir(), Options{})
	p := make([]byte, size)
	slices := store(b, s, p)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				buf := make([]byte, 1<<20)
				for {
					if _, err := c.Read(buf); err != nil {
						return
					}
				}
			}()
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for _, name := range []string{"again", "first"} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for range b.N {
				if name == "first" { // content that was just written and not read before
					b.StopTimer()
					slices = store(b, s, p)
					b.StartTimer()
				}
				r, err := s.NewReader(slices, 0, size)
				if err != nil {
					b.Fatal(err)
				}
				if n, err := r.WriteTo(c); n != size || err != nil {
					b.Fatal(n, err)
				}
				r.Close()
			}
		})
	}
}

func BenchmarkRead4KiB(b *testing.B) {
	s := open(b, b.TempDir(), Options{})
	slices := store(b, s, make([]byte, 4096))
	b.ReportAllocs()
	for b.Loop() {
		r, err := s.NewReader(slices, 0, 4096)
		if err != nil {
			b.Fatal(err)
		}
		if n, err := r.WriteTo(io.Discard); n != 4096 || err != nil {
			b.Fatal(n, err)
		}
		r.Close()
	}
}

// BenchmarkManifest changes the list of the extents of 10 TB, all of which are in a tier, on the disk: three times for
// 256 MiB of content.
func BenchmarkManifest(b *testing.B) {
	const extents = 10 << 40 / (256 << 20)
	dir := b.TempDir()
	m := &manifest{fs: disk.OS, dir: dir, durable: true, list: listing{ID: newFolderID(), Extents: map[string]listed{}}}
	for i := range uint64(extents) {
		m.list.Extents[idText(1796073210+i*997)] = listed{Size: 268435456 + int64(i), Finished: true,
			Sum: strings.Repeat("0123456789abcdef", 4)}
	}
	for b.Loop() {
		if err := m.finished(7, listed{Size: 268435456}); err != nil {
			b.Fatal(err)
		}
	}
	info, err := os.Stat(m.path())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size()), "bytes")
}
