// Package api has what all API groups of Mainstay share: the domain, and the labels and annotations
// that are a contract with users.
//
// This package and all below it import only k8s.io/api and apimachinery, so that other programs can
// use the types without our dependencies.
package api

import "strings"

// Domain is the suffix of every API group, label and annotation of Mainstay.
const Domain = "mainstay.dev"

// IsOurs reports whether a domain, such as that of an API group or of an annotation's key, is
// Domain or below it.
func IsOurs(domain string) bool { return domain == Domain || strings.HasSuffix(domain, "."+Domain) }

// IsOurKey reports whether the key of a label, an annotation or a finalizer is of our domain.
func IsOurKey(key string) bool {
	domain, _, qualified := strings.Cut(key, "/")
	return qualified && IsOurs(domain)
}

const (
	// AnnotationApplied, on a child, is the hash of what Mainstay last applied. Together with the
	// managed fields it shows whether the child is still as desired.
	AnnotationApplied = Domain + "/applied"

	// AnnotationRelease, on a definition, is the release of Mainstay that it is from.
	AnnotationRelease = Domain + "/release"

	// AnnotationDefaultPolicy, on the definition of PlatformPolicies, records that the default policy
	// has been created. From then on users may change or delete it.
	AnnotationDefaultPolicy = Domain + "/default-policy"

	// AnnotationAdopt is the consent of an object's owner to hand it over. Its value is the new owner
	// as Kind/name, for example "WebApp/shop": the object must have the name that the new owner would
	// give its child. Without it Mainstay never changes an object that it did not create.
	AnnotationAdopt = Domain + "/adopt"

	// AnnotationV1Spec, on a WebApp that is read as v1beta1, has the fields of its v1 spec that
	// v1beta1 lacks, as JSON. It is absent if there are none, and never stored: an object that is read
	// as v1 has the fields themselves.
	AnnotationV1Spec = Domain + "/v1-spec"
	// LabelV1Spec, on a WebApp that is read as v1beta1, is "too-large" if its annotations have no room
	// for those fields. It can't be written as v1beta1 then.
	LabelV1Spec = Domain + "/v1-spec"

	// AnnotationTemplate, on the StatefulSet of a database and on the Deployment of a pooler, is the
	// hash of its pod template without the image that brings the program of its pods. As long as it
	// stays, so does that image: a later release of Mainstay replaces no pod by itself. The server's
	// image is in the template: if a release has another one, the pods are replaced.
	AnnotationTemplate = Domain + "/template"
	// AnnotationProgram, beside it, is that image: an edited one is put back.
	AnnotationProgram = Domain + "/program"

	// AnnotationGrownAt, on a volume claim of a database, is when the volumes have grown by themselves
	// last (RFC 3339).
	AnnotationGrownAt = Domain + "/grown-at"
	// AnnotationGrownFrom, beside it, is how much of the volumes was used then, and how large they
	// were, in MiB: "819/1024".
	AnnotationGrownFrom = Domain + "/grown-from"

	// AnnotationBindings, on the pod template of a WebApp, is what its pods are bound to, with the
	// revisions of the credentials: "PostgreSQL/db=REVISION,Cache/cache=REVISION".
	AnnotationBindings = Domain + "/bindings"

	// AnnotationRestartedAt copies spec.restartedAt into the pod template.
	AnnotationRestartedAt = Domain + "/restarted-at"

	// AnnotationResumeReplicas, on the Deployment of a suspended WebApp, is the number of replicas
	// that it gets back when it is resumed, unless its spec says it then.
	AnnotationResumeReplicas = Domain + "/resume-replicas"

	// AnnotationRotate, on the Secret of Mainstay's serving certificate, requests a new certificate.
	// Its value is any text that differs from the last, such as a time or a ticket. Requests do not
	// fail during the rotation: the CA of the old certificate stays trusted for the overlap, an hour
	// by default.
	AnnotationRotate = Domain + "/rotate"
	// AnnotationRotated is the last value of AnnotationRotate that was carried out. Mainstay writes
	// it.
	AnnotationRotated = Domain + "/rotated"

	// AnnotationRecord, on the Lease of a database, is the record of who leads and where the
	// acknowledged writes are, with a checksum. Only the database's instances write it.
	AnnotationRecord = "database." + Domain + "/record"
	// AnnotationTerm, on the EndpointSlice of a database's primary, is the term in which it leads. A
	// lower term never replaces a higher.
	AnnotationTerm = "database." + Domain + "/term"
	// AnnotationInstance, on the pod of a database, is what its instance is, as JSON.
	AnnotationInstance = "database." + Domain + "/instance"
	// AnnotationParameters, on the pod template of a database, is a hash of the parameters that take
	// effect with a start of the server only.
	AnnotationParameters = "database." + Domain + "/parameters"
	// LabelRole, on the pod of a database, is primary or replica, while it takes connections as
	// that.
	LabelRole = "database." + Domain + "/role"

	// AnnotationDependsOn, on a component of an AppStack, are the names of the components that it
	// depends on, joined by commas: the order of deletion also of what has left the spec.
	AnnotationDependsOn = "platform." + Domain + "/depends-on"
	// AnnotationDependedOn, on a component of an AppStack, are those that it depended on before,
	// joined by commas: its pods may still use them, until it is Ready as it is now.
	AnnotationDependedOn = "platform." + Domain + "/depended-on"

	// LabelOwner, on a pod, is the name of our resource that it belongs to.
	LabelOwner = Domain + "/owner"
	// LabelOwnerKind, on a pod, is the kind of that resource, in lower case.
	LabelOwnerKind = Domain + "/owner-kind"

	// LabelOwnerUID, on an object that outlives its owner, such as a volume, is the owner's UID.
	LabelOwnerUID = Domain + "/owner-uid"

	// LabelEnvironment is a namespace's environment: development, staging or production, or
	// another one that the installation has.
	LabelEnvironment = Domain + "/environment"
)

// The recommended labels of Kubernetes, which every child has, and LabelApp, with which users
// select an application's pods.
//
// Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
const (
	LabelApp       = "app"
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"
	LabelPartOf    = "app.kubernetes.io/part-of"
	LabelManagedBy = "app.kubernetes.io/managed-by"

	// ManagedBy is the value of LabelManagedBy on all objects that Mainstay creates.
	ManagedBy = "mainstay"
)
