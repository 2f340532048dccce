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
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

// nodeMatrix damages the files of one node of a cluster, whose other nodes serve. The node is a process of its own.
type nodeMatrix struct {
	t      *testing.T
	shards int
	c      *testCluster      // of the other nodes
	want   map[string]string // what the intact nodes answer
	before string            // a copy of the node's folder after an earlier stop
	log    *testlog.Buffer

	node       *killrig.Process
	said       *testlog.Buffer // standard output of node
	connection string          // of node
	kill       bool            // end kills the node instead of stopping it
	ended      string          // in which way the node was ended last
}

// damagedNode is the node whose files are damaged.
const damagedNode = 2

// shortStream is the kind of JetStream's files that the short form damages.
const shortStream = "cluster/ID/jetstream/$G/streams/LAZULI_LOG_queues/msgs/N.blk"

// TestNodeWithDamagedFiles damages each kind of file of a node of a cluster, after its orderly stop and after SIGKILL:
// removed, emptied, cut, swapped with its neighbour, replaced by an older copy, and with a flipped bit. The node must
// refuse to start with a sentence that has a command, or set the file aside and join again, or serve everything as it
// was; it must never serve less. LAZULI_MATRIX=all is the long form; in the short one each kind of damage
// hits one of the databases, and one damage each other kind of file, in turns after a stop and after a kill, and some
// pairs of damages follow. LAZULI_MATRIX=pairs is each two damages to each two kinds of files, in an order that differs
// from run to run, until a minute before the end of the time that -timeout gives.
func TestNodeWithDamagedFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	testDamagedNode(t, 1)
}

// TestNodeWithDamagedShards does the same with four shards. The short form damages each file of one of the other
// shards than shard 0 once, or of all of them with LAZULI_TEST_FULL.
func TestNodeWithDamagedShards(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	testDamagedNode(t, 4)
}

func testDamagedNode(t *testing.T, shards int) {
	long := os.Getenv("LAZULI_MATRIX") == "all"
	m := &nodeMatrix{t: t, shards: shards, c: newTestCluster(t, 3), log: &testlog.Buffer{}}
	for i := range m.c.configs {
		m.c.configs[i].Shards = shards
	}
	t.Cleanup(func() {
		if m.node != nil {
			m.node.Kill()
		}
	})
	m.launch()
	m.c.start(0, 1)
	m.serves()
	m.fill("first")
	m.end()
	m.before = filepath.Join(t.TempDir(), "before")
	check.OK(t, os.CopyFS(m.before, os.DirFS(m.folder())))
	m.launch()
	m.serves()
	m.fill("second")
	m.want = m.answers(m.c.nodes[0].ConnectionString())
	if got := m.settled(); !maps.Equal(got, m.want) || len(got) < 20 {
		t.Fatalf("without damage, the node answers %v, and another one %v", got, m.want)
	}
	switch {
	case os.Getenv("LAZULI_MATRIX") == "pairs":
		m.end()
		m.pairs(math.MaxInt, time.Now().UnixNano())
		return
	case !long:
		m.end()
		m.all(false)
		if m.shards == 1 {
			m.pairs(check.Size(1, 4), 3)
		}
		return
	}
	for _, kill := range []bool{false, true} {
		if m.kill = kill; m.node == nil {
			m.launch()
			m.serves()
		}
		m.end()
		m.all(true)
	}
}

// all damages each kind of file.
func (m *nodeMatrix) all(long bool) {
	outcomes := map[string]map[string]int{}
	databases := 0
	for n, kind := range slices.Sorted(maps.Keys(m.kinds())) {
		database := strings.HasSuffix(kind, ".db")
		if !long && m.shards > 1 && !strings.HasPrefix(kind, check.Size("shards/02/", "shards/")) {
			continue
		}
		if !long && !database && strings.Contains(kind, "jetstream") && kind != shortStream {
			continue
		}
		outcomes[kind] = map[string]int{}
		these := slices.Concat(damages[n%len(damages):], damages[:n%len(damages)])
		if database && !long {
			these = damages[2*databases%len(damages):][:2]
			if databases++; m.shards > 1 {
				these = damages[databases%len(damages):][:1]
			}
		}
		for i, damage := range these {
			if !long {
				m.kill = i%2 == 0 // before the next damage
			}
			began, ended := time.Now(), m.ended
			if outcome := m.try([2]string{kind, damage}); outcome != "" {
				outcomes[kind][outcome]++
				m.t.Logf("%s, %s, %s: %s, %v", ended, kind, damage, outcome,
					time.Since(began).Round(time.Millisecond))
			}
			if m.t.Failed() {
				m.t.FailNow()
			}
			if !long && !database && len(outcomes[kind]) > 0 {
				break
			}
		}
	}
	if len(outcomes) == 0 {
		m.t.Error("no file was damaged")
	}
	for _, kind := range slices.Sorted(maps.Keys(outcomes)) {
		m.t.Logf("%s: %v", kind, outcomes[kind])
	}
}

