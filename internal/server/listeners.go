package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// hosts are the host names of the services inside the process.
var hosts = map[wire.Service]string{wire.Blob: "blob.inprocess", wire.DataLake: "dfs.inprocess",
	wire.Queue: "queue.inprocess", wire.Table: "table.inprocess"}

// listener serves one service at its address.
type listener struct {
	service wire.Service
	flag    string // the flag that sets its port, for error messages
	addr    string
	idle    time.Duration
	l       net.Listener
	http    *http.Server
	done    chan struct{}
}

// listeners serve the services of a process.
type listeners []*listener

// listenAll opens the addresses of the services that are served. After an error it has closed them.
func listenAll(c Config) (list listeners, err error) {
	list = listeners{
		{service: wire.Blob, flag: "--blob-port", addr: c.Blob, idle: c.BlobKeepAlive},
		{service: wire.Queue, flag: "--queue-port", addr: c.Queue, idle: c.QueueKeepAlive},
		{service: wire.Table, flag: "--table-port", addr: c.Table, idle: c.TableKeepAlive},
	}
	list = slices.DeleteFunc(list,
		func(srv *listener) bool { return c.Services != nil && !slices.Contains(c.Services, srv.service) })
	if c.DataLake != "" && (c.Services == nil || slices.Contains(c.Services, wire.Blob)) {
		list = append(list, &listener{service: wire.DataLake, flag: "--dfs-port", addr: c.DataLake,
			idle: c.BlobKeepAlive})
	}
	for _, srv := range list {
		if err := srv.listen(); err != nil {
			list.shutdownAll(context.Background())
			return nil, err
		}
	}
	return list, nil
}

// shutdownAll stops all of them: it waits for requests under way until ctx ends.
func (l listeners) shutdownAll(ctx context.Context) {
	var wait sync.WaitGroup
	for _, srv := range l {
		wait.Go(func() { srv.shutdown(ctx) })
	}
	wait.Wait()
}

// addressOf returns the address of a service, "" for one that does not listen.
func (l listeners) addressOf(svc wire.Service) string {
	for _, srv := range l {
		if srv.service == svc {
			return srv.l.Addr().String()
		}
	}
	return ""
}

// endpointOf returns an account's endpoint of a service, "" for one that does not listen. A wildcard address is shown
// as the loopback address.
func (l listeners) endpointOf(svc wire.Service, account string, encrypted bool) string {
	host, port, err := net.SplitHostPort(l.addressOf(svc))
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if encrypted {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/" + account
}

func (srv *listener) listen() error {
	addr := srv.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("the %s service cannot listen on %s: %w; stop what uses it, or choose another port with %s",
			srv.service, addr, ErrPortTaken, srv.flag)
	}
	if err != nil {
		return fmt.Errorf("the %s service cannot listen on %s: %w", srv.service, addr, err)
	}
	srv.l = l
	return nil
}

// openConns are the connections of all services of the process. Half of the files that it may open are for the data.
var openConns = httpserver.NewConns(disk.OpenFiles() / 2)

func (srv *listener) serve(h http.Handler, c Config) {
	srv.http = httpserver.New(h, c.Log, srv.idle)
	srv.done = make(chan struct{})
	o := httpserver.Options{MaxConns: c.MaxConnections, Conns: openConns, TLS: c.TLS}
	go func() {
		defer close(srv.done)
		if err := httpserver.Serve(srv.http, srv.l, o); !errors.Is(err, http.ErrServerClosed) {
			c.Log.Error("listener failed", "service", srv.service.String(), "err", err)
		}
	}()
}

func (srv *listener) shutdown(ctx context.Context) {
	switch {
	case srv.http != nil:
		if srv.http.Shutdown(ctx) != nil {
			_ = srv.http.Close()
		}
		<-srv.done
	case srv.l != nil:
		_ = srv.l.Close()
	}
}
