package metrics

// KindWorkload is the label kind of the passes that restart workloads. Each is over a whole
// namespace, and has no object of one of our kinds.
const KindWorkload = "Workload"

var (
	kindLabel      = Label{"kind", "kind of the object: `AppConfig`, `AppStack`, `Cache`, `ClusterInstrumentation`, `ConfigMonitor`, `EcommercePlatform`, `Instrumentation`, `PlatformPolicy`, `PostgreSQL` or `WebApp`"}
	passKindLabel  = Label{"kind", kindLabel.Meaning + "; `" + KindWorkload + "` for a pass over a namespace that restarts workloads"}
	namespaceLabel = Label{"namespace", "namespace of the object; empty for cluster-scoped kinds, `(other)` beyond the first 500"}
)

var reconciles = counter(Metric{
	Name:   "mainstay_reconcile_total",
	Help:   "Finished reconciles. Objects that no longer exist when they are reconciled are not counted.",
	Normal: "Some per change of an object, its children and its pods; none at rest. Most are `unchanged`.",
	Labels: []Label{passKindLabel, namespaceLabel, {"result", "`unchanged`, `changed` (something was written), `stopped` (the object was deleted, or the process is stopping), or the class of the error as in `mainstay_errors_total`"}},
})

var reconcileDuration = histogram(Metric{
	Name:   "mainstay_reconcile_duration_seconds",
	Help:   "Duration of a reconcile, without its time in the queue.",
	Normal: "Milliseconds if nothing is written, tens of milliseconds if something is; more after a start.",
	Labels: []Label{passKindLabel},
	// The buckets from 0.1 on are those of the issue. Below it they are finer, because normal values
	// are there.
	Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 2.5, 5, 10},
})

var readyDuration = histogram(Metric{
	Name: "mainstay_ready_duration_seconds",
	Help: "Time from the creation of an object until it was first Ready. Each object counts once, also if Mainstay restarts; " +
		"status.firstReadyTime is the record.",
	Normal:  "The time in which your images are pulled and start; usually below 30 s.",
	Labels:  []Label{kindLabel, namespaceLabel},
	Buckets: []float64{1, 5, 10, 30, 60, 120, 300},
})

var failures = counter(Metric{
	Name:   "mainstay_errors_total",
	Help:   "Reconciles that ended in an error.",
	Normal: "`conflict` occasionally; `terminal` for each reconcile of an object whose spec can't be carried out; `blocked` about once a minute for each object that a quota or another policy refuses. None should grow by 0.1 per second.",
	Labels: []Label{passKindLabel, {"class", "`transient` (network, overload: retried with backoff), `blocked` (refused by the API server: retried each minute), `terminal` (the spec must change), `conflict` (another client wrote in between), `panic` (a defect: the log has it)"}},
})

var denials = counter(Metric{
	Name:   "mainstay_policy_denials_total",
	Help:   "Objects that a PlatformPolicy refused. Dry runs count too. A controller counts each generation of an object once.",
	Normal: "Mistakes of your users. With `controller`: objects that existed before a policy, or that were written while webhooks were off; and Instrumentations whose image is refused in a namespace.",
	Labels: []Label{kindLabel, namespaceLabel,
		{"by", "`admission` (the object was not stored) or `controller` (its spec is not carried out)"}},
})

var contests = counter(Metric{
	Name:   "mainstay_contested_writes_total",
	Help:   "Children, and annotations on workloads (kind Workload), that were put back after a pause, because another client changes them again and again.",
	Normal: "None. The event Contested names the object and the field manager that changes it: change the spec, or stop the other writer.",
	Labels: []Label{passKindLabel, namespaceLabel},
})

var webhookFailures = counter(Metric{
	Name:   "mainstay_webhook_failures_total",
	Help:   "Requests to our webhooks that could not be decided, and conversions that failed. Those of agents are left out: the object is stored without one, with a warning.",
	Normal: "None. The sender of the request gets the cause as its answer.",
	Labels: []Label{{"webhook", "path of the webhook; `/convert` for conversions"}},
})

var restarts = counter(Metric{
	Name:   "mainstay_config_restarts_total",
	Help:   "Workloads that were restarted because their configuration changed.",
	Normal: "One per change of the content and workload that uses it. A constant rate means that two writers overwrite each other.",
	Labels: []Label{namespaceLabel},
})

var configRollout = histogram(Metric{
	Name: "mainstay_config_rollout_duration_seconds",
	Help: "Time from a change of configuration until all pods of a workload run it and are available, to the second. " +
		"Rollouts during which Mainstay itself restarts are not measured.",
	Normal:  "The time in which your pods are replaced; more with a window, an order or a cooldown.",
	Labels:  []Label{namespaceLabel},
	Buckets: []float64{1, 5, 10, 30, 60, 120, 300, 600, 1800},
})

var calls = counter(Metric{
	Name:   "mainstay_api_requests_total",
	Help:   "Requests to the API server.",
	Normal: "At rest one GET and one UPDATE of the lease per 2 s and replica, and one request per watch every 5 to 10 minutes.",
	Labels: []Label{
		{"verb", "`get`, `list`, `watch`, `create`, `update`, `patch`, `apply`, `delete` or `deletecollection`; for requests that are not for a resource, the HTTP method in lower case"},
		{"resource", "`deployments.apps`, with a subresource `webapps.apps.mainstay.dev/status`; `none` for other requests"},
		{"code", "class of the HTTP status: `2xx` to `5xx`, but `409` and `429` separately; `error` without a response"},
	},
})

