// Package durablefunc runs the orchestrations, activities and entities of function apps:
//
//	functions.Load(ctx, functions.Config{Dir: dir, Durable: durablefunc.Runtime{}})
//
// An app's functions take and return messages of the Durable Task protocol, or the JSON of the older packages of
// Durable Functions for Python and JavaScript, which replay.go, entity.go and http.go convert.
package durablefunc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lazuli-storage/lazuli/functions"
	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/internal/durable/external"
	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/hubname"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/sidecar"
	"github.com/lazuli-storage/lazuli/internal/durable/webhook"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/durable"
	api "github.com/lazuli-storage/lazuli/workers/durable/webhook"
	"github.com/lazuli-storage/lazuli/workers/engine"
)

// Runtime implements functions.Durable by package durable.
type Runtime struct{}

var _ functions.Durable = Runtime{}

// Open implements functions.Durable.
func (Runtime) Open(s functions.DurableSettings) (functions.DurableApp, error) {
	if s.Scheduler {
		stored, err := hubname.Stored(s.Hub)
		if err != nil {
			return nil, err
		}
		s.Hub = stored
	}
	if err := hubname.Check(s.Hub); err != nil {
		return nil, err
	}
	if s.HTTPSleep == 0 {
		s.HTTPSleep = defaultHTTPSleep
	}
	options := durable.Options{Hub: s.Hub, Partitions: s.Partitions, Visibility: s.Visibility, MaxPolling: s.MaxPolling,
		MaxBuffered: s.MaxBuffered, MaxActivities: s.MaxActivities, MaxOrchestrations: s.MaxOrchestrators,
		MaxEntities: s.MaxEntities}
	engine := durable.NewEngine(options)
	workflows := s.Workflows
	if workflows == nil {
		workflows = []string{} // None can be started, instead of any.
	}
	s.Connection = strings.TrimPrefix(s.Connection, "AzureWebJobs")
	handler := api.New(api.Options{Client: engine.WaitClient, Hub: s.Hub, Connection: s.Connection,
		Workflows:      workflows,
		ReplaceRunning: s.ReplaceRunning})
	return &app{Engine: engine, Handler: handler, settings: s,
		hub: hub.Options{Hub: s.Hub, Partitions: s.Partitions, Visibility: s.Visibility, MaxPolling: s.MaxPolling,
			MaxBuffered: s.MaxBuffered}}, nil
}

// app implements functions.DurableApp.
type app struct {
	*durable.Engine
	http.Handler
	settings functions.DurableSettings
	hub      hub.Options // of the endpoint for clients
	clients  string      // address of the gRPC endpoint; empty before Listen
}

// conversion is between the protocol and the JSON of a language's package.
type conversion struct {
	inputAsText bool // Python: inputs are JSON within text
	httpSleep   time.Duration
}

func (a *app) conversion(form functions.DurableForm) *conversion {
	return &conversion{inputAsText: form == functions.DurablePython, httpSleep: a.settings.HTTPSleep}
}

// Orchestrator implements functions.DurableApp.
func (a *app) Orchestrator(form functions.DurableForm, call functions.DurableCall) engine.Orchestrator {
	// The packages of .NET and Java read the messages of the protocol, so nothing is converted.
	if form == functions.DurableMessages {
		return external.Orchestrator(func(ctx context.Context, request []byte) ([]byte, error) {
			result, err := call(ctx, base64.StdEncoding.EncodeToString(request))
			if err != nil {
				return nil, permanent(err)
			}
			return message(result, "OrchestratorResponse")
		})
	}
	c := a.conversion(form)
	return external.Orchestrator(func(ctx context.Context, request []byte) ([]byte, error) {
		var r protocol.OrchestratorRequest
		if err := proto.Unmarshal(request, &r); err != nil {
			return nil, workers.Permanent(fmt.Errorf("read the history: %w", err))
		}
		// Suspended and ended instances are answered without the function, whose code knows no such events.
		if response := controlled(&r); response != nil {
			return proto.Marshal(response)
		}
		trigger, err := c.replayed(&r)
		if err != nil {
			return nil, workers.Permanent(err)
		}
		failed := ""
		result, err := call(ctx, trigger)
		// An error of the function's code is the outcome of the orchestration; any other one is of the worker process, and
		// the attempt is repeated.
		if reason := new(functions.FunctionError); errors.As(err, &reason) {
			failed = reason.Error()
		} else if err != nil {
			return nil, permanent(err)
		}
		response, err := c.respond(&r, result, failed)
		if err != nil {
			return nil, workers.Permanent(err)
		}
		return proto.Marshal(response)
	})
}

// Entity implements functions.DurableApp.
func (a *app) Entity(form functions.DurableForm, call functions.DurableCall) engine.Entity {
	c := a.conversion(form)
	return external.Entity(func(ctx context.Context, b *entitybatch.Batch) (*entitybatch.Result, error) {
		return c.batch(ctx, form, b, call)
	})
}

