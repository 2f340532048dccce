// Package postgres stands in for durabletask-go's backend of that name, which its tests import and do not use without a
// database.
package postgres

import "github.com/microsoft/durabletask-go/backend"

func NewPostgresBackend(any, backend.Logger) backend.Backend { panic("there is no PostgreSQL") }
