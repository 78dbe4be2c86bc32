// Package instrumentationtest has Instrumentations and pod templates for tests. Of random ones, the
// same for the same seed, it checks the promises of package injection; the benchmark checks many
// more than the tests.
package instrumentationtest
