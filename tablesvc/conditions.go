package tablesvc

import (
	"net/url"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// parseIfMatch parses If-Match: "*", or a tag W/"datetime'...'" with its colons encoded or not. Other text in quotes
// matches no entity; text without quotes is an error.
// https://learn.microsoft.com/rest/api/storageservices/table-service-error-codes
func parseIfMatch(s string) (state.Condition, error) {
	s = strings.TrimSpace(s)
	if s == "*" {
		return state.Condition{Kind: state.AnyVersion}, nil
	}
	tag, ok := cutFold(s, `W/"`) // the entity tags of tables are weak
	if ok {
		tag, ok = strings.CutSuffix(tag, `"`)
	}
	if !ok || strings.Contains(tag, `"`) {
		return state.Condition{}, errInvalidInput.WithMessage("The etag value '" + s +
			"' specified in one of the request headers " +
			"is not valid. Please make sure only one etag value is specified and is valid.")
	}
	if text, err := url.PathUnescape(tag); err == nil {
		if text, ok := strings.CutPrefix(text, "datetime'"); ok {
			if t, ok := ticks.Parse(strings.TrimSuffix(text, "'")); ok {
				return state.Condition{Kind: state.ThisVersion, ETag: t}, nil
			}
			if strings.HasPrefix(text, "'") { // doubled quotes, as clients write them that escape the tag like a key
				return state.Condition{}, wire.ErrConditionNotMet
			}
		}
	}
	return state.Condition{Kind: state.NoVersion}, nil
}

// cutFold removes a prefix in any case.
func cutFold(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}
