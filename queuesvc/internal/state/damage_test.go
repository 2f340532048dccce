package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// damaged is the folder of a stopped server with queues of three messages each, in which a test damages files.
type damaged struct {
	t   *testing.T
	dir string
	q   map[string]*Queue // as they were
}

// stopped makes the folder. clean says whether the process ended in order, or was killed.
func stopped(t *testing.T, clean bool, queues ...string) *damaged {
	t.Helper()
	d := &damaged{t: t, dir: filepath.Join(t.TempDir(), "queues"), q: make(map[string]*Queue)}
	n := startNATS(t, natsserver.Config{Dir: d.dir})
	s := open(t, n)
	for _, name := range queues {
		q := create(t, s, name)
		for i := range 3 {
			putOne(t, q, fmt.Sprintf("%s-%d-%s", name, i, strings.Repeat("x", 100)), epoch.Add(time.Duration(i)))
		}
		d.q[name] = q
	}
	if clean {
		s.Close()
		n.Close()
		return d
	}
	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(killed, os.DirFS(d.dir)); err != nil {
		t.Fatal(err)
	}
	d.dir = killed
	return d
}

func (d *damaged) file(stream, name string) string {
	return filepath.Join(d.dir, "jetstream", "$G", "streams", stream, name)
}

// flip changes one bit of the byte at a distance from a text in a file.
func (d *damaged) flip(path, text string, distance int) {
	d.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		d.t.Fatal(err)
	}
	at := bytes.Index(data, []byte(text))
	if at < 0 {
		d.t.Fatalf("%s does not hold %q", path, text)
	}
	data[at+distance] ^= 4
	if err := os.WriteFile(path, data, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// start opens the queues.
func (d *damaged) start() (*Store, *natsserver.Server) {
	d.t.Helper()
	n := startNATS(d.t, natsserver.Config{Dir: d.dir})
	return open(d.t, n), n
}

// repair repairs the folder, after which the check must find nothing.
func (d *damaged) repair() {
	d.t.Helper()
	n := startNATS(d.t, natsserver.Config{Dir: d.dir})
	defer n.Close()
	did := 0
	if err := Repair(ctx, n, func(string) { did++ }); err != nil {
		d.t.Fatal(err)
	}
	if did == 0 {
		d.t.Error("the repair did nothing")
	}
	if _, list := problems(d.t, n); list != nil {
		d.t.Errorf("after a repair the check finds %v", list)
	}
}

// drain gets all messages of a queue and returns the beginnings of their bodies.
func drain(t *testing.T, q *Queue) (bodies []string) {
	t.Helper()
	for _, m := range allMessages(t, q) {
		body, _, _ := strings.Cut(string(m.Body), "-x")
		bodies = append(bodies, body)
	}
	return bodies
}

// allMessages gets all visible messages of a queue.
func allMessages(t *testing.T, q *Queue) (all []Message) {
	t.Helper()
	for {
		list, err := q.Get(ctx, 32, time.Hour, epoch.Add(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			return all
		}
		all = append(all, list...)
	}
}

func wantBodies(t *testing.T, q *Queue, want ...string) {
	t.Helper()
	if got := drain(t, q); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("queue %s has %v, want %v", q.Name, got, want)
	}
}

// A damaged record of the catalog costs no message: queues that the catalog knows are served, and the queue whose record cannot be read is
// refused and kept. Before, all streams were removed as belonging to no queue.
func TestADamagedCatalogCostsNoMessage(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{true, false} {
		for _, c := range []struct {
			name, after string
			distance    int
		}{
			{"payload", `"incarnation":`, 3},
			{"length", "lazuli.catalog.", -21},
		} {
			t.Run(fmt.Sprint(c.name, " clean ", clean), func(t *testing.T) {
				t.Parallel()
				d := stopped(t, clean, "first", "second", "third")
				// The last record of the queue counts.
				path := d.file(catalogStream, "msgs/1.blk")
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				at := bytes.LastIndex(data, []byte("lazuli.catalog.acct.queue.second"))
				at += bytes.Index(data[at:], []byte(c.after))
				data[at+c.distance] ^= 4
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
				for range 2 { // also at the next start
					s, n := d.start()
					for name, before := range d.q {
						q, err := s.Queue(ctx, "acct", name)
						if name == "second" {
							wantErr(t, "using the queue whose record is damaged", err, ErrDamaged)
							_, err := s.Create(ctx, "acct", name, nil)
							wantErr(t, "creating it", err, ErrDamaged)
						} else if err != nil {
							t.Errorf("queue %s: %v", name, err)
						} else if n := count(t, q, epoch); n != 3 {
							t.Errorf("queue %s has %d messages, want 3", name, n)
						}
						if _, err := os.Stat(d.file(before.stream, "msgs/1.blk")); err != nil {
							t.Errorf("the stream of queue %s: %v", name, err)
						}
					}
					if _, list := problems(t, n); len(list) == 0 {
						t.Error("the check finds nothing")
					}
					s.Close()
					n.Close()
				}
				d.repair()
				s, _ := d.start()
				for name := range d.q {
					wantBodies(t, find(t, s, name), name+"-0", name+"-1", name+"-2")
				}
			})
		}
	}
}

// A queue whose stream's configuration is damaged is served: the configuration is known, and the records are there.
func TestADamagedStreamConfiguration(t *testing.T) {
	t.Parallel()
	d := stopped(t, false, "orders", "others")
	d.flip(d.file(d.q["orders"].stream, "meta.inf"), "Created", 2)
	d.flip(d.file(catalogStream, "meta.inf"), "Created", 2)
	s, _ := d.start()
	wantBodies(t, find(t, s, "orders"), "orders-0", "orders-1", "orders-2")
	wantBodies(t, find(t, s, "others"), "others-0", "others-1", "others-2")
}

// A message whose body is damaged is set aside: the others are handed out, at once, and the check shows it.
func TestADamagedMessageIsSetAside(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprint("clean ", clean), func(t *testing.T) {
			t.Parallel()
			d := stopped(t, clean, "orders")
			d.flip(d.file(d.q["orders"].stream, "msgs/1.blk"), "orders-1-", 30)
			s, n := d.start()
			q := find(t, s, "orders")
			wantBodies(t, q, "orders-0", "orders-2")
			if q.SetAside() != 1 || count(t, q, epoch.Add(time.Second)) != 3 {
				t.Errorf("%d messages are set aside, want 1", q.SetAside())
			}
			if list, err := q.PeekAll(ctx, 32, epoch.Add(time.Second)); len(list) != 2 || err != nil {
				t.Errorf("%d messages are shown, %v; want 2", len(list), err)
			}
			if _, list := problems(t, n); len(list) != 1 || !strings.Contains(list[0], "checksum") {
				t.Errorf("the check finds %v", list)
			}
			putOne(t, q, "more", epoch)
			wantBodies(t, q, "more")
			s.Close()
			n.Close()
			d.repair()
			s, _ = d.start()
			q = find(t, s, "orders")
			wantBodies(t, q)
			if n := count(t, q, epoch.Add(time.Second)); n != 3 || q.SetAside() != 0 {
				t.Errorf("%d messages after a repair, %d of them set aside; want the 3 that can be read", n, q.SetAside())
			}
			kept, err := filepath.Glob(filepath.Join(d.dir, "damaged", "*.message"))
			if err != nil || len(kept) != 1 {
				t.Fatalf("kept %v, %v", kept, err)
			}
			if text, err := os.ReadFile(kept[0]); err != nil || !bytes.Contains(text, []byte("orders-1-x")) {
				t.Errorf("the kept record is %q, %v", text, err)
			}
		})
	}
}

