package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

// nodeMatrix damages the files of one node of a cluster, whose other nodes serve.
type nodeMatrix struct {
	t      *testing.T
	c      *testCluster
	want   map[string]string // what the intact nodes answer
	before string            // a copy of the node's folder after an earlier stop
	log    *testlog.Buffer
}

// damagedNode is the node whose files are damaged.
const damagedNode = 2

// shortStream is the kind of JetStream's files that the short form damages.
const shortStream = "cluster/ID/jetstream/$G/streams/LAZULI_LOG_queues/msgs/N.blk"

// TestNodeWithDamagedFiles damages each kind of file of a node of a cluster after its orderly stop: removed, emptied,
// cut, swapped with its neighbour, replaced by an older copy, and with a flipped bit. The node must refuse to start
// with a sentence that has a command, or set the file aside and join again, or serve everything as it was; it must
// never serve less. LAZULI_MATRIX=all is the long form; the short one takes the databases, and one damage of each other
// kind of file.
func TestNodeWithDamagedFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	long := os.Getenv("LAZULI_MATRIX") == "all"
	m := &nodeMatrix{t: t, c: newTestCluster(t, 3), log: &testlog.Buffer{}}
	m.c.configs[damagedNode].Log = slog.New(slog.NewTextHandler(m.log, nil))
	m.c.start(0, 1, 2)
	m.fill("first")
	m.c.stop(damagedNode)
	m.before = filepath.Join(t.TempDir(), "before")
	check.OK(t, os.CopyFS(m.before, os.DirFS(m.folder())))
	m.c.start(damagedNode)
	m.fill("second")
	m.want = m.answers(0)
	if got := m.settled(); !maps.Equal(got, m.want) || len(got) < 20 {
		t.Fatalf("without damage, the node answers %v, and another one %v", got, m.want)
	}
	m.c.stop(damagedNode)

	outcomes := map[string]map[string]int{}
	kinds := m.kinds()
	for n, kind := range slices.Sorted(maps.Keys(kinds)) {
		all := long || strings.HasSuffix(kind, ".db")
		if !all && strings.Contains(kind, "jetstream") && kind != shortStream {
			continue
		}
		outcomes[kind] = map[string]int{}
		for i := range damages {
			if outcome := m.try(kind, damages[(n+i)%len(damages)]); outcome != "" {
				outcomes[kind][outcome]++
			}
			if t.Failed() {
				return
			}
			if !all && len(outcomes[kind]) > 0 {
				break
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(outcomes)) {
		t.Logf("%s: %v", kind, outcomes[kind])
	}
}

func (m *nodeMatrix) folder() string { return m.c.configs[damagedNode].Location }

// fill writes something of everything through all nodes.
func (m *nodeMatrix) fill(part string) {
	m.t.Helper()
	ctx, t := m.t.Context(), m.t
	patient := policy.ClientOptions{Retry: patientRetries}
	table := func(i int) *aztables.Client {
		return check.Must(aztables.NewServiceClientFromConnectionString(m.c.nodes[i].ConnectionString(),
			&aztables.ClientOptions{ClientOptions: patient}))(t).NewClient("people")
	}
	queue := func(i int) *azqueue.QueueClient {
		return check.Must(azqueue.NewServiceClientFromConnectionString(m.c.nodes[i].ConnectionString(),
			&azqueue.ClientOptions{ClientOptions: patient}))(t).NewQueueClient("work")
	}
	if part == "first" {
		_, err := table(0).CreateTable(ctx, nil)
		check.OK(t, err)
		_, err = blobsOf(t, m.c.nodes[0]).CreateContainer(ctx, "box", nil)
		check.OK(t, err)
		_, err = queue(0).Create(ctx, nil)
		check.OK(t, err)
	}
	for i := range 8 {
		name := fmt.Sprint(part, i)
		_, err := table(i%3).AddEntity(ctx, fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":%q,"Name":%q}`, name,
			strings.Repeat(name, 100)), nil)
		check.OK(t, err)
		_, err = queue(i%3).EnqueueMessage(ctx, "message "+name, nil)
		check.OK(t, err)
		_, err = blobsOf(t, m.c.nodes[i%3]).UploadBuffer(ctx, "box", name, random(uint64(i), i*40_000), nil)
		check.OK(t, err)
	}
}

