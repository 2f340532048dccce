package webhook

import (
	"net/http"
	"net/url"
)

// Links are the addresses for one instance.
type Links struct {
	ID                    string `json:"id"`
	StatusQueryGetURI     string `json:"statusQueryGetUri"`
	SendEventPostURI      string `json:"sendEventPostUri"`
	TerminatePostURI      string `json:"terminatePostUri"`
	RewindPostURI         string `json:"rewindPostUri,omitempty"`
	PurgeHistoryDeleteURI string `json:"purgeHistoryDeleteUri"`
	RestartPostURI        string `json:"restartPostUri"`
	SuspendPostURI        string `json:"suspendPostUri"`
	ResumePostURI         string `json:"resumePostUri"`
}

// NewLinks returns the addresses for an instance below an origin such as http://localhost:7071. query is added to their
// queries if it is not empty, such as code=KEY.
func NewLinks(origin, id, hub, connection, query string) Links {
	one := origin + Path + "instances/" + url.PathEscape(id)
	suffix := "taskHub=" + url.QueryEscape(hub) + "&connection=" + url.QueryEscape(connection)
	if query != "" {
		suffix += "&" + query
	}
	return Links{
		ID: id, StatusQueryGetURI: one + "?" + suffix, SendEventPostURI: one + "/raiseEvent/{eventName}?" + suffix,
		TerminatePostURI: one + "/terminate?reason={text}&" + suffix, RewindPostURI: one + "/rewind?reason={text}&" +
			suffix,
		PurgeHistoryDeleteURI: one + "?" + suffix, RestartPostURI: one + "/restart?" + suffix,
		SuspendPostURI: one + "/suspend?reason={text}&" + suffix, ResumePostURI: one + "/resume?reason={text}&" + suffix,
	}
}

// origin is the part of the request's address before the path.
func (c *call) origin() string {
	scheme := "http"
	if c.r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + c.r.Host
}

// checkStatus answers with 202 and where to ask for the instance.
func (c *call) checkStatus(id string) error {
	query := ""
	if code := c.query.text("code"); code != "" {
		query = "code=" + url.QueryEscape(code) // The key that the request had.
	}
	links := NewLinks(c.origin(), id, c.o.Hub, c.o.Connection, query)
	links.RewindPostURI = "" // As in Azure, it is only in the data of client bindings.
	c.w.Header().Set("Location", links.StatusQueryGetURI)
	c.w.Header().Set("Retry-After", "10")
	writeJSON(c.w, http.StatusAccepted, links)
	return nil
}