// A queue that only has messages which cannot be read keeps its stream when the process stops: an operator can still see and keep them.
func TestADamagedMessageKeepsTheStream(t *testing.T) {
	t.Parallel()
	d := stopped(t, true, "orders")
	d.flip(d.file(d.q["orders"].stream, "msgs/1.blk"), "orders-1-", 30)
	s, n := d.start()
	s.parkTime = time.Minute
	q := find(t, s, "orders")
	for _, m := range allMessages(t, q) {
		if err := q.Delete(ctx, m.ID, m.Receipt, epoch); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	n.Close()
	s, n = d.start()
	q = find(t, s, "orders")
	wantBodies(t, q)
	if got := count(t, q, epoch); got != 1 || q.SetAside() != 1 {
		t.Errorf("%d messages after a restart, %d of them set aside; want the 1 that cannot be read", got, q.SetAside())
	}
	if _, list := problems(t, n); len(list) != 1 || !strings.Contains(list[0], "checksum") {
		t.Errorf("the check finds %v", list)
	}
}

// Damage that comes while the server runs is found when the message is read.
func TestAMessageDamagedWhileRunning(t *testing.T) {
	t.Parallel()
	d := stopped(t, true, "orders")
	s, _ := d.start() // JetStream has not read the block yet
	d.flip(d.file(d.q["orders"].stream, "msgs/1.blk"), "orders-1-", 30)
	q := find(t, s, "orders")
	wantBodies(t, q, "orders-0", "orders-2")
	putOne(t, q, "more", epoch)
	wantBodies(t, q, "more")
}

// Damage that swallows records which had been synced stops the use of that queue alone, until somebody has accepted the loss.
func TestLostRecordsStopTheQueue(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprint("clean ", clean), func(t *testing.T) {
			t.Parallel()
			d := stopped(t, clean, "orders", "others")
			path := d.file(d.q["orders"].stream, "msgs/1.blk")
			d.flip(path, "\r\n", -30-len(d.q["orders"].prefix)-16) // the length of the first record
			s, n := d.start()
			q := find(t, s, "orders")
			_, err := q.Get(ctx, 1, time.Minute, epoch)
			wantErr(t, "getting", err, ErrDamaged)
			_, err = q.Put(ctx, nil, 0, Forever, epoch)
			wantErr(t, "putting", err, ErrDamaged)
			_, err = q.ApproximateCount(ctx, epoch)
			wantErr(t, "counting", err, ErrDamaged)
			wantBodies(t, find(t, s, "others"), "others-0", "others-1", "others-2")
			if _, list := problems(t, n); len(list) != 1 || !strings.Contains(list[0], "damaged") {
				t.Errorf("the check finds %v", list)
			}
			s.Close()
			n.Close()
			d.repair()
			s, _ = d.start()
			wantBodies(t, find(t, s, "orders"), "orders-1", "orders-2")
		})
	}
}

