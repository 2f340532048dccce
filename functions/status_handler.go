package functions

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// NewStatusHandler serves the state of a host to pages and tools:
//
//	GET  /                           the Status as JSON
//	GET  /{function}                 its FunctionStatus
//	GET  /{function}/invocations/ID  an InvocationStatus
//	POST /{function}/run             RunNow, with a Run as JSON in the body; the answer is a Ran
//
// It has no authentication, and does not look at what has caused a request: serve it on a loopback address, behind a
// check of origins. The host itself serves it below /admin/lazuli/.
func NewStatusHandler(h *Host) http.Handler {
	mux := http.NewServeMux()
	refuse := func(w http.ResponseWriter, status int, message string) {
		jsonvalue.Respond(w, status, map[string]string{"error": message})
	}
	// Each pattern names its method, so that the mux answers 405 for others, with Allow.
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		jsonvalue.Respond(w, http.StatusOK, h.Status(r.Context()))
	})
	mux.HandleFunc("GET /{function}", func(w http.ResponseWriter, r *http.Request) {
		s, err := h.FunctionStatus(r.PathValue("function"))
		if err != nil {
			refuse(w, http.StatusNotFound, err.Error())
			return
		}
		jsonvalue.Respond(w, http.StatusOK, s)
	})
	mux.HandleFunc("GET /{function}/invocations/{id}", func(w http.ResponseWriter, r *http.Request) {
		i, err := h.Invocation(r.PathValue("function"), r.PathValue("id"))
		if err != nil {
			refuse(w, http.StatusNotFound, err.Error())
			return
		}
		jsonvalue.Respond(w, http.StatusOK, i)
	})
	mux.HandleFunc("POST /{function}/run", func(w http.ResponseWriter, r *http.Request) {
		var run Run
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&run); err != nil {
			refuse(w, http.StatusBadRequest, `want a body like {"input": "text"}`)
			return
		}
		ran, err := h.RunNow(r.Context(), r.PathValue("function"), run)
		switch {
		case errors.Is(err, ErrNoFunction):
			refuse(w, http.StatusNotFound, err.Error())
		case errors.Is(err, ErrNotRunnable):
			refuse(w, http.StatusBadRequest, err.Error())
		// Not 500: the function has run and failed, and the text is its own.
		case err != nil:
			refuse(w, http.StatusUnprocessableEntity, sdkerr.Text(err))
		default:
			jsonvalue.Respond(w, http.StatusOK, ran)
		}
	})
	return mux
}
