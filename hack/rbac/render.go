package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const header = "# Made by `make gen` from the +kubebuilder:rbac markers in the code. Never edited.\n"

// scope is where rights apply.
type scope string

const (
	// cluster is for cluster-scoped resources.
	cluster scope = "cluster"
	// watched is for the namespaces that the manager watches.
	watched scope = "watched"
	// inDefault is for the namespace default.
	inDefault scope = defaultNamespace
	// own is for the manager's own namespace.
	own scope = "own"
)

// clusterScoped are the cluster-scoped resources that markers may name. Nothing available at this
// time says which they are; TestGrantedWhereItCounts checks them with an API server.
var clusterScoped = map[string]bool{
	"admissionregistration.k8s.io/mutatingadmissionpolicies":         true,
	"admissionregistration.k8s.io/mutatingadmissionpolicybindings":   true,
	"admissionregistration.k8s.io/mutatingwebhookconfigurations":     true,
	"admissionregistration.k8s.io/validatingadmissionpolicies":       true,
	"admissionregistration.k8s.io/validatingadmissionpolicybindings": true,
	"admissionregistration.k8s.io/validatingwebhookconfigurations":   true,
	"apiextensions.k8s.io/customresourcedefinitions":                 true,
	"apiregistration.k8s.io/apiservices":                             true,
	"authentication.k8s.io/selfsubjectreviews":                       true,
	"authentication.k8s.io/tokenreviews":                             true,
	"authorization.k8s.io/subjectaccessreviews":                      true,
	"networking.k8s.io/ingressclasses":                               true,
	"policy.mainstay.dev/platformpolicies":                           true,
	"instrumentation.mainstay.dev/clusterinstrumentations":           true,
	"instrumentation.mainstay.dev/clusterinstrumentations/status":    true,
	"rbac.authorization.k8s.io/clusterroles":                         true,
	"scheduling.k8s.io/priorityclasses":                              true,
	"storage.k8s.io/storageclasses":                                  true,
	"/namespaces":                                                    true,
	"/nodes":                                                         true,
	"/persistentvolumes":                                             true,
}

// scopeOf returns where the right on a target applies.
func scopeOf(t target, namespace string) scope {
	resource, _, _ := strings.Cut(t.resource, "/")
	switch {
	case t.url != "", clusterScoped[t.group+"/"+resource]:
		return cluster
	case namespace == ownNamespace:
		return own
	case namespace == defaultNamespace:
		return inDefault
	default:
		return watched
	}
}

// render returns the rights of each part, as YAML by file name: a list of rules for each scope. The
// result does not depend on the order of the markers.
func render(rules []rule) (map[string][]byte, error) {
	parts := map[string]map[scope][]rule{}
	for _, r := range rules {
		for _, part := range r.parts {
			if parts[part] == nil {
				parts[part] = map[scope][]rule{}
			}
			for t := range r.targets() {
				at := scopeOf(t, r.namespace)
				one := rule{verbs: r.verbs}
				one.add(t)
				parts[part][at] = append(parts[part][at], one)
			}
		}
	}
	files := map[string][]byte{}
	for part, scopes := range parts {
		content := map[scope][]rbacv1.PolicyRule{}
		for at, rules := range scopes {
			content[at] = policyRules(merge(rules))
		}
		document, err := yaml.Marshal(content)
		if err != nil {
			return nil, fmt.Errorf("rendering the rights of %s: %w", part, err)
		}
		files[part+".yaml"] = append([]byte(header), document...)
	}
	return files, nil
}

// target is a resource or URL on which rights can be granted.
type target struct{ group, resource, name, url string }

// merge unites the verbs of each target, and then the resources of a group with the same verbs and
// names.
func merge(rules []rule) []rule {
	verbs := map[target]map[string]bool{}
	for _, r := range rules {
		for t := range r.targets() {
			if verbs[t] == nil {
				verbs[t] = map[string]bool{}
			}
			for _, verb := range r.verbs {
				verbs[t][verb] = true
			}
		}
	}
	type key struct {
		group, name, verbs string
		isURL              bool
	}
	united := map[key]*rule{}
	for t, set := range verbs {
		sorted := slices.Sorted(maps.Keys(set))
		k := key{t.group, t.name, strings.Join(sorted, ","), t.url != ""}
		if united[k] == nil {
			united[k] = &rule{verbs: sorted}
		}
		united[k].add(t)
	}
	var merged []rule
	for _, r := range united {
		slices.Sort(r.resources)
		slices.Sort(r.urls)
		merged = append(merged, *r)
	}
	slices.SortFunc(merged, compare)
	return merged
}

// targets returns all combinations that a rule names. Each name is a separate target.
func (r rule) targets() map[target]bool {
	set := map[target]bool{}
	for _, url := range r.urls {
		set[target{url: url}] = true
	}
	names := r.names
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range r.groups {
		for _, resource := range r.resources {
			for _, name := range names {
				set[target{group: group, resource: resource, name: name}] = true
			}
		}
	}
	return set
}

func (r *rule) add(t target) {
	if t.url != "" {
		r.urls = append(r.urls, t.url)
		return
	}
	r.groups = []string{t.group}
	r.resources = append(r.resources, t.resource)
	if t.name != "" {
		r.names = []string{t.name}
	}
}

func compare(a, b rule) int {
	return cmp.Or(
		slices.Compare(a.groups, b.groups),
		slices.Compare(a.resources, b.resources),
		slices.Compare(a.names, b.names),
		slices.Compare(a.urls, b.urls),
		slices.Compare(a.verbs, b.verbs),
	)
}

func policyRules(rules []rule) []rbacv1.PolicyRule {
	out := []rbacv1.PolicyRule{}
	for _, r := range rules {
		out = append(out, rbacv1.PolicyRule{
			APIGroups: r.groups, Resources: r.resources, ResourceNames: r.names, NonResourceURLs: r.urls, Verbs: r.verbs,
		})
	}
	return out
}
