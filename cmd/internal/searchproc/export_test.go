package searchproc

// For tests of the listener that forwards to the tables.
var OpenGate = openGate

// Close closes the listener.
func (g *gate) Close() error { return g.close() }

// Address returns the listener's URL.
func (g *gate) Address() string { return g.address() }