// answers returns what a node answers: for each thing a text, or "error ...".
func (m *nodeMatrix) answers(node int) map[string]string {
	ctx, t := m.t.Context(), m.t
	all := map[string]string{}
	put := func(name string, p []byte, err error) {
		if all[name] = string(p); err != nil {
			all[name] = "error " + err.Error()
		}
	}
	once := policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}
	connection := m.c.nodes[node].ConnectionString()
	tables := check.Must(aztables.NewServiceClientFromConnectionString(connection,
		&aztables.ClientOptions{ClientOptions: once}))(t)
	queues := check.Must(azqueue.NewServiceClientFromConnectionString(connection,
		&azqueue.ClientOptions{ClientOptions: once}))(t)
	blobs := check.Must(azblob.NewClientFromConnectionString(connection, &azblob.ClientOptions{ClientOptions: once}))(t)
	for _, part := range []string{"first", "second"} {
		for i := range 8 {
			name := fmt.Sprint(part, i)
			e, err := tables.NewClient("people").GetEntity(ctx, "p", name, nil)
			var entity struct{ Name string }
			if err == nil {
				err = json.Unmarshal(e.Value, &entity)
			}
			put("entity "+name, []byte(entity.Name), err)
			r, err := blobs.DownloadStream(ctx, "box", name, nil)
			var p []byte
			if err == nil {
				p, err = io.ReadAll(r.Body)
			}
			put("blob "+name, fmt.Appendf(nil, "%d bytes, %x", len(p), sha256.Sum256(p)), err)
		}
	}
	list, err := queues.NewQueueClient("work").PeekMessages(ctx, &azqueue.PeekMessagesOptions{
		NumberOfMessages: to.Ptr(int32(32))})
	var texts []string
	for _, q := range list.Messages {
		texts = append(texts, *q.MessageText)
	}
	put("messages", []byte(strings.Join(texts, ",")), err)
	return all
}

// settled returns what the damaged node answers when it answers without errors, or after some time.
func (m *nodeMatrix) settled() (got map[string]string) {
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		got = m.answers(damagedNode)
		failed := false
		for _, v := range got {
			failed = failed || strings.HasPrefix(v, "error")
		}
		if !failed || time.Since(began) > check.Patience/4 {
			return got
		}
	}
}

// kinds returns the files of each kind in the node's folder, in order.
func (m *nodeMatrix) kinds() map[string][]string {
	kinds := map[string][]string{}
	check.OK(m.t, filepath.WalkDir(m.folder(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := check.Must(filepath.Rel(m.folder(), path))(m.t)
		if name == "LOCK" || name == "RESERVE" || strings.Contains(name, ".damaged-") ||
			strings.Contains(name, ".diverged-") || strings.HasSuffix(name, ".other") || strings.HasSuffix(name, "index.db") ||
			strings.HasSuffix(name, ".pub") {
			return nil
		}
		kind := kindOfNodeFile(name)
		kinds[kind] = append(kinds[kind], name)
		return nil
	}))
	return kinds
}

var (
	extentName = regexp.MustCompile(`[0-9a-f]{6,}\.`)
	groupName  = regexp.MustCompile(`[RSC]-R[0-9]F-[A-Za-z0-9]+`)
	numberName = regexp.MustCompile(`/[0-9]+\.blk`)
	snapName   = regexp.MustCompile(`snap\.[0-9.]+`)
)

// kindOfNodeFile returns a file's name without what differs between files of a kind.
func kindOfNodeFile(name string) string {
	if rest, ok := strings.CutPrefix(name, "cluster/"); ok {
		if _, in, ok := strings.Cut(rest, "/"); ok {
			name = "cluster/ID/" + in
		}
	}
	name = extentName.ReplaceAllString(name, "N.")
	name = groupName.ReplaceAllString(name, "GROUP")
	name = numberName.ReplaceAllString(name, "/N.blk")
	return snapName.ReplaceAllString(name, "snap")
}

// moveCommand is the command by which a node gets a file from the other nodes.
var moveCommand = regexp.MustCompile("`mv ([^ `]+) ([^ `]+)`")

var damages = []string{"removed", "emptied", "cut", "swapped", "older", "flipped"}

