// Topproxy passes requests on to a table endpoint with at most $top=1000, where the service refuses a larger one. A
// program that asks for more in one check can then be run to its end.
//
//	topproxy URL    prints the proxy's own address, and serves until it is ended
//
// A table request's signature covers nothing of its query but comp, so that the request stays signed.
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "topproxy:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: topproxy URL")
	}
	to, err := url.Parse(os.Args[1])
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	return http.Serve(l, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host
		q := r.Out.URL.Query()
		if top, err := strconv.Atoi(q.Get("$top")); err == nil && top > 1000 {
			q.Set("$top", "1000")
			r.Out.URL.RawQuery = q.Encode()
		}
	}})
}
