package languageworker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lazuli-storage/lazuli/functions"
	details "github.com/lazuli-storage/lazuli/internal/durable/failure"
	rpc "github.com/lazuli-storage/lazuli/internal/functions/languageworker/internal/functionrpc"
)

// request makes the message of an invocation.
func (w *worker) request(c *functions.Invocation, forwarded bool) (*rpc.InvocationRequest, error) {
	r := &rpc.InvocationRequest{
		InvocationId: c.ID, FunctionId: w.ids[c.Function], TriggerMetadata: map[string]*rpc.TypedData{},
		TraceContext: &rpc.RpcTraceContext{TraceParent: c.Trace.TraceParent, TraceState: c.Trace.TraceState},
	}
	for _, input := range c.Inputs {
		data, err := w.typed(input.Value, forwarded)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", input.Name, err)
		}
		r.InputData = append(r.InputData, &rpc.ParameterBinding{Name: input.Name,
			RpcData: &rpc.ParameterBinding_Data{Data: data}})
	}
	for name, value := range c.Metadata {
		data, err := w.typed(value, forwarded)
		if err != nil {
			return nil, fmt.Errorf("trigger metadata %s: %w", name, err)
		}
		r.TriggerMetadata[name] = data
	}
	if retry := c.Retry; retry != nil {
		r.RetryContext = &rpc.RetryContext{RetryCount: int32(retry.RetryCount), MaxRetryCount: int32(retry.MaxRetryCount)}
		if retry.Exception != "" {
			r.RetryContext.Exception = &rpc.RpcException{Message: retry.Exception}
		}
	}
	return r, nil
}

