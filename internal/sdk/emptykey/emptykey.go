// Package emptykey lets clients of aztables address entities whose PartitionKey is empty, which the Table service
// allows and the SDK refuses ("parameter partitionKey cannot be empty").
//
// A caller gives the SDK [Placeholder] as the key, in an address or in an entity, under a context of [With]. The
// [Policy], with which the client must have been built, replaces it before the request is signed.
package emptykey

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
)

// Placeholder stands for the empty key. Only requests under a context of With are changed.
const Placeholder = "lazuli-empty-key-6f1c0a52"

// ErrNoPolicy means that a client was not built with the Policy. A request with the placeholder as key was sent: it
// found no entity.
var ErrNoPolicy = errors.New("the table client cannot address entities with an empty PartitionKey; open the storage " +
	"with workers.OpenStorage")

type contextKey struct{}

// With returns a context whose requests have the placeholder replaced, and a function that returns ErrNoPolicy unless
// one was.
func With(ctx context.Context) (marked context.Context, check func() error) {
	replaced := new(atomic.Bool)
	return context.WithValue(ctx, contextKey{}, replaced), func() error {
		if !replaced.Load() {
			return ErrNoPolicy
		}
		return nil
	}
}

// Address returns the context and the key by which the SDK addresses entities of a partition, whose key may be empty.
// check is to be called after the request.
func Address(ctx context.Context, partitionKey string) (marked context.Context, key string, check func() error) {
	if partitionKey != "" {
		return ctx, partitionKey, func() error { return nil }
	}
	marked, check = With(ctx)
	return marked, Placeholder, check
}

// Policy replaces the placeholder. It belongs among the policies per call, before those that sign.
func Policy() policy.Policy { return replacer{} }

type replacer struct{}

// Do implements policy.Policy.
func (replacer) Do(r *policy.Request) (*http.Response, error) {
	replaced, ok := r.Raw().Context().Value(contextKey{}).(*atomic.Bool)
	if !ok {
		return r.Next()
	}
	u := r.Raw().URL
	u.Path = strings.ReplaceAll(u.Path, "'"+Placeholder+"'", "''")
	u.RawPath = strings.ReplaceAll(u.RawPath, "'"+Placeholder+"'", "''")
	if body := r.Body(); body != nil {
		text, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		text = bytes.ReplaceAll(text, []byte(`"`+Placeholder+`"`), []byte(`""`))
		if err := r.SetBody(streaming.NopCloser(bytes.NewReader(text)), r.Raw().Header.Get("Content-Type")); err != nil {
			return nil, err
		}
	}
	replaced.Store(true)
	return r.Next()
}
