// Package devissuer is a token issuer for development: it issues OAuth 2.0 access tokens for storage to any client,
// with the protocols of Azure's client libraries, so that code written for Microsoft Entra ID runs offline.
//
// It is not an identity provider. Without configured clients it accepts every client ID; use it only on a loopback
// listener. Its tokens are valid only where its key is trusted: in the process that created the key.
//
// Libraries reach it in three ways:
//
//   - client credentials, POST {tenant}/oauth2/v2.0/token, found through
//     {tenant}/v2.0/.well-known/openid-configuration (the libraries insist on https there), with a secret or with a client
//     assertion, as workload identities and applications with a certificate send;
//   - managed identity as in App Service: IDENTITY_ENDPOINT=http://127.0.0.1:10003/oauth/msi/token and any
//     IDENTITY_HEADER, with which DefaultAzureCredential works unchanged;
//   - managed identity as on virtual machines: /metadata/identity/oauth2/token.
//
// https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow
package devissuer
