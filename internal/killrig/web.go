package killrig

import (
	"io"
	"net"
	"strings"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/freeport"
)

// Web carries the connections between nodes: for each pair of nodes a proxy, so that a node can be cut off from all
// others.
type Web struct {
	listen []string  // where each node listens
	links  [][]*link // from node, to another node; nil from a node to itself
	own    []string  // what a node gives as its own address: nothing listens there, so that each connection uses a proxy
}

// NewWeb returns a web for a number of nodes.
func NewWeb(nodes int) (*Web, error) {
	w := &Web{}
	for range nodes {
		address, err := freeport.Address()
		if err != nil {
			return nil, err
		}
		// A node listens at listen, and the links lead there. own stands for the node in its own list of peers: with
		// listen in it, others could learn the address and connect past the links, whose faults they would not have.
		own, err := freeport.Address()
		if err != nil {
			return nil, err
		}
		w.listen, w.own = append(w.listen, address), append(w.own, own)
	}
	for from := range nodes {
		row := make([]*link, nodes)
		for to := range nodes {
			if from == to {
				continue
			}
			var err error
			if row[to], err = newLink(w.listen[to]); err != nil {
				return nil, err
			}
		}
		w.links = append(w.links, row)
	}
	return w, nil
}

// Arguments returns the arguments of a node about its cluster, but for the secret.
func (w *Web) Arguments(node int) []string {
	var peers []string
	for to, l := range w.links[node] {
		address := w.own[node]
		if to != node {
			address = l.listener.Addr().String()
		}
		peers = append(peers, nodeName(to)+"="+address)
	}
	return []string{"--cluster-node", nodeName(node), "--cluster-listen", w.listen[node], "--cluster-peers",
		strings.Join(peers, ",")}
}

// each calls f with all links between a node and the others.
func (w *Web) each(node int, f func(*link)) {
	for other := range w.links {
		if other != node {
			f(w.links[node][other])
			f(w.links[other][node])
		}
	}
}

// Cut closes a node's connections and refuses new ones.
func (w *Web) Cut(node int) { w.each(node, func(l *link) { l.set(linkCut) }) }

// Hold keeps a node's connections and carries nothing.
func (w *Web) Hold(node int) { w.each(node, func(l *link) { l.set(linkHeld) }) }

// Restore ends Cut and Hold.
func (w *Web) Restore(node int) { w.each(node, func(l *link) { l.set(linkOpen) }) }

// Close cuts all nodes off, and closes the proxies.
func (w *Web) Close() {
	for _, row := range w.links {
		for _, l := range row {
			if l != nil {
				l.listener.Close()
				l.set(linkCut)
			}
		}
	}
}

// linkState holds what a link does with connections.
type linkState int

const (
	linkOpen linkState = iota
	linkCut            // connections are closed
	linkHeld           // nothing is carried, and nothing closed
)

// link is a proxy in front of one address.
type link struct {
	listener net.Listener
	target   string

	mu      sync.Mutex // guards the rest
	state   linkState
	changed chan struct{} // closed when state changes
	conns   map[net.Conn]bool
}

func newLink(target string) (*link, error) {
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	l := &link{target: target, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	if l.listener, err = net.Listen("tcp", address); err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.listener.Accept()
			if err != nil {
				return
			}
			go l.serve(c)
		}
	}()
	return l, nil
}

func (l *link) set(s linkState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	close(l.changed)
	l.changed = make(chan struct{})
	if s == linkCut {
		for c := range l.conns {
			c.Close()
		}
		clear(l.conns)
	}
}

// wait waits while the link is held. It returns false if the link is cut.
func (l *link) wait() bool {
	for {
		l.mu.Lock()
		state, changed := l.state, l.changed
		l.mu.Unlock()
		if state != linkHeld {
			return state == linkOpen
		}
		<-changed
	}
}

// keep registers connections, so that a cut closes them. It returns false if the link is cut.
func (l *link) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == linkCut {
		return false
	}
	for _, c := range conns {
		l.conns[c] = true
	}
	return true
}

func (l *link) serve(from net.Conn) {
	defer from.Close()
	if !l.keep(from) || !l.wait() {
		return
	}
	to, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer to.Close()
	if !l.keep(to) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.carry(to, from) })
	both.Go(func() { l.carry(from, to) })
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, from)
	delete(l.conns, to)
}

// carry copies from one connection to the other while the link is open, and closes both at the end.
func (l *link) carry(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	_, _ = io.Copy(to, gated{from, l})
}

// gated reads from a connection while its link is open.
type gated struct {
	net.Conn
	link *link
}

func (g gated) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if !g.link.wait() {
		return 0, io.EOF
	}
	return n, err
}
