// Package dashboard is the web interface of a running server: storage, queues with their hidden messages, tables with
// the cost of a query, workers, a live log of requests, and the controls of a development server.
//
// Pages are rendered on the server with html/template; one script and one style sheet are embedded. The dashboard needs
// no build step and loads nothing from other servers. Without the script, pages work but do not refresh themselves.
//
// The handlers reach the services as a client does, through the Azure SDKs over the in-process transport, with the mark
// of [wire.WithSystem] in place of a credential. So the dashboard shows what a client sees, and can reach the state
// only as a client can.
//
// Package frame has what all pages share; blobpages, queuepages, tablepages, workflowpages and functionpages are kinds
// of pages over it, with their templates. This package puts them together, and has the pages that are about the server
// as a whole: home, accounts, search, requests, traces, events, controls.
//
// # Who may use it
//
// The admin listener guards it by Host, Origin and Sec-Fetch-Site. Every change carries a token that only the
// dashboard's own pages contain, and Options.ReadOnly refuses all changes. The pages have a Content-Security-Policy
// that allows no inline script or style; stored content is shown as text, or as an image of a type without scripts.
package dashboard
