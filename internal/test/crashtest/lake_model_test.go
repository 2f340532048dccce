package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/test/signer"
)

// Random operations on trees from both endpoints, while the server is killed, compared with trees in memory: files,
// directories, access control lists, entity tags, leases, metadata and uncommitted content.
func TestKillLake(t *testing.T) {
	t.Parallel()
	var workers []worker
	for i := range 6 {
		workers = append(workers, &lakeWorker{name: fmt.Sprint("w", i), tree: lakeTree{}})
	}
	killAgainAndAgain(t, *kills, workers, "--hierarchical-namespace", "--dfs-port", "0")
}

// Two renames and a recursive delete that cross, while the server is killed, leave one of the trees that some order of
// them leaves, and answer as in that order.
func TestKillLakeCrossing(t *testing.T) {
	t.Parallel()
	var workers []worker
	for i := range 4 {
		workers = append(workers, &crossWorker{name: fmt.Sprint("c", i)})
	}
	killAgainAndAgain(t, *kills, workers, "--hierarchical-namespace", "--dfs-port", "0")
	rounds := 0
	for _, w := range workers {
		rounds += w.acknowledged()
	}
	t.Logf("%d rounds of operations that cross", rounds)
}

// lakeClient sends requests to both endpoints of a hierarchical account.
type lakeClient struct {
	base   *url.URL
	client *http.Client
}

const lakeFilesystem = "lake"

func (c *lakeClient) connect(s *server) error {
	u, err := url.Parse(s.blob)
	if err != nil {
		return err
	}
	c.base, c.client = u, s.client
	a := repeat(context.Background(), func() lakeAnswer {
		return c.do(context.Background(), true, "PUT", "/"+lakeFilesystem+"?resource=filesystem", "")
	})
	if a.err == nil && a.status != http.StatusCreated && a.status != http.StatusConflict {
		return fmt.Errorf("create the filesystem: %d %s", a.status, a.body)
	}
	return a.err
}

// lakeAnswer is the answer to a request, or the error of the connection.
type lakeAnswer struct {
	status int
	header http.Header
	body   string
	err    error
}

