package queuesvc

import (
	"encoding/json"

	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/queue"
)

// toState converts metadata from the protocol's type to the state's.
func toState(list []wire.Meta) []state.Meta {
	out := make([]state.Meta, len(list))
	for i, m := range list {
		out[i] = state.Meta(m)
	}
	return out
}

// toWire converts metadata from the state's type to the protocol's.
func toWire(list []state.Meta) []wire.Meta {
	out := make([]wire.Meta, len(list))
	for i, m := range list {
		out[i] = wire.Meta(m)
	}
	return out
}

// policiesOf returns a queue's stored access policies.
func (s *Service) policiesOf(account, queue string) ([]properties.StoredPolicy, error) {
	stored, err := s.state.Policies(account, queue)
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	var list []properties.StoredPolicy
	return list, json.Unmarshal(stored, &list)
}

// setPolicies replaces a queue's stored access policies.
func (s *Service) setPolicies(account, queue string, list []properties.StoredPolicy) error {
	var stored json.RawMessage
	if len(list) > 0 {
		var err error
		if stored, err = json.Marshal(list); err != nil {
			return err
		}
	}
	return s.state.SetPolicies(account, queue, stored)
}
