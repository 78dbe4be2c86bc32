// Package injectiontest makes pod templates and Instrumentations by chance, and checks on them what package injection promises. Tests
// check a thousand, the benchmark many more. The same seed makes the same.
package injectiontest