func (c *lakeClient) do(ctx context.Context, dfs bool, method, path, content string, headers ...string) (a lakeAnswer) {
	host := ".blob.localhost"
	if dfs {
		host = ".dfs.localhost"
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+c.base.Host+path, strings.NewReader(content))
	if err != nil {
		return lakeAnswer{err: err}
	}
	r.Host = account + host
	r.Header.Set("x-ms-date", time.Now().UTC().Format(http.TimeFormat))
	r.Header.Set("x-ms-version", "2021-12-02")
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	raw, _, _ := strings.Cut(path, "?")
	signer.Account{Name: account, Key: signer.ParseKey(key)}.SharedKey(r, raw)
	resp, err := c.client.Do(r)
	if err != nil {
		return lakeAnswer{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	// With OperationTimedOut the outcome is unknown: the home of the log was killed while it had the request.
	unknown := resp.StatusCode == http.StatusInternalServerError && strings.Contains(string(text), "OperationTimedOut")
	if err == nil && (unknown || resp.StatusCode == http.StatusBadGateway ||
		resp.StatusCode == http.StatusServiceUnavailable) {
		err = &unavailable{resp.Status + " " + string(text)}
	}
	return lakeAnswer{resp.StatusCode, resp.Header, string(text), err}
}

// unavailable is the answer of a node, or of the load balancer, that the cluster cannot serve now. The operation may
// have happened.
type unavailable struct{ text string }

func (u *unavailable) Error() string { return u.text }

// repeat sends a request, which has the same effect however often it is sent, until a node can serve it: on a slow
// machine a cluster that was whole can lose a leader without a kill.
func repeat(ctx context.Context, send func() lakeAnswer) lakeAnswer {
	for deadline := time.Now().Add(patience); ; {
		a := send()
		if !errors.As(a.err, new(*unavailable)) || time.Now().After(deadline) {
			return a
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return a
		}
	}
}

// get reads with [repeat].
func (c *lakeClient) get(ctx context.Context, dfs bool, method, path string) lakeAnswer {
	return repeat(ctx, func() lakeAnswer { return c.do(ctx, dfs, method, path, "") })
}

// lakeItem is a file or directory of the model. It is not changed.
type lakeItem struct {
	dir            bool
	dfs            bool // the endpoint that made the file, which adds to it
	content        string
	pending        string // appended and not flushed
	owner          string
	access         string
	shared         bool // a directory with a default list
	etag           string
	lease, comment string
}

const (
	fileAccess   = "user::rw-,group::r--,other::---"
	dirAccess    = "user::rwx,group::r-x,other::---"
	sharedList   = "default:user::rwx,default:group::rwx,default:other::--x"
	sharedAccess = "user::rwx,group::rwx,other::--x,"
)

// lakeTree is the model: files and directories by path. "" is not in it.
type lakeTree map[string]lakeItem

func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return ""
}

// isDir reports whether there is a directory at a path.
func (t lakeTree) isDir(path string) bool { return path == "" || t[path].dir }

// created returns a new item with the access that its directory gives.
func (t lakeTree) created(path string, dir bool) lakeItem {
	i := lakeItem{dir: dir, owner: "$superuser", access: fileAccess}
	if dir {
		i.access = dirAccess
	}
	if t[parentOf(path)].shared {
		if i.access = "user::rw-,group::rw-,other::---"; dir {
			i.access, i.shared = sharedAccess+sharedList, true
		}
	}
	return i
}

// makeParents creates the directories above a path. It returns false if a file is in the way.
func (t lakeTree) makeParents(path string) bool {
	p := parentOf(path)
	if p == "" {
		return true
	}
	if i, ok := t[p]; ok {
		return i.dir
	}
	if !t.makeParents(p) {
		return false
	}
	t[p] = t.created(p, true)
	return true
}

// below returns the paths below a directory.
func (t lakeTree) below(dir string) (paths []string) {
	for p := range t {
		if strings.HasPrefix(p, dir+"/") {
			paths = append(paths, p)
		}
	}
	return paths
}

// lakeWorker works in a directory of its own.
type lakeWorker struct {
	lakeClient
	name  string
	tree  lakeTree
	after lakeTree // with the operation in flight; nil without one
	acked int
	last  string // description of the operation in flight
}

func (w *lakeWorker) acknowledged() int { return w.acked }

func (w *lakeWorker) connect(s *server) error { return w.lakeClient.connect(s) }

func (w *lakeWorker) url(path string) string { return "/" + lakeFilesystem + "/" + w.name + "/" + path }

// pick returns a path: mostly one that exists.
func (w *lakeWorker) pick(rnd *rand.Rand) string {
	if known := slices.Sorted(maps.Keys(w.tree)); len(known) > 0 && rnd.IntN(3) > 0 {
		p := known[rnd.IntN(len(known))]
		if w.tree[p].dir && rnd.IntN(3) == 0 && strings.Count(p, "/") < 3 {
			return p + "/" + string(rune('a'+rnd.IntN(5)))
		}
		return p
	}
	segments := make([]string, 1+rnd.IntN(3))
	for i := range segments {
		segments[i] = string(rune('a' + rnd.IntN(5)))
	}
	return strings.Join(segments, "/")
}

// step sends one operation. The model says beforehand whether it succeeds, and what it leaves.
func (w *lakeWorker) step(ctx context.Context, rnd *rand.Rand) error {
	next := maps.Clone(w.tree)
	path := w.pick(rnd)
	item, exists := next[path]
	dfs := rnd.IntN(2) == 0
	var ok bool
	var send func() lakeAnswer
	tagged := "" // the path of which the answer has the entity tag
	request := func(dfs bool, method, query, body string, headers ...string) {
		w.last = fmt.Sprintf("%s %s%s %v", method, path, query, headers)
		send = func() lakeAnswer { return w.do(ctx, dfs, method, w.url(path)+query, body, headers...) }
	}
	switch n := rnd.IntN(20); {
	case n < 6: // write a file
		ok = next.makeParents(path) && !item.dir
		if !exists {
			item = next.created(path, false)
		}
		item.pending, item.comment, item.dfs, tagged = "", "", dfs, path
		if dfs {
			item.content = ""
			request(true, "PUT", "?resource=file", "", "x-ms-lease-id", item.lease)
		} else {
			item.content = fmt.Sprintf("content %d of %s", w.acked, path)
			item.access = next.created(path, false).access // Put Blob makes a new file of it
			request(false, "PUT", "", item.content, "x-ms-blob-type", "BlockBlob", "x-ms-lease-id", item.lease)
		}
		next[path] = item
	case n < 8: // make a directory
		ok = !exists && next.makeParents(path)
		next[path], tagged = next.created(path, true), path
		request(true, "PUT", "?resource=directory", "", "If-None-Match", "*")
	case n < 12: // move
		from := w.pick(rnd)
		source, there := next[from]
		ok = there && !exists && next.isDir(parentOf(path)) && !strings.HasPrefix(path+"/", from+"/")
		if ok {
			for _, p := range next.below(from) {
				next[path+p[len(from):]] = next[p]
				delete(next, p)
			}
			delete(next, from)
			next[path] = source
		}
		request(true, "PUT", "?mode=legacy", "", "x-ms-rename-source", w.url(from), "If-None-Match", "*",
			"x-ms-source-lease-id", source.lease)
		w.last += " from " + from
	case n < 14: // delete
		below := next.below(path)
		ok = exists && (dfs || len(below) == 0)
		for _, p := range append(below, path) {
			delete(next, p)
		}
		if dfs {
			request(true, "DELETE", "?recursive=true", "", "x-ms-lease-id", item.lease)
		} else {
			request(false, "DELETE", "", "", "x-ms-lease-id", item.lease)
		}
	case n < 16: // change the access
		ok = exists
		switch {
		case item.dir && dfs:
			item.access, item.shared = sharedAccess+sharedList, true
			request(true, "PATCH", "?action=setAccessControl", "", "x-ms-acl", item.access,
				"x-ms-lease-id", item.lease)
		default:
			item.access, item.shared = "user::rwx,user:guest:r-x,group::r-x,mask::r-x,other::---", false
			request(true, "PATCH", "?action=setAccessControl", "", "x-ms-acl", item.access,
				"x-ms-lease-id", item.lease)
		}
		next[path] = item
	case n < 18 && !item.dir && exists: // append, or flush what was appended
		ok = item.dfs
		at := len(item.content) + len(item.pending)
		if item.pending == "" || rnd.IntN(2) == 0 {
			text := fmt.Sprintf(" more %d", w.acked)
			item.pending += text
			request(true, "PATCH", fmt.Sprintf("?action=append&position=%d", at), text, "x-ms-lease-id", item.lease)
		} else {
			item.content, item.pending, tagged = item.content+item.pending, "", path
			request(true, "PATCH", fmt.Sprintf("?action=flush&position=%d", at), "", "x-ms-lease-id", item.lease)
		}
		next[path] = item
	case n < 19 && !item.dir && exists: // lease or release
		ok = true
		if item.lease == "" {
			item.lease = uuid.New().String()
			request(false, "PUT", "?comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1",
				"x-ms-proposed-lease-id", item.lease)
		} else {
			request(true, "POST", "", "", "x-ms-lease-action", "release", "x-ms-lease-id", item.lease)
			item.lease = ""
		}
		next[path] = item
	default: // metadata
		ok = exists
		item.comment, tagged = fmt.Sprint("number", w.acked), path
		request(false, "PUT", "?comp=metadata", "", "x-ms-meta-comment", item.comment, "x-ms-lease-id", item.lease)
		next[path] = item
	}
	w.after = w.tree
	if ok {
		w.after = next
		if i, there := next[tagged]; there {
			i.etag = "" // only the answer has it
			next[tagged] = i
		}
	}
	a := send()
	switch {
	case a.err != nil:
		return a.err
	case (a.status < 300) != ok || a.status >= 500:
		return mismatchf("%s: %s: %d %s; in the model it is %v", w.name, w.last, a.status, a.body, ok)
	}
	if ok {
		if i, there := next[tagged]; there {
			i.etag = a.header.Get("Etag")
			next[tagged] = i
		}
		w.tree = next
	}
	w.after = nil
	w.acked++
	return nil
}

// verify compares the tree that the server has with that of the model, before or after the operation in flight.
func (w *lakeWorker) verify(ctx context.Context, _ bool) error {
	got, err := w.read(ctx)
	if err != nil {
		return err
	}
	err = w.tree.compare(got)
	if err != nil && w.after != nil {
		if also := w.after.compare(got); also == nil {
			w.tree, err = w.after, nil
		} else {
			err = fmt.Errorf("%w\nor, with the operation in flight: %w", err, also)
		}
	}
	if err != nil {
		return mismatchf("%s: %v\nin flight: %s", w.name, err, w.last)
	}
	for p, i := range w.tree { // the server decides the entity tags that no answer had
		i.etag = got[p].etag
		w.tree[p] = i
	}
	w.after = nil
	return nil
}

// compare returns the first difference. Uncommitted content can't be read: a flush finds out.
func (t lakeTree) compare(got lakeTree) error {
	for _, p := range slices.Sorted(maps.Keys(t)) {
		want := t[p]
		have, ok := got[p]
		if !ok {
			return fmt.Errorf("%s is missing", p)
		}
		have.pending, have.shared, have.dfs = want.pending, want.shared, want.dfs
		if want.etag == "" {
			want.etag = have.etag
		}
		if want.lease != "" && have.lease != "" {
			have.lease = want.lease
		}
		if have != want {
			return fmt.Errorf("%s is %+v, want %+v", p, have, want)
		}
	}
	for p := range got {
		if _, ok := t[p]; !ok {
			return fmt.Errorf("%s should not exist", p)
		}
	}
	return nil
}

// read reads the worker's tree from the server.
func (w *lakeWorker) read(ctx context.Context) (lakeTree, error) {
	tree := lakeTree{}
	paths, err := w.list(ctx, w.name)
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		path := strings.TrimPrefix(p.Name, w.name+"/")
		item := lakeItem{dir: p.IsDirectory == "true", owner: p.Owner}
		access := w.get(ctx, true, "HEAD", w.url(path)+"?action=getAccessControl")
		status := w.get(ctx, false, "HEAD", w.url(path))
		if err := errors.Join(access.err, status.err); err != nil {
			return nil, err
		}
		item.access, item.etag = access.header.Get("x-ms-acl"), status.header.Get("Etag")
		item.comment = status.header.Get("x-ms-meta-comment")
		if status.header.Get("x-ms-lease-state") == "leased" {
			item.lease = "leased"
		}
		if !item.dir {
			content := w.get(ctx, false, "GET", w.url(path))
			if content.err != nil || content.status != http.StatusOK {
				return nil, fmt.Errorf("read %s: %d %s %w", path, content.status, content.body, content.err)
			}
			item.content = content.body
			if etag := access.header.Get("Etag"); etag != item.etag {
				return nil, mismatchf("%s has the entity tags %s and %s", path, etag, item.etag)
			}
		}
		tree[path] = item
	}
	return tree, nil
}

