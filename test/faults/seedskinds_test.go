package faults

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mainstay-platform/mainstay/test/faults/campaign"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

// Bugs of the kinds that configure or change workloads. webAppSeeds has those of what all share.

var appConfigSeeds = []seed{
	{
		name: "a revision is pruned before its successor is good", bug: always(pruneEarly), always: true,
		reason: campaign.Unsettled, text: "revision 1 is kept: false",
	},
	{
		name: "a lost answer takes another revision", bug: always(secondName("configmaps", laterRevision)),
		options: at(proxy.LoseAnswer, "patch", "configmaps", 1),
		reason:  campaign.Counts, text: "ConfigMap " + laterRevision + " was created 1 times",
	},
	{
		name: "what is to be pruned is kept in memory", bug: remembering, options: at(proxy.KillBefore, "delete", "configmaps", 1),
		reason: campaign.Unsettled, text: "step roll out the change",
	},
	{
		name:    "the status is written before the content",
		bug:     always(statusFirst("configmaps", "config.mainstay.dev/v1", "appconfigs", "mainstay/appconfig")),
		options: at(proxy.KillBefore, "patch", "configmaps", 4),
		reason:  campaign.Claimed, text: "in step change",
	},
}

var configMonitorSeeds = []seed{
	{
		name: "a restart is recorded before it is made", bug: always(recordFirst), options: at(proxy.KillBefore, "patch", "deployments", 3),
		always: true, // two writes instead of one, which has no effect on the pods
		reason: campaign.Unsettled, text: "the Deployment was restarted for",
	},
	{
		name: "a start takes the present content for what the pods run", bug: forgetful, options: campaign.Options{AwayIn: "change"},
		reason: campaign.Unsettled, text: "the Deployment was restarted for",
	},
	{
		name:    "a restart is counted before it is made",
		bug:     always(countFirst("config.mainstay.dev/v1", "configmonitors", "mainstay/configmonitor", `{"restarts": 1}`)),
		options: at(proxy.KillBefore, "patch", "deployments", 2),
		reason:  campaign.Claimed, text: "in step change",
	},
	{
		name: "a lost answer restarts once more", bug: always(restartAgain), options: at(proxy.LoseAnswer, "patch", "deployments", 2),
		reason: campaign.EndState, text: "-again",
	},
}

var instrumentationSeeds = []seed{
	{
		name: "a watch that ended is not opened again", bug: deaf, options: at(proxy.Cut, "watch", "deployments", 1),
		reason: campaign.Unsettled, text: "step match",
	},
	{
		name: "what is to be removed is kept in memory", bug: removing, options: campaign.Options{AwayIn: "delete"},
		reason: campaign.Unsettled, text: "step delete",
	},
	{
		name:    "an agent is counted before it is injected",
		bug:     always(countFirst("instrumentation.mainstay.dev/v1alpha1", "instrumentations", "mainstay/instrumentation", oneInjected)),
		options: at(proxy.KillBefore, "patch", "deployments", 1),
		// A reconcile between the two writes takes the status for true, and notes the time.
		always: true,
		reason: campaign.Claimed, text: "in step match",
	},
	{
		name: "a lost answer injects once more", bug: always(injectAgain), options: at(proxy.LoseAnswer, "patch", "deployments", 1),
		reason: campaign.Unsettled, text: "already loads the agent",
	},
}

// laterRevision is a revision that no step makes.
const laterRevision = usedConfigMap + "-9"

// pruneEarly deletes the first revision when the second is written.
func pruneEarly(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err != nil || !isApply(asked, "configmaps") || asked.Name != usedConfigMap+"-2" {
		return response, err
	}
	if err := discard(next.RoundTrip(bare(request, http.MethodDelete, siblingPath(request, usedConfigMap+"-1")))); err != nil {
		return nil, err
	}
	return response, nil
}

// isRestart reports whether a request restarts a Deployment: a merge patch with a template.
func isRestart(request *http.Request, asked proxy.Request) bool {
	return isApply(asked, "deployments") && strings.Contains(string(read(request)), `"spec"`)
}

// without returns the same merge patch without one of its fields.
func without(request *http.Request, field string) *http.Request {
	return altered(request, request.Method, request.URL.Path, func(patch map[string]any) { delete(patch, field) })
}

