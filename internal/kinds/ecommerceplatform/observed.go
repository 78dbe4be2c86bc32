package ecommerceplatform

import (
	"cmp"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Installation is what a platform has to know of the installation.
type Installation struct {
	// Environments are those that exist.
	Environments policy.Environments
	// HasStacks reports whether the kind AppStack is on.
	HasStacks bool
	// Types are those of the components whose kinds are on.
	Types []string
	// Databases and Caches are the versions of PostgreSQL and Valkey that the installation has images
	// for.
	Databases, Caches []string
}

// versions returns those of a type of database that the installation has images for. Of MySQL it
// has none: its kind is not there yet.
func (i Installation) versions(of platformv1.DatabaseType) []string {
	if of == platformv1.DatabaseMySQL {
		return nil
	}
	return i.Databases
}

// newest returns the newest of some versions; "" if there is none.
func newest(of []string) string {
	versions := slices.DeleteFunc(slices.Clone(of), func(version string) bool { return number(version) == 0 })
	if len(versions) == 0 {
		return ""
	}
	return slices.MaxFunc(versions, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
}

// number returns a major version as a number; 0 if it is none.
func number(version string) int {
	count, err := strconv.Atoi(version)
	if err != nil || count < 0 {
		return 0
	}
	return count
}

// newestCache is the newest version of Valkey that the kind Cache has: where the installation has
// no image, the Cache says so.
const newestCache = "9"

// Observed is everything that decisions about one platform depend on, read once.
type Observed struct {
	Installation
	// Children has what exists under the names of the AppStack and of what monitors it.
	Children plan.Children
	// HasRuleAPI reports whether the cluster has PrometheusRules. RuleLabels are the labels by which
	// Prometheus selects them, from the installation.
	HasRuleAPI bool
	RuleLabels map[string]string
	// MissingAPIs are the kinds that monitor platforms and their parts, and that the cluster lacks.
	MissingAPIs []string
	// Namespace are the labels of the platform's namespace.
	Namespace map[string]string
}

// stack returns the platform's AppStack; nil if there is none.
func (o Observed) stack(platform *platformv1.EcommercePlatform) *platformv1.AppStack {
	found := o.Children[Ref(platform)]
	stack, _ := found.Object.(*platformv1.AppStack)
	if found.Ownership != plan.Ours {
		return nil
	}
	return stack
}

// Existing returns the AppStack whose irrevocable choices count: the platform's own, or one that
// consents to be adopted, whose parts have their data already; nil if there is none. What deletes
// must not ask for it: until it is adopted, the platform has no say in its life.
func Existing(found plan.Children, platform *platformv1.EcommercePlatform) *platformv1.AppStack {
	object, _ := found.Get(Ref(platform))
	stack, _ := object.(*platformv1.AppStack)
	return stack
}

// has reports whether a child of the platform exists.
func (o Observed) has(ref plan.Ref) bool {
	return o.Children[ref].Ownership == plan.Ours && o.Children[ref].Object != nil
}

// isOrphaning reports whether the platform is being deleted such that its AppStack stays.
func isOrphaning(platform *platformv1.EcommercePlatform) bool {
	return slices.Contains(platform.Finalizers, metav1.FinalizerOrphanDependents)
}