// batch runs a batch of operations. With an error of workers.Permanent, its operations fail.
func (c *conversion) batch(ctx context.Context, form functions.DurableForm, b *entitybatch.Batch,
	call functions.DurableCall) (*entitybatch.Result, error) {
	if form != functions.DurableMessages {
		trigger, err := c.batchTrigger(b)
		if err != nil {
			return nil, workers.Permanent(err)
		}
		result, err := call(ctx, trigger)
		if err != nil {
			return nil, permanent(err)
		}
		r, err := batchResult(b, result)
		return r, workers.Permanent(err)
	}
	request, err := proto.Marshal(entitybatch.ToProtocol(b))
	if err != nil {
		return nil, workers.Permanent(err)
	}
	result, err := call(ctx, base64.StdEncoding.EncodeToString(request))
	if err != nil {
		return nil, permanent(err)
	}
	response, err := message(result, "EntityBatchResult")
	if err != nil {
		return nil, err
	}
	answer := &protocol.EntityBatchResult{}
	if err := proto.Unmarshal(response, answer); err != nil {
		return nil, workers.Permanent(fmt.Errorf("the answer is not an EntityBatchResult: %w", err))
	}
	r, err := entitybatch.FromProtocol(answer)
	return r, workers.Permanent(err)
}

// permanent marks an error of the function, rather than one of its worker, as one that comes again at each attempt.
func permanent(err error) error {
	if failed := new(functions.FunctionError); errors.As(err, &failed) || errors.Is(err, workers.ErrTimeout) {
		return workers.Permanent(err)
	}
	return err
}

// message reads a message of the protocol in base64.
func message(result json.RawMessage, name string) ([]byte, error) {
	var text string
	_ = json.Unmarshal(result, &text)
	m, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(m) == 0 {
		return nil, workers.Permanent(fmt.Errorf("the function's ReturnValue is not an %s in base64", name))
	}
	return m, nil
}

// Activities implements functions.DurableApp.
func (*app) Activities() map[string]engine.Activity {
	return map[string]engine.Activity{httpActivity: callHTTP}
}

// Listen implements functions.DurableApp.
func (a *app) Listen() (stop func(), err error) {
	o := a.hub
	if o.Storage, err = a.settings.Storage(); err != nil {
		return nil, err
	}
	server, err := sidecar.New(sidecar.Options{Durable: o, Hubs: []string{o.Hub}, Logger: a.settings.Logger,
		ReplaceRunning: a.settings.ReplaceRunning})
	if err != nil {
		return nil, err
	}
	l, err := server.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a.clients = l.Addr().String()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(l); err != nil {
			a.settings.Logger.Error("the endpoint of durable clients has ended", "err", err)
		}
	}()
	return func() { server.Stop(); <-ended }, nil
}

// Instance implements functions.DurableApp.
func (*app) Instance(ctx context.Context) string {
	info, _ := durable.InfoFromContext(ctx)
	return info.Instance
}

// placeholder represents the instance ID in the URLs of a client binding.
const placeholder = "INSTANCEID"

// clientData is the content of a durableClient binding.
type clientData struct {
	TaskHubName                   string            `json:"taskHubName"`
	ConnectionName                string            `json:"connectionName"`
	CreationURLs                  map[string]string `json:"creationUrls"`
	ManagementURLs                webhook.Links     `json:"managementUrls"`
	BaseURL                       string            `json:"baseUrl"`
	HTTPBaseURL                   string            `json:"httpBaseUrl"`
	RequiredQueryStringParameters string            `json:"requiredQueryStringParameters"`
	RPCBaseURL                    string            `json:"rpcBaseUrl"`
	// The client of .NET takes a missing size for 0, and reads the timeout as JSON, in the form of a TimeSpan.
	// https://github.com/Azure/azure-functions-durable-extension (FunctionsDurableClientProvider)
	MaxMessageSize    int    `json:"maxGrpcMessageSizeInBytes"`
	HTTPClientTimeout string `json:"grpcHttpClientTimeout"`
}

// clientTimeout is the time that a client of .NET waits for a response.
const clientTimeout = `"00:01:40"`

// ClientData implements functions.DurableApp.
func (a *app) ClientData(c functions.DurableClient) string {
	base := c.Origin + strings.TrimSuffix(webhook.Path, "/")
	create := base + "/orchestrators/{functionName}[/{instanceId}]?"
	calls := c.Calls
	if c.Messages {
		calls = "http://" + a.clients
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(clientData{
		TaskHubName: a.settings.Hub, ConnectionName: a.settings.Connection,
		CreationURLs: map[string]string{
			"createNewInstancePostUri": create + c.Query,
			"createAndWaitOnNewInstancePostUri": create + "timeout={timeoutInSeconds}&pollingInterval={intervalInSeconds}&" +
				c.Query,
		},
		ManagementURLs: webhook.NewLinks(c.Origin, placeholder, a.settings.Hub, a.settings.Connection, c.Query),
		BaseURL:        base, HTTPBaseURL: base, RPCBaseURL: calls, RequiredQueryStringParameters: c.Query,
		MaxMessageSize: math.MaxInt32, HTTPClientTimeout: clientTimeout,
	})
	return strings.TrimSuffix(b.String(), "\n")
}
