// Package injectiontest makes random pod templates and Instrumentations, and checks on them what package injection promises. The same seed makes
// the same; the benchmark checks many more than the tests.
package injectiontest
