package seed

import (
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// FuzzParse: any file is a seed or refused.
func FuzzParse(f *testing.F) {
	f.Add([]byte("tables:\n  people:\n  - {PartitionKey: smith, RowKey: \"1\", Born: \"1984-05-01T00:00:00Z\", " +
		"Born@odata.type: Edm.DateTime}\nqueues:\n  orders: [first, {text: x, visibilityTimeout: 1h}]\n"))
	f.Add([]byte("containers:\n  photos:\n    blobs:\n      a: {base64: AAEC}\nfaults: [{service: blob}]\nevents: " +
		"[{name: hook}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer workbudget.Budget{Time: workbudget.Default.Time, TimePerByte: 10 * workbudget.Default.TimePerByte,
			Bytes: 4 << 20, BytesPerByte: 20_000}.Start(t, len(text))()
		_, _ = parse(text, "devstoreaccount1")
	})
}

// A tag, for which the parser of the library panics, is an error of the file.
func TestTagsAreNoPanic(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"!x|~!!set 1e5", "tables:\n  t:\n  - !x|~!!set 1e5", "queues:\n  t: !x|~!!set 1e5"} {
		if _, err := parse([]byte(text), "a"); err == nil {
			t.Errorf("%q was accepted", text)
		} else {
			t.Log(err)
		}
	}
}
