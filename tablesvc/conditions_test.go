package tablesvc

import (
	"errors"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

func TestParseIfMatch(t *testing.T) {
	t.Parallel()
	at, _ := ticks.Parse("2017-11-10T02:46:53.636692Z")
	for text, want := range map[string]state.Condition{
		"*": {Kind: state.AnyVersion},
		`W/"datetime'2017-11-10T02%3A46%3A53.636692Z'"`:  {Kind: state.ThisVersion, ETag: at},
		`W/"datetime'2017-11-10T02%3a46%3a53.6366920Z'"`: {Kind: state.ThisVersion, ETag: at},
		`W/"datetime'2017-11-10T02:46:53.636692Z'"`:      {Kind: state.ThisVersion, ETag: at},
		`w/"datetime'2017-11-10T02%3A46%3A53.636692Z'"`:  {Kind: state.ThisVersion, ETag: at},
		`W/"datetime'yesterday'"`:                        {Kind: state.NoVersion},
		`W/"0x8D5"`:                                      {Kind: state.NoVersion},
		`W/""`:                                           {Kind: state.NoVersion},
	} {
		if got, err := parseIfMatch(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", text, got, err, want)
		}
	}
	if got, err := parseIfMatch(`W/"datetime''2017-11-10T02%3A46%3A53.636692Z''"`); !errors.Is(err,
		wire.ErrConditionNotMet) {
		t.Errorf("a tag with doubled quotes: %v, %v", got, err)
	}
	for _, text := range []string{`"datetime'2017-11-10T02%3A46%3A53.636692Z'"`, `"0x8D5"`, `""`, "", "x", `W/`, `"`,
		`W/"a", W/"b"`, `W/"datetime'2017-11-10T02%3A46%3A53Z'`} {
		if got, err := parseIfMatch(text); !errors.Is(err, errInvalidInput) {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
}
