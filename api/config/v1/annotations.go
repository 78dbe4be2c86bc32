package v1

import "github.com/mainstay-platform/mainstay/api"

const domain = "config." + api.Domain

// Annotations that users write.
const (
	// AnnotationPodSelector stands on a ConfigMap (or on a Secret of a namespace whose Secrets Mainstay may read) and
	// selects pods by their labels, as "app=frontend,tier in (web)": their workloads are restarted when its data change.
	AnnotationPodSelector = domain + "/pod-selector"

	// AnnotationReload stands on a Deployment, StatefulSet or DaemonSet, or on its pod template. "auto" restarts it when
	// a ConfigMap or Secret that its pods use changes, of which those keys count that they use. Else it is a list of names,
	// "flags, secret/database": a name without a kind is a ConfigMap's. "false" leaves it alone, whatever else asks for it
	// but an AppConfig or a ConfigMonitor.
	AnnotationReload = domain + "/reload"
)

// Annotations that Mainstay writes.
const (
	// AnnotationObserved stands on a workload: the hashes of the sources that its pods were started with, as JSON, and
	// when Mainstay restarted it last. Those of Secrets are HMACs.
	AnnotationObserved = domain + "/observed"

	// AnnotationRestartedFor stands on a workload's pod template and so on its pods: for which contents they were
	// started, "flags=1f6a0c2b9d3e4f50". Its change is what restarts them.
	AnnotationRestartedFor = domain + "/restarted-for"

	// AnnotationEvicted stands on a ConfigMonitor of the strategy Evict: for which content it evicts pods, as JSON.
	AnnotationEvicted = domain + "/evicted"

	// AnnotationRevision stands on the ConfigMaps of an AppConfig: the number of the revision whose content it has.
	AnnotationRevision = domain + "/revision"
	// AnnotationHash stands beside it: the hash of that content.
	AnnotationHash = domain + "/hash"
	// AnnotationLastGood stands on the ConfigMap that pods use: the last revision that all of them have run.
	AnnotationLastGood = domain + "/last-good"
	// AnnotationFailed stands beside it: revisions whose rollout failed, separated by commas, newest last.
	AnnotationFailed = domain + "/failed"
	// AnnotationFailure stands beside it: which workloads did not come up with the newest of them, for people.
	AnnotationFailure = domain + "/failure"
	// AnnotationHighest stands beside it while the content is an earlier one: the highest number that a revision ever had, for numbers are not
	// used twice.
	AnnotationHighest = domain + "/highest-revision"

	// LabelAppConfig names, on the ConfigMaps of an AppConfig, that AppConfig.
	LabelAppConfig = domain + "/appconfig"
	// LabelRevision is, on an immutable ConfigMap, the number of the revision that it keeps.
	LabelRevision = domain + "/revision"
)
