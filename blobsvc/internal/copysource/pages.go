package copysource

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

const (
	// maxRemoteSpans is the maximum number of page ranges of a source, maxRemoteList the maximum length of one response
	// with some of them in bytes.
	maxRemoteSpans = 1 << 20
	maxRemoteList  = 16 << 20
)

// pageList is the body of an answer to Get Page Ranges.
// https://learn.microsoft.com/rest/api/storageservices/get-page-ranges#response-body
type pageList struct {
	PageRange, ClearRange []struct {
		Start, End int64 // of the last byte
	}
	NextMarker string
}

// changes fetches the page ranges of the source's snapshot, of length bytes, that differ from an earlier snapshot, or
// all page ranges if that is 0, and the ranges that were cleared. If the source no longer has the earlier snapshot, it
// fetches all page ranges.
func (f *Fetcher) changes(ctx context.Context, job *record.CopyJob, before ticks.Ticks, length int64) (changed,
	cleared []record.Span, err error) {
	if before != 0 {
		changed, cleared, err = f.pageRanges(ctx, job, "&prevsnapshot="+before.ISO(), length)
		if !errors.Is(err, errNoDifference) {
			return changed, cleared, err
		}
	}
	if changed, _, err = f.pageRanges(ctx, job, "", length); err != nil {
		return nil, nil, err
	}
	at := int64(0)
	for _, x := range changed {
		if x.Start > at {
			cleared = append(cleared, record.Span{Start: at, End: x.Start})
		}
		at = x.End
	}
	if at < length {
		cleared = append(cleared, record.Span{Start: at, End: length})
	}
	return changed, cleared, nil
}

// errNoDifference: the source does not have the earlier snapshot, or cannot compare with it. Clients do not see this
// error.
var errNoDifference = errors.New("blobsvc: the source does not tell the difference to the earlier snapshot")

// pageRanges reads all of Get Page Ranges. query is added to the source's address.
func (f *Fetcher) pageRanges(ctx context.Context, job *record.CopyJob, query string, length int64) (changed,
	cleared []record.Span, err error) {
	address, _, _ := strings.Cut(job.URL, "#")
	address += "&comp=pagelist&maxresults=10000" + query // the address has a query: the snapshot
	marker := ""
	for {
		page, err := f.pages(ctx, address+marker)
		if err != nil {
			return nil, nil, err
		}
		for _, l := range []struct {
			from []struct{ Start, End int64 }
			to   *[]record.Span
		}{{page.PageRange, &changed}, {page.ClearRange, &cleared}} {
			for _, r := range l.from {
				x := record.Span{Start: r.Start, End: r.End + 1}
				if n := len(*l.to); x.Start < 0 || x.Start >= x.End || x.End > length || x.Start%state.PageSize != 0 ||
					x.End%state.PageSize != 0 || n > 0 && x.Start < (*l.to)[n-1].End {
					return nil, nil, errSourcePages
				}
				*l.to = append(*l.to, x)
			}
		}
		switch got := len(page.PageRange) + len(page.ClearRange); {
		case page.NextMarker == "":
			return changed, cleared, nil
		case got == 0 || len(changed)+len(cleared) > maxRemoteSpans:
			return nil, nil, errSourcePages
		}
		marker = "&marker=" + url.QueryEscape(page.NextMarker)
	}
}

// pages reads one response of Get Page Ranges.
func (f *Fetcher) pages(ctx context.Context, address string) (list pageList, err error) {
	resp, err := f.ask(ctx, address, http.Header{"X-Ms-Version": {remoteVersion}})
	if err != nil {
		return list, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		if code := resp.Header.Get("X-Ms-Error-Code"); resp.StatusCode == http.StatusConflict ||
			strings.HasPrefix(code, "PreviousSnapshot") {
			return list, errNoDifference
		}
		return list, sourceStatus(resp)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRemoteList+1))
	if err != nil {
		return list, errTimeout
	}
	if len(text) > maxRemoteList || xml.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &list) != nil {
		return list, errSourcePages
	}
	return list, nil
}

// errSourcePages: the response to Get Page Ranges is malformed, or names impossible or too many ranges.
var errSourcePages = sourceError(http.StatusBadRequest, "The copy source does not tell its page ranges.")
