package functions

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
	"github.com/lazuli-storage/lazuli/functions/internal/keys"
	"github.com/lazuli-storage/lazuli/internal/httpserver/originguard"
)

// statusPath is the place of NewStatusHandler. Azure has no such path.
const statusPath = "/admin/lazuli/"

// ownPaths are the host's own: a page at /, and the part of the admin API that is of use on a developer's machine.
// https://learn.microsoft.com/azure/azure-functions/functions-manually-run-non-http
func (h *Host) ownPaths() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if h.keys != nil { // GET /admin/functions, with the master key, has the functions
			_, _ = io.WriteString(w, "This function app is up and running.\n")
			return
		}
		_, _ = io.WriteString(w, "This function app is up and running:\n\n"+strings.Join(h.Describe(r.Host), "\n")+"\n")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound) // Without a body, as the Functions host does.
	})
	local := func(pattern string, do http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if why := originguard.Refusal(r, h.config.AllowHosts); why != "" && h.keys == nil {
				http.Error(w, why, http.StatusForbidden)
				return
			}
			do(w, r)
		})
	}
	admin := func(pattern string, do http.HandlerFunc) {
		local(pattern, func(w http.ResponseWriter, r *http.Request) {
			if h.keys.Admit(w, r) {
				do(w, r)
			}
		})
	}
	admin("GET /admin/host/status", func(w http.ResponseWriter, _ *http.Request) {
		jsonvalue.Respond(w, http.StatusOK, map[string]any{
			"id": h.project.hostID(), "state": "Running", "version": HostVersion, "versionDetails": "Lazuli",
			"instanceId": "", "computerName": "", "processUptime": time.Since(h.began).Milliseconds(),
		})
	})
	ping := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	local("GET /admin/host/ping", ping)
	local("POST /admin/host/ping", ping)
	admin("GET /admin/functions", func(w http.ResponseWriter, r *http.Request) {
		list := []any{}
		for _, f := range slices.Concat(h.project.functions, h.project.disabled) {
			list = append(list, h.summary(f, r.Host))
		}
		jsonvalue.Respond(w, http.StatusOK, list)
	})
	one := func(do func(w http.ResponseWriter, r *http.Request, f *function)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			f, err := h.functionNamed(r.PathValue("name"))
			if err != nil {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			do(w, r, f)
		}
	}
	admin("GET /admin/functions/{name}", one(func(w http.ResponseWriter, r *http.Request, f *function) {
		jsonvalue.Respond(w, http.StatusOK, h.summary(f, r.Host))
	}))
	admin("GET /admin/functions/{name}/status", one(func(w http.ResponseWriter, _ *http.Request, _ *function) {
		jsonvalue.Respond(w, http.StatusOK, map[string]any{})
	}))
	admin("POST /admin/functions/{name}", one(h.invokeManually))
	api := &keys.API{Keys: h.keys, Log: h.log, Function: func(name string) (string, bool) {
		f, err := h.functionNamed(name)
		if err != nil {
			return "", false
		}
		return f.name, true
	}}
	api.Register(admin)
	admin(statusPath, http.StripPrefix(strings.TrimSuffix(statusPath, "/"), NewStatusHandler(h)).ServeHTTP)
	mux.HandleFunc("/runtime/webhooks/{extension}", h.serveWebhook)
	if h.durable != nil {
		local(durablePath, h.serveDurable)
		local(durableCalls+"{secret}/", h.serveDurableCalls)
	}
	return mux
}

// invokeManually starts an invocation and does not wait for its end.
func (h *Host) invokeManually(w http.ResponseWriter, r *http.Request, f *function) {
	if f.trigger.kind == kindHTTPTrigger {
		http.Error(w, "an HTTP trigger is called at its own address: http://"+r.Host+"/"+h.pathOf(f), http.StatusBadRequest)
		return
	}
	if f.isDurable() {
		http.Error(w, "workflows are started at http://"+r.Host+durablePath+
			"orchestrators/<function>, and call their activities themselves", http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var call *struct{ Input json.RawMessage }
	if err == nil {
		err = json.Unmarshal(body, &call)
	}
	if err != nil || call == nil {
		http.Error(w, `want a body like {"input": "text"}`, http.StatusBadRequest)
		return
	}
	h.calls.Go(func() {
		if err := h.callManually(h.hard, f, call.Input); err != nil {
			h.log.Debug("an invocation by the admin API failed", "function", f.name, "err", err)
		}
	})
	w.WriteHeader(http.StatusAccepted)
}

// summary describes how the admin API shows a function.
func (h *Host) summary(f *function, address string) any {
	s := map[string]any{
		"name": f.name, "isDisabled": slices.Contains(h.project.disabled, f), "language": h.language(),
		"href": "http://" + address + "/admin/functions/" + f.name, "trigger": f.trigger.kind,
	}
	if f.route != nil {
		s["invoke_url_template"] = "http://" + address + "/" + h.pathOf(f)
	}
	return s
}

func (h *Host) language() string {
	if h.project.host.runtime != "" {
		return h.project.host.runtime
	}
	return "Custom"
}