// lakePath is an item of List Paths.
type lakePath struct {
	Name, IsDirectory, Owner string
}

// list returns what is below a directory; nothing if it does not exist.
func (c *lakeClient) list(ctx context.Context, dir string) ([]lakePath, error) {
	a := c.get(ctx, true, "GET", "/"+lakeFilesystem+"?resource=filesystem&recursive=true&directory="+dir)
	switch {
	case a.err != nil:
		return nil, a.err
	case a.status == http.StatusNotFound:
		return nil, nil
	case a.status != http.StatusOK:
		return nil, mismatchf("list %s: %d %s", dir, a.status, a.body)
	}
	var page struct{ Paths []lakePath }
	return page.Paths, json.Unmarshal([]byte(a.body), &page)
}

// crossWorker lets two renames and a recursive delete cross in a directory of its own.
type crossWorker struct {
	lakeClient
	name   string
	rounds int
	// answers of the round in flight; nil without one. Its operations may have happened or not.
	answers []*bool
	plan    crossPlan
}

// crossPlan are the operations of a round: renames have a destination, a delete has none.
type crossPlan [3][2]string

// crossStart is the tree with which a round begins.
func crossStart() []string { return []string{"a", "a/f", "b", "b/g", "b/e", "b/e/h"} }

// crossPlans are the kinds of rounds.
var crossPlans = []crossPlan{
	{{"a", "b/a"}, {"b", "a/b"}, {"a"}},
	{{"a", "b/a"}, {"b", "a/b"}, {"b"}},
	{{"a", "b/e/a"}, {"b/e", "a/e"}, {"b"}},
	{{"a", "c"}, {"b", "c"}, {"c"}},
	{{"b/e", "e"}, {"b", "e/b"}, {"b"}},
	{{"a/f", "b/f"}, {"b", "a/b"}, {"a"}},
}

