package bench

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strconv"
)

// Signer computes Shared Key signatures for one account. It reuses its HMAC state and buffers, so it is not safe for
// concurrent use: every connection has its own.
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
type Signer struct {
	account string
	mac     hash.Hash
	text    []byte
	sum     []byte
}

// NewSigner makes a signer for account with its decoded key.
func NewSigner(account string, key []byte) *Signer {
	return &Signer{account: account, mac: hmac.New(sha256.New, key)}
}

// Sign appends the value of the Authorization header of r to dst. base is the endpoint's path prefix, date the value of
// x-ms-date.
func (s *Signer) Sign(dst []byte, r *Request, base, date string) []byte {
	s.text = s.appendStringToSign(s.text[:0], r, base, date)
	s.mac.Reset()
	s.mac.Write(s.text)
	s.sum = s.mac.Sum(s.sum[:0])
	dst = append(dst, "SharedKey "...)
	dst = append(dst, s.account...)
	dst = append(dst, ':')
	return base64.StdEncoding.AppendEncode(dst, s.sum)
}

// appendStringToSign appends the string to sign. The Table service's has fewer fields than the other two.
func (s *Signer) appendStringToSign(t []byte, r *Request, base, date string) []byte {
	t = append(t, r.Method...)
	if r.Service == Table {
		t = append(t, "\n\n"...) // no Content-MD5
		t = append(t, r.contentType...)
		t = append(t, '\n')
		t = append(t, date...)
		t = append(t, '\n')
		t = s.appendResource(t, r, base)
		for _, p := range r.Query {
			if p.Name == "comp" {
				t = append(t, "?comp="...)
				t = append(t, p.Value...)
			}
		}
		return t
	}
	t = append(t, "\n\n\n"...) // Content-Encoding, Content-Language
	if len(r.Body) > 0 {
		t = strconv.AppendInt(t, int64(len(r.Body)), 10)
	}
	t = append(t, "\n\n"...) // Content-MD5
	t = append(t, r.contentType...)
	t = append(t, "\n\n\n\n\n\n\n"...) // Date (x-ms-date replaces it), four conditions, Range
	for _, h := range r.ms {
		if h.Name == dateHeader {
			h.Value = date
		}
		t = append(t, h.Name...)
		t = append(t, ':')
		t = append(t, h.Value...)
		t = append(t, '\n')
	}
	t = s.appendResource(t, r, base)
	for _, p := range r.Query {
		t = append(t, '\n')
		t = append(t, p.Name...)
		t = append(t, ':')
		t = append(t, p.Value...)
	}
	return t
}

// appendResource appends the canonicalized resource without its query part.
func (s *Signer) appendResource(t []byte, r *Request, base string) []byte {
	t = append(t, '/')
	t = append(t, s.account...)
	t = append(t, base...)
	return append(t, r.Path...)
}
