package wire

// Touch says what an operation did to a message. Those who watch requests count messages by it, and find the requests
// of one: a request can put, hand out or delete many.
type Touch struct {
	Kind TouchKind
	// ID is the message's GUID.
	ID [16]byte
	// Attempts is how often the message was received, with this time; 0 for the other kinds.
	Attempts int
}

// TouchKind is what happened to a message.
type TouchKind uint8

// The kinds of [Touch].
const (
	MessagePut      TouchKind = iota // Put Message
	MessageReceived                  // Get Messages
	MessageUpdated                   // Update Message
	MessageDeleted                   // Delete Message
)

// Touch records what the operation did to a message. Operations call it once the change is stored.
func (r *Request) Touch(kind TouchKind, id [16]byte, attempts int) {
	if r.touched == nil {
		r.touched = r.firstTouch[:0] // most requests have one message, which then takes no allocation
	}
	r.touched = append(r.touched, Touch{kind, id, attempts})
}

// Touched returns what the operation did to messages. It is valid for as long as the request is.
func (r *Request) Touched() []Touch { return r.touched }