// damage damages the last file of a kind, and returns a function that takes it back. It returns nil if there is nothing
// to damage in that way.
func (m *nodeMatrix) damage(kind, damage string) (name string, back func()) {
	t := m.t
	files := m.kinds()[kind]
	if len(files) == 0 {
		return "", nil
	}
	name = files[len(files)-1]
	other := files[0]
	if swap := map[string]string{"tables.db": "queues.db", "queues.db": "blobs.db",
		"blobs.db": "tables.db"}[kind]; swap != "" {
		other = swap
	}
	read := func(name string) []byte { return check.Must(os.ReadFile(filepath.Join(m.folder(), name)))(t) }
	write := func(name string, p []byte) {
		check.OK(t, os.WriteFile(filepath.Join(m.folder(), name), p, 0o600))
	}
	was, otherWas := read(name), read(other)
	back = func() { write(name, was); write(other, otherWas) }
	switch damage {
	case "removed":
		check.OK(t, os.Remove(filepath.Join(m.folder(), name)))
	case "emptied":
		write(name, nil)
	case "cut":
		used := len(bytes.TrimRight(was, "\x00"))
		if used < 2 {
			return "", nil
		}
		write(name, was[:used/2])
	case "swapped":
		if other == name || bytes.Equal(was, otherWas) {
			return "", nil
		}
		write(name, otherWas)
		write(other, was)
	case "older":
		old, err := os.ReadFile(filepath.Join(m.before, name))
		if err != nil || bytes.Equal(old, was) {
			return "", nil
		}
		write(name, old)
	case "flipped":
		used := len(bytes.TrimRight(was, "\x00"))
		if used == 0 {
			return "", nil
		}
		p := slices.Clone(was)
		p[used/2] ^= 4
		write(name, p)
	}
	return name, back
}

// try damages a file, starts the node, and returns what became of it; "" if there was nothing to damage. The node is
// stopped and intact afterwards.
func (m *nodeMatrix) try(kind, damage string) string {
	t := m.t
	t.Helper()
	name, back := m.damage(kind, damage)
	if back == nil {
		return ""
	}
	logged := len(m.log.String())
	s, left, err := m.start(logged)
	moved := 0
	for ; err != nil && moved < 3; moved++ { // the command in the error
		mv := moveCommand.FindStringSubmatch(err.Error())
		if mv == nil {
			break
		}
		check.OK(t, os.Rename(mv[1], mv[2]))
		s, left, err = m.start(logged)
	}
	text := m.log.String()[logged:]
	switch {
	case err != nil && errors.Is(err, context.DeadlineExceeded):
		t.Errorf("%s, %s: the node waits, and does not say for what: %s", name, damage, text)
		return "waits"
	case err != nil:
		if !strings.Contains(err.Error(), "lazuli ") {
			t.Errorf("%s, %s: refused without a command: %v", name, damage, err)
		}
		back()
		t.Logf("%s, %s: %v", name, damage, err)
		return "refused"
	}
	m.c.nodes[damagedNode] = s
	got := m.settled()
	outcome := "without loss"
	if moved > 0 {
		outcome = "refused, and without loss after the command in the error"
	} else if left {
		outcome = "left the cluster, and joined again"
		check.Eventually(t, func() bool { // the next damage needs files
			st, err := m.c.nodes[0].ClusterStatus(t.Context())
			return err == nil && st.Copies.Short == 0
		}, "the node gets its copies of the streams again")
	} else if strings.Contains(text, "level=ERROR") || strings.Contains(m.log.String()[logged:], "level=ERROR") {
		outcome = "reported, without loss"
	}
	for _, k := range slices.Sorted(maps.Keys(m.want)) {
		switch {
		case got[k] == m.want[k]:
		case strings.HasPrefix(got[k], "error"):
			outcome = "errors"
			t.Errorf("%s, %s: %s answers %.200s, and others have it", name, damage, k, got[k])
		default:
			t.Errorf("%s, %s: SILENT LOSS: %s is served as %.60q, and was %.60q", name, damage, k, got[k], m.want[k])
			outcome = "silent loss"
		}
	}
	m.c.stop(damagedNode)
	return outcome
}

// start starts the node. A node that leaves the cluster because of its files is removed, as its log asks for.
func (m *nodeMatrix) start(logged int) (s *Stack, left bool, err error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), check.Patience/2)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s, err = StartContext(ctx, m.c.configs[damagedNode])
	}()
	command := fmt.Sprintf(`command="lazuli cluster leave n%d"`, damagedNode)
	for {
		select {
		case <-done:
			return s, left, err
		case <-time.After(50 * time.Millisecond):
		}
		if !left && strings.Contains(m.log.String()[logged:], command) {
			left = m.c.nodes[0].RemoveNode(ctx, fmt.Sprint("n", damagedNode)) == nil
		}
	}
}
