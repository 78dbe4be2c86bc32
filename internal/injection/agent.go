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

// Finalizer keeps an Instrumentation until all workloads are restored.
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

// String is "Instrumentation/java": within its namespace that is enough.
func (i Identity) String() string { return i.Kind + "/" + i.Name }

// ID names it within a pod: 8 hexadecimal digits.
func (i Identity) ID() string { return digest([]string{i.Kind, i.Namespace, i.Name})[:8] }

// IdentityOf is that of an object.
func IdentityOf(object Object) Identity {
	if _, isCluster := object.(*instrv1.ClusterInstrumentation); isCluster {
		return Identity{Kind: KindCluster, Name: object.GetName()}
	}
	return Identity{Kind: KindNamespaced, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// Agent is an Instrumentation, made ready to be asked often.
type Agent struct {
	Identity
	// ID is that of the Identity.
	ID string
	// Spec has its defaults.
	Spec *instrv1.InstrumentationSpec
	// Revision is a hash of what Spec injects, and where.
	Revision string
	// Failed is the revision whose canaries failed; empty if none did. Because says what happened.
	Failed, Because string
	// Invalid is why the spec is refused; nil if it is not. What is invalid injects nothing, and what it has injected stays as it is until it
	// is mended or deleted: an upgrade that refuses more than before must not replace pods.
	Invalid error

	created time.Time
	// isOn tells that it may inject, isGone that it is being deleted.
	isOn, isGone bool
	namespaces   labels.Selector
	matchers     []matcher
}

// Compile makes an Agent. It checks what webhooks check: objects may be stored which these were not asked about.
func Compile(object Object) *Agent {
	spec := object.GetSpec().DeepCopy()
	Default(spec)
	identity := IdentityOf(object)
	agent := &Agent{
		Identity: identity, ID: identity.ID(), Spec: spec, Revision: digest([]any{spec.Agent, spec.Matchers})[:16],
		created: object.GetCreationTimestamp().Time, isGone: object.GetDeletionTimestamp() != nil,
	}
	agent.Failed, agent.Because, _ = strings.Cut(object.GetAnnotations()[instrv1.AnnotationFailed], " ")
	agent.Invalid = agent.compile(object)
	agent.isOn = !agent.isGone && slices.Contains(object.GetFinalizers(), Finalizer)
	return agent
}

// compile checks the spec and prepares what it selects and matches.
func (a *Agent) compile(object Object) error {
	a.namespaces = labels.Everything() // what is invalid may have injected anywhere
	problems := Validate(a.Spec)
	if cluster, isCluster := object.(*instrv1.ClusterInstrumentation); isCluster {
		problems = append(problems, ValidateScope(&cluster.Spec)...)
	}
	if len(problems) > 0 {
		return problems.ToAggregate()
	}
	for i := range a.Spec.Matchers {
		compiled, err := compileMatcher(&a.Spec.Matchers[i])
		if err != nil {
			return fmt.Errorf("spec.matchers[%d]: %w", i, err)
		}
		a.matchers = append(a.matchers, compiled)
	}
	selected, err := metav1.LabelSelectorAsSelector(namespaceSelector(object))
	if err != nil {
		return fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	a.namespaces = selected
	return nil
}

// isHeld tells that what the agent has injected stays as it is.
func (a *Agent) retainsInjected() bool { return a.Invalid != nil && !a.isGone }

// namespaceSelector selects the namespaces of an object; everything for an Instrumentation, whose namespace is known.
func namespaceSelector(object Object) *metav1.LabelSelector {
	if cluster, isCluster := object.(*instrv1.ClusterInstrumentation); isCluster && cluster.Spec.NamespaceSelector != nil {
		return cluster.Spec.NamespaceSelector
	}
	return &metav1.LabelSelector{}
}

// HasFailed tells that this very revision failed where it was tried.
func (a *Agent) HasFailed() bool { return a.isTried() && a.Failed == a.Revision }

// isForgiven tells that a failure is noted which counts no more: nothing is tried first.
func (a *Agent) hasStaleFailure() bool { return a.Failed != "" && !a.isTried() }

// isTried tells that some workloads try a revision first.
func (a *Agent) isTried() bool { return a.Spec.Rollout.Strategy == instrv1.RolloutCanary }

// isGated tells that a new revision waits for a grant.
func (a *Agent) isGated() bool {
	rollout := &a.Spec.Rollout
	return a.isTried() || rollout.MaxParallel != nil || rollout.Window != nil || len(rollout.Order) > 0
}

// Covers tells whether the agent is for the workloads of a namespace.
func (a *Agent) Covers(namespace string, namespaceLabels map[string]string) bool {
	if a.Kind == KindNamespaced {
		return a.Namespace == namespace
	}
	return a.namespaces.Matches(labels.Set(namespaceLabels))
}

// digest is a hash of a value's JSON, in hexadecimal digits.
func digest(value any) string {
	content, _ := json.Marshal(value) // the types of the API can be encoded
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
