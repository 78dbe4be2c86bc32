//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// interval is a time in which rights are taken away on purpose.
type interval struct{ from, to time.Time }

var rightsTaken []interval

// event is what we read of one line of the audit log.
type event struct {
	User struct {
		Username string
		Extra    map[string][]string
	}
	Verb, RequestURI string
	ObjectRef        struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	// ResponseStatus tells with 201 that a patch has created its object.
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp metav1.MicroTime
	Annotations              map[string]string
}

// use is one thing that can be granted: a verb on a resource; name is empty for all objects.
type use struct{ group, resource, name, verb string }

func (u use) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s.%s %s", u.verb, u.resource, u.group, u.name))
}

func (e event) use() use {
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return use{e.ObjectRef.APIGroup, resource, e.ObjectRef.Name, e.Verb}
}

// auditLog are the events of the whole run, in their order: those of ServiceAccounts, and what became of namespaces and
// ClusterRoleBindings.
func auditLog(t *testing.T) []event {
	t.Helper()
	testbed, err := filepath.Abs(filepath.Join(repository, "bin/testbed"))
	if err != nil {
		t.Fatal(err)
	}
	current, err := command(t.Context(), "", testbed, "audit")
	if err != nil {
		t.Fatal(err)
	}
	// A log that has grown too large was put aside, under a name with the time behind the first part.
	files, err := filepath.Glob(strings.TrimSuffix(strings.TrimSpace(current), ".log") + "*.log")
	if err != nil {
		t.Fatal(err)
	}
	var events []event
	for _, file := range files {
		opened, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(opened)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			// Most lines are of Kubernetes' own parts and of this test's questions.
			if !bytes.Contains(lines.Bytes(), []byte("serviceaccount:")) && !bytes.Contains(lines.Bytes(), []byte(`"clusterrolebindings"`)) && !bytes.Contains(lines.Bytes(), []byte(`"namespaces"`)) {
				continue
			}
			var one event
			if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			events = append(events, one)
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		_ = opened.Close()
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp.Time) })
	return events
}

// binding is what we read of a role or its binding.
type binding struct {
	rbacv1.ClusterRole
	RoleRef  rbacv1.RoleRef
	Subjects []rbacv1.Subject
}

// granted are the rights of an account of an installation with the default values, and with Llamas.
func granted(t *testing.T, account string) []use {
	t.Helper()
	manifest := helm(t, "template", "mainstay", filepath.Join(repository, "charts/mainstay"), "--namespace", system, "--set",
		"uninstall.enabled=true", "--set", withLlamas)
	roles, bound := map[string][]rbacv1.PolicyRule{}, map[string]bool{}
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		var one binding
		if err := yaml.Unmarshal([]byte(document), &one); err != nil {
			t.Fatal(err)
		}
		switch one.Kind {
		case "ClusterRole", "Role":
			roles[one.Kind+" "+one.Name] = one.Rules
		case "ClusterRoleBinding", "RoleBinding":
			if slices.ContainsFunc(one.Subjects, func(s rbacv1.Subject) bool { return s.Name == account }) {
				bound[one.RoleRef.Kind+" "+one.RoleRef.Name] = true
			}
		}
	}
	var found []use
	for role := range bound {
		for _, rule := range roles[role] {
			found = append(found, usesOf(rule)...)
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s has no rights", account)
	}
	return found
}

func usesOf(rule rbacv1.PolicyRule) []use {
	var found []use
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					found = append(found, use{group, resource, name, verb})
				}
			}
		}
	}
	return found
}

