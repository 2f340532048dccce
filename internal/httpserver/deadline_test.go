package httpserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// connected makes a connection as the listener would, and the client's end of it.
func connected(t *testing.T) (own *conn, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	own = ownConn(newConn(c.(*net.TCPConn), nil, nil, nil, nil))
	own.serving, own.headDue = true, true
	t.Cleanup(func() { _, _ = client.Close(), own.Close() })
	return own, client
}

// What requests do to the read deadline of their connection moves the system's deadline only if a read has to be
// interrupted.
func TestDeadlinesAreMovedRarely(t *testing.T) {
	t.Parallel()
	var armed []time.Time
	d := deadline{arm: func(t time.Time) error { armed = append(armed, t); return nil }}
	now := time.Now()
	past := time.Unix(1, 0)
	// request makes the calls of net/http. Its look-out for a closed connection begins before the handler has answered
	// (waits), or after.
	request := func(waits bool) {
		// idle, the first bytes, the head
		for _, wanted := range []time.Time{now.Add(2 * time.Minute), {}, now.Add(30 * time.Second)} {
			_ = d.set(wanted)
			if err := d.begin(); err != nil {
				t.Fatal(err)
			}
			d.end()
		}
		_ = d.set(time.Time{})
		if waits {
			if err := d.begin(); err != nil {
				t.Fatal(err)
			}
			_ = d.set(past)
			if got := armed[len(armed)-1]; !got.Equal(past) {
				t.Fatalf("the read that is under way has the deadline %v", got)
			}
			d.end()
		} else {
			_ = d.set(past)
			if err := d.begin(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("a read after the interruption: %v", err)
			}
		}
		_ = d.set(time.Time{})
	}
	for _, tt := range []struct {
		waits bool
		want  int
	}{{false, 0}, {true, 20}} {
		request(tt.waits)
		armed = nil
		for range 10 {
			request(tt.waits)
		}
		if len(armed) != tt.want {
			t.Errorf("waiting handlers %v: %d times in 10 requests, want %d", tt.waits, len(armed), tt.want)
		}
	}
	_ = d.set(past)
	if d.firedEarly(os.ErrDeadlineExceeded) || d.firedEarly(io.EOF) || d.firedEarly(nil) {
		t.Error("early, though it has passed")
	}
}

func TestReadDeadline(t *testing.T) {
	t.Parallel()
	own, client := connected(t)
	blocked := make(chan error, 1)
	read := func() {
		_, err := own.Read(make([]byte, 1))
		blocked <- err
	}
	// One that was moved away, or to a later time, does not end a read.
	for _, later := range []time.Time{{}, time.Now().Add(time.Hour)} {
		soon := time.Now().Add(20 * time.Millisecond)
		_ = own.SetReadDeadline(soon)
		_ = own.SetReadDeadline(later)
		go read()
		for time.Now().Before(soon.Add(20 * time.Millisecond)) {
			select {
			case err := <-blocked:
				t.Fatalf("ended: %v", err)
			case <-time.After(5 * time.Millisecond):
			}
		}
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := <-blocked; err != nil {
			t.Errorf("a byte came: %v", err)
		}
	}
	// One that was moved nearer ends it, and so does one that passes.
	go read()
	_ = own.SetReadDeadline(time.Unix(1, 0))
	if err := <-blocked; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("interrupted: %v", err)
	}
	_ = own.SetDeadline(time.Now().Add(time.Millisecond))
	if read(); !errors.Is(<-blocked, os.ErrDeadlineExceeded) {
		t.Error("a read outlasts its deadline")
	}
}

func TestWriteDeadline(t *testing.T) {
	t.Parallel()
	own, client := connected(t)
	// The system lets the buffer of a fast reader grow to 32 MiB, unless it is set.
	if err := client.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // more than the system takes at once
	soon := time.Now().Add(20 * time.Millisecond)
	_ = own.SetWriteDeadline(soon)
	_ = own.SetWriteDeadline(time.Time{})
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	write := func() {
		n, err := own.Write(sent)
		done <- result{n, err}
	}
	go write()
	<-time.After(time.Until(soon) + 20*time.Millisecond)
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(client, got); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil || r.n != len(sent) || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes sent, %v; equal: %v", r.n, len(sent), r.err, bytes.Equal(got, sent))
	}
	_ = own.SetWriteDeadline(time.Now().Add(time.Millisecond))
	if write(); !errors.Is((<-done).err, os.ErrDeadlineExceeded) {
		t.Error("a write outlasts its deadline")
	}
	// A file's, too: the one that is armed before it begins is the one that is wanted.
	_ = own.SetWriteDeadline(time.Time{})
	if err := own.tcp.writing.armExactly(); err != nil || !own.tcp.writing.armed.IsZero() {
		t.Error(err, own.tcp.writing.armed)
	}
}

// A clock that is decades behind gives deadlines that are years ago by other clocks, and none of them interrupts a
// call; the one that net/http sets to interrupt does.
func TestDeadlinesOfAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	for _, now := range []int64{60, 900_000_000} {
		d := deadline{arm: func(time.Time) error { return nil }}
		if err := d.set(time.Unix(now, 0)); err != nil {
			t.Fatal(err)
		}
		if err := d.begin(); err != nil {
			t.Errorf("with the clock at %d: %v", now, err)
		}
	}
	var d deadline
	if err := d.set(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := d.begin(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("interrupted: %v", err)
	}
}
