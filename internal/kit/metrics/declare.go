package metrics

var (
	kindLabel      = Label{"kind", "kind of the object: `WebApp`"}
	namespaceLabel = Label{"namespace", "namespace of the object; empty for a kind without, `(other)` beyond the first 500"}
)

var reconciles = counter(Metric{
	Name:   "mainstay_reconcile_total",
	Help:   "Reconciles that have ended. Objects that are gone when their turn comes are not counted.",
	Normal: "Some per change of an object, its children and its pods; none at rest. `unchanged` is most of it.",
	Labels: []Label{kindLabel, namespaceLabel, {"result", "`unchanged`, `changed` (something was written), `stopped` (the object went away, or the process ended), or the class of the error as in `mainstay_errors_total`"}},
})

var reconcileDuration = histogram(Metric{
	Name:   "mainstay_reconcile_duration_seconds",
	Help:   "Time that a reconcile took, without its time in the queue.",
	Normal: "Milliseconds where nothing is written, some tens of them where something is; the first ones after a start more.",
	Labels: []Label{kindLabel},
	// The from 0.1 on; finer below, where what is normal lies.
	Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 2.5, 5, 10},
})

var readyDuration = histogram(Metric{
	Name: "mainstay_ready_duration_seconds",
	Help: "Time from an object's creation until it was Ready for the first time. Each object counts once in its life, " +
		"whatever becomes of it later and however often Mainstay restarts; status.firstReadyTime is the record.",
	Normal:  "What your images take to be pulled and to start; most often below 30 s.",
	Labels:  []Label{kindLabel, namespaceLabel},
	Buckets: []float64{1, 5, 10, 30, 60, 120, 300},
})

var failures = counter(Metric{
	Name:   "mainstay_errors_total",
	Help:   "Reconciles that ended in an error.",
	Normal: "`conflict` now and then; `terminal` each time that an object is looked at whose spec can't be carried out; `blocked` about once a minute for each object that a quota or a policy of others refuses. None of them should grow by 0.1 per second.",
	Labels: []Label{kindLabel, {"class", "`transient` (network, overload: tried again with backoff), `blocked` (refused by the API server: tried again each minute), `terminal` (the spec must change), `conflict` (somebody else wrote in between), `panic` (a defect: the log has it)"}},
})

var denials = counter(Metric{
	Name:   "mainstay_policy_denials_total",
	Help:   "Objects that a PlatformPolicy refused: a dry run counts too, and a controller counts each version of an object once.",
	Normal: "Your users' mistakes. With `controller`: objects that were there before a policy, or that were written while webhooks were off.",
	Labels: []Label{kindLabel, namespaceLabel, {"by", "`admission` (it was not stored) or `controller` (it is not carried out)"}},
})

var restarts = counter(Metric{
	Name:   "mainstay_config_restarts_total",
	Help:   "Workloads that were restarted because their configuration changed.",
	Normal: "One per changed content and workload that uses it. A rate that goes on is two writers that undo each other's work.",
	Labels: []Label{namespaceLabel},
})

var configRollout = histogram(Metric{
	Name: "mainstay_config_rollout_duration_seconds",
	Help: "Time from a change of configuration until all pods of a workload run it and are available. Changes are known to the second; " +
		"restarts whose rollout goes on while Mainstay itself is restarted are not measured.",
	Normal:  "What your pods take to be replaced; more where a window, an order or a cooldown holds them back.",
	Labels:  []Label{namespaceLabel},
	Buckets: []float64{1, 5, 10, 30, 60, 120, 300, 600, 1800},
})

var calls = counter(Metric{
	Name:   "mainstay_api_requests_total",
	Help:   "Requests that were sent to the API server.",
	Normal: "At rest one GET and one UPDATE of the lease per 2 s and replica, and each watch anew every 5 to 10 minutes.",
	Labels: []Label{
		{"verb", "`get`, `list`, `watch`, `create`, `update`, `patch`, `apply`, `delete` or `deletecollection`; in lower case the HTTP method for what is no resource"},
		{"resource", "`deployments.apps`, with a subresource `webapps.apps.mainstay.dev/status`; `none` for what is no resource"},
		{"code", "class of the answer's status: `2xx` to `5xx`, `409` and `429` by themselves; `error` if there was no answer"},
	},
})