var (
	objects = gauge(Metric{
		Name:   "mainstay_objects",
		Help:   "Existing objects, by their conditions. Each replica reports it: take the maximum.",
		Normal: "Nearly all `Ready`; some `Progressing` while changes are rolled out. Check objects that are in another phase than `Ready`, `Paused` or `Suspended` for long.",
		Labels: []Label{kindLabel, {"phase", "not `status.phase`, but the first that applies: `Deleting`, `Pending` (no Ready condition yet for the current spec), `Ready`, `Paused`, `Suspended` (a hibernated database too), `Stalled` (someone must act), `Degraded`, `Unknown` (writes fail), `Progressing`"}},
	})
	unreadyObjects = gauge(Metric{
		Name: "mainstay_unready_objects",
		Help: "Existing objects of a namespace that are not ready and not on their way: those that mainstay_objects has as `Pending`, `Stalled`, " +
			"`Degraded` or `Unknown`. Absent for a namespace without any. Each replica reports it: take the maximum.",
		Normal: "Absent; for some seconds after a change also 1 or 2. The conditions of the objects say what is wrong.",
		Labels: []Label{kindLabel, namespaceLabel},
	})
	unreadyObject = gauge(Metric{
		Name: "mainstay_unready_object",
		Help: "1 for an object that mainstay_unready_objects counts, or that has been `Progressing` or `Deleting` for more than an hour: of each " +
			"kind the 50 that have been so for longest, each, and beside them up to 500 components of AppStacks, whose platforms have alerts about them. Each replica reports it: take the maximum.",
		Normal: "Absent. It names the objects in alerts.",
		Labels: []Label{kindLabel, {"namespace", "namespace of the object; empty for cluster-scoped kinds"}, {"object", "name of the object"},
			{"phase", "`Pending`, `Stalled`, `Degraded`, `Unknown`, `Progressing` or `Deleting`, as in mainstay_objects"}},
	})
	instrumented = gauge(Metric{
		Name: "mainstay_instrumented_workloads",
		Help: "Workloads that Instrumentations and ClusterInstrumentations match, by state. A workload that several match counts for each. " +
			"Each replica reports it: take the maximum.",
		Normal: "Nearly all `injected`; some `pending` while agents are rolled out. Check `failed` ones: status.workloads has the reason.",
		Labels: []Label{{"kind", "`Instrumentation` or `ClusterInstrumentation`"}, {"state", "`injected`, `pending` (its pods are being replaced, or it waits for the rollout) or `failed` (it can't be injected, or does not become ready with the agent)"}},
	})
	leader = gauge(Metric{
		Name:   "mainstay_leader",
		Help:   "1 if this replica is the leader, 0 if it is a standby or may have lost its lease.",
		Normal: "1 on one replica; on none for up to 17 s after a crash of the leader.",
	})
	certificateExpiry = gauge(Metric{
		Name:   "mainstay_certificate_expiry_timestamp_seconds",
		Help:   "When a certificate of this replica expires, in seconds since 1970.",
		Normal: "30 to 90 days ahead: certificates are replaced after two thirds of their lifetime.",
		Labels: []Label{{"of", "`webhooks` (each replica serves webhooks and metrics with it), or `apiserver` (our API server serves with it; only the leader reports it)"}},
	})
	webhooksReady = gauge(Metric{
		Name:   "mainstay_webhooks_ready",
		Help:   "1 if this replica can serve webhooks: it listens, and has a valid, trusted certificate. Absent if webhooks are off.",
		Normal: "1, except in the first seconds.",
	})
	apiServicePublished = gauge(Metric{
		Name:   "mainstay_apiservice_published",
		Help:   "1 if the APIService for farm.mainstay.dev is published, 0 if not. Only the leader reports it. Absent if the API is off.",
		Normal: "1. It is 0 during an installation until an endpoint is ready, and after 60 s without a ready endpoint. Then the Service has an event: check its pods.",
	})
	apiServiceAvailable = gauge(Metric{
		Name: "mainstay_apiservice_available",
		Help: "1 if the API server reports that it reaches the server of farm.mainstay.dev, 0 if not. Only the leader reports it, and only while " +
			"mainstay_apiservice_published is 1.",
		Normal: "1. While it is 0, deleted namespaces stay Terminating. If endpoints are ready, something between the API server and the pods blocks the connection.",
	})
	apiServiceEndpoints = gauge(Metric{
		Name:   "mainstay_apiservice_endpoints",
		Help:   "Ready endpoints of farm.mainstay.dev. Only the leader reports it. Absent if the API is off.",
		Normal: "The replicas of the API server: 2, and briefly 3 during an upgrade.",
	})
	unserved = gauge(Metric{
		Name:   "mainstay_unserved_namespaces",
		Help:   "Namespaces of `watchNamespaces` that this replica does not serve, because it had no rights in them when it started.",
		Normal: "0. If not, the log names them: create them, run `helm upgrade`, and restart the managers.",
	})
	info = gauge(Metric{
		Name:   "mainstay_info",
		Help:   "1 while the process runs.",
		Normal: "1 from each replica; two versions only during an upgrade.",
		Labels: []Label{{"version", "release of Mainstay"}},
	})
)
