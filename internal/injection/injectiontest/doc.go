// Package injectiontest generates random pod templates and Instrumentations, and checks the
// promises of package injection on them. The same seed generates the same; the benchmark checks
// many more than the tests.
package injectiontest
