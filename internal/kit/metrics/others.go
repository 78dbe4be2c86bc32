package metrics

import "slices"

// Others are metrics of the libraries that we stand on, served at the same address, as far as our alerts and
// our dashboard use them. The library's own documentation has the rest.
func Others() []Metric {
	queue := []Label{{"name", "queue: the controller's name"}, {"controller", "the same"}}
	webhook := Label{"webhook", "path of the webhook"}
	return []Metric{
		{Name: "workqueue_depth", Type: "gauge", Labels: append(slices.Clone(queue), Label{"priority", "priority of what waits"}),
			Help: "Objects that wait for their turn.", Normal: "Near 0; thousands for some seconds after a start."},
		{Name: "workqueue_queue_duration_seconds", Type: "histogram", Labels: queue, Help: "Time that an object waited for its turn.",
			Normal: "Milliseconds."},
		{Name: "controller_runtime_active_workers", Type: "gauge", Labels: []Label{{"controller", "the controller's name"}}, Help: "Reconciles that are under way.", Normal: "Below `--concurrency`."},
		{Name: "controller_runtime_webhook_requests_total", Type: "counter", Labels: []Label{webhook, {"code", "HTTP status"}}, Help: "Requests of the API server to our webhooks. A refusal is a 200 as well.", Normal: "All `200`."},
		{Name: "controller_runtime_webhook_latency_seconds", Type: "histogram", Labels: []Label{webhook}, Help: "Time until a webhook answered.",
			Normal: "Milliseconds."},
		{Name: "process_resident_memory_bytes", Type: "gauge", Help: "Memory of the process.", Normal: "Well below the limit of 512 MiB."},
		{Name: "process_cpu_seconds_total", Type: "counter", Help: "Processor time of the process.", Normal: "Nearly nothing at rest."},
		{Name: "go_goroutines", Type: "gauge", Help: "Goroutines.", Normal: "Some hundreds, and steady."},
	}
}

// Served are metrics that our own API server serves, as far as our alerts and our dashboard use them: k8s.io/apiserver's, by the names that
// Kubernetes' own has too. Labels that nobody here looks at are left out.
func Served() []Metric {
	group, resource := Label{"group", "`farm.mainstay.dev`; by it they are told from those of others"}, Label{"resource", "`farmpods` or `llamas`"}
	verb := Label{"verb", "`GET`, `LIST`, `WATCH`, `POST`, `PUT`, `PATCH`, `APPLY`, `DELETE` or `DELETECOLLECTION`"}
	return []Metric{
		{
			Name: "apiserver_request_total", Type: "counter", Labels: []Label{group, resource, verb, {"code", "HTTP status"}},
			Help:   "Requests that have been answered. A watch counts when it ends.",
			Normal: "Whatever your users ask for. 429 is a replica that has not read yet what it serves, or has too many requests at once; 504, of what reads, the answer to who asks for a version that is not there yet; any other 5xx is a fault, of the server or of a webhook that admits Llamas.",
		},
		{
			Name: "apiserver_request_duration_seconds", Type: "histogram", Labels: []Label{group, resource, verb},
			Help:   "Time until a request was answered, of a watch until it ended.",
			Normal: "Milliseconds; some tens of them for a list of thousands, and for what is written.",
		},
		{
			Name: "apiserver_longrunning_requests", Type: "gauge", Labels: []Label{group, resource, verb},
			Help: "Watches that are under way.", Normal: "Those of your users.",
		},
		{
			Name: "apiserver_watch_cache_initializations_total", Type: "counter", Labels: []Label{group, resource},
			Help:   "How often a replica has read all of what it serves.",
			Normal: "1 for each resource, and one more after the API server was away for long. Meanwhile who asks is told to try again (429).",
		},
	}
}

// Elsewhere are metrics that others serve and our alerts use: the API server's, which is the one to know that it
// did not get an answer.
func Elsewhere() []Metric {
	return []Metric{
		{
			Name: "apiserver_admission_webhook_rejection_count", Type: "counter",
			Help:   "Requests that the API server refused because of a webhook.",
			Normal: "`error_type=\"no_error\"` with `rejection_code` 403 or 422 are refusals that your users asked for. Anything else of ours is a fault.",
			Labels: []Label{
				{"name", "name of the webhook: ours end in `mainstay.dev`"}, {"operation", "`CREATE` or `UPDATE`"}, {"type", "`admit` or `validating`"},
				{"error_type", "`no_error`, `calling_webhook_error` (there was no answer) or `apiserver_internal_error`"}, {"rejection_code", "HTTP status of the refusal; 0 without an answer"},
			},
		},
	}
}
