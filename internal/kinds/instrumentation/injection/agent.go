package injection

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// Finalizer keeps an Instrumentation until its agent is removed from all workloads.
const Finalizer = "mainstay.dev/instrumentation"

// Kinds of the API.
const (
	KindNamespaced = "Instrumentation"
	KindCluster    = "ClusterInstrumentation"
)

// Object is an Instrumentation or a ClusterInstrumentation.
type Object interface {
	metav1.Object
	GetSpec() *instrv1.InstrumentationSpec
}

// Identity names an Instrumentation. Namespace is empty for a ClusterInstrumentation.
type Identity struct {
	Kind, Namespace, Name string
}

// String returns, for example, "Instrumentation/java", which is unique within a namespace.
func (i Identity) String() string { return i.Kind + "/" + i.Name }

// ID returns the identifier used in pods: 8 hexadecimal digits.
func (i Identity) ID() string { return digest([]string{i.Kind, i.Namespace, i.Name})[:8] }

// IdentityOf returns the identity of an object.
func IdentityOf(object Object) Identity {
	if _, isCluster := object.(*instrv1.ClusterInstrumentation); isCluster {
		return Identity{Kind: KindCluster, Name: object.GetName()}
	}
	return Identity{Kind: KindNamespaced, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// Agent is an Instrumentation, compiled for repeated matching.
type Agent struct {
	Identity
	// ID is the identifier of the Identity.
	ID string
	// Spec has its defaults filled in.
	Spec *instrv1.InstrumentationSpec
	// Revision is a hash of what Spec injects, and where.
	Revision string
	// Failed is the revision whose canaries failed, empty if none did. Because says what happened.
	Failed, Because string
	// Invalid is the validation error of the spec, nil if the spec is valid. An invalid agent injects
	// nothing, and what it injected earlier is retained until the spec is corrected or the object is
	// deleted: an upgrade with stricter validation must not replace pods.
	Invalid error

	created time.Time
	// isOn reports that the agent may inject, isGone that the object is being deleted.
	isOn, isGone bool
	namespaces   labels.Selector
	matchers     []matcher
}

// NewAgent returns the Agent of an object. spec is the object's with its defaults, and invalid its
// validation error, or nil.
func NewAgent(object Object, spec *instrv1.InstrumentationSpec, invalid error) *Agent {
	identity := IdentityOf(object)
	agent := &Agent{
		Identity: identity, ID: identity.ID(), Spec: spec, Revision: digest([]any{spec.Agent, spec.Matchers})[:16], Invalid: invalid,
		created: object.GetCreationTimestamp().Time, isGone: object.GetDeletionTimestamp() != nil,
		namespaces: labels.Everything(), // an invalid agent may have injected anywhere earlier
	}
	agent.Failed, agent.Because, _ = strings.Cut(object.GetAnnotations()[instrv1.AnnotationFailed], " ")
	agent.isOn = !agent.isGone && slices.Contains(object.GetFinalizers(), Finalizer)
	if invalid == nil {
		agent.Invalid = agent.compile(object)
	}
	return agent
}

// compile prepares the matchers and the selector of a valid spec.
func (a *Agent) compile(object Object) error {
	for i := range a.Spec.Matchers {
		compiled, err := compileMatcher(&a.Spec.Matchers[i])
		if err != nil {
			return fmt.Errorf("spec.matchers[%d]: %w", i, err)
		}
		a.matchers = append(a.matchers, compiled)
	}
	if cluster, isCluster := object.(*instrv1.ClusterInstrumentation); isCluster {
		selected, err := selectorOf(cluster.Spec.NamespaceSelector)
		if err != nil {
			return fmt.Errorf("spec.namespaceSelector: %w", err)
		}
		a.namespaces = selected
	}
	return nil
}

// retainsInjected reports whether what the agent has injected is left as it is.
func (a *Agent) retainsInjected() bool { return a.Invalid != nil && !a.isGone }

// HasFailed reports whether the current revision failed on its canaries.
func (a *Agent) HasFailed() bool { return a.HasCanaries() && a.Failed == a.Revision }

// HasCanaries reports whether some workloads get a new revision before the others.
func (a *Agent) HasCanaries() bool { return a.Spec.Rollout.Strategy == instrv1.RolloutCanary }

// isGated reports whether a workload needs a grant before it gets a new revision.
func (a *Agent) isGated() bool {
	rollout := &a.Spec.Rollout
	return a.HasCanaries() || rollout.MaxParallel != nil || rollout.Window != nil || len(rollout.Order) > 0
}

// Covers reports whether the agent applies to the workloads of a namespace.
func (a *Agent) Covers(namespace string, namespaceLabels map[string]string) bool {
	if a.Kind == KindNamespaced {
		return a.Namespace == namespace
	}
	return a.namespaces.Matches(labels.Set(namespaceLabels))
}

// digest returns a hash of a value's JSON, in hexadecimal digits.
func digest(value any) string {
	content, _ := json.Marshal(value) // the types of the API can be encoded
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
