package rig

import (
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// StatusOf returns the HTTP status of a refused request, or 0.
func StatusOf(err error) int {
	var r *azcore.ResponseError
	if errors.As(err, &r) {
		return r.StatusCode
	}
	return 0
}
