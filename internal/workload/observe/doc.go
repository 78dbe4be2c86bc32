// Package observe reads what decisions about restarts rest on. It says what the cache holds for that: of ConfigMaps and Secrets
// hashes of their values, made before anything is kept, and of other people's workloads what tells whether they are concerned.
// It writes nothing.
package observe
