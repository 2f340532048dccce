package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// counter writes rising numbers to a blob, and notes when each write began, and when it was acknowledged.
type counter struct {
	mu           sync.Mutex // guards the rest
	began, acked []time.Time
}

func openBox(t *testing.T, s *server) *container.Client {
	t.Helper()
	c, err := container.NewSharedKeyCredential(account, key)
	check.OK(t, err)
	return check.Must(container.NewClientWithSharedKeyCredential(s.blob+"/box", c,
		&container.ClientOptions{ClientOptions: s.options()}))(t)
}

// run writes until ctx ends. A number whose write failed is written again.
func (c *counter) run(ctx context.Context, box *container.Client) {
	for ctx.Err() == nil {
		text := streaming.NopCloser(bytes.NewReader(strconv.AppendInt(nil, int64(len(c.acked)), 10)))
		began := time.Now()
		_, err := box.NewBlockBlobClient("counter").Upload(ctx, text, nil)
		if err == nil {
			c.mu.Lock()
			c.began, c.acked = append(c.began, began), append(c.acked, time.Now())
			c.mu.Unlock()
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// fill uploads content. While the archive is behind, a server with a fence refuses it.
func fill(ctx context.Context, box *container.Client, name string, p []byte) error {
	for {
		_, err := box.NewBlockBlobClient(name).Upload(ctx, streaming.NopCloser(bytes.NewReader(p)), nil)
		if !bloberror.HasCode(err, bloberror.ServerBusy) {
			return err
		}
		pause(ctx, time.Second)
	}
}

// A server with much content and a steady writer dies. Its standby is the server soon, within a minute on a machine of
// its own, and has everything that was acknowledged more than 15 seconds before.
func TestPromotionUnderAWriter(t *testing.T) {
	t.Parallel()
	binary := check.Must(build())(t)
	dir := t.TempDir()
	place := filepath.Join(dir, "place")
	first := start(t, binary, filepath.Join(dir, "first"), "--archive", place, "--archive-fence")
	box := openBox(t, first)
	check.Must(box.Create(t.Context(), nil))(t)
	const size = 16 << 20
	blobs, random := check.Size(4, 64), rand.NewChaCha8([32]byte{3})
	p := make([]byte, size)
	for i := range blobs {
		_, _ = random.Read(p)
		check.OK(t, fill(t.Context(), box, fmt.Sprint(i), p))
	}
	ctx, stop := context.WithCancel(t.Context())
	var c counter
	var writing sync.WaitGroup
	writing.Go(func() { c.run(ctx, box) })
	defer writing.Wait()
	defer stop()
	second := start(t, binary, filepath.Join(dir, "second"), "--standby-of", place)
	there := openBox(t, second)
	value := func() int {
		r, err := there.NewBlobClient("counter").DownloadStream(t.Context(), nil)
		if err != nil {
			return -1
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		n, err2 := strconv.Atoi(string(text))
		if err != nil || err2 != nil {
			return -1
		}
		return n
	}
	// It follows: what was written since it was ready arrives.
	began := value()
	check.Eventually(t, func() bool { return value() > began+50 }, "the standby follows")
	pause(t.Context(), time.Duration(check.Size(1, 20))*time.Second) // the writer goes on meanwhile
	first.kill(t)
	died := time.Now()
	stop()
	writing.Wait()

	admin := check.Must(url.Parse(second.Admin))(t)
	out := check.Must(exec.CommandContext(t.Context(), binary, "standby", "promote", "--admin-port", admin.Port(),
		"--json").Output())(t)
	// It waits out the lease of the fence, 11 s; the rest is work, for which a busy machine takes its time.
	took := time.Since(died)
	if !json.Valid(out) || took > patience {
		t.Errorf("the promotion took %v: %s", took, out)
	}
	text := streaming.NopCloser(bytes.NewReader([]byte("x")))
	_, err := there.NewBlockBlobClient("after").Upload(t.Context(), text, nil)
	check.OK(t, err)
	n := value()
	var lost time.Duration
	if n+1 < len(c.acked) {
		// The server acknowledges nothing while its archive is 15 s behind. It has acknowledged the last write after that
		// began, and the first that is lost before its client knew it: this is 15 s at most on any machine.
		lost = c.began[len(c.began)-1].Sub(c.acked[n+1])
	}
	if n < 0 || lost > 15*time.Second {
		t.Errorf("the standby has number %d of %d: writes of %v are lost", n, len(c.acked), lost)
	}
	for i := range blobs {
		props, err := there.NewBlobClient(fmt.Sprint(i)).GetProperties(t.Context(), nil)
		if err != nil || *props.ContentLength != size {
			t.Errorf("blob %d: %v", i, err)
		}
	}
	t.Logf("%d MiB: promoted %v after the kill, %d numbers were written, %d are lost, of %v", blobs*size>>20,
		took.Round(time.Millisecond), len(c.acked), max(0, len(c.acked)-n-1), lost.Round(time.Millisecond))
}
