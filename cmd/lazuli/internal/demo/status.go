package demo

import (
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// statusOf returns the HTTP status of a refused request, or 0.
func statusOf(err error) int {
	var r *azcore.ResponseError
	if errors.As(err, &r) {
		return r.StatusCode
	}
	return 0
}
