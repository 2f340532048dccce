package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/workbench"
)

func lazuliCommand(arguments ...string) *exec.Cmd { return exec.Command(*binary, arguments...) }

// lazuli measures as `lazuli-lab bench workers` does.
func lazuli(inProcess bool) func(context.Context, string, *workbench.Meter) error {
	return func(ctx context.Context, folder string, m *workbench.Meter) (err error) {
		m.Rows, err = workbench.Run(ctx, workbench.Config{Command: lazuliCommand, Numbers: m.N, InProcess: inProcess,
			Folder: folder})
		return err
	}
}

// lazuliByGRPC measures workflows of the Go SDK for Durable Task on `lazuli serve --durable`.
func lazuliByGRPC(ctx context.Context, folder string, m *workbench.Meter) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := lazuliCommand("serve", "--location", filepath.Join(folder, "data"), "--blob-port", "0", "--queue-port", "0",
		"--table-port", "0", "--admin-port", "0", "--durable", "--durable-listen", address)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "LAZULI_CONFIG=")
	stop, err := startServer(m, syscall.SIGTERM, cmd)
	if err != nil {
		return err
	}
	defer stop()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	c := client.NewTaskHubGrpcClient(conn, silent{})
	r, err := registry()
	if err != nil {
		return err
	}
	if err := eventually(ctx, func() error {
		_, err := c.ScheduleNewOrchestration(ctx, "nothing")
		return err
	}); err != nil {
		return err
	}
	if err := c.StartWorkItemListener(ctx, r); err != nil {
		return err
	}
	return m.Workflows(ctx, func(ctx context.Context, name string) error {
		id, err := c.ScheduleNewOrchestration(ctx, name)
		if err == nil {
			_, err = c.WaitForOrchestrationCompletion(ctx, id, api.WithFetchPayloads(false))
		}
		return err
	})
}
