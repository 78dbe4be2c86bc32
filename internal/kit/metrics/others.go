package metrics

import "slices"

// Others returns metrics of our libraries, served at the same address, as far as our alerts and our
// dashboard use them. The documentation of the libraries describes the rest.
func Others() []Metric {
	queue := []Label{{"name", "queue: the controller's name"}, {"controller", "the same as `name`"}}
	webhook := Label{"webhook", "path of the webhook"}
	return []Metric{
		{Name: "workqueue_depth", Type: "gauge", Labels: append(slices.Clone(queue), Label{"priority", "priority of the waiting objects"}),
			Help: "Objects in the queue.", Normal: "Near 0; thousands for some seconds after a start."},
		{Name: "workqueue_queue_duration_seconds", Type: "histogram", Labels: queue, Help: "Time of an object in the queue.",
			Normal: "Milliseconds."},
		{Name: "controller_runtime_active_workers", Type: "gauge", Labels: []Label{{"controller", "the controller's name"}}, Help: "Running reconciles.", Normal: "Below `--concurrency`."},
		{Name: "controller_runtime_webhook_requests_total", Type: "counter", Labels: []Label{webhook, {"code", "HTTP status"}}, Help: "Requests of the API server to our webhooks. Refusals and failures have the code 200 too: see mainstay_webhook_failures_total.", Normal: "All `200`; 429 if a replica has too many at once."},
		{Name: "controller_runtime_webhook_latency_seconds", Type: "histogram", Labels: []Label{webhook}, Help: "Response time of a webhook.",
			Normal: "Milliseconds."},
		{Name: "process_resident_memory_bytes", Type: "gauge", Help: "Memory of the process.", Normal: "Well below the limit of 512 MiB."},
		{Name: "process_cpu_seconds_total", Type: "counter", Help: "CPU time of the process.", Normal: "Nearly nothing at rest."},
		{Name: "go_goroutines", Type: "gauge", Help: "Goroutines.", Normal: "Some hundreds, and constant."},
	}
}

// Served returns metrics that our own API server serves, as far as our alerts and our dashboard use
// them. They are those of k8s.io/apiserver, by the same names as those of Kubernetes. Labels that
// we do not use are omitted.
func Served() []Metric {
	group, resource := Label{"group", "`farm.mainstay.dev`, which distinguishes them from other API servers"}, Label{"resource", "`farmpods` or `llamas`"}
	verb := Label{"verb", "`GET`, `LIST`, `WATCH`, `POST`, `PUT`, `PATCH`, `APPLY`, `DELETE` or `DELETECOLLECTION`"}
	return []Metric{
		{
			Name: "apiserver_request_total", Type: "counter", Labels: []Label{group, resource, verb, {"code", "HTTP status"}},
			Help:   "Finished requests. A watch counts when it ends.",
			Normal: "The requests of your users. 429 means that a replica has not read its data yet, or has too many requests; 504 on a read means that the requested version does not exist yet; any other 5xx is a fault of the server or of a webhook that admits Llamas.",
		},
		{
			Name: "apiserver_request_duration_seconds", Type: "histogram", Labels: []Label{group, resource, verb},
			Help:   "Duration of a request; of a watch until it ended.",
			Normal: "Milliseconds; tens of milliseconds for writes and for lists of thousands.",
		},
		{
			Name: "apiserver_longrunning_requests", Type: "gauge", Labels: []Label{group, resource, verb},
			Help: "Running watches.", Normal: "The watches of your users.",
		},
		{
			Name: "apiserver_watch_cache_initializations_total", Type: "counter", Labels: []Label{group, resource},
			Help:   "How often a replica has read all its data.",
			Normal: "1 for each resource, and one more after the API server was down for long. Meanwhile requests get 429.",
		},
	}
}

// Elsewhere returns metrics that other programs serve and our alerts use: only the API server knows
// that it did not get a response.
func Elsewhere() []Metric {
	return []Metric{
		{
			Name: "apiserver_admission_webhook_rejection_count", Type: "counter",
			Help:   "Requests that the API server refused because of a webhook.",
			Normal: "`error_type=\"no_error\"` with `rejection_code` 403 or 422 are refusals of invalid objects. Anything else of ours is a fault.",
			Labels: []Label{
				{"name", "name of the webhook: ours end in `mainstay.dev`"}, {"operation", "`CREATE` or `UPDATE`"}, {"type", "`admit` or `validating`"},
				{"error_type", "`no_error`, `calling_webhook_error` (no response) or `apiserver_internal_error`"}, {"rejection_code", "HTTP status of the refusal; 0 without a response"},
			},
		},
		{
			Name: "apiserver_admission_webhook_admission_duration_seconds", Type: "histogram",
			Help:   "How long the API server waited for a webhook. Calls that failed count too.",
			Normal: "Milliseconds. A call without a response lasts until the time limit of the webhook, 5 s.",
			Labels: []Label{
				{"name", "name of the webhook: ours end in `mainstay.dev`"}, {"operation", "`CREATE` or `UPDATE`"}, {"type", "`admit` or `validating`"},
				{"rejected", "`true` if the request was refused, also because the call failed"},
			},
		},
	}
}