// apply does an operation on a sorted tree. It returns false if that is refused.
func (p crossPlan) apply(i int, tree []string) ([]string, bool) {
	from, to := p[i][0], p[i][1]
	inside := func(path, dir string) bool { return strings.HasPrefix(path+"/", dir+"/") }
	if !slices.Contains(tree, from) || to != "" && (inside(to, from) || slices.Contains(tree, to) ||
		parentOf(to) != "" && !slices.Contains(tree, parentOf(to))) {
		return tree, false
	}
	var next []string
	for _, path := range tree {
		switch {
		case !inside(path, from):
			next = append(next, path)
		case to != "":
			next = append(next, to+path[len(from):])
		}
	}
	slices.Sort(next)
	return next, true
}

func (w *crossWorker) acknowledged() int { return w.rounds }

func (w *crossWorker) connect(s *server) error { return w.lakeClient.connect(s) }

func (w *crossWorker) url(path string) string {
	return "/" + lakeFilesystem + "/" + w.name + "/" + path
}

func (w *crossWorker) step(ctx context.Context, rnd *rand.Rand) error {
	w.answers = nil // a kill here leaves a part of the beginning
	if a := w.do(ctx, true, "DELETE", "/"+lakeFilesystem+"/"+w.name+"?recursive=true", ""); a.err != nil {
		return a.err
	}
	for _, f := range []string{"a/f", "b/g", "b/e/h"} {
		if a := w.do(ctx, true, "PUT", w.url(f)+"?resource=file", ""); a.err != nil || a.status != http.StatusCreated {
			if a.err == nil {
				a.err = mismatchf("create %s: %d %s", f, a.status, a.body)
			}
			return a.err
		}
	}
	w.plan, w.answers = crossPlans[rnd.IntN(len(crossPlans))], make([]*bool, 3)
	var wait sync.WaitGroup
	failed := make([]error, 3)
	for i, op := range w.plan {
		wait.Go(func() {
			var a lakeAnswer
			if op[1] == "" {
				a = w.do(ctx, true, "DELETE", w.url(op[0])+"?recursive=true", "")
			} else {
				a = w.do(ctx, true, "PUT", w.url(op[1])+"?mode=legacy", "", "x-ms-rename-source", w.url(op[0]), "If-None-Match",
					"*")
			}
			done := a.status < 300
			switch {
			case a.err != nil:
				failed[i] = a.err
			case a.status >= 500:
				failed[i] = mismatchf("%v: %d %s", op, a.status, a.body)
			default:
				w.answers[i] = &done
			}
		})
	}
	wait.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if err := w.verify(ctx, false); err != nil {
		return err
	}
	w.rounds++
	return nil
}

