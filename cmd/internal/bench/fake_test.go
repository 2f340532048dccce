package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// fakeAzure answers the requests of all workloads without storing more than it must: it knows which resources exist and
// how deep each queue is. It refuses wrong signatures.
type fakeAzure struct {
	verify *FloorServer
	// fail, when set, may answer instead and then returns true.
	fail func(w http.ResponseWriter, r *http.Request) bool

	mu      sync.Mutex
	exists  map[string]bool
	depth   map[string]int
	served  atomic.Int64
	refused atomic.Int64
}

func newFakeAzure() *fakeAzure {
	return &fakeAzure{verify: NewFloorServer(), exists: map[string]bool{}, depth: map[string]int{}}
}

// leftovers are the resources that were created and not deleted.
func (f *fakeAzure) leftovers() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name := range f.exists {
		names = append(names, name)
	}
	return names
}

func (f *fakeAzure) handler(s Service) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !f.verify.signed(r, s == Table) {
			f.refused.Add(1)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		f.served.Add(1)
		w.Header().Set("Server", "Fake-Azurite/1")
		if f.fail != nil && f.fail(w, r) {
			return
		}
		resource := strings.Trim(strings.TrimPrefix(r.URL.Path, "/"+connstr.DevelopmentAccount), "/")
		switch s {
		case Table:
			f.table(w, r, resource, string(body))
		case Queue:
			f.queue(w, r, resource)
		case Blob:
			f.blob(w, r, resource, len(body))
		}
	})
}

func (f *fakeAzure) table(w http.ResponseWriter, r *http.Request, resource, body string) {
	switch {
	case resource == "Tables":
		f.create(w, strings.TrimSuffix(strings.TrimPrefix(body, `{"TableName":"`), `"}`))
	case strings.HasPrefix(resource, "Tables('"):
		f.remove(w, strings.TrimSuffix(strings.TrimPrefix(resource, "Tables('"), "')"), http.StatusNoContent)
	case resource == "$batch":
		if n := strings.Count(body, "POST http://"); n != batchSize {
			http.Error(w, fmt.Sprintf("%d operations", n), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		io.WriteString(w, strings.Repeat("HTTP/1.1 204 No Content\r\n", batchSize))
	case r.Method == http.MethodPost:
		if len(body) != entitySize {
			http.Error(w, "wrong size", http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(resource, "()"):
		w.Header().Set("x-ms-continuation-NextPartitionKey", "next")
		w.Write(make([]byte, partitionRows*entitySize)) // chunked, since it is long
	default:
		w.Write(make([]byte, entitySize))
	}
}

func (f *fakeAzure) queue(w http.ResponseWriter, r *http.Request, resource string) {
	name, rest, _ := strings.Cut(resource, "/")
	f.mu.Lock()
	also := 0 // further messages of the request
	if list := r.Header.Get(alsoHeader); list != "" {
		also = strings.Count(list, ",") + 1
	}
	wanted, _ := strconv.Atoi(r.URL.Query().Get("numofmessages"))
	depth := min(f.depth[name], wanted)
	switch r.Method {
	case http.MethodPost:
		f.depth[name] += 1 + also
	case http.MethodGet:
		f.depth[name] -= depth
	}
	f.mu.Unlock()
	switch {
	case rest == "" && r.Method == http.MethodPut:
		f.create(w, name)
	case rest == "":
		f.remove(w, name, http.StatusNoContent)
	case r.Method == http.MethodPost:
		w.Header().Set(alsoHeader, strconv.Itoa(also))
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodGet && depth == 0:
		io.WriteString(w, "<QueueMessagesList></QueueMessagesList>")
	case r.Method == http.MethodGet:
		const message = "<QueueMessage><MessageId>0a1b</MessageId><PopReceipt>a+/=</PopReceipt></QueueMessage>"
		io.WriteString(w, "<QueueMessagesList>"+strings.Repeat(message, depth)+"</QueueMessagesList>")
	case r.URL.Query().Get("popreceipt") != "a+/=" || rest != "messages/0a1b":
		w.WriteHeader(http.StatusBadRequest)
	default:
		w.Header().Set(alsoHeader, strings.TrimSuffix(strings.Repeat("Deleted,", also), ","))
		w.WriteHeader(http.StatusNoContent)
	}
}

func (f *fakeAzure) blob(w http.ResponseWriter, r *http.Request, resource string, size int) {
	container, blob, _ := strings.Cut(resource, "/")
	switch q := r.URL.Query(); {
	case q.Get("comp") == "list" && container != "":
		marker := map[bool]string{true: "<NextMarker>m 1</NextMarker>", false: "<NextMarker />"}[q.Get("marker") == ""]
		io.WriteString(w, strings.Repeat("<Blob>", listPage)+marker)
	case q.Get("comp") == "list":
		io.WriteString(w, "<EnumerationResults/>")
	case blob == "" && r.Method == http.MethodPut:
		f.create(w, container)
	case blob == "":
		f.remove(w, container, http.StatusAccepted)
	case r.Method == http.MethodPut && size == 0:
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == http.MethodPut:
		w.WriteHeader(http.StatusCreated)
	case strings.HasPrefix(blob, "l"):
		w.Write(make([]byte, largeBlob))
	default:
		w.Write(make([]byte, smallBlob))
	}
}

func (f *fakeAzure) create(w http.ResponseWriter, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.exists[name] = true
	w.WriteHeader(http.StatusCreated)
}

func (f *fakeAzure) remove(w http.ResponseWriter, name string, status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.exists[name] {
		status = http.StatusNotFound
	}
	delete(f.exists, name)
	w.WriteHeader(status)
}

// TestMain lets the test binary play the two child processes of a run: `serve` with the fake, and the floor.
func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch {
	case len(os.Args) > 1 && os.Args[1] == "serve":
		os.Exit(serveFake(ctx, os.Args[2:]))
	case len(os.Args) > 2 && os.Args[2] == "floor-server":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			os.Exit(1)
		}
		fmt.Println(floorReady + l.Addr().String())
		NewFloorServer().Serve(ctx, l)
		os.Exit(0)
	}
	check.FilesInMemory()
	os.Exit(m.Run())
}

// serveFake understands the flags that a run passes on to `lazuli serve`.
func serveFake(ctx context.Context, args []string) int {
	flags := map[string]string{}
	for i := 0; i+1 < len(args); i += 2 {
		flags[args[i]] = args[i+1]
	}
	if flags["--fail"] != "" {
		fmt.Fprintln(os.Stderr, "refusing to serve:", flags["--fail"])
		return 1
	}
	if err := os.MkdirAll(flags["--location"], 0o700); err != nil {
		return 1
	}
	fake := newFakeAzure()
	connection := "DefaultEndpointsProtocol=http;AccountName=" + connstr.DevelopmentAccount + ";AccountKey=" +
		connstr.DevelopmentKey
	for svc, name := range []string{"Blob", "Queue", "Table"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		go http.Serve(l, fake.handler(Service(svc)))
		connection += fmt.Sprintf(";%sEndpoint=http://%s/%s", name, l.Addr(), connstr.DevelopmentAccount)
	}
	fmt.Printf("  %s\nReady\n", connection)
	<-ctx.Done()
	return 0
}
