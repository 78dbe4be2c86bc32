// Package metrics declares every metric of Mainstay, and is the one place that records them.
//
// # How many series there are
//
// Labels have values from lists that are fixed in the code (kinds, results, classes, phases, verbs,
// resources), but for namespaces. Of these the first 500 have series of their own, all others share
// namespace="(other)", which no namespace can be called; the series of a namespace that is gone are
// deleted with the next scrape, and its place is free (while PlatformPolicies are off nobody knows which
// namespaces there are: then series stay). No label ever has the name of an object.
//
// # What is counted where
//
// What a replica does is counted where it is done: sum it over replicas. What a replica sees
// (mainstay_objects, mainstay_leader and the like) each one tells: take the maximum.
package metrics
