package webhooks

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestRevertOf: what someone else changed is a revert, and what another replica wrote is none.
func TestRevertOf(t *testing.T) {
	const webhook = `webhooks[name="a.mainstay.dev"]`
	type configuration = admissionregistrationv1.MutatingWebhookConfiguration
	ours := metav1.NewTime(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	later := metav1.NewTime(ours.Add(time.Minute))
	by := func(manager string, at metav1.Time) func(*configuration) {
		return func(c *configuration) {
			c.ManagedFields = append(c.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Time: &at})
		}
	}
	ignore := func(c *configuration) { c.Webhooks[0].FailurePolicy = ptr.To(admissionregistrationv1.Ignore) }
	empty := func(c *configuration) { c.Webhooks = nil }
	rewritten := func(c *configuration) { c.ManagedFields[0].Time = &later }
	bundle := func(c *configuration) { c.Webhooks[0].ClientConfig.CABundle = []byte("theirs") }
	for name, test := range map[string]struct {
		changes []func(*configuration)
		want    []plan.RevertedField
		is      bool
	}{
		"nothing": {nil, nil, false},
		"a word": {[]func(*configuration){ignore, by("kubectl-edit", later)}, []plan.RevertedField{
			{Path: webhook + ".failurePolicy", Change: plan.FieldChanged, From: "Fail", To: "Ignore", By: "kubectl-edit"}}, true},
		"a CA": {[]func(*configuration){bundle, by("injector", later)},
			[]plan.RevertedField{{Path: webhook + ".clientConfig", Change: plan.FieldChanged, By: "injector"}}, true},
		"a webhook that was removed": {[]func(*configuration){empty}, []plan.RevertedField{{Path: webhook, Change: plan.FieldRemoved}}, true},
		"a webhook that was added": {[]func(*configuration){func(c *configuration) {
			c.Webhooks = append(c.Webhooks, admissionregistrationv1.MutatingWebhook{Name: "b"})
		}, by("kubectl", later)}, []plan.RevertedField{{Path: `webhooks[name="b"]`, Change: plan.FieldAdded, By: "kubectl"}}, true},
		"a configuration that was deleted": {[]func(*configuration){func(c *configuration) { *c = configuration{} }}, nil, true},
		"another replica's write":          {[]func(*configuration){ignore, rewritten}, nil, false},
		"a later release's write": {[]func(*configuration){ignore, by("kubectl-edit", later), func(c *configuration) {
			c.Annotations = map[string]string{"mainstay.dev/release": "2.0.0"}
		}}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			live := wanted().configuration(mutating, []byte("ca"))
			live.ResourceVersion = "7"
			by(fieldManager, ours)(live)
			before := lastDesired{slices.Clone(live.Webhooks), &ours}
			for _, change := range test.changes {
				change(live)
			}
			got, is := revertOf(mutating, before, live, "1.2.3")
			if diff := cmp.Diff(test.want, got.Fields); diff != "" || is != test.is {
				t.Errorf("%v: %s", is, diff)
			}
		})
	}
}
