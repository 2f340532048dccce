package languageworker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
)

// A file of cases says what goes into an app and what must come out of it. One case has one step, or several in order.

type caseFile struct{ Cases []testCase }

type testCase struct {
	Function, Name string
	Steps          []step
	step
}

// step does something, and waits for what must come.
type step struct {
	Given struct {
		Blobs    map[string]string
		Entities map[string]map[string]any // by table, PartitionKey and RowKey, with slashes between
	}
	HTTP *caseRequest
	// Abort is the time in milliseconds after which the client goes away.
	Abort  int
	Put    *casePut
	Upload *caseUpload
	Admin  json.RawMessage
	// Until is what a request is repeated for.
	Until   *want
	Want    want
	Seconds int
}

type caseRequest struct {
	Method, Path string
	Headers      map[string]string
	Text, Base64 string
	Pattern      int
	Chunked      bool
}

type casePut struct{ Queue, Text, Base64 string }

type caseUpload struct{ Blob, Text, Base64 string }

type want struct {
	Status         json.RawMessage // a number, or a list of them
	Headers        map[string]any
	Cookies        []string
	Text           *string
	Base64, SHA256 string
	Matches        string
	JSON           any
	Some           bool
	MayBreak       bool
	FirstBeforeEnd int
	Queues         map[string][]any
	Blobs          map[string]any
	Entities       map[string]map[string]any // by table, PartitionKey and RowKey, with slashes between
	Log, LogNot    []string
}

// readCases reads a file of cases. base replaces $BASE in it, and app $APP.
func readCases(t testing.TB, file, base, app string) []testCase {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte("$BASE"), []byte(base))
	text = bytes.ReplaceAll(text, []byte("$APP"), []byte(app))
	var f caseFile
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return f.Cases
}

// runCases runs cases in their order.
func (r *running) runCases(t *testing.T, cases []testCase) {
	t.Helper()
	for _, c := range cases {
		steps := c.Steps
		if len(steps) == 0 {
			steps = []step{c.step}
		}
		t.Run(c.Function+"/"+c.Name, func(t *testing.T) {
			for i, s := range steps {
				s.Seconds = max(s.Seconds, c.Seconds, 15) * caseSlowness
				if err := r.runStep(t.Context(), c.Function, s); err != nil {
					t.Fatalf("step %d: %v", i+1, err)
				}
			}
		})
	}
}

// caseSlowness is a factor for the times of cases: a machine may do other things.
const caseSlowness = 4