// typed converts a value for a worker, by the rules of the Functions host: text and bytes as they are, everything else
// as JSON. https://github.com/Azure/azure-functions-host (GrpcMessageConversionExtensions.ToRpc)
func (w *worker) typed(value any, forwarded bool) (*rpc.TypedData, error) {
	switch v := value.(type) {
	case nil:
		return &rpc.TypedData{}, nil
	case string:
		// A string of the protocol must be UTF-8; others would fail the whole message.
		if !utf8.ValidString(v) {
			return &rpc.TypedData{Data: &rpc.TypedData_Bytes{Bytes: []byte(v)}}, nil
		}
		return &rpc.TypedData{Data: &rpc.TypedData_String_{String_: v}}, nil
	case json.RawMessage:
		return &rpc.TypedData{Data: &rpc.TypedData_Json{Json: string(v)}}, nil
	case []byte:
		return &rpc.TypedData{Data: &rpc.TypedData_Bytes{Bytes: v}}, nil
	case time.Time:
		return &rpc.TypedData{Data: &rpc.TypedData_Json{Json: v.UTC().Format(`"2006-01-02T15:04:05+00:00"`)}}, nil
	case *functions.BlobReference:
		content, err := json.Marshal(v)
		return &rpc.TypedData{Data: &rpc.TypedData_ModelBindingData{ModelBindingData: &rpc.ModelBindingData{Version: "1.0",
			Source: "AzureStorageBlobs", ContentType: "application/json", Content: content}}}, err
	case *functions.QueueReference:
		content, err := json.Marshal(v)
		return &rpc.TypedData{Data: &rpc.TypedData_ModelBindingData{ModelBindingData: &rpc.ModelBindingData{Version: "1.0",
			Source: "AzureStorageQueues", ContentType: "application/json", Content: content}}}, err
	case *functions.HTTPRequest:
		return &rpc.TypedData{Data: &rpc.TypedData_Http{Http: w.httpRequest(v, forwarded)}}, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	// The function gets the text as the Functions host writes it, in which <, > and & are characters as any others.
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return &rpc.TypedData{Data: &rpc.TypedData_Json{Json: strings.TrimSuffix(b.String(), "\n")}}, nil
}

// httpRequest converts a request. The names of headers are in lower case, as the Functions host sends them.
func (w *worker) httpRequest(r *functions.HTTPRequest, forwarded bool) *rpc.RpcHttp {
	h := &rpc.RpcHttp{Method: r.Method, Url: r.URL}
	headers := map[string]string{}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	if w.capabilities["UseNullableValueDictionaryForHttp"] != "" {
		h.NullableHeaders, h.NullableQuery, h.NullableParams = nullable(headers), nullable(r.Query), nullable(r.Params)
	} else {
		h.Headers, h.Query, h.Params = headers, r.Query, r.Params
	}
	h.Identities = []*rpc.RpcClaimsIdentity{anonymous}
	// The worker gets the body over HTTP. A second copy would be held in memory until the function ends.
	if forwarded || len(r.Body) == 0 {
		return h
	}
	h.Body = w.httpBody(r)
	if w.capabilities["RpcHttpBodyOnly"] == "" {
		h.RawBody = &rpc.TypedData{Data: &rpc.TypedData_String_{String_: validUTF8(r.Body)}}
		if w.capabilities["RawHttpBodyBytes"] != "" {
			h.RawBody = &rpc.TypedData{Data: &rpc.TypedData_Bytes{Bytes: r.Body}}
		}
	}
	return h
}

// anonymous is the identity of a client that is not known. .NET's worker reads the types of its claims without a test.
// https://github.com/Azure/azure-functions-host (GrpcMessageConversionExtensions.ToRpcDefault)
var anonymous = &rpc.RpcClaimsIdentity{
	NameClaimType: nullableText("http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name"),
	RoleClaimType: nullableText("http://schemas.microsoft.com/ws/2008/06/identity/claims/role"),
}

func nullableText(s string) *rpc.NullableString {
	return &rpc.NullableString{String_: &rpc.NullableString_Value{Value: s}}
}

// httpBody converts a body: bytes for a worker that wants them and for content that is no text, otherwise text, and
// JSON for a worker that gets the raw body as well.
func (w *worker) httpBody(r *functions.HTTPRequest) *rpc.TypedData {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	binary := kind == "application/octet-stream" || strings.HasPrefix(kind, "multipart/")
	switch {
	case binary, w.capabilities["RawHttpBodyBytes"] != "":
		return &rpc.TypedData{Data: &rpc.TypedData_Bytes{Bytes: r.Body}}
	case kind == "application/json" && json.Valid(r.Body) && w.capabilities["RpcHttpBodyOnly"] == "":
		return &rpc.TypedData{Data: &rpc.TypedData_Json{Json: string(r.Body)}}
	}
	return &rpc.TypedData{Data: &rpc.TypedData_String_{String_: validUTF8(r.Body)}}
}

func validUTF8(b []byte) string { return string(bytes.ToValidUTF8(b, []byte("\ufffd"))) }

func nullable(m map[string]string) map[string]*rpc.NullableString {
	n := map[string]*rpc.NullableString{}
	for name, value := range m {
		n[name] = nullableText(value)
	}
	return n
}

// result converts what a function returned.
func (w *worker) result(c *functions.Invocation, r *rpc.InvocationResponse) (*functions.Result, error) {
	if s := r.GetResult(); s.GetStatus() != rpc.StatusResult_Success {
		text := s.GetException().GetMessage()
		if text == "" {
			text = s.GetResult()
		}
		if text == "" {
			text = "the worker gives no reason: " + s.GetStatus().String()
		}
		// Into the function's own log: the error goes to callers, for whom the stack is not meant.
		if stack := s.GetException().GetStackTrace(); stack != "" {
			c.Log(true, slogLevels[rpc.RpcLog_Error], strings.TrimRight(stack, "\n"))
		}
		return nil, &functions.FunctionError{Err: details.FromException(s.GetException().GetType(), text,
			s.GetException().GetStackTrace())}
	}
	result := &functions.Result{Outputs: map[string]functions.Value{}}
	var err error
	if result.Return, err = value(r.GetReturnValue()); err != nil {
		return nil, &functions.FunctionError{Err: fmt.Errorf("return value: %w", err)}
	}
	for _, o := range r.GetOutputData() {
		if result.Outputs[o.GetName()], err = value(o.GetData()); err != nil {
			return nil, &functions.FunctionError{Err: fmt.Errorf("output %s: %w", o.GetName(), err)}
		}
	}
	return result, nil
}

// value converts a value of a worker.
func value(d *rpc.TypedData) (functions.Value, error) {
	var v functions.Value
	// The value is not to be interpreted further: a text that looks like JSON stays a text.
	v.Literal = true
	list := func(n int, item func(i int) any) error {
		items := make([]any, n)
		for i := range n {
			items[i] = item(i)
		}
		var err error
		v.JSON, err = json.Marshal(items)
		return err
	}
	switch data := d.GetData().(type) {
	case nil:
		return functions.Value{}, nil
	case *rpc.TypedData_String_:
		text, err := json.Marshal(data.String_)
		v.JSON = text
		return v, err
	case *rpc.TypedData_Json:
		// Workers write JSON by hand in places. Invalid text would break the document that the value becomes part of.
		if !json.Valid([]byte(data.Json)) {
			return v, fmt.Errorf("it is not JSON: %.200s", data.Json)
		}
		v.JSON = bytes.TrimSpace([]byte(data.Json))
	case *rpc.TypedData_Bytes:
		// A copy: the message's memory belongs to the stream.
		v.Bytes = append([]byte{}, data.Bytes...)
	case *rpc.TypedData_Stream:
		v.Bytes = append([]byte{}, data.Stream...)
	case *rpc.TypedData_Int:
		v.JSON = strconv.AppendInt(nil, data.Int, 10)
	case *rpc.TypedData_Double:
		text, err := json.Marshal(data.Double)
		v.JSON = text
		return v, err
	case *rpc.TypedData_Http:
		var err error
		v.HTTP, err = httpResponse(data.Http)
		return v, err
	case *rpc.TypedData_CollectionBytes:
		// Not nil: an empty collection is a collection.
		v.Items = []functions.Value{}
		for _, b := range data.CollectionBytes.GetBytes() {
			v.Items = append(v.Items, functions.Value{Bytes: append([]byte{}, b...)})
		}
	case *rpc.TypedData_CollectionString:
		s := data.CollectionString.GetString_()
		return v, list(len(s), func(i int) any { return s[i] })
	case *rpc.TypedData_CollectionDouble:
		s := data.CollectionDouble.GetDouble()
		return v, list(len(s), func(i int) any { return s[i] })
	case *rpc.TypedData_CollectionSint64:
		s := data.CollectionSint64.GetSint64()
		return v, list(len(s), func(i int) any { return s[i] })
	default:
		return v, fmt.Errorf("a value of the type %T is not supported", data)
	}
	return v, nil
}

// httpResponse converts a response with its cookies.
func httpResponse(h *rpc.RpcHttp) (*functions.HTTPResponse, error) {
	r := &functions.HTTPResponse{Header: http.Header{}}
	if text := h.GetStatusCode(); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("the status code %q is not a number", text)
		}
		r.Status = n
	}
	for name, value := range h.GetHeaders() {
		r.Header.Set(name, value)
	}
	for name, value := range h.GetNullableHeaders() {
		r.Header.Set(name, value.GetValue())
	}
	for _, c := range h.GetCookies() {
		r.Header.Add("Set-Cookie", cookie(c))
	}
	if h.GetBody().GetData() != nil {
		body, err := value(h.GetBody())
		if err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		r.Body = &body
	}
	return r, nil
}

