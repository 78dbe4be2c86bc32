// Package metrics declares and records all metrics of Mainstay.
//
// # How many series there are
//
// The values of labels are from lists that are fixed in the code (kinds, results, classes, phases,
// verbs, resources), except namespaces. The first 500 namespaces have series of their own. All
// others share namespace="(other)", which is no valid name of a namespace. The series of a deleted
// namespace are deleted with the next scrape, and its place is free. While PlatformPolicies are
// off, namespaces are not cached, and series stay. No label has the name of an object, except in
// mainstay_unready_object, which names a limited number of them.
//
// # What is counted where
//
// A replica counts what it does itself: sum these metrics over replicas. Each replica reports what
// it observes (mainstay_objects, mainstay_leader and the like): take the maximum.
package metrics
