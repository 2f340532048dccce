// Package durablefunc runs the orchestrations and activities of function apps with a custom handler:
//
//	customhandler.Load(ctx, customhandler.Config{Dir: dir, Durable: durablefunc.Runtime{}})
package durablefunc

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/customhandler"
	"github.com/lazuli-storage/lazuli/workers/durable"
	"github.com/lazuli-storage/lazuli/workers/durable/webhook"
)

// Runtime implements customhandler.Durable by package durable.
type Runtime struct{}

var _ customhandler.Durable = Runtime{}

// Open implements customhandler.Durable.
func (Runtime) Open(s customhandler.DurableSettings) (customhandler.DurableApp, error) {
	if err := durable.CheckHubName(s.Hub); err != nil {
		return nil, err
	}
	engine := durable.NewEngine(
		durable.Options{Hub: s.Hub, Partitions: s.Partitions, Visibility: s.Visibility, MaxPolling: s.MaxPolling,
			MaxBuffered: s.MaxBuffered},
		durable.WorkerOptions{MaxActivities: s.MaxActivities, MaxOrchestrations: s.MaxOrchestrators})
	workflows := s.Workflows
	if workflows == nil {
		workflows = []string{} // None can be started, instead of any.
	}
	s.Connection = strings.TrimPrefix(s.Connection, "AzureWebJobs")
	api := webhook.New(webhook.Options{Client: engine.Client, Hub: s.Hub, Connection: s.Connection, Workflows: workflows,
		ReplaceRunning: s.ReplaceRunning})
	return &app{Engine: engine, Handler: api, settings: s}, nil
}

// app implements customhandler.DurableApp.
type app struct {
	*durable.Engine
	http.Handler
	settings customhandler.DurableSettings
}

// Orchestrator implements customhandler.DurableApp.
func (*app) Orchestrator(call func(ctx context.Context, request []byte) ([]byte, error)) workers.Orchestrator {
	return durable.ExternalOrchestrator(call)
}

// Instance implements customhandler.DurableApp.
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
	RequiredQueryStringParameters string            `json:"requiredQueryStringParameters"`
	RPCBaseURL                    string            `json:"rpcBaseUrl"`
}

// ClientData implements customhandler.DurableApp.
func (a *app) ClientData(origin string) string {
	base := origin + strings.TrimSuffix(webhook.Path, "/")
	create := base + "/orchestrators/{functionName}[/{instanceId}]?"
	const query = "" // No key is asked for.
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(clientData{
		TaskHubName: a.settings.Hub, ConnectionName: a.settings.Connection,
		CreationURLs: map[string]string{
			"createNewInstancePostUri": create + query,
			"createAndWaitOnNewInstancePostUri": create + "timeout={timeoutInSeconds}&pollingInterval={intervalInSeconds}&" +
				query,
		},
		ManagementURLs: webhook.NewLinks(origin, placeholder, a.settings.Hub, a.settings.Connection),
		BaseURL:        base, RPCBaseURL: base + "/", RequiredQueryStringParameters: query,
	})
	return strings.TrimSuffix(b.String(), "\n")
}