// pairs damages two kinds of files at a time, most times in the order of a seed, after kills and stops in turns.
func (m *nodeMatrix) pairs(most int, seed int64) {
	var all [][2][2]string
	kinds := append(slices.Sorted(maps.Keys(m.kinds())), groups...)
	for i, a := range kinds {
		for _, b := range kinds[i+1:] {
			if strings.HasPrefix(a, b) || strings.Contains(b, "ID") && strings.HasPrefix(a, "cluster/ID/jetstream/") {
				continue // a file, and the group that it is a part of
			}
			for _, one := range damages {
				for _, two := range damages {
					all = append(all, [2][2]string{{a, one}, {b, two}})
				}
			}
		}
	}
	rand.New(rand.NewPCG(uint64(seed), 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	outcomes, tried := map[string]int{}, 0
	for _, pair := range all {
		until, bound := m.t.Deadline()
		if tried == most || bound && time.Until(until) < time.Minute {
			break
		}
		m.kill = tried%2 == 0 // before the next damage
		if outcome := m.try(pair[:]...); outcome != "" {
			outcomes[outcome]++
			tried++
		}
		if m.t.Failed() {
			m.t.FailNow()
		}
	}
	m.t.Logf("%d of at most %d pairs, seed %d: %v", tried, len(all), seed, outcomes)
}

// groups are files that are damaged together, besides single ones: all content, and all that JetStream has.
var groups = []string{"extents/", "cluster/ID/jetstream/"}

func (m *nodeMatrix) folder() string { return m.c.configs[damagedNode].Location }

// matrixVariable makes the process of a test a node, and has its matrixNode as JSON.
const matrixVariable = "LAZULI_TEST_MATRIX_NODE"

// matrixNode is the configuration of the damaged node.
type matrixNode struct {
	Shards                 int
	Location, Node, Listen string
	Peers                  []peering.Peer
}

// serveMatrixNode runs the damaged node until SIGTERM. It prints a line: that the node serves, or why it does not.
func serveMatrixNode(config string) {
	var c matrixNode
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		panic(err)
	}
	go func() { // this process must not outlive the one that has started it
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := StartContext(ctx, Config{Location: c.Location, Shards: c.Shards, Accounts: auth.Development(),
		Log:     slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Cluster: &peering.Config{Node: c.Node, Listen: c.Listen, Peers: c.Peers}})
	if err != nil {
		fmt.Printf("refused %q\n", err)
		return
	}
	fmt.Printf("serves %q\n", s.ConnectionString())
	<-ctx.Done()
	_ = s.Stop(context.Background())
}

// launch starts the process of the node.
func (m *nodeMatrix) launch() {
	c := m.c.configs[damagedNode]
	config := check.Must(json.Marshal(matrixNode{m.shards, c.Location, c.Cluster.Node, c.Cluster.Listen,
		c.Cluster.Peers}))(m.t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), matrixVariable+"="+string(config))
	cmd.Stderr = m.log
	check.Must(cmd.StdinPipe())(m.t) // closed when this process ends
	m.said = &testlog.Buffer{}
	m.node = check.Must(killrig.Start(cmd, m.said))(m.t)
}

// outcome returns nil once the node serves, or the error by which it has ended. ok is false until one of them is known.
func (m *nodeMatrix) outcome() (ok bool, err error) {
	ended := !m.node.Running()
	var what, text string
	switch _, err := fmt.Sscanf(m.said.String(), "%s %q\n", &what, &text); {
	case err == nil && what == "serves":
		m.connection = text
		return true, nil
	case err == nil:
		<-m.node.Exited()
		return true, errors.New(text)
	case ended:
		return true, fmt.Errorf("the process has ended: %w\n%s", m.node.Err(), m.node.Output())
	}
	return false, nil
}

// serves waits until the intact node serves.
func (m *nodeMatrix) serves() {
	m.t.Helper()
	check.Eventually(m.t, func() bool {
		ok, err := m.outcome()
		check.OK(m.t, err)
		return ok
	}, "the node serves")
}

// end stops the node, or kills it while it has changes that are not in its databases.
func (m *nodeMatrix) end() {
	m.t.Helper()
	if m.ended = "stopped"; m.kill {
		m.ended = "killed"
		m.write("noise", []string{m.connection})
		m.node.Kill()
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), check.Patience)
		defer cancel()
		check.OK(m.t, m.node.Stop(ctx))
	}
	m.node = nil
}