// What an incomplete write leaves at the end is no damage.
func TestATornEndIsCutOff(t *testing.T) {
	t.Parallel()
	d := stopped(t, false, "orders")
	path := d.file(d.q["orders"].stream, "msgs/1.blk")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := append(data, data[:len(data)/5]...)
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	s, n := d.start()
	wantBodies(t, find(t, s, "orders"), "orders-0", "orders-1", "orders-2")
	if _, list := problems(t, n); list != nil {
		t.Errorf("the check finds %v", list)
	}
	if _, err := os.Stat(filepath.Join(d.dir, "damaged")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was kept as damaged: %v", err)
	}
}

// The end of a stream disappears while the server runs, and the server reads its files again. Nothing on disk shows that records are missing, but
// the process knows which were synced: the queue is refused, also after a start, until a person accepts the loss.
func TestBlocksLostWhileRunning(t *testing.T) {
	t.Parallel()
	d := stopped(t, true, "orders", "others")
	s, n := d.start()
	q, other := find(t, s, "orders"), find(t, s, "others")
	putOne(t, q, "orders-3-x", epoch.Add(3))
	putOne(t, other, "others-3-x", epoch.Add(3))
	if err := os.Remove(d.file(q.stream, "msgs/1.blk")); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Put(ctx, []byte("y"), 0, Forever, epoch); !errors.Is(err, ErrStorage) {
		t.Errorf("putting, with the block gone: %v, want ErrStorage", err)
	}
	eventually(t, s.Failed)
	_, err := q.Put(ctx, []byte("y"), 0, Forever, epoch)
	wantErr(t, "putting after the server has read its files again", err, ErrDamaged)
	_, err = q.Get(ctx, 1, time.Minute, epoch.Add(time.Second))
	wantErr(t, "getting", err, ErrDamaged)
	_, err = q.PeekAll(ctx, 32, epoch.Add(time.Second))
	wantErr(t, "peeking", err, ErrDamaged)
	wantBodies(t, other, "others-0", "others-1", "others-2", "others-3")
	if _, queues := s.Damage(); queues != 1 {
		t.Errorf("%d queues are damaged, want 1", queues)
	}
	s.Close()
	n.Close()

	s, n = d.start()
	_, err = find(t, s, "orders").Get(ctx, 1, time.Minute, epoch.Add(time.Second))
	wantErr(t, "getting after a start", err, ErrDamaged)
	s.Close()
	n.Close()
	d.repair()
	s, _ = d.start()
	putOne(t, find(t, s, "orders"), "new", epoch)
	wantBodies(t, find(t, s, "orders"), "new")
}

// A record whose length is damaged while the server runs: JetStream cuts off the rest of the block when it reads it. The next change notices that
// the file has become shorter, and the loss is as one that is found at a start.
func TestALengthDamagedWhileRunning(t *testing.T) {
	t.Parallel()
	d := stopped(t, true, "orders", "others")
	s, n := d.start() // JetStream has not read the block yet
	q, other := find(t, s, "orders"), find(t, s, "others")
	d.flip(d.file(q.stream, "msgs/1.blk"), "orders-1-", 0-d.length(q, "orders-1-"))
	list, err := q.Get(ctx, 32, time.Minute, epoch.Add(time.Second))
	for _, m := range list {
		if !strings.HasPrefix(string(m.Body), "orders-0-") {
			t.Errorf("%.20s is handed out", m.Body)
		}
	}
	wantErr(t, "getting", err, ErrStorage)
	eventually(t, s.Failed)
	_, err = q.Put(ctx, []byte("y"), 0, Forever, epoch)
	wantErr(t, "putting after the server has read its files again", err, ErrDamaged)
	wantBodies(t, other, "others-0", "others-1", "others-2")
	s.Close()
	n.Close()
	s, n = d.start()
	_, err = find(t, s, "orders").Get(ctx, 1, time.Minute, epoch.Add(time.Second))
	wantErr(t, "getting after a start", err, ErrDamaged)
	s.Close()
	n.Close()
	d.repair()
	s, _ = d.start()
	putOne(t, find(t, s, "orders"), "new", epoch)
}

// length returns the distance from the length of the record with a body to the body.
func (d *damaged) length(q *Queue, body string) int {
	d.t.Helper()
	data, err := os.ReadFile(d.file(q.stream, "msgs/1.blk"))
	if err != nil {
		d.t.Fatal(err)
	}
	at := bytes.Index(data, []byte(body))
	subject := bytes.LastIndex(data[:at], []byte(q.prefix))
	return at - subject + 22 // the header of a record: length, sequence, time, length of the subject
}
