package v1

import "github.com/mainstay-platform/mainstay/api"

const domain = "config." + api.Domain

// Annotations that users write.
const (
	// AnnotationPodSelector, on a ConfigMap (or on a Secret in a namespace whose Secrets Mainstay may
	// read), selects pods by labels, such as "app=frontend,tier in (web)". Their workloads are
	// restarted when its data change.
	AnnotationPodSelector = domain + "/pod-selector"

	// AnnotationReload is set on a Deployment, StatefulSet or DaemonSet, or on its pod template.
	// "auto" restarts the workload when a ConfigMap or Secret that its pods use changes in a key that
	// they use. A list of names, such as "flags, secret/database", restarts it when one of those
	// changes; a name without a kind is a ConfigMap's. "false" turns restarts off, except those of an
	// AppConfig or a ConfigMonitor.
	AnnotationReload = domain + "/reload"
)

// Annotations that Mainstay writes.
const (
	// AnnotationObserved, on a workload, has the hashes of the sources that its pods were started
	// with, and the time of the last restart by Mainstay, as JSON. Hashes of Secrets are HMACs.
	AnnotationObserved = domain + "/observed"

	// AnnotationRestartedFor, on a workload's pod template and so on its pods, has the contents that
	// they were started for: "flags=1f6a0c2b9d3e4f50". Changing it restarts the pods.
	AnnotationRestartedFor = domain + "/restarted-for"

	// AnnotationEvicted, on a ConfigMonitor with the strategy Evict, has the content for which pods
	// are evicted, as JSON.
	AnnotationEvicted = domain + "/evicted"

	// AnnotationRevision, on the ConfigMaps of an AppConfig, is the number of the revision whose
	// content it has.
	AnnotationRevision = domain + "/revision"
	// AnnotationHash is next to it: the hash of that content.
	AnnotationHash = domain + "/hash"
	// AnnotationLastGood, on the ConfigMap that pods use, is the last revision that all of them, at
	// least one, have run.
	AnnotationLastGood = domain + "/last-good"
	// AnnotationFailed is next to it: the revisions whose rollout failed, separated by commas, newest
	// last.
	AnnotationFailed = domain + "/failed"
	// AnnotationFailure is next to it: a text that says which workloads failed with the newest of
	// them.
	AnnotationFailure = domain + "/failure"
	// AnnotationHighest is next to it while the content is an earlier one: the highest revision number
	// ever used, because numbers are not reused.
	AnnotationHighest = domain + "/highest-revision"
	// AnnotationPutBack is next to it, "true" while the content is one that was put back because a
	// later one failed.
	AnnotationPutBack = domain + "/put-back"

	// LabelAppConfig, on the ConfigMaps of an AppConfig, is the name of the AppConfig.
	LabelAppConfig = domain + "/appconfig"
	// LabelRevision, on an immutable ConfigMap, is the number of its revision.
	LabelRevision = domain + "/revision"
)
