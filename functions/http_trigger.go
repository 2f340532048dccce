package functions

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// serve calls a function for a request, and answers with its http output. If the client disconnects, a language worker
// that cancels invocations is asked to; the call continues otherwise, and in any case until the function has returned:
// its effects must not depend on that. https://github.com/Azure/azure-functions-host (FunctionInvocationMiddleware)
func (h *Host) serve(w http.ResponseWriter, r *http.Request, f *function, params map[string]any) {
	h.calls.Add(1)
	defer h.calls.Done()
	ctx := h.hard
	inv := h.newInvocation(ctx, f, "This function was called by an HTTP request.")
	inv.gone = r.Context().Done()
	var body []byte
	var err error
	if h.project.worker != nil && h.project.worker.TakesRequests() {
		inv.forward = func(ctx context.Context, address string, returned <-chan error) error {
			var err error
			inv.forwarded, err = h.worker.Pass(ctx, w, r, inv.id, address, returned)
			inv.broken = inv.forwarded && err != nil
			return err
		}
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	}
	if err != nil {
		status := http.StatusBadRequest
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, http.StatusText(status), status)
		return
	}
	inv.traceOf(r)
	inv.fromHTTP(r, params, body)
	var result *httpResult
	err = h.wrap(ctx, inv, func(ctx context.Context) error {
		result, err = h.call(ctx, inv)
		return err
	})
	switch {
	case inv.broken:
		panic(http.ErrAbortHandler) // The client is to see that the response is not complete.
	case inv.forwarded:
		return
	}
	if err != nil || result == nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	result.send(w)
}

// fromHTTP takes what an HTTP trigger offers.
func (inv *invocation) fromHTTP(r *http.Request, params map[string]any, body []byte) {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	address := scheme + "://" + r.Host + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		address += "?" + r.URL.RawQuery
	}
	query, headers := map[string]string{}, map[string]string{"Host": r.Host}
	for name, values := range r.URL.Query() {
		query[name] = strings.Join(values, ",")
	}
	all := map[string][]string{"Host": {r.Host}}
	for name, values := range r.Header {
		all[name], headers[name] = values, strings.Join(values, ",")
	}
	if len(body) > 0 && r.ContentLength >= 0 {
		all["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	text := map[string]string{}
	for name, value := range params {
		if value != nil {
			text[name] = fmt.Sprint(value)
		}
	}
	v := httpData{URL: address, Method: r.Method, Query: query, Headers: all, Params: params, Identities: []any{anonymous},
		request: &HTTPRequest{
			Method: r.Method, URL: address, Header: all, Query: query, Params: text, Body: body}}
	if len(body) > 0 {
		text := string(bytes.ToValidUTF8(body, []byte("\ufffd")))
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if kind == "application/octet-stream" || strings.HasPrefix(kind, "multipart/") {
			text = base64.StdEncoding.EncodeToString(body)
		}
		v.Body = &text
	}
	inv.data.AddPayload(string(body))
	for name, value := range query {
		if !strings.EqualFold(name, "code") { // A key, if anything.
			inv.data.Set(name, value)
		}
	}
	for name, value := range params {
		inv.data.Set(name, value)
	}
	if _, ok := inv.data.Get("Query"); !ok {
		inv.data.Set("Query", query)
	}
	if _, ok := inv.data.Get("Headers"); !ok {
		inv.data.Set("Headers", headers)
	}
	inv.trigger = v
}

// anonymous is the identity of an unauthenticated client, in .NET's form.
var anonymous = map[string]any{
	"AuthenticationType": nil, "IsAuthenticated": false, "Actor": nil, "BootstrapContext": nil, "Claims": []any{},
	"Label": nil, "Name": nil,
	"NameClaimType": "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name",
	"RoleClaimType": "http://schemas.microsoft.com/ws/2008/06/identity/claims/role",
}
