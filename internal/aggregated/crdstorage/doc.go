// Package crdstorage lets an extension API server store its resources in resources of Kubernetes:
// Storage is a storage.Interface of k8s.io/apiserver on top of one of them. Watches, lists with
// selectors, pages, bookmarks, conflicts, dry-runs, apply and finalizers all come from that library
// (its cacher and genericregistry.Store). This package has no state.
//
// A served object is either computed from its backing object, and read-only, or stored in it as a
// whole. See docs/add-a-served-resource.md.
package crdstorage
