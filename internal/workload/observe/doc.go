// Package observe reads what decisions about restarts depend on. It also defines what is
// cached for that purpose: in Sources, hashes of the values of ConfigMaps and Secrets; in the
// manager's cache, of other people's workloads what shows whether they are concerned. It writes
// nothing.
package observe
