// Package appconfig has every decision about an AppConfig: what its spec renders, which content its ConfigMap gets, which revisions
// are kept, and what is told of it. It is pure.
package appconfig
