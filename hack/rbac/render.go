package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const (
	header   = "# Made by `make gen` from the +kubebuilder:rbac markers in the code. Never edited.\n"
	roleName = "manager"
)

// render is a ClusterRole and a Role with the given rights, as YAML documents. The order of
// the markers makes no difference.
func render(rules []rule) ([]byte, error) {
	var everywhere, own []rule
	for _, r := range rules {
		if r.namespaced {
			own = append(own, r)
		} else {
			everywhere = append(everywhere, r)
		}
	}
	var out bytes.Buffer
	out.WriteString(header)
	for _, role := range []struct {
		kind  string
		rules []rule
	}{{"ClusterRole", merge(everywhere)}, {"Role", merge(own)}} {
		document, err := yaml.Marshal(map[string]any{
			"apiVersion": rbacv1.SchemeGroupVersion.String(),
			"kind":       role.kind,
			"metadata":   map[string]any{"name": roleName},
			"rules":      policyRules(role.rules),
		})
		if err != nil {
			return nil, fmt.Errorf("rendering the %s: %w", role.kind, err)
		}
		out.WriteString("---\n")
		out.Write(document)
	}
	return out.Bytes(), nil
}

// target is one thing that rights can be given on.
type target struct{ group, resource, name, url string }

// merge unites the verbs of each target, and then the resources of a group that have the same
// verbs and names.
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

// targets are all combinations that a rule names. Each name is a target of its own.
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
