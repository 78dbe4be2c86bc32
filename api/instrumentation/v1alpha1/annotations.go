package v1alpha1

// Annotations that users write.
const (
	// AnnotationInject is set on a Deployment, StatefulSet or DaemonSet, on its pod template, or on a
	// namespace. "false" excludes all agents, and removes those that are injected.
	AnnotationInject = domain + "/inject"
)

// Annotations that Mainstay writes.
const (
	// AnnotationInjected, on a workload's pod template and so on its pods, has what is injected and by
	// which Instrumentation, as JSON.
	AnnotationInjected = domain + "/injected"

	// AnnotationGranted, on a workload, has the revision of an Instrumentation that the workload last
	// got, and when. Its key begins with the id of the Instrumentation ("agent-1f6a0c2b." +
	// AnnotationGranted). Writing it makes the webhook inject.
	AnnotationGranted = domain + "/granted"

	// AnnotationFailed, on an Instrumentation, has the revision whose canaries failed, and why. That
	// revision is not injected anywhere. Remove the annotation to try once more; Mainstay does so when
	// the strategy is no longer Canary.
	AnnotationFailed = domain + "/failed"
)
