package v1alpha1

// Annotations that users write.
const (
	// AnnotationInject stands on a Deployment, StatefulSet or DaemonSet, on its pod template, or on a namespace. "false" keeps every
	// agent out, and takes out what is there.
	AnnotationInject = domain + "/inject"
)

// Annotations that Mainstay writes.
const (
	// AnnotationInjected stands on a workload's pod template, and so on its pods: what is injected and by which Instrumentation, as JSON.
	AnnotationInjected = domain + "/injected"

	// AnnotationGranted stands on a workload, with the id of the Instrumentation before it ("agent-1f6a0c2b." + AnnotationGranted): the
	// revision of the Instrumentation that was last brought to the workload, and when. To write it has the webhook look at the workload.
	AnnotationGranted = domain + "/granted"

	// AnnotationFailed stands on an Instrumentation: the revision whose canaries failed, and why. It is injected nowhere. To take the
	// annotation off tries it once more; Mainstay does so where the strategy is not Canary any more.
	AnnotationFailed = domain + "/failed"
)