var (
	objects = gauge(Metric{
		Name: "mainstay_objects",
		Help: "Objects that there are, by what their conditions say. Each replica tells it: take the maximum.",
		Normal: "Nearly all `Ready`; some `Progressing` while changes are rolled out. `Pending`, `Degraded`, `Stalled` and `Unknown` for long are a reason to look, " +
			"and so is `Progressing`.",
		Labels: []Label{kindLabel, {"phase", "the first that applies: `Deleting`, `Pending` (no Ready condition yet, or none since its spec was changed), `Ready`, `Paused`, `Stalled` (someone must act), `Degraded`, `Unknown` (nobody knows while writes fail), `Progressing`"}},
	})
	instrumented = gauge(Metric{
		Name: "mainstay_instrumented_workloads",
		Help: "Workloads that Instrumentations and ClusterInstrumentations match, by what became of them; one that several match counts for each. " +
			"Each replica tells it: take the maximum.",
		Normal: "Nearly all `injected`; some `pending` while agents are rolled out. `failed` is a reason to look: status.workloads says why.",
		Labels: []Label{kindLabel, {"state", "`injected`, `pending` (it is being replaced, or waits for its turn) or `failed` (it can't be injected, or does not come up with the agent)"}},
	})
	leader = gauge(Metric{
		Name:   "mainstay_leader",
		Help:   "1 if this replica works, 0 if it stands by or can't be sure of its lease.",
		Normal: "1 on one replica; on none for up to 17 seconds after a crash of the leader.",
	})
	certificateExpiry = gauge(Metric{
		Name:   "mainstay_certificate_expiry_timestamp_seconds",
		Help:   "When a certificate expires that this replica keeps, in seconds since 1970.",
		Normal: "30 to 90 days ahead: it is replaced after two thirds of its life.",
		Labels: []Label{{"of", "`webhooks` (each replica serves webhooks and metrics with it), or `apiserver` (our API server does; only the leader tells it)"}},
	})
	webhooksReady = gauge(Metric{
		Name:   "mainstay_webhooks_ready",
		Help:   "1 if this replica can answer webhooks: it listens, and has a certificate that is valid and trusted. There is none where webhooks are off.",
		Normal: "1, but for the first seconds.",
	})
	apiServicePublished = gauge(Metric{
		Name:   "mainstay_apiservice_published",
		Help:   "1 if the API server is told of who serves farm.mainstay.dev, 0 if not. Only the leader tells it, and nobody where nothing is served.",
		Normal: "1. It is 0 while no endpoint is ready at an installation, and after 60 s without one: then the Service has an event, and its pods are a reason to look.",
	})
	apiServiceAvailable = gauge(Metric{
		Name: "mainstay_apiservice_available",
		Help: "1 if the API server says that it reaches who serves farm.mainstay.dev, 0 if it does not say so. Only the leader tells it, and only while " +
			"mainstay_apiservice_published is 1.",
		Normal: "1. While it is 0, namespaces that are deleted stay Terminating. If endpoints are ready, something between the API server and the pods is in the way.",
	})
	apiServiceEndpoints = gauge(Metric{
		Name:   "mainstay_apiservice_endpoints",
		Help:   "Endpoints that are ready to serve farm.mainstay.dev. Only the leader tells it, and nobody where nothing is served.",
		Normal: "The replicas of the API server: 2, and 3 for moments while it is upgraded.",
	})
	info = gauge(Metric{
		Name:   "mainstay_info",
		Help:   "1, for as long as the process lives.",
		Normal: "1 from each replica; two versions only during an upgrade.",
		Labels: []Label{{"version", "release of Mainstay"}},
	})
)
