//go:build !unix

package killrig

// Pause does nothing: this system cannot stop a process without ending it.
func (n *Node) Pause() {}

// Resume does nothing.
func (n *Node) Resume() {}