// runStep returns an error if something else comes than what is wanted.
func (r *running) runStep(ctx context.Context, function string, s step) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.Seconds)*time.Second)
	defer cancel()
	blobs := r.storage.Blobs
	upload := func(name string, content []byte) error {
		container, blob, _ := strings.Cut(name, "/")
		if _, err := blobs.CreateContainer(ctx, container, nil); err != nil &&
			!bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
			return err
		}
		_, err := blobs.UploadBuffer(ctx, container, blob, content, nil)
		return err
	}
	for name, content := range s.Given.Blobs {
		if err := upload(name, []byte(content)); err != nil {
			return err
		}
	}
	for name, members := range s.Given.Entities {
		if err := r.insert(ctx, name, members); err != nil {
			return err
		}
	}
	logged := len(r.log.String())
	switch {
	case s.HTTP != nil:
		if err := r.ask(ctx, s); err != nil {
			return err
		}
	case s.Put != nil:
		queue := r.storage.Queues.NewQueueClient(s.Put.Queue)
		if err := queuetool.Put(ctx, queue, contentOf(s.Put.Text, s.Put.Base64),
			queuetool.PutOptions{Create: true}); err != nil {
			return err
		}
	case s.Upload != nil:
		if err := upload(s.Upload.Blob, contentOf(s.Upload.Text, s.Upload.Base64)); err != nil {
			return err
		}
	case s.Admin != nil:
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/admin/functions/"+function,
			bytes.NewReader(s.Admin))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusAccepted {
			return fmt.Errorf("the admin API answers %s", response.Status)
		}
	}
	for queue, messages := range s.Want.Queues {
		if err := r.wantMessages(ctx, queue, messages); err != nil {
			return err
		}
	}
	for name, content := range s.Want.Blobs {
		if err := r.wantBlob(ctx, name, content); err != nil {
			return err
		}
	}
	for name, members := range s.Want.Entities {
		if err := r.wantEntity(ctx, name, members); err != nil {
			return err
		}
	}
	for _, text := range s.Want.Log {
		if err := until(ctx, func() error {
			if !strings.Contains(r.log.String(), text) {
				return fmt.Errorf("the log lacks %q", text)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	for _, text := range s.Want.LogNot {
		if strings.Contains(r.log.String()[logged:], text) {
			return fmt.Errorf("the log has %q", text)
		}
	}
	return nil
}

func contentOf(text, encoded string) []byte {
	if encoded == "" {
		return []byte(text)
	}
	content, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		panic(err)
	}
	return content
}

// until repeats a check until it succeeds or ctx is done.
func until(ctx context.Context, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// answer is a response with its body.
type answer struct {
	*http.Response
	body         []byte
	begin, ended time.Time
	err          error // of the body
}

// ask sends the request of a step, repeatedly if it waits for something.
func (r *running) ask(ctx context.Context, s step) error {
	if s.Abort > 0 {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(s.Abort)*time.Millisecond)
		defer cancel()
		if _, err := r.request(ctx, s.HTTP); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("there is a response before the client goes away, or another error: %w", err)
		}
		return nil
	}
	var a *answer
	if s.Until != nil {
		s.Until.Some = true
		if err := until(ctx, func() (err error) {
			if a, err = r.request(ctx, s.HTTP); err != nil {
				return err
			}
			return s.Until.check(a)
		}); err != nil {
			return fmt.Errorf("%s: %w", s.HTTP.Path, err)
		}
	} else {
		var err error
		if a, err = r.request(ctx, s.HTTP); err != nil {
			return err
		}
	}
	if err := s.Want.check(a); err != nil {
		return fmt.Errorf("%s: %w", s.HTTP.Path, err)
	}
	return nil
}

func (r *running) request(ctx context.Context, c *caseRequest) (*answer, error) {
	body := contentOf(c.Text, c.Base64)
	if c.Pattern > 0 {
		body = make([]byte, c.Pattern)
		for i := range body {
			body[i] = byte(i % 251)
		}
	}
	reader := io.Reader(bytes.NewReader(body))
	if c.Chunked {
		reader = io.MultiReader(reader)
	}
	request, err := http.NewRequestWithContext(ctx, c.Method, r.url+c.Path, reader)
	if err != nil {
		return nil, err
	}
	for name, value := range c.Headers {
		request.Header.Set(name, value)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	a := &answer{Response: response}
	first := make([]byte, 1)
	n, err := io.ReadFull(response.Body, first)
	a.begin = time.Now()
	rest := []byte{}
	if err == nil {
		rest, err = io.ReadAll(response.Body)
	} else if errors.Is(err, io.EOF) {
		err = nil
	}
	a.ended, a.err, a.body = time.Now(), err, append(first[:n], rest...)
	return a, nil
}

// check compares a response with what is wanted.
func (w *want) check(a *answer) error {
	if a.err != nil && !w.MayBreak {
		return fmt.Errorf("the body breaks off: %w", a.err)
	}
	if w.Status != nil {
		var any []int
		if json.Unmarshal(w.Status, &any) != nil {
			any = make([]int, 1)
			if err := json.Unmarshal(w.Status, &any[0]); err != nil {
				return err
			}
		}
		if !slices.Contains(any, a.StatusCode) {
			return fmt.Errorf("the status is %d, want %v; body %.300q", a.StatusCode, any, a.body)
		}
	}
	for name, value := range w.Headers {
		got := strings.Join(a.Header.Values(name), ", ")
		if err := same(got, value, false); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	if w.Cookies != nil && !slices.Equal(a.Header.Values("Set-Cookie"), w.Cookies) {
		return fmt.Errorf("cookies %q, want %q", a.Header.Values("Set-Cookie"), w.Cookies)
	}
	if w.FirstBeforeEnd > 0 && a.ended.Sub(a.begin) < time.Duration(w.FirstBeforeEnd)*time.Millisecond {
		return fmt.Errorf("the first byte came %v before the end", a.ended.Sub(a.begin))
	}
	switch {
	case w.Text != nil && string(a.body) != *w.Text:
		return fmt.Errorf("body %.300q, want %.300q", a.body, *w.Text)
	case w.Base64 != "" && base64.StdEncoding.EncodeToString(a.body) != w.Base64:
		return fmt.Errorf("body %q, want base64 %s", a.body, w.Base64)
	case w.SHA256 != "":
		if sum := sha256.Sum256(a.body); hex.EncodeToString(sum[:]) != w.SHA256 {
			return fmt.Errorf("%d bytes with another SHA-256", len(a.body))
		}
	case w.Matches != "":
		return same(string(a.body), map[string]any{"matches": w.Matches}, false)
	}
	if w.JSON == nil {
		return nil
	}
	return sameJSON(a.body, w.JSON, w.Some)
}

func sameJSON(text []byte, want any, some bool) error {
	var got any
	if err := json.Unmarshal(text, &got); err != nil {
		return fmt.Errorf("%w: %.500q", err, text)
	}
	if err := same(got, want, some); err != nil {
		return fmt.Errorf("%w, in %.1000s", err, text)
	}
	return nil
}

// same compares a JSON value with what is wanted: {"any": true} is any value, {"matches": R} a text that matches,
// {"startsWith": P} one that begins so, {"has": [...]} a list with these. some: the object may have more members.
func same(got, want any, some bool) error {
	object, ok := want.(map[string]any)
	if !ok {
		if list, ok := want.([]any); ok {
			items, ok := got.([]any)
			if !ok || len(items) != len(list) {
				return fmt.Errorf("got %v, want %v", got, want)
			}
			for i := range list {
				if err := same(items[i], list[i], false); err != nil {
					return fmt.Errorf("element %d: %w", i, err)
				}
			}
			return nil
		}
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("got %.500v, want %.500v", got, want)
		}
		return nil
	}
	if len(object) == 1 {
		if object["any"] == true {
			return nil
		}
		if expression, ok := object["matches"].(string); ok {
			text, isText := got.(string)
			if !isText || !regexp.MustCompile(expression).MatchString(text) {
				return fmt.Errorf("got %.500v, want a match of %s", got, expression)
			}
			return nil
		}
		if prefix, ok := object["startsWith"].(string); ok {
			if text, isText := got.(string); !isText || !strings.HasPrefix(text, prefix) {
				return fmt.Errorf("got %.500v, want something that begins with %s", got, prefix)
			}
			return nil
		}
		if list, ok := object["has"].([]any); ok {
			items, _ := got.([]any)
			for _, item := range list {
				if !slices.ContainsFunc(items, func(v any) bool { return same(v, item, false) == nil }) {
					return fmt.Errorf("got %v, which lacks %v", got, item)
				}
			}
			return nil
		}
	}
	members, ok := got.(map[string]any)
	if !ok {
		return fmt.Errorf("got %v, want an object %v", got, want)
	}
	for name, value := range object {
		member, ok := members[name]
		if !ok {
			return fmt.Errorf("the member %s is missing in %v", name, got)
		}
		if err := same(member, value, false); err != nil {
			return fmt.Errorf("member %s: %w", name, err)
		}
	}
	if !some && len(members) > len(object) {
		return fmt.Errorf("got %v, which has more members than %v", got, want)
	}
	return nil
}

// wantContent compares a blob or a message: text, {"json": V}, {"text": T} or {"base64": B}.
func wantContent(content []byte, want any) error {
	object, ok := want.(map[string]any)
	if !ok {
		return same(string(content), want, false)
	}
	if v, ok := object["json"]; ok {
		return sameJSON(content, v, false)
	}
	if v, ok := object["base64"]; ok {
		return same(base64.StdEncoding.EncodeToString(content), v, false)
	}
	if v, ok := object["text"]; ok {
		return same(string(content), v, false)
	}
	return same(string(content), want, false)
}

// wantMessages takes the messages of a queue, which are to come in any order, and none more.
func (r *running) wantMessages(ctx context.Context, name string, messages []any) error {
	queue := r.storage.Queues.NewQueueClient(name)
	var left [][]byte
	missing := slices.Clone(messages)
	take := func() error {
		got, err := queue.DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(32))})
		if queueerror.HasCode(err, queueerror.QueueNotFound) {
			err = nil
		}
		if err != nil {
			return err
		}
		for _, m := range got.Messages {
			content, err := base64.StdEncoding.DecodeString(*m.MessageText)
			if err != nil {
				return fmt.Errorf("queue %s: a message is not base64: %w", name, err)
			}
			left = append(left, content)
			if _, err := queue.DeleteMessage(ctx, *m.MessageID, *m.PopReceipt, nil); err != nil {
				return err
			}
		}
		return nil
	}
	err := until(ctx, func() error {
		if err := take(); err != nil {
			return err
		}
		if len(left) < len(messages) {
			return fmt.Errorf("queue %s: got %q, want %v", name, left, messages)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(messages) > 0 {
		if err := take(); err != nil {
			return err
		}
	}
	for _, content := range left {
		i := slices.IndexFunc(missing, func(m any) bool { return wantContent(content, m) == nil })
		if i < 0 {
			return fmt.Errorf("queue %s: got %q, want %v", name, left, messages)
		}
		missing = slices.Delete(missing, i, i+1)
	}
	return nil
}

func (r *running) wantBlob(ctx context.Context, name string, content any) error {
	container, blob, _ := strings.Cut(name, "/")
	return until(ctx, func() error {
		got, err := r.storage.Blobs.DownloadStream(ctx, container, blob, nil)
		if err != nil {
			return fmt.Errorf("blob %s: %w", name, err)
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		if err != nil {
			return err
		}
		if err := wantContent(text, content); err != nil {
			return fmt.Errorf("blob %s: %w", name, err)
		}
		return nil
	})
}

// entityKeys takes apart the name of an entity in a case.
func entityKeys(name string) (table, partition, row string) {
	table, rest, _ := strings.Cut(name, "/")
	partition, row, _ = strings.Cut(rest, "/")
	return table, partition, row
}

// insert writes an entity, whose table it creates.
func (r *running) insert(ctx context.Context, name string, members map[string]any) error {
	table, partition, row := entityKeys(name)
	client := r.storage.Tables.NewClient(table)
	failed := (*azcore.ResponseError)(nil)
	if _, err := client.CreateTable(ctx, nil); err != nil && !(errors.As(err, &failed) &&
		failed.ErrorCode == string(aztables.TableAlreadyExists)) {
		return err
	}
	entity := map[string]any{"PartitionKey": partition, "RowKey": row}
	maps.Copy(entity, members)
	text, err := json.Marshal(entity)
	if err != nil {
		return err
	}
	_, err = client.AddEntity(ctx, text, nil)
	return err
}

// wantEntity waits for an entity, which may have more properties.
func (r *running) wantEntity(ctx context.Context, name string, members map[string]any) error {
	table, partition, row := entityKeys(name)
	return until(ctx, func() error {
		got, err := r.storage.Tables.NewClient(table).GetEntity(ctx, partition, row, nil)
		if err != nil {
			return fmt.Errorf("entity %s: %w", name, err)
		}
		return sameJSON(got.Value, members, true)
	})
}
