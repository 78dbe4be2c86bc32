// Package crdstorage lets an extension API server keep its resources in resources of Kubernetes: Storage is a storage.Interface of k8s.io/apiserver
// over one of them. Watches, lists by selectors, pages, bookmarks, conflicts, dry-runs, apply and finalizers all come from that library, which
// stands on top of it (its cacher, and genericregistry.Store): nothing here remembers anything.
//
// What is served may be computed from what backs it, and then it can only be read, or be kept in it whole. See docs/add-a-served-resource.md.
package crdstorage