// cookie writes a cookie as the Functions host does: the value is escaped, and the default path is /.
func cookie(c *rpc.RpcHttpCookie) string {
	var b strings.Builder
	b.WriteString(c.GetName() + "=" + strings.ReplaceAll(url.QueryEscape(c.GetValue()), "+", "%20"))
	if t, ok := c.GetExpires().GetTimestamp().(*rpc.NullableTimestamp_Value); ok {
		b.WriteString("; expires=" + t.Value.AsTime().UTC().Format(http.TimeFormat))
	}
	if age, ok := c.GetMaxAge().GetDouble().(*rpc.NullableDouble_Value); ok {
		fmt.Fprintf(&b, "; max-age=%d", int64(age.Value))
	}
	if domain := c.GetDomain().GetValue(); domain != "" {
		b.WriteString("; domain=" + domain)
	}
	path := c.GetPath().GetValue()
	if path == "" {
		path = "/"
	}
	b.WriteString("; path=" + path)
	if c.GetSecure().GetValue() {
		b.WriteString("; secure")
	}
	switch c.GetSameSite() {
	case rpc.RpcHttpCookie_Lax:
		b.WriteString("; samesite=lax")
	case rpc.RpcHttpCookie_Strict:
		b.WriteString("; samesite=strict")
	case rpc.RpcHttpCookie_ExplicitNone:
		b.WriteString("; samesite=none")
	}
	if c.GetHttpOnly().GetValue() {
		b.WriteString("; httponly")
	}
	return b.String()
}

