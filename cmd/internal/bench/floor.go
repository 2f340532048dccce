package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

// AddFloor adds the flags --floor and --nodes to the verb bench, and the hidden verb that --floor runs in a separate
// process.
func AddFloor(cmd *cobra.Command, cfg *Config) {
	var floor bool
	var nodes int
	cmd.Long += `

--floor adds a bare HTTP server that checks one signature per request and gives the same answers from memory: the
ceiling on this machine.

--nodes adds a cluster of that many nodes on this machine, and sends all requests to its first node.`
	cmd.Flags().BoolVar(&floor, "floor", false,
		"measure the machine's ceiling in turns with the target and print shares of it")
	cmd.Flags().IntVar(&nodes, "nodes", 0, "measure a cluster of this many nodes, 3 to 7, in turns with the target")
	// Here and not in RunE: the command that measures does not know of floors and clusters, which only the laboratory
	// has.
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if nodes != 0 && (nodes < 3 || nodes > 7 || cfg.Versus != "") {
			return SettingsError{Cause: errors.New("--nodes must be from 3 to 7, without --vs")}
		}
		if nodes != 0 {
			cfg.cluster = func(ctx context.Context) (*Target, func(), error) { return startCluster(ctx, *cfg, nodes) }
		}
		// A process of its own, as the server has: in this one it would share the processor time that is measured.
		self, err := os.Executable()
		if floor && err == nil {
			cfg.floor = func() (*killrig.Process, *Target, error) {
				return startFloor(exec.Command(self, "bench", "floor-server"))
			}
		}
		return err
	}
	cmd.AddCommand(&cobra.Command{
		Use:    "floor-server",
		Short:  "Serve recorded answers after checking a signature (used by --floor)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s%s\n", floorReady, l.Addr())
			return NewFloorServer().Serve(cmd.Context(), l)
		},
	})
}

// startCluster starts a cluster in a new folder. The target is its first node; the function stops all of them.
func startCluster(ctx context.Context, cfg Config, nodes int) (*Target, func(), error) {
	dir, err := os.MkdirTemp(cfg.TempDir, "lazuli-bench-")
	if err != nil {
		return nil, nil, err
	}
	c, err := killrig.StartCluster(ctx, dir, nodes, cfg.Command)
	if err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	first := c.Nodes[0]
	stack, err := ParseConnectionString(first.ConnectionString())
	return &Target{Name: "cluster", Stack: stack, PID: first.Pid()}, func() { c.Close(); os.RemoveAll(dir) }, err
}

// maxSamples is the maximum number of responses that a floor server stores: a run records a few for each workload.
const maxSamples = 256

// Sample is one recorded answer.
type Sample struct {
	Status int                 `json:"status"`
	Header map[string][]string `json:"header"`
	// Body is the recorded body; without one the floor sends Size arbitrary bytes.
	Body []byte `json:"body"`
	Size int64  `json:"size"`
}

// FloorServer is the ceiling of what an HTTP server in this stack can do on this machine: a bare echo handler that
// reads the request, checks its Shared Key signature and answers a recorded sample.
type FloorServer struct {
	account string
	macs    sync.Pool // of hash.Hash
	buffers sync.Pool // of *[]byte

	mu      sync.RWMutex
	samples map[string]*Sample
}

// NewFloorServer makes a floor for the development account.
func NewFloorServer() *FloorServer {
	key, err := base64.StdEncoding.DecodeString(connstr.DevelopmentKey)
	if err != nil {
		panic("bench: development key is not base64: " + err.Error())
	}
	f := &FloorServer{account: connstr.DevelopmentAccount, samples: map[string]*Sample{}}
	f.macs.New = func() any { return hmac.New(sha256.New, key) }
	f.buffers.New = func() any { b := make([]byte, 256<<10); return &b }
	return f
}

// Handler returns the echo instance: PUT /samples/ID records an answer, everything else is answered by a sample.
func (f *FloorServer) Handler() http.Handler {
	e := echo.New()
	e.PUT("/samples/:id", f.record)
	e.Any("/*", f.answer)
	return e
}

