package listing

import (
	"errors"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

func TestPositions(t *testing.T) {
	t.Parallel()
	for _, want := range []position{
		{path: "a/b", number: 7}, {path: "a/b", number: 7, trash: true}, {path: "a/", trash: true}, {number: 1 << 63},
		{path: "a", number: uint64(record.BaseSlot)},
	} {
		if got, err := parsePosition(want.encode()); err != nil || got != want {
			t.Errorf("%+v is %+v, %v", want, got, err)
		}
	}
	for marker, want := range map[string]error{
		"": nil, "a/b": nil, "a\x00": record.ErrKey, "a\x001234567": record.ErrKey, "a\x0012345678": nil,
		"a\x0012345678t": nil, "a\x0012345678u": record.ErrKey, "a\x0012345678tt": record.ErrKey,
	} {
		if _, err := parsePosition([]byte(marker)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", marker, err, want)
		}
	}
}