// indexedFunction converts a function that a worker has found.
func indexedFunction(f *rpc.RpcFunctionMetadata) functions.WorkerFunction {
	w := functions.WorkerFunction{Name: f.GetName(), ID: f.GetFunctionId(), Directory: f.GetDirectory(),
		ScriptFile: f.GetScriptFile(), EntryPoint: f.GetEntryPoint()}
	for _, text := range f.GetRawBindings() {
		w.Bindings = append(w.Bindings, json.RawMessage(text))
	}
	if o := f.GetRetryOptions(); o != nil {
		retry := map[string]any{"maxRetryCount": o.GetMaxRetryCount()}
		if o.GetRetryStrategy() == rpc.RpcRetryOptions_fixed_delay {
			retry["strategy"], retry["delayInterval"] = "fixedDelay", interval(o.GetDelayInterval())
		} else {
			retry["strategy"] = "exponentialBackoff"
			retry["minimumInterval"], retry["maximumInterval"] = interval(o.GetMinimumInterval()),
				interval(o.GetMaximumInterval())
		}
		w.Retry, _ = json.Marshal(retry)
	}
	return w
}

// maxInterval is the longest interval of a retry policy.
const maxInterval = 7 * 24 * time.Hour

// interval writes a duration as in host.json: d.hh:mm:ss.
func interval(d *durationpb.Duration) string {
	v := min(d.AsDuration(), maxInterval)
	return fmt.Sprintf("%d.%02d:%02d:%02d", v/(24*time.Hour), v/time.Hour%24, v/time.Minute%60, v/time.Second%60)
}

// metadata describes a function to the worker that is to load it.
func metadata(f functions.WorkerFunction, id string) *rpc.RpcFunctionMetadata {
	m := &rpc.RpcFunctionMetadata{Name: f.Name, FunctionId: id, Directory: f.Directory, EntryPoint: f.EntryPoint,
		Bindings: map[string]*rpc.BindingInfo{}}
	if f.ScriptFile != "" {
		m.ScriptFile = f.ScriptFile
		if !filepath.IsAbs(m.ScriptFile) {
			m.ScriptFile = filepath.Join(f.Directory, m.ScriptFile)
		}
	}
	for _, text := range f.Bindings {
		m.RawBindings = append(m.RawBindings, string(text))
		var b struct{ Name, Type, Direction, DataType string }
		// The worker still gets the raw text and reports what is wrong with it, in its own words.
		if json.Unmarshal(text, &b) != nil {
			continue
		}
		info := &rpc.BindingInfo{Type: b.Type}
		switch strings.ToLower(b.Direction) {
		case "out":
			info.Direction = rpc.BindingInfo_out
		case "inout":
			info.Direction = rpc.BindingInfo_inout
		}
		switch strings.ToLower(b.DataType) {
		case "string":
			info.DataType = rpc.BindingInfo_string
		case "binary":
			info.DataType = rpc.BindingInfo_binary
		case "stream":
			info.DataType = rpc.BindingInfo_stream
		}
		m.Bindings[b.Name] = info
	}
	return m
}
