// Package observe reads what decisions about restarts depend on. It also defines what the cache
// keeps for that purpose: of ConfigMaps and Secrets, hashes of their values, which are computed
// before anything is stored; of other people's workloads, what shows whether they are concerned. It
// writes nothing.
package observe
