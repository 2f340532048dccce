package blobsvc

import "github.com/lazuli-storage/lazuli/internal/azure/frontend"

// Rows returns the operations table without handlers.
func Rows() []frontend.Row { return frontend.Rows(operations) }
