package auth

import (
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// entraIssuers are the prefixes of the issuers of Microsoft Entra ID, those of each cloud.
var entraIssuers = []string{"https://sts.windows.net/", "https://login.microsoftonline.com/",
	"https://sts.chinacloudapi.cn/",
	"https://login.partner.microsoftonline.cn/", "https://login.microsoftonline.us/", "https://sts.microsoftonline.de/",
	"https://sts.windows-ppe.net/"}

// clouds are the domains of storage accounts, one for each cloud.
var clouds = []string{"core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net", "core.cloudapi.de"}

// NewBasicOAuth accepts tokens of Microsoft Entra ID without checking their signatures, as Azurite does with --oauth
// basic: issuer, audience and times are checked, but anyone can forge a token. Use it only with loopback addresses and
// the public development account.
func NewBasicOAuth(roles *Roles) *OAuth {
	o := &OAuth{basic: true, issuers: []Issuer{{ID: entraIssuers[0],
		AuthorizeURL: "https://login.microsoftonline.com/common/oauth2/authorize"}}}
	o.SetRoles(roles)
	return o
}

// unverifiedClaims parses a token's claims and checks the issuer and the times.
func unverifiedClaims(token string, now time.Time) (c claims, err error) {
	if _, _, err := jwt.NewParser().ParseUnverified(token, &c); err != nil {
		return c, errMalformed
	}
	if err := jwt.NewValidator(lifetime(now)...).Validate(&c); err != nil {
		return c, tokenReason(err)
	}
	if !slices.ContainsFunc(entraIssuers, func(prefix string) bool { return strings.HasPrefix(c.Issuer, prefix) }) {
		return c, errIssuer
	}
	return c, nil
}
