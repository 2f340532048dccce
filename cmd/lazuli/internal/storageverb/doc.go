// Package storageverb has the verbs for what an account stores: those of `lazuli blob`, `lazuli queue` and `lazuli
// table`,
// on Lazuli, Azurite or Azure.
package storageverb