// fill writes something of everything through all nodes.
func (m *nodeMatrix) fill(part string) {
	m.t.Helper()
	ctx, t := m.t.Context(), m.t
	all := []string{m.c.nodes[0].ConnectionString(), m.c.nodes[1].ConnectionString(), m.connection}
	if part == "first" {
		_, err := m.tables(all[0], patientRetries).CreateTable(ctx, "people", nil)
		made(t, err)
		_, err = m.blobs(all[0], patientRetries).CreateContainer(ctx, "box", nil)
		made(t, err)
		for _, name := range []string{"work", "noise"} {
			_, err = m.queues(all[0], patientRetries).CreateQueue(ctx, name, nil)
			check.OK(t, err)
		}
	}
	m.write(part, all)
}

// write writes through the nodes with these connection strings. "noise" replaces what is not compared.
func (m *nodeMatrix) write(part string, nodes []string) {
	m.t.Helper()
	ctx, t := m.t.Context(), m.t
	n, queue := 8, "work"
	if part == "noise" {
		n, queue = 3, "noise"
	}
	for i := range n {
		name, at := fmt.Sprint(part, i), nodes[i%len(nodes)]
		_, err := m.tables(at, patientRetries).NewClient("people").UpsertEntity(ctx,
			fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":%q,"Name":%q}`, name, strings.Repeat(name, 100)), nil)
		check.OK(t, err)
		_, err = m.queues(at, patientRetries).NewQueueClient(queue).EnqueueMessage(ctx, "message "+name, nil)
		check.OK(t, err)
		_, err = m.blobs(at, patientRetries).UploadBuffer(ctx, "box", name, random(uint64(i), i*40_000), nil)
		check.OK(t, err)
	}
}

func (m *nodeMatrix) tables(connection string, retry policy.RetryOptions) *aztables.ServiceClient {
	return check.Must(aztables.NewServiceClientFromConnectionString(connection,
		&aztables.ClientOptions{ClientOptions: policy.ClientOptions{Retry: retry}}))(m.t)
}

func (m *nodeMatrix) queues(connection string, retry policy.RetryOptions) *azqueue.ServiceClient {
	return check.Must(azqueue.NewServiceClientFromConnectionString(connection,
		&azqueue.ClientOptions{ClientOptions: policy.ClientOptions{Retry: retry}}))(m.t)
}

func (m *nodeMatrix) blobs(connection string, retry policy.RetryOptions) *azblob.Client {
	return check.Must(azblob.NewClientFromConnectionString(connection,
		&azblob.ClientOptions{ClientOptions: policy.ClientOptions{Retry: retry}}))(m.t)
}

// answers returns what a node answers: for each thing a text, or "error ...".
func (m *nodeMatrix) answers(connection string) map[string]string {
	ctx := m.t.Context()
	all := map[string]string{}
	put := func(name string, p []byte, err error) {
		if all[name] = string(p); err != nil {
			all[name] = "error " + err.Error()
		}
	}
	once := policy.RetryOptions{MaxRetries: -1}
	tables, blobs := m.tables(connection, once), m.blobs(connection, once)
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
	list, err := m.queues(connection, once).NewQueueClient("work").PeekMessages(ctx, &azqueue.PeekMessagesOptions{
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
		got = m.answers(m.connection)
		failed := false
		for _, v := range got {
			failed = failed || strings.HasPrefix(v, "error")
		}
		if !failed || time.Since(began) > check.Patience {
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

// damage damages the last file of a kind, or all files of a group, and returns a function that takes it back. It
// returns nil if there is nothing to damage in that way.
func (m *nodeMatrix) damage(kind, damage string) (names []string, back func()) {
	t := m.t
	kinds := m.kinds()
	for _, other := range slices.Sorted(maps.Keys(kinds)) {
		if strings.HasSuffix(kind, "/") && strings.HasPrefix(other, kind) {
			names = append(names, kinds[other]...)
		}
	}
	var other string // is swapped with the file
	if files := kinds[kind]; len(files) > 0 {
		names, other = files[len(files)-1:], files[0]
	}
	folder, file := path.Split(kind)
	if swap := map[string]string{"tables.db": "queues.db", "queues.db": "blobs.db",
		"blobs.db": "tables.db"}[file]; swap != "" {
		other = folder + swap
	}
	was := map[string][]byte{}
	for _, name := range slices.Concat(names, []string{other}) {
		if p, err := os.ReadFile(filepath.Join(m.folder(), name)); err == nil {
			was[name] = p
		}
	}
	write := func(name string, p []byte) {
		at := filepath.Join(m.folder(), name)
		// A node that left the cluster has moved the folder of the file.
		check.OK(t, errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, p, 0o600)))
	}
	damaged := false
	for _, name := range names {
		p, used := was[name], len(bytes.TrimRight(was[name], "\x00"))
		switch damage {
		case "removed":
			check.OK(t, os.Remove(filepath.Join(m.folder(), name)))
		case "emptied":
			write(name, nil)
		case "cut":
			if used < 2 {
				continue
			}
			write(name, p[:used/2])
		case "swapped":
			if other == "" || other == name || was[other] == nil || bytes.Equal(p, was[other]) {
				continue
			}
			write(name, was[other])
			write(other, p)
		case "older":
			old, err := os.ReadFile(filepath.Join(m.before, name))
			if err != nil || bytes.Equal(old, p) {
				continue
			}
			write(name, old)
		case "flipped":
			if used == 0 {
				continue
			}
			flipped := slices.Clone(p)
			flipped[used/2] ^= 4
			write(name, flipped)
		}
		damaged = true
	}
	if !damaged {
		return nil, nil
	}
	return names, func() {
		for name, p := range was {
			write(name, p)
		}
	}
}

// try does damages, each a kind of file and what happens to it, starts the node, and returns what became of it; "" if
// there was nothing to damage. The node is ended and intact afterwards.
func (m *nodeMatrix) try(damages ...[2]string) string {
	t := m.t
	t.Helper()
	row, backs := m.ended, []func(){}
	back := func() {
		for _, one := range slices.Backward(backs) {
			one()
		}
	}
	for _, d := range damages {
		names, one := m.damage(d[0], d[1])
		if one == nil {
			back()
			return ""
		}
		row += fmt.Sprintf(", %s %s", names[0], d[1])
		if len(names) > 1 {
			row += fmt.Sprintf(" with %d others", len(names)-1)
		}
		backs = append(backs, one)
	}
	logged := len(m.log.String())
	left, err := m.start(logged)
	moved := 0
	for ; err != nil && moved < 3; moved++ { // the command in the error
		mv := moveCommand.FindStringSubmatch(err.Error())
		if mv == nil {
			break
		}
		check.OK(t, os.Rename(mv[1], mv[2]))
		var again bool
		again, err = m.start(len(m.log.String())) // what the start before has asked for was done
		left = left || again
	}
	text := m.log.String()[logged:]
	switch {
	case err != nil && errors.Is(err, context.DeadlineExceeded):
		t.Errorf("%s: the node waits, and does not say for what: %s", row, text)
		return "waits"
	case err != nil:
		if !strings.Contains(err.Error(), "lazuli ") {
			t.Errorf("%s: refused without a command: %v", row, err)
		}
		t.Logf("%s: %v", row, err)
		m.node = nil
		if back(); left { // a node that was removed begins with an empty folder
			check.OK(t, os.RemoveAll(m.folder()))
			m.launch()
			m.serves()
			m.settled()
			m.end()
		}
		return "refused"
	}
	got := m.settled()
	outcome := "without loss"
	if moved > 0 {
		outcome = "refused, and without loss after the command in the error"
	} else if left {
		outcome = "left the cluster, and joined again"
		status := ""
		defer func() {
			if t.Failed() {
				t.Logf("%s: the copies: %s", row, status)
			}
		}()
		check.Eventually(t, func() bool { // the next damage needs files
			st, err := m.c.nodes[0].ClusterStatus(t.Context())
			if err != nil {
				status = err.Error()
				return false
			}
			status = fmt.Sprintf("%+v", st.Copies)
			return st.Copies.Short == 0
		}, "the node gets its copies of the streams again")
	} else if strings.Contains(m.log.String()[logged:], "level=ERROR") {
		outcome = "reported, without loss"
	}
	for _, k := range slices.Sorted(maps.Keys(m.want)) {
		switch {
		case got[k] == m.want[k]:
		case strings.HasPrefix(got[k], "error"):
			outcome = "errors"
			t.Errorf("%s: %s answers %.200s, and another node has the row", row, k, got[k])
		default:
			t.Errorf("%s: SILENT LOSS: %s is served as %.60q, and was %.60q", row, k, got[k], m.want[k])
			outcome = "silent loss"
		}
	}
	if t.Failed() {
		t.Logf("%s: the node's log:\n%s", row, m.log.String()[logged:])
	}
	m.end()
	return outcome
}

// start starts the node, and returns nil when it serves. A node that leaves the cluster because of its files is
// removed, as its log asks for.
func (m *nodeMatrix) start(logged int) (left bool, err error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), check.Patience/2)
	defer cancel()
	m.launch()
	command := fmt.Sprintf(`command="lazuli cluster leave n%d"`, damagedNode)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			m.node.Kill()
			return left, ctx.Err()
		}
		if ok, err := m.outcome(); ok {
			return left, err
		}
		if !left && strings.Contains(m.log.String()[logged:], command) {
			left = m.c.nodes[0].RemoveNode(ctx, fmt.Sprint("n", damagedNode)) == nil
		}
	}
}