// recordFirst writes the stamp of a restart, and then the pod template.
func recordFirst(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	if !isRestart(request, asked) {
		return next.RoundTrip(request)
	}
	if err := discard(next.RoundTrip(without(request, "spec"))); err != nil {
		return nil, err
	}
	return next.RoundTrip(without(request, "metadata"))
}

// forgetful writes only the stamp of what would be the first restart of a process if it is also its
// first write of a Deployment.
func forgetful() seededTransport {
	var wrote atomic.Bool
	return func(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
		if isApply(asked, "deployments") && !wrote.Swap(true) && isRestart(request, asked) {
			return next.RoundTrip(without(request, "spec"))
		}
		return next.RoundTrip(request)
	}
}

// oneInjected is the status of an Instrumentation whose agent is in one Deployment.
const oneInjected = `{"injected": 1, "conditions": [
	{"type": "Ready", "status": "True", "reason": "Injected", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
]}`

// countFirst writes a part of the owner's status before it writes what that counts: restarts, or
// agents that are injected.
func countFirst(group, owner, manager, status string) seededTransport {
	return func(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
		if isApply(asked, "deployments") && (isRestart(request, asked) || isInjection(request, asked)) {
			path := "/apis/" + group + "/namespaces/" + asked.Namespace + "/" + owner + "/" + appName + "/status"
			if err := discard(next.RoundTrip(merging(request, path, manager, `{"status": `+status+`}`))); err != nil {
				return nil, err
			}
		}
		return next.RoundTrip(request)
	}
}

// restartAgain restarts a Deployment for a new reason if the first answer is lost.
func restartAgain(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	if !isRestart(request, asked) {
		return next.RoundTrip(request)
	}
	second := bare(request, request.Method, request.URL.Path)
	second.URL.RawQuery = request.URL.RawQuery
	fill(second, []byte(strings.ReplaceAll(string(read(request)), `#1"`, `#1-again"`)))
	response, err := next.RoundTrip(request)
	if err == nil {
		return response, nil
	}
	return next.RoundTrip(second)
}

// initContainers is the path of an agent's init container in a JSON patch of a Deployment that has
// no other.
const initContainers = "/spec/template/spec/initContainers"

// operation is one operation of a JSON patch.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// operations returns those of a JSON patch of a Deployment; none for other requests.
func operations(request *http.Request, asked proxy.Request) []operation {
	var found []operation
	if !isApply(asked, "deployments") || json.Unmarshal(read(request), &found) != nil {
		return nil
	}
	return found
}

// does reports whether a JSON patch does something to the init containers.
func does(what string, patch []operation) bool {
	for _, one := range patch {
		if one.Op == what && one.Path == initContainers {
			return true
		}
	}
	return false
}

// isInjection reports whether a request injects an agent into a Deployment without one.
func isInjection(request *http.Request, asked proxy.Request) bool {
	return does("add", operations(request, asked))
}

// removing removes an agent only if the same process has injected it, and otherwise takes it for
// removed.
func removing() seededTransport {
	var injected sync.Map
	return func(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
		patch := operations(request, asked)
		if does("add", patch) {
			injected.Store(request.URL.Path, true)
		}
		if _, known := injected.Load(request.URL.Path); does("remove", patch) && !known {
			return next.RoundTrip(bare(request, http.MethodGet, request.URL.Path))
		}
		return next.RoundTrip(request)
	}
}

// injectAgain adds the variables of an agent to those that are there if the first answer is lost.
func injectAgain(next http.RoundTripper, request *http.Request, asked proxy.Request) (*http.Response, error) {
	var again []operation
	for _, one := range operations(request, asked) {
		var values []json.RawMessage
		if !strings.HasSuffix(one.Path, "/env") || json.Unmarshal(one.Value, &values) != nil {
			continue
		}
		for _, value := range values {
			again = append(again, operation{Op: "add", Path: one.Path + "/-", Value: value})
		}
	}
	if len(again) == 0 {
		return next.RoundTrip(request)
	}
	second := bare(request, request.Method, request.URL.Path)
	second.URL.RawQuery = request.URL.RawQuery
	content, err := json.Marshal(again)
	if err != nil {
		return nil, err
	}
	fill(second, content)
	response, err := next.RoundTrip(request)
	if err == nil {
		return response, nil
	}
	return next.RoundTrip(second)
}
