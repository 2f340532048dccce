// Package egress decides to which hosts the server itself may send requests: the sources of Copy Blob From URL and of
// its kin are addresses that a client chooses, and a server that fetched them all would be a way into the networks
// that it can reach.
//
// By default nothing may be reached, and where [Policy.ThisMachine] is set this machine alone. A [Policy] allows named
// hosts, and those only at addresses that are not of this machine, of private networks or of a cloud's metadata
// service, unless the policy says so. The address is checked when the connection is made, after the name was resolved:
// a name that resolves to one address when it is checked and to another when it is used (DNS rebinding) gains nothing.
// Redirects are not followed.
package egress
