package devissuer

import (
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// assertionType is the only kind of client assertion that there is (RFC 7523, section 2.2).
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// exchangeAudience begins the audience of tokens that are made to be exchanged for one of Microsoft Entra ID.
// https://learn.microsoft.com/entra/workload-id/workload-identity-federation-considerations
const exchangeAudience = "api://AzureADTokenExchange"

// assertionFault says why a client assertion cannot be meant for this issuer; "" if it can. Its signature counts for as
// much as a secret does for an issuer that accepts every client: it is not verified, since the issuer has no keys of
// clients. The checks cover frequent mistakes: a file that is not a token, a token for another audience, and an expired
// token.
//
// There are two kinds. A workload's token of another issuer has an audience made for exchange; an application that
// signs with its certificate has its own id as issuer and subject, and the token endpoint as audience.
// https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow#third-case-access-token-request-with-a-federated-credential
func assertionFault(kind, assertion, client string, now time.Time) string {
	if kind != assertionType {
		return "The client_assertion_type must be " + assertionType + "."
	}
	var c jwt.RegisteredClaims
	t, parts, err := jwt.NewParser().ParseUnverified(assertion, &c)
	switch {
	case err != nil:
		return "The client assertion is not a JWT."
	case t.Method == jwt.SigningMethodNone || len(parts) != 3 || parts[2] == "":
		return "The client assertion is not signed."
	case c.Subject == "" || c.Issuer == "":
		return "The client assertion has no issuer or no subject."
	case c.ExpiresAt == nil || !now.Before(c.ExpiresAt.Time):
		return "The client assertion has expired, or has no time of expiry."
	case c.NotBefore != nil && now.Add(assertionSkew).Before(c.NotBefore.Time):
		return "The client assertion is not yet valid."
	}
	own := c.Issuer == client && c.Subject == client
	if !slices.ContainsFunc(c.Audience, func(aud string) bool {
		return strings.HasPrefix(aud, exchangeAudience) || own && strings.HasSuffix(strings.TrimSuffix(aud, "/"), "/token")
	}) {
		return "The client assertion's audience must begin with " + exchangeAudience +
			", or be the token endpoint where its issuer and subject are the client's id."
	}
	return ""
}

// assertionSkew is the time by which a client's clock may be ahead.
const assertionSkew = 5 * time.Minute