// Serve answers on l until ctx ends.
func (f *FloorServer) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: f.Handler()} // no timeouts: they cost, and only the bench talks to it
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	if err := srv.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func (f *FloorServer) record(c echo.Context) error {
	s := new(Sample)
	if err := json.NewDecoder(http.MaxBytesReader(c.Response(), c.Request().Body, 2*maxKeep)).Decode(s); err != nil {
		return c.String(http.StatusBadRequest, err.Error())
	}
	if s.Status < 200 || s.Status > 599 || s.Size < 0 || s.Size > 1<<30 {
		return c.String(http.StatusBadRequest, "status or size out of range")
	}
	if s.Body == nil {
		s.Body = make([]byte, s.Size)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.samples) >= maxSamples {
		clear(f.samples)
	}
	f.samples[c.Param("id")] = s
	return c.NoContent(http.StatusCreated)
}

func (f *FloorServer) answer(c echo.Context) error {
	r := c.Request()
	buf := f.buffers.Get().(*[]byte)
	// The body is read as a server must: a floor that left it unread would be faster than any server can be.
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, *buf)
	f.buffers.Put(buf)
	if err != nil {
		return c.NoContent(http.StatusBadRequest)
	}
	// The signature is checked for the same reason: its hash is part of what each request must cost.
	if !f.signed(r, strings.HasPrefix(r.URL.Path, floorBase(Table))) {
		return c.NoContent(http.StatusForbidden)
	}
	f.mu.RLock()
	s := f.samples[r.Header.Get(sampleHeader)]
	f.mu.RUnlock()
	// 404 shows as errors in the table: the floor has no recorded answer for this class of requests.
	if s == nil {
		return c.NoContent(http.StatusNotFound)
	}
	w := c.Response()
	h := w.Header()
	for name, values := range s.Header {
		h[name] = values
	}
	if s.Status == http.StatusNoContent || s.Status == http.StatusNotModified {
		return c.NoContent(s.Status)
	}
	h.Set("Content-Length", strconv.Itoa(len(s.Body)))
	w.WriteHeader(s.Status)
	_, err = w.Write(s.Body)
	return err
}

// signed checks the Shared Key signature in the form of the Table service or of the other two.
func (f *FloorServer) signed(r *http.Request, table bool) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "SharedKey "+f.account+":")
	if !ok {
		return false
	}
	// The string to sign, built by hand and without allocation: what the floor spends here is taken from the distance
	// between it and the server.
	t := make([]byte, 0, 512)
	t = append(t, r.Method...)
	if table {
		t = fmt.Appendf(t, "\n\n%s\n%s\n", r.Header.Get("Content-Type"), r.Header.Get(dateHeader))
		t = f.appendResource(t, r)
	} else {
		// Content-Encoding and Content-Language are empty; then follow length, MD5, type, and seven headers that the
		// generator does not send. https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
		t = append(t, "\n\n\n"...)
		if r.ContentLength > 0 {
			t = strconv.AppendInt(t, r.ContentLength, 10)
		}
		t = append(t, "\n\n"...)
		t = append(t, r.Header.Get("Content-Type")...)
		t = append(t, "\n\n\n\n\n\n\n"...)
		t = f.appendMSHeaders(t, r)
		t = f.appendResource(t, r)
		t = appendSortedQuery(t, r)
	}
	mac := f.macs.Get().(hash.Hash)
	mac.Reset()
	mac.Write(t)
	var sum [sha256.Size]byte
	// t has been hashed and is written over.
	want := base64.StdEncoding.AppendEncode(t[:0], mac.Sum(sum[:0]))
	f.macs.Put(mac)
	return hmac.Equal(want, []byte(given))
}

func (f *FloorServer) appendMSHeaders(t []byte, r *http.Request) []byte {
	names := make([]string, 0, 8)
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Ms-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for i := range len(name) {
			t = append(t, lower(name[i]))
		}
		t = append(append(append(t, ':'), r.Header.Get(name)...), '\n')
	}
	return t
}

func (f *FloorServer) appendResource(t []byte, r *http.Request) []byte {
	t = append(append(t, '/'), f.account...)
	return append(t, r.URL.EscapedPath()...)
}