// unusedOnPurpose says why a right that no end-to-end test uses is granted all the same; empty if nothing does.
func unusedOnPurpose(right use, used map[use]bool) string {
	with := func(verb string) bool { return used[use{right.group, right.resource, right.name, verb}] }
	switch {
	case right.group == "gateway.networking.k8s.io":
		return "the testbed has no Gateway API"
	case right.verb == "list" && with("watch"):
		return "API servers before 1.34 do not stream lists, and are asked for them before a watch"
	case right.resource == "webapps/finalizers", right.resource == "appconfigs/finalizers", right.verb == "delete" &&
		(right.resource == "deployments" || right.resource == "services"):
		return "OwnerReferencesPermissionEnforcement asks for it: for blockOwnerDeletion, and to adopt"
	case right.resource == "events" && right.verb == "patch" && with("create"):
		return "an event that is repeated within minutes is counted up"
	case right.group == "config.mainstay.dev" && right.verb == "patch" && !strings.Contains(right.resource, "/"):
		return "uninstalling takes finalizers off, of which these kinds have none"
	case right.group == "records.mainstay.dev" && right.verb == "patch":
		return "uninstalling takes the finalizer off records that are being deleted, of which there are none then"
	case right == use{"", "secrets", "mainstay-apiserver", "update"}:
		return "a certificate is replaced after two thirds of its 90 days"
	case right == use{"", "namespaces", "", "get"}:
		return "a namespace may be so new that the cache lacks it"
	case right == use{"policy.mainstay.dev", "platformpolicies", "", "get"}:
		return "who has made the default policy and does not see it in the cache asks whether somebody deleted it"
	case right == use{"apiextensions.k8s.io", "customresourcedefinitions", "", "create"}:
		return "a new release's new kind: of this release's, Helm has made all"
	default:
		return ""
	}
}

// covers tells whether a right is that to do what was done.
func (u use) covers(done use) bool {
	return u.group == done.group && u.resource == done.resource && u.verb == done.verb && (u.name == "" || u.name == done.name)
}

// leaving notes when accounts lose their rights with their installation, and get them back with another.
type leaving map[string]bool

func (l leaving) follow(e event) {
	of := e.ObjectRef
	if of.Resource != "clusterrolebindings" && of.Resource != "namespaces" {
		return
	}
	switch {
	case e.Verb == "delete":
		l[of.Resource+" "+of.Name] = true
	case e.ResponseStatus.Code == 201:
		delete(l, of.Resource+" "+of.Name)
	}
}

// testAudit compares what the API server was asked for with what is granted: nothing that is granted is unused, and
// nothing that is used is missing.
func testAudit(t *testing.T) {
	events := auditLog(t)
	for _, account := range []string{"mainstay-manager", "mainstay-uninstall", "mainstay-apiserver"} {
		used, gone, denied := map[use]bool{}, leaving{}, map[string]int{}
		rights := granted(t, account)
		for _, e := range events {
			gone.follow(e)
			namespace, name, isAccount := strings.Cut(strings.TrimPrefix(e.User.Username, "system:serviceaccount:"), ":")
			if !isAccount || !strings.HasSuffix(name, account) {
				continue
			}
			if e.Annotations["authorization.k8s.io/decision"] == "forbid" {
				if !gone["clusterrolebindings "+name] && !gone["namespaces "+namespace] && !withoutRights(e.RequestReceivedTimestamp.Time) {
					denied[fmt.Sprintf("%s %s in %q", name, e.use(), e.ObjectRef.Namespace)]++
				}
				continue
			}
			for _, done := range []use{e.use(), {e.ObjectRef.APIGroup, e.ObjectRef.Resource, e.ObjectRef.Name, "create"}} {
				if done.verb == "create" && e.Verb != "create" && e.ResponseStatus.Code != 201 {
					continue
				}
				for _, right := range rights {
					used[right] = used[right] || right.covers(done)
				}
			}
		}
		for what, times := range denied {
			t.Errorf("denied %d times: %s", times, what)
		}
		for _, right := range rights {
			switch why := unusedOnPurpose(right, used); {
			case used[right]:
			case why == "":
				t.Errorf("%s may %s, and never did", account, right)
			default:
				t.Logf("%s may %s, and never did: %s", account, right, why)
			}
		}
	}
}

// withoutRights tells whether a test had taken rights away at a time.
func withoutRights(at time.Time) bool {
	return slices.ContainsFunc(rightsTaken, func(i interval) bool { return at.After(i.from) && at.Before(i.to) })
}