// verify looks for an order of the operations that explains the tree and the answers.
func (w *crossWorker) verify(ctx context.Context, _ bool) error {
	if w.answers == nil {
		return nil
	}
	paths, err := w.list(ctx, w.name)
	if err != nil {
		return err
	}
	var got []string
	for _, p := range paths {
		got = append(got, strings.TrimPrefix(p.Name, w.name+"/"))
	}
	slices.Sort(got)
	if !w.explained(crossStart(), 0, got) {
		var answers []string
		for _, a := range w.answers {
			if answers = append(answers, "none"); a != nil {
				answers[len(answers)-1] = fmt.Sprint(*a)
			}
		}
		return mismatchf("%s: %v answered %v and left %q, which no order of them does", w.name, w.plan, answers, got)
	}
	return nil
}

// explained reports whether the operations that are not in done, in some order, lead from a tree to got with the
// answers that were received. Operations without an answer may be left out.
func (w *crossWorker) explained(tree []string, done int, got []string) bool {
	tree = slices.Sorted(slices.Values(tree))
	finished := true
	for i, a := range w.answers {
		if done&(1<<i) != 0 {
			continue
		}
		finished = finished && a == nil
		next, ok := w.plan.apply(i, tree)
		if (a == nil || *a == ok) && w.explained(next, done|1<<i, got) {
			return true
		}
	}
	return finished && slices.Equal(tree, got)
}