func appendSortedQuery(t []byte, r *http.Request) []byte {
	if r.URL.RawQuery == "" {
		return t
	}
	q := r.URL.Query()
	names := make([]string, 0, len(q))
	for name := range q {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t = append(append(append(append(t, '\n'), name...), ':'), q[name][0]...)
	}
	return t
}

// floorBase is the base path under which the floor is addressed as the given service.
func floorBase(s Service) string { return "/floor-" + s.String() }

// floorTarget is the floor at addr as a target.
func floorTarget(addr string, pid int) (*Target, error) {
	st, err := ParseConnectionString(connstr.Development)
	if err != nil {
		return nil, err
	}
	for svc := range serviceCount {
		st.Endpoints[svc] = Endpoint{Addr: addr, Host: addr, Base: floorBase(svc)}
	}
	return &Target{Name: "floor", Stack: st, PID: pid, samples: map[string]string{}}, nil
}

// recordSamples lets one worker work on a real target and teaches the floor the first answer of every class.
func recordSamples(e *env, w *Workload, floor *Target) error {
	captured := map[string]*Sample{}
	c := newConn(e.target)
	defer c.Close()
	c.capture = func(req *Request, res *Response) {
		if captured[req.Class] == nil {
			captured[req.Class] = newSample(req, res)
		}
	}
	// A worker numbered beyond the connections writes names that no other writes.
	wk := w.worker(e, len(e.conns)+1)
	if err := wk.do(c); err != nil {
		return fmt.Errorf("%s: recording answers for the floor: %w", w.Name, err)
	}
	floor.samples = map[string]string{}
	for class, s := range captured {
		id := w.Name + "-" + class
		if err := uploadSample(e.ctx, floor.Stack.Endpoints[Blob].Addr, id, s); err != nil {
			return err
		}
		floor.samples[class] = id
	}
	return nil
}

// newSample copies an answer, without the headers that belong to the connection.
func newSample(req *Request, res *Response) *Sample {
	s := &Sample{Status: res.Status, Header: map[string][]string{}, Size: res.Size}
	if req.Keep {
		s.Body = bytes.Clone(res.Body)
	}
	_, rest, _ := bytes.Cut(res.Head, crlf)
	for line := range bytes.SplitSeq(rest, crlf) {
		name, value, _ := bytes.Cut(line, []byte{':'})
		switch n := http.CanonicalHeaderKey(string(name)); n {
		case "Date", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "":
		default:
			s.Header[n] = append(s.Header[n], string(bytes.TrimSpace(value)))
		}
	}
	return s
}

func uploadSample(ctx context.Context, addr, id string, s *Sample) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+addr+"/samples/"+id, bytes.NewReader(b))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		return fmt.Errorf("floor refused a sample: %s", res.Status)
	}
	return nil
}

// floorReady is the prefix of the line in which a floor server prints its address.
const floorReady = "floor listening on "

// floorTimeout bounds the start of the floor server.
const floorTimeout = 2 * time.Minute

// startFloor runs the floor server in a separate process: cmd prints floorReady and the address once it listens.
func startFloor(cmd *exec.Cmd) (*killrig.Process, *Target, error) {
	pr, pw := io.Pipe()
	c, err := killrig.Start(cmd, pw)
	if err != nil {
		return nil, nil, err
	}
	// Room for one line, so that the reader does not hang on a floor that answered after the time limit.
	line := make(chan string, 1)
	go func() {
		sc := bufio.NewScanner(pr)
		if sc.Scan() {
			line <- sc.Text()
		}
		// Read on, or the child would block once the pipe is full.
		io.Copy(io.Discard, pr)
	}()
	select {
	case l := <-line:
		addr, ok := strings.CutPrefix(l, floorReady)
		if !ok {
			stop(c)
			return nil, nil, fmt.Errorf("floor server said %q", l)
		}
		t, err := floorTarget(addr, c.Pid())
		if err != nil {
			// A child without target would run after the program.
			stop(c)
		}
		return c, t, err
	case <-c.Exited():
		return nil, nil, fmt.Errorf("floor server ended: %v\n%s", c.Err(), c.Output())
	case <-time.After(floorTimeout):
		stop(c)
		return nil, nil, errors.New("floor server did not start")
	}
}
