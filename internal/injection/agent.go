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
	What() *instrv1.InstrumentationSpec
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

	created    time.Time
	isOn       bool
	namespaces labels.Selector
	matchers   []matcher
}

// Compile makes an Agent. The error is that of a spec that Validate refuses: such an Instrumentation injects nothing.
func Compile(object Object) (*Agent, error) {
	spec := object.What().DeepCopy()
	Default(spec)
	identity := IdentityOf(object)
	agent := &Agent{
		Identity: identity, ID: identity.ID(), Spec: spec, created: object.GetCreationTimestamp().Time,
		isOn: object.GetDeletionTimestamp() == nil && slices.Contains(object.GetFinalizers(), Finalizer),
	}
	agent.Failed, agent.Because, _ = strings.Cut(object.GetAnnotations()[instrv1.AnnotationFailed], " ")
	selector := namespaceSelector(object)
	var err error
	if agent.namespaces, err = metav1.LabelSelectorAsSelector(selector); err != nil {
		return nil, fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	for i := range spec.Matchers {
		compiled, err := compileMatcher(&spec.Matchers[i])
		if err != nil {
			return nil, fmt.Errorf("spec.matchers[%d]: %w", i, err)
		}
		agent.matchers = append(agent.matchers, compiled)
	}
	agent.Revision = digest([]any{spec.Agent, spec.Matchers})[:16]
	return agent, nil
}

// namespaceSelector selects the namespaces of an object; everything for an Instrumentation, whose namespace is known.
func namespaceSelector(object Object) *metav1.LabelSelector {
	if cluster, isCluster := object.(*instrv1.ClusterInstrumentation); isCluster && cluster.Spec.NamespaceSelector != nil {
		return cluster.Spec.NamespaceSelector
	}
	return &metav1.LabelSelector{}
}

// HasFailed tells that this very revision failed where it was tried.
func (a *Agent) HasFailed() bool { return a.isTried() && a.Failed == a.Revision }

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
