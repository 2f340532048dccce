package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
)

// faultOf reads a rule from the form.
func faultOf(form url.Values) (faultrule.Rule, error) {
	f := faultForm{values: form}
	r := faultrule.Rule{Name: f.text("name"), Service: f.text("service"), Operation: f.text("operation"),
		Resource: f.text("resource"), Account: f.text("account"),
		Client: f.text("client"), Endpoint: f.text("endpoint"), Skip: int(f.whole("skip")), Nth: int(f.whole("nth")),
		Count: int(f.whole("count")),
		Share: f.number("share"), Seed: uint64(f.whole("seed")), For: f.duration("for"), RetryAfter: f.duration("retryAfter")}
	f.action(&r)
	return r, f.err
}

// faultForm reads fields of a form. err is the first thing that is wrong with them.
type faultForm struct {
	values url.Values
	err    error
}

func (f *faultForm) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

func (f *faultForm) text(name string) string { return strings.TrimSpace(f.values.Get(name)) }

// whole is a number that is not negative, 0 for an empty field.
func (f *faultForm) whole(name string) int64 {
	text := f.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		f.fail("%s: %q is not a whole number", name, text)
	}
	return n
}

func (f *faultForm) number(name string) float64 {
	text := f.text(name)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		f.fail("%s: %q is not a number", name, text)
	}
	return v
}

func (f *faultForm) duration(name string) faultrule.Duration {
	text := f.text(name)
	if text == "" {
		return 0
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		f.fail("%s: %q is not a time, such as 2s", name, text)
	}
	return faultrule.Duration(v)
}

// amount is the name of the field that the actions need.
const amount = "amount"

// offset is the amount as a number of bytes.
func (f *faultForm) offset() *int64 {
	n := f.whole(amount)
	return &n
}

// needs hold what the amount of an action is.
var needs = map[string]string{
	"delay": "a time, such as 2s", "lag": "a time, such as 10m", "failover": "a time, such as 10m",
	"slow": "a number of bytes per second", "truncate": "a number of bytes", "corrupt": "the offset of a byte",
	"corruptRequest": "the offset of a byte",
	"throttle":       "a number of requests per second", "throttleBytes": "a number of bytes per second",
}

// action sets what the rule does.
func (f *faultForm) action(r *faultrule.Rule) {
	kind := f.text("kind")
	if needs[kind] != "" && f.text(amount) == "" {
		f.fail("the action needs %s", needs[kind])
	}
	switch kind {
	case "ServerBusy", "OperationTimedOut", "InternalError":
		r.Error = kind
		if f.text(amount) != "" {
			r.RetryAfter = f.duration(amount)
		}
	case "delay":
		r.Delay = f.duration(amount)
	case "slow":
		r.Slow = int(f.whole(amount))
	case "before", "during", "after":
		r.Reset = kind
	case "truncate":
		r.Truncate = f.offset()
	case "corrupt", "corruptRequest":
		r.Corrupt, r.CorruptRequest = f.offset(), kind == "corruptRequest"
	case "unanswered":
		r.Unanswered = true
	case "lag", "failover":
		r.Secondary = &faultrule.Secondary{Lag: f.duration(amount), FailedOver: kind == "failover"}
	case "throttle":
		r.Throttle = &faultrule.Throttle{Requests: f.number(amount), Per: f.text("per")}
	case "throttleBytes":
		r.Throttle = &faultrule.Throttle{Bytes: f.number(amount), Per: f.text("per")}
	case "tableLimits": // as `lazuli fault create --azure-table-limits`
		r.RetryAfter = cmp.Or(r.RetryAfter, faultrule.Duration(time.Second))
		r.Throttle = &faultrule.Throttle{PartitionEntities: faultrule.AzurePartitionEntities,
			AccountEntities: faultrule.AzureAccountEntities}
	default:
		if f.err == nil {
			f.err = errors.New("the form has no action")
		}
	}
}
