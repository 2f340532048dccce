package functions

import (
	"os"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/lazulitest"
)

// languagesVar names the commands of the languages whose examples are to be tested: "python3 node". `go test ./...` is
// to need nothing but Go; .ci/sdks sets it.
const languagesVar = "LAZULI_TEST_LANGUAGES"

// Handlers in other languages, as people write them for Azure Functions, run unchanged.
func TestExamples(t *testing.T) {
	folders := map[string]string{"python3": "python", "node": "node"}
	languages := strings.Fields(os.Getenv(languagesVar))
	if len(languages) == 0 {
		t.Skip("set " + languagesVar + ` to "python3 node"`)
	}
	for _, language := range languages {
		dir, ok := folders[language]
		if !ok {
			t.Errorf("%s: there is no example in %s", languagesVar, language)
			continue
		}
		t.Run(language, func(t *testing.T) {
			r := runOn(t, lazulitest.Start(t).ConnectionString(), "../examples/functions/"+dir, nil,
				"TickSchedule=* * * * * *")
			if len(r.Warnings()) > 0 {
				t.Error(r.Warnings())
			}
			for path, want := range map[string]string{"/api/hello/Ada": "200 Hello, Ada!",
				"/api/hello?name=Bob": "200 Hello, Bob!", "/api/hello": "200 Hello, world!"} {
				if got := get(t, r.url+path); got != want {
					t.Errorf("%s: %s", path, got)
				}
			}
			if got := strings.ReplaceAll(do(t, "POST", r.url+"/api/order", `{"id": 7, "item": "lamp", "pieces": 2}`), " ",
				""); got != `202{"accepted":7}` {
				t.Error(got)
			}
			if got := do(t, "POST", r.url+"/api/order", `{}`); !strings.HasPrefix(got, "400 ") {
				t.Error(got)
			}
			if got := do(t, "POST", r.url+"/api/order", `{"id": 8}`); !strings.HasPrefix(got, "202 ") {
				t.Error(got)
			}
			eventually(t, "the order is shipped", func() bool { return len(messages(t, r.storage, "shipped")) == 2 })
			if got := messages(t, r.storage, "shipped"); got[0] != "order 7 is on its way" || got[1] != "invoice for order 7" {
				t.Errorf("%q", got)
			}
			if got := blobText(t, r.storage, "slips/7.txt"); got != "lamp for order 7, attempt 1" {
				t.Error(got)
			}
			if got, err := r.storage.Tables.NewClient("Shipped").GetEntity(t.Context(), "orders", "7", nil); err != nil ||
				!strings.Contains(string(got.Value), `"Pieces":"2"`) {
				t.Errorf("%s, %v", got.Value, err)
			}
			eventually(t, "the order without an item is poison",
				func() bool { return len(messages(t, r.storage, "orders-poison")) == 1 })

			if _, err := r.storage.Blobs.CreateContainer(t.Context(), "incoming", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := r.storage.Blobs.UploadBuffer(t.Context(), "incoming", "note.txt", []byte("hello"), nil); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the blob is copied", func() bool { return blobText(t, r.storage, "upper/note.txt") == "HELLO" })
			eventually(t, "the timer ticks", func() bool { return len(messages(t, r.storage, "ticks")) > 0 })
			if err := r.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
