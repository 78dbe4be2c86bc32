package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// AppStack is an application of several parts that need each other: each is an object of one of
// Mainstay's kinds, is created once what it depends on is ready, and is deleted before what it
// depends on.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=appstacks,shortName=stack,categories={all,mainstay}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all components are as the spec says, and ready"
// +kubebuilder:printcolumn:name="Components",type=string,JSONPath=`.status.componentSummary`,description="Ready and desired components"
// +kubebuilder:printcolumn:name="Waiting",type=string,JSONPath=`.status.waiting`,description="The first component that waits, and for what"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,58}[a-z0-9])?$')",fieldPath=".metadata",messageExpression="'metadata.name ' + self.metadata.name + ' must be a DNS label of at most 60 characters, lower-case letters, digits and -, starting with a letter (the names of its components are longer)'"
type AppStack struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	// +required
	Spec AppStackSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status AppStackStatus `json:"status,omitzero"`
}

// AppStackList is a list of AppStacks.
//
// +kubebuilder:object:root=true
type AppStackList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AppStack `json:"items"`
}

// Updates is when changes of existing components are applied.
type Updates string

const (
	// UpdatesIndependent applies every change at once.
	UpdatesIndependent Updates = "Independent"
	// UpdatesOrdered applies a change of a component once all that it depends on is ready again.
	UpdatesOrdered Updates = "Ordered"
)

