package main

import (
	"testing"

	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

func TestOrders(t *testing.T) {
	account := lazulitest.Start(t).Account(t)
	for _, o := range []Order{{"1", "tea", 450}, {"1", "tea", 450}, {"2", "piano", 9000}, {"3", "car", 9_000_000}} {
		account.Put("orders", o) // the first one twice
	}
	account.Run(newApp(workers.Config{Storage: account.Storage}))
	account.Drain()
	for id, outcome := range map[string]string{"1": "shipped", "2": "refunded", "3": "refused"} {
		account.RequireEntity("Outcomes", "orders", id, Outcome{"orders", id, outcome})
		account.RequireEnqueued("outcomes", Outcome{"orders", id, outcome})
	}
	if n := len(account.Messages("outcomes")); n != 3 {
		t.Errorf("%d outcomes are announced, want 3", n)
	}
	account.RequireEntity("Payments", "customers", "1", Payment{"customers", "1", 450})
	account.RequireEntity("Payments", "customers", "2", Payment{"customers", "2", 0})
	if _, err := account.Blobs.DownloadStream(t.Context(), "labels", "1.txt", nil); err != nil {
		t.Errorf("the label of the first order: %v", err)
	}
	account.RequireEmpty("orders")
	account.RequireEmpty("orders-poison")
}
