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

// interval is a time in which a test has removed rights on purpose.
type interval struct{ from, to time.Time }

var rightsTaken []interval

// began is when these tests began. Others may have used the cluster before.
var began = time.Now()

// event has the fields we read from one line of the audit log.
type event struct {
	User struct {
		Username string
		Extra    map[string][]string
	}
	Verb, RequestURI string
	ObjectRef        struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	// ResponseStatus is 201 if a patch has created its object.
	ResponseStatus           struct{ Code int }
	RequestReceivedTimestamp metav1.MicroTime
	Annotations              map[string]string
}

// use is a verb on a resource, the unit of what can be granted. An empty name means all objects.
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

// auditLog returns the events since these tests began, in order: those of ServiceAccounts, and
// writes of namespaces and ClusterRoleBindings.
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
	// A log that has grown too large is renamed: a timestamp follows the first part of its name.
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
		lines.Split(wholeLines)
		for lines.Scan() {
			// Most lines are requests of Kubernetes' own components and of this test.
			if !bytes.Contains(lines.Bytes(), []byte("serviceaccount:")) && !bytes.Contains(lines.Bytes(), []byte(`"clusterrolebindings"`)) && !bytes.Contains(lines.Bytes(), []byte(`"namespaces"`)) {
				continue
			}
			var one event
			if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if one.RequestReceivedTimestamp.After(began) {
				events = append(events, one)
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		_ = opened.Close()
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp.Time) })
	return events
}

// wholeLines is a bufio.SplitFunc for a file that another program appends to: it leaves out a last
// line that is not whole yet.
func wholeLines(data []byte, _ bool) (advance int, token []byte, err error) {
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return end + 1, data[:end], nil
	}
	return 0, nil, nil
}

// binding has the fields we read from a role or a binding.
type binding struct {
	rbacv1.ClusterRole
	RoleRef  rbacv1.RoleRef
	Subjects []rbacv1.Subject
}

// granted returns the rights of an account in an installation with the default values and those of
// the story, and further ones.
func granted(t *testing.T, account, more string) []use {
	t.Helper()
	manifest := helm(t, "template", "mainstay", filepath.Join(repository, "charts/mainstay"), "--namespace", system, "--set",
		"uninstall.enabled=true", "--set", withRights+more)
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

// unusedOnPurpose returns why a right that no end-to-end test uses is granted, empty if there is no
// reason.
func unusedOnPurpose(right use, used map[use]bool) string {
	with := func(verb string) bool { return used[use{right.group, right.resource, right.name, verb}] }
	switch {
	case right.group == "gateway.networking.k8s.io":
		return "the testbed has no Gateway API"
	case right.group == "monitoring.coreos.com":
		return "the testbed has no Prometheus Operator; test/integration has its ServiceMonitor"
	case right.resource == "ingressclasses":
		return "the class of an Ingress is read when that has been without an address for a minute"
	case right.verb == "get" && with("patch") && with("watch"):
		return "a child is read only if its name is taken, or someone else has changed it"
	case right.verb == "list" && with("watch"):
		return "API servers before 1.34 do not stream lists: a list precedes the watch"
	case right.resource == "webapps/finalizers", right.resource == "appstacks/finalizers", right.resource == "ecommerceplatforms/finalizers",
		right.resource == "appconfigs/finalizers", right.resource == "platformpolicies/finalizers",
		right.verb == "delete" &&
			(right.resource == "deployments" || right.resource == "services"):
		return "OwnerReferencesPermissionEnforcement requires it, for blockOwnerDeletion and for adoption"
	case right.resource == "events" && right.verb == "patch" && with("create"):
		return "an event that is repeated within minutes is patched"
	case slices.Contains([]string{"config.mainstay.dev", "database.mainstay.dev"}, right.group) && right.verb == "patch" &&
		!strings.Contains(right.resource, "/"):
		return "the uninstallation removes finalizers, and these kinds have none"
	case right == use{"platform.mainstay.dev", "appstacks", "", "patch"}, right == use{"platform.mainstay.dev", "ecommerceplatforms", "", "patch"}:
		return "the uninstallation removes the finalizers of AppStacks and EcommercePlatforms, and there are none then"
	case right.group == "records.mainstay.dev" && right.verb == "patch":
		return "the uninstallation removes the finalizer of records that are being deleted, and there are none then"
	case right == use{"apiextensions.k8s.io", "customresourcedefinitions/status", "webapps.apps.mainstay.dev", "patch"}:
		return "an installation over objects of an older version forgets that version: TestInstallations has one, on a cluster of its own"
	case right == use{"", "secrets", "mainstay-apiserver", "update"}:
		return "a certificate is replaced after two thirds of its 90 days"
	case right == use{"", "namespaces", "", "get"}:
		return "a new namespace may not be in the cache yet"
	case right == use{"policy.mainstay.dev", "platformpolicies", "", "get"}:
		return "a manager that has created the default policy and lacks it in its cache checks whether it was deleted"
	case right == use{"apiextensions.k8s.io", "customresourcedefinitions", "", "create"}:
		return "a new release may have new kinds; Helm has created all kinds of this one"
	default:
		return ""
	}
}

// covers reports whether a right permits a use.
func (u use) covers(done use) bool {
	return u.group == done.group && u.resource == done.resource && u.verb == done.verb && (u.name == "" || u.name == done.name)
}

// leaving records which accounts have lost their rights with their installation, until another
// installation grants them again.
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

// testAudit compares the requests in the audit log with the rights granted: no request lacks one,
// and of these accounts every right is used.
func testAudit(t *testing.T, using ...string) {
	events := auditLog(t)
	for _, account := range []string{"mainstay-manager", "mainstay-uninstall", "mainstay-apiserver"} {
		used, gone, denied := map[use]bool{}, leaving{}, map[string]int{}
		rights, withoutDatabases := granted(t, account, ""), granted(t, account,
			",kinds.ecommerceplatform.enabled=false,kinds.postgresql.enabled=false,kinds.cache.enabled=false")
		for _, e := range events {
			gone.follow(e)
			namespace, name, isAccount := strings.Cut(strings.TrimPrefix(e.User.Username, "system:serviceaccount:"), ":")
			if !isAccount || !strings.HasSuffix(name, account) {
				continue
			}
			if e.Annotations["authorization.k8s.io/decision"] == "forbid" {
				if !gone["clusterrolebindings "+name] && !gone["namespaces "+namespace] && !withoutRights(e.RequestReceivedTimestamp.Time) {
					denied[fmt.Sprintf("%s %s in %q (%s)", name, e.use(), e.ObjectRef.Namespace, e.RequestURI)]++
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
			case used[right], !slices.Contains(using, account):
			case !slices.Contains(withoutDatabases, right): // test/databases has what these tests do not use of databases
			case why == "":
				t.Errorf("%s may %s, but never did", account, right)
			default:
				t.Logf("%s may %s, but never did: %s", account, right, why)
			}
		}
	}
}

// withoutRights reports whether a test had removed rights at a time.
func withoutRights(at time.Time) bool {
	return slices.ContainsFunc(rightsTaken, func(i interval) bool { return at.After(i.from) && at.Before(i.to) })
}
