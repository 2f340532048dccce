package observe

import (
	"context"
	"log/slog"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// RequestLog returns a function for [frontend.Common.Observe] that logs each request at debug level, or nil if log does
// not log at that level: then there is no cost.
//
// The keys are service, account, op, method, path, status, code (Azure's error code after an error), fault (the fault
// rule that had an effect, if any), bytes, ms, version, client (the user agent), request_id and client_request_id.
// Query strings are left out since they contain signatures, and so are bodies and all other headers.
func RequestLog(log *slog.Logger) func(*wire.Request, frontend.Outcome) {
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return nil
	}
	return func(r *wire.Request, o frontend.Outcome) {
		attrs := []slog.Attr{
			slog.String("service", r.Endpoint().String()),
			slog.String("account", r.Account),
			slog.String("op", r.Operation),
			slog.String("method", r.HTTP.Method),
			slog.String("path", r.URIPath),
			slog.Int("status", o.Status),
		}
		if r.Failure != nil {
			attrs = append(attrs, slog.String("code", r.Failure.Code))
		}
		if r.Fault != "" {
			attrs = append(attrs, slog.String("fault", r.Fault))
		}
		attrs = append(attrs,
			slog.Int64("bytes", o.Written),
			slog.Float64("ms", float64(o.Duration.Microseconds())/1000),
			slog.String("version", r.VersionHeader),
			slog.String("client", r.HTTP.UserAgent()),
			slog.String("request_id", r.ID),
			slog.String("client_request_id", r.ClientID))
		log.LogAttrs(context.Background(), slog.LevelDebug, "request", attrs...)
	}
}
