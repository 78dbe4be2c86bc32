// Package api holds what every Mainstay API group shares: the domain, and the
// labels and annotations that are a contract with users.
//
// The package and all below it import k8s.io/api and apimachinery only, so that
// other programs can use the types without our dependencies.
package api

// Domain is the suffix of every API group, label and annotation of Mainstay.
const Domain = "mainstay.dev"

const (
	// AnnotationApplied records on a child the hash of what Mainstay last applied.
	// Together with the managed fields it tells whether the child still is as it should be.
	AnnotationApplied = Domain + "/applied"

	// AnnotationRelease records on a definition which release of Mainstay it is of.
	AnnotationRelease = Domain + "/release"

	// AnnotationDefaultPolicy records on the definition of PlatformPolicies that the default one has
	// been made: once it was, it is the users', to change or delete.
	AnnotationDefaultPolicy = Domain + "/default-policy"

	// AnnotationAdopt is consent, written by the owner of an object, to hand it over.
	// Its value names the taker as Kind/name, for example "WebApp/shop": the object must
	// have the name that the taker would give its child. Without it Mainstay never
	// touches an object that it did not make.
	AnnotationAdopt = Domain + "/adopt"

	// AnnotationV1Spec holds, on a WebApp that is read as v1beta1, what its v1 spec has beyond
	// that version's fields, as JSON. It is absent where there is nothing more, and never
	// stored: an object that is read as v1 has the fields themselves.
	AnnotationV1Spec = Domain + "/v1-spec"

	// AnnotationRestartedAt carries spec.restartedAt into the pod template.
	AnnotationRestartedAt = Domain + "/restarted-at"

	// AnnotationRotate asks, on the Secret of Mainstay's serving certificate, for a new one. Its
	// value is any text that differs from the last: a time, a ticket. No request is lost by it;
	// the CA of the old certificate stays trusted for the overlap, an hour by default.
	AnnotationRotate = Domain + "/rotate"
	// AnnotationRotated is the value of AnnotationRotate that was last carried out.
	// Mainstay writes it.
	AnnotationRotated = Domain + "/rotated"

	// LabelOwner is, on a pod, the name of the resource of ours that it belongs to.
	LabelOwner = Domain + "/owner"
	// LabelOwnerKind is, on a pod, the kind of that resource, in lower case.
	LabelOwnerKind = Domain + "/owner-kind"

	// LabelOwnerUID is, on an object that outlives its owner, such as a volume, the owner's UID.
	LabelOwnerUID = Domain + "/owner-uid"

	// LabelEnvironment names a namespace's environment: development, staging or production.
	LabelEnvironment = Domain + "/environment"
)

// The recommended labels of Kubernetes, which every child carries, and LabelApp, by
// which users select an application's pods.
//
// Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
const (
	LabelApp       = "app"
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"
	LabelPartOf    = "app.kubernetes.io/part-of"
	LabelManagedBy = "app.kubernetes.io/managed-by"

	// ManagedBy is the value of LabelManagedBy on everything that Mainstay makes.
	ManagedBy = "mainstay"
)
