package durabletask

import (
	"time"

	"github.com/lazuli-storage/lazuli/workers/durable"
)

// OrchestrationStatus is the state of an instance. Input, Output and CustomStatus are JSON.
type OrchestrationStatus struct {
	InstanceID string `json:"instanceId"`
	Name       string `json:"name,omitempty"`
	// RuntimeStatus is Pending, Running, Completed, ContinuedAsNew, Failed, Terminated or Suspended.
	RuntimeStatus string    `json:"runtimeStatus"`
	Input         string    `json:"input,omitempty"`
	Output        string    `json:"output,omitempty"`
	CustomStatus  string    `json:"customStatus,omitempty"`
	CreatedAt     time.Time `json:"createdAt,omitempty"`
	LastUpdatedAt time.Time `json:"lastUpdatedAt,omitempty"`
}

func statusOf(i *durable.Instance) *OrchestrationStatus {
	return &OrchestrationStatus{InstanceID: i.ID, Name: i.Name, RuntimeStatus: i.Status, Input: i.Input, Output: i.Output,
		CustomStatus: i.CustomStatus,
		CreatedAt:    i.Created, LastUpdatedAt: i.LastUpdated}
}
