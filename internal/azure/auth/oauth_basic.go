package auth

import (
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// entraIssuers begin the issuers of tokens of Microsoft Entra ID, in its clouds.
var entraIssuers = []string{"https://sts.windows.net/", "https://login.microsoftonline.com/", "https://sts.chinacloudapi.cn/",
	"https://login.partner.microsoftonline.cn/", "https://login.microsoftonline.us/", "https://sts.microsoftonline.de/"}

// NewBasicOAuth accepts tokens of Microsoft Entra ID without checking their signatures, as Azurite does with --oauth basic: issuer, audience and
// times are checked, and everyone can forge a token. It is for loopback addresses and the published development account.
func NewBasicOAuth(roles *Roles) *OAuth {
	o := &OAuth{basic: true, issuers: []Issuer{{ID: entraIssuers[0], AuthorizeURL: "https://login.microsoftonline.com/common/oauth2/authorize"}}}
	o.SetRoles(roles)
	return o
}

// unverifiedClaims reads a token's claims, and checks those that say where it is from and when it is valid.
func unverifiedClaims(token string, now time.Time) (c claims, err error) {
	if _, _, err := jwt.NewParser().ParseUnverified(token, &c); err != nil {
		return c, errMalformed
	}
	validator := jwt.NewValidator(jwt.WithExpirationRequired(), jwt.WithTimeFunc(func() time.Time { return now }))
	if err := validator.Validate(&c); err != nil {
		return c, tokenReason(err)
	}
	if !slices.ContainsFunc(entraIssuers, func(prefix string) bool { return strings.HasPrefix(c.Issuer, prefix) }) {
		return c, errIssuer
	}
	return c, nil
}
