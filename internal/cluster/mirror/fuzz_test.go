package mirror

import (
	"encoding/json"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// FuzzMessages: any message of another node is parsed or refused.
func FuzzMessages(f *testing.F) {
	p := put{id: 7, offset: 32, syncs: []uint64{1, 2}, records: []byte("record")}
	f.Add(p.appendTo(nil))
	f.Add(answer(nil, 5, []byte("x")))
	f.Add((&question{Op: opRecord, Extent: 1, Offset: 2, Length: 3}).encode())
	f.Fuzz(func(t *testing.T, message []byte) {
		defer workbudget.Default.Start(t, len(message))()
		if p, err := parsePut(message); err == nil && string(p.appendTo(nil)) != string(message) {
			t.Errorf("%x is parsed as %+v", message, p)
		}
		_, _, _ = parseAnswer(message)
		var q question
		_ = json.Unmarshal(message, &q)
		var l listing
		_ = json.Unmarshal(message, &l)
	})
}