// AppStackSpec is the desired state of an AppStack.
type AppStackSpec struct {
	// Components are the parts of the application, at most 100, each with a name of its own.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Components []Component `json:"components"`

	// Labels of all components: of the objects and, where the kind has spec.labels, of their children.
	// Labels in a component's own spec take precedence.
	// +optional
	Labels msappsv1.Labels `json:"labels,omitempty"`

	// Annotations of all components: of the objects and, where the kind has spec.annotations, of their
	// children. Those in a component's own spec take precedence.
	// +optional
	Annotations msappsv1.Annotations `json:"annotations,omitempty"`

	// Updates is when changes of existing components are applied: Independent (at once) or Ordered (a
	// component once all that it depends on is ready with its own change). A component that does not
	// exist yet is created once all that it depends on is ready, in both cases.
	// +optional
	// +default="Independent"
	// +kubebuilder:validation:Enum=Independent;Ordered
	Updates Updates `json:"updates,omitempty"`

	// Paused leaves all components as they are: nothing is created, changed or deleted, and
	// status.components[].plan says what would be. The components themselves keep running, and are
	// kept as their own specs say. A deletion of the AppStack is carried out nevertheless.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// Component is one part of an application.
type Component struct {
	// Name of the component. Its object is named STACK-NAME. A component that is renamed is another
	// one: the object of the former name is deleted.
	// +required
	// +kubebuilder:validation:MaxLength=60
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be at most 60 lower-case letters, digits and -, with a letter or digit at both ends"
	Name string `json:"name"`

	// Type is the kind of the object: webApp, appConfig, configMonitor, postgresql or cache, or object
	// for one of another project. The kind must be enabled in the installation; those of the type
	// object are listed there. It can't be changed between types whose objects have children of the
	// same names, such as webApp, postgresql and cache: a component of another name can have the type.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Type string `json:"type"`

	// Spec is the spec of the object, as in a manifest of its own. For the type object it is the
	// whole manifest, with apiVersion and kind, and without a name.
	// +required
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec"`

	// DependsOn are the names of the components that must be ready before this one is created, and
	// that are deleted after it.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=60
	DependsOn []string `json:"dependsOn,omitempty"`

	// Outputs are what an object of the type object offers to the components that depend on it: each
	// is an environment variable COMPONENT_NAME of a webApp. Of other types, a webApp gets a binding.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Outputs []Output `json:"outputs,omitempty"`

	// Inject gives a webApp what the components that it depends on offer: of a database a binding
	// (spec.bindings of the WebApp, which makes DATABASE_URL and others), unless its own spec has
	// one; of an object the environment variables of its outputs. Of several databases of one kind
	// the first in dependsOn has these names, and each other one has the name of its component as
	// its prefix: ORDERS_DB_DATABASE_URL of a component orders-db. Variables in the component's
	// own env take precedence.
	// +optional
	// +default=true
	Inject *bool `json:"inject,omitempty"`
}

// Output is one value that a component offers: a key of a Secret, or a field of the object's
// status.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretKeyRef) != has(self.path)",message="must have either secretKeyRef or path"
type Output struct {
	// Name is the end of the environment variable's name: URI makes QUEUE_URI of a component queue.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z][A-Z0-9_]*$')",message="must be upper-case letters, digits and _, with a letter at its start"
	Name string `json:"name"`

	// SecretKeyRef is a key of a Secret of the namespace.
	// +optional
	SecretKeyRef *OutputSecretKey `json:"secretKeyRef,omitempty"`

	// Path is a field of the object's status, with dots between the names: status.binding.name. Its
	// value must be a text, a number or a truth value, of at most 1,000 bytes. A change of it replaces
	// the pods that have it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^status(\\\\.[a-zA-Z0-9_-]+)+$')",message="must be a field of the status: status and the names of fields, with dots between them"
	Path string `json:"path,omitempty"`
}

// OutputSecretKey is a key of a Secret.
type OutputSecretKey struct {
	// Name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key in the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// AppStackPhase is a one-word summary of an AppStack, for people. Programs should read the
// conditions.
type AppStackPhase string

const (
	// PhasePending: no component exists yet.
	PhasePending AppStackPhase = "Pending"
	// PhaseDeploying: components are being created, changed or deleted, and nothing is wrong.
	PhaseDeploying AppStackPhase = "Deploying"
	// PhaseRunning: all components are as the spec says, and ready.
	PhaseRunning AppStackPhase = "Running"
	// PhaseDegraded: something is wrong with a component; the others go on.
	PhaseDegraded AppStackPhase = "Degraded"
	// PhaseFailed: the spec can't be carried out.
	PhaseFailed AppStackPhase = "Failed"
	// PhasePaused: spec.paused withholds a change.
	PhasePaused AppStackPhase = "Paused"
	// PhaseDeleting: the components are being deleted, in reverse order.
	PhaseDeleting AppStackPhase = "Deleting"
)

// ComponentPhase is a one-word summary of a component.
type ComponentPhase string

const (
	// ComponentWaiting: it is not created, changed or deleted yet, because of another component.
	ComponentWaiting ComponentPhase = "Waiting"
	// ComponentProgressing: it is becoming what its spec says, and nothing is wrong.
	ComponentProgressing ComponentPhase = "Progressing"
	// ComponentReady: it is as its spec says, and ready.
	ComponentReady ComponentPhase = "Ready"
	// ComponentFailed: something is wrong with it.
	ComponentFailed ComponentPhase = "Failed"
	// ComponentDeleting: it is being deleted.
	ComponentDeleting ComponentPhase = "Deleting"
	// ComponentPaused: spec.paused withholds its change.
	ComponentPaused ComponentPhase = "Paused"
)

// AppStackStatus is the observed state of an AppStack.
type AppStackStatus struct {
	// ObservedGeneration is the generation of the spec that the rest describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is a one-word summary: Pending, Deploying, Running, Degraded, Failed, Paused or Deleting.
	// Programs should read the conditions.
	// +optional
	Phase AppStackPhase `json:"phase,omitempty"`
	// ComponentSummary is how many components are ready, of how many: "5/6".
	// +optional
	ComponentSummary string `json:"componentSummary,omitempty"`
	// Waiting is the first component that waits for others, and for which: "web: db".
	// +optional
	Waiting string `json:"waiting,omitempty"`
	// Components are those of the spec, in its order, and before them those that are no longer in it
	// and still exist: at most 100.
	// +optional
	// +listType=map
	// +listMapKey=name
	Components []ComponentStatus `json:"components,omitempty"`
	// FirstReadyTime is when Ready became True for the first time; absent until then. It never changes
	// afterwards.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
	// Conditions are Ready, Progressing, Degraded, Waiting and Paused, and Stalled while it is True.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ComponentStatus is the observed state of a component.
type ComponentStatus struct {
	// Name of the component. If it is no longer in the spec, and another component has its name, the
	// kind is before it: "PostgreSQL/db".
	Name string `json:"name"`
	// Kind of the object.
	// +optional
	Kind string `json:"kind,omitempty"`
	// Object is the name of the object.
	// +optional
	Object string `json:"object,omitempty"`
	// Phase is Waiting, Progressing, Ready, Failed, Deleting or Paused.
	// +optional
	Phase ComponentPhase `json:"phase,omitempty"`
	// Reason is one word: that of the object's condition Ready, or why there is no object.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message has the details, in at most 1,000 bytes.
	// +optional
	Message string `json:"message,omitempty"`
	// WaitsFor are the components that this one waits for.
	// +optional
	// +listType=atomic
	WaitsFor []string `json:"waitsFor,omitempty"`
	// Since is when the wait began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Plan is what would be done if spec.paused were not true.
	// +optional
	Plan string `json:"plan,omitempty"`
}
