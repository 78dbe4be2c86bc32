package injection_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationtest"
	"github.com/mainstay-platform/mainstay/test/cases"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// FuzzCompose composes templates whose records, their own and the earlier one, were edited by hand.
func FuzzCompose(f *testing.F) {
	for _, text := range hostile {
		f.Add(uint64(1), text, "")
		f.Add(uint64(2), "", text)
	}
	for seed := range uint64(20) {
		composed := composedBySeed(f, seed)
		f.Add(seed, composed.Annotations[instrv1.AnnotationInjected], composed.Annotations[instrv1.AnnotationInjected])
	}
	fuzz.AddBombs(f, uint64(1), someRecord, "")
	f.Fuzz(func(t *testing.T, seed uint64, record, earlier string) {
		defer fuzz.Budget(t, record, earlier)()
		g := instrumentationtest.New(seed)
		setting := settingOf(t, g.Objects("agent")...)
		template := g.Template()
		template.Annotations = map[string]string{instrv1.AnnotationInjected: record}
		before := template.DeepCopy()
		before.Annotations[instrv1.AnnotationInjected] = earlier
		// without grants, so that gated agents keep what the record says
		w := injection.Workload{Kind: "Deployment", Namespace: instrumentationtest.Namespace, Name: "web-1", Template: &template}
		setting.Compose(&w, before)
		if text := w.Template.Annotations[instrv1.AnnotationInjected]; text != "" && injection.Injected(w.Template.Annotations) == nil {
			t.Errorf("the record that was written can't be read: %s", text)
		}
	})
}

// someRecord is a record as Compose writes it.
const someRecord = `[{"id":"a","image":"x","mode":"InitContainer","mountPath":"/x","sizeLimit":"1Mi","containers":[{"name":"app"}]}]`

// hostile are records that only a user writes. ID stands for the id of an Instrumentation that
// matches.
var hostile = []string{
	"", "{", "null", "[]", "[null]", "{}", `"text"`, "[{}]", `[{"containers":[{}]}]`,
	`[{"id":"ID"}]`,
	`[{"id":"ID","image":"x","mode":"ImageVolume","mountPath":"/x","containers":[{"name":"app"}]}]`,
	`[{"id":"ID","image":"x","mode":"ImageVolume","directory":"","mountPath":"/x","containers":[{"name":"app","load":[{"name":"A","text":"a","form":"value"}]}]}]`,
	`[{"id":"ID","image":"x","mode":"InitContainer","mountPath":"","containers":[{"name":"app"}]}]`,
	`[{"id":"ID","image":"x","mode":"InitContainer","mountPath":"relative","containers":[{"name":"app"}]}]`,
	`[{"id":"ID","image":"x","mode":"other","mountPath":"/x","containers":[{"name":"app"}]}]`,
	`[{"id":"ID","image":"x","mode":"InitContainer","mountPath":"/x","containers":[{"name":"not-there"}]}]`,
	`[{"id":"ID","image":"x","mode":"InitContainer","mountPath":"/x","containers":[{"name":"app"},{"name":"app"}]}]`,
	`[{"id":"ID","image":"x","mode":"InitContainer","mountPath":"/x","containers":[{"name":"app","load":[{"name":"","text":"a","form":"absent"}]}]}]`,
	`[{"id":"ID","image":"x","mode":"InitContainer","mountPath":"/x","containers":[{"name":"app","env":[{"name":"A=B","value":"a"}]}]}]`,
	`[{"id":"ID","image":"x","mode":"InitContainer","mountPath":"/x","containers":[{"name":"app","env":[{"name":"A"},{"name":"A"}]}]}]`,
	`[{"id":"ID","image":"x","mode":"InitContainer","mountPath":"/x","containers":[{"name":"app"}]},{"id":"ID"}]`,
	`[{"id":"ID","image":"x","mode":"InitContainer","mountPath":"/x","sizeLimit":"nonsense","containers":[{"name":"app"}]}]`,
	`[{"id":"ID","image":"x","mode":"InitContainer","mountPath":"/x","sizeLimit":"1e-999999999","containers":[{"name":"app"}]}]`,
	`[{"id":"ID","image":"x","mode":"InitContainer","mountPath":"/x","resources":{"limits":{"cpu":"1e-999999999"}},"containers":[{"name":"app"}]}]`,
	`[{"id":"ID","image":"x","mode":"InitContainer","mountPath":"/x","containers":[{"name":"app","env":[` + strings.Repeat("{},", 20_000) + `{}]}]}]`,
}

// A forged record injects nothing that the Instrumentation did not inject: a gated agent waits, and
// there is nothing to keep.
func TestHostileRecords(t *testing.T) {
	object := namespaced("java", func(spec *instrv1.InstrumentationSpec) { spec.Rollout.MaxParallel = new(int32(1)) })
	setting := settingOf(t, object)
	for _, text := range hostile {
		text = strings.ReplaceAll(text, "ID", injection.IdentityOf(object).ID())
		for name, texts := range map[string][2]string{"its own": {text, ""}, "earlier": {"", text}, "both": {text, text}} {
			own := template(container("app"))
			given := own.DeepCopy()
			given.Annotations = map[string]string{instrv1.AnnotationInjected: texts[0]}
			before := own.DeepCopy()
			before.Annotations = map[string]string{instrv1.AnnotationInjected: texts[1]}
			if texts[0] == "" {
				given.Annotations = nil
			}
			statuses := compose(setting, given, before)
			if statuses[0].State != injection.Waiting {
				t.Errorf("%s, %s: the state is %d", name, text, statuses[0].State)
			}
			expectSame(t, name+" "+text, given, &own)
		}
	}
}

// A record that a user writes can remove from the user's own template what the user could remove as
// well; and nothing else.
func TestHostileRecordRemovesWhatItNames(t *testing.T) {
	own := template(container("app", corev1.EnvVar{Name: "MINE", Value: "1"}, corev1.EnvVar{Name: "OTHER", Value: "1"}))
	given := own.DeepCopy()
	given.Annotations = map[string]string{instrv1.AnnotationInjected: `[{"id":"x","containers":[{"name":"app","env":[{"name":"MINE","value":"1"},{"name":"OTHER","value":"2"}]}]}]`}
	compose(settingOf(t), given, nil)
	expectSame(t, "the rest", given, new(template(container("app", corev1.EnvVar{Name: "OTHER", Value: "1"}))))
}

// Limits keep a record from causing unbounded work.
func TestRecordsAreBounded(t *testing.T) {
	many := func(n int, what func(int) string) string {
		var all []string
		for i := range n {
			all = append(all, what(i))
		}
		return strings.Join(all, ",")
	}
	number := func(i int) string { return strings.Repeat("a", i/26) + string(rune('a'+i%26)) }
	for name, test := range map[string]struct {
		most   int
		record func(n int) string
	}{
		"Instrumentations": {100, func(n int) string {
			return "[" + many(n, func(i int) string { return `{"id":"` + number(i) + `"}` }) + "]"
		}},
		"variables": {3000, func(n int) string {
			return `[{"containers":[{"name":"app","env":[` + many(n, func(int) string { return `{"name":"A"}` }) + `]}]}]`
		}},
		"loaders": {10, func(n int) string {
			return `[{"containers":[{"name":"app","load":[` + many(n, func(int) string { return `{"name":"A"}` }) + `]}]}]`
		}},
	} {
		read := func(n int) []injection.Injection {
			return injection.Injected(map[string]string{instrv1.AnnotationInjected: test.record(n)})
		}
		if read(test.most) == nil || read(test.most+1) != nil {
			t.Errorf("%s: %d are accepted: %v, %d: %v", name, test.most, read(test.most) != nil, test.most+1, read(test.most+1) != nil)
		}
	}
}

// An Injection that is written and read again is equal: otherwise every template would differ from
// its desired state.
func TestRecordIsReadAsItWasWritten(t *testing.T) {
	for seed := range cases.Seeds(t, 200, 5000) {
		composed := composedBySeed(t, seed)
		text := composed.Annotations[instrv1.AnnotationInjected]
		if text == "" {
			continue
		}
		content, err := json.Marshal(injection.Injected(composed.Annotations))
		if err != nil {
			t.Fatal(err)
		}
		if string(content) != text {
			t.Errorf("seed %d: written %s, read %s", seed, text, content)
		}
	}
}

func composedBySeed(t testing.TB, seed uint64) *corev1.PodTemplateSpec {
	t.Helper()
	g := instrumentationtest.New(seed)
	setting := settingOf(t, g.Objects("agent")...)
	own := g.Template()
	w := injection.Workload{
		Kind: "Deployment", Namespace: instrumentationtest.Namespace, Name: "web-1", Template: &own,
		Annotations: instrumentationtest.Granted(setting),
	}
	setting.Compose(&w, nil)
	return w.Template
}

// A record that has no room next to the owner's annotations is refused, before the API server
// refuses the owner's write.
func TestRecordThatHasNoRoom(t *testing.T) {
	setting := settingOf(t, namespaced("java", nil))
	for _, test := range []struct {
		size  int
		state injection.State
	}{{250 << 10, injection.In}, {256<<10 - 100, injection.Refused}} {
		own := template(container("app"))
		own.Annotations = map[string]string{"a": strings.Repeat("x", test.size-1)}
		given := own.DeepCopy()
		statuses := compose(setting, given, nil)
		if statuses[0].State != test.state {
			t.Errorf("with annotations of %d bytes the state is %d", test.size, statuses[0].State)
		}
		if test.state == injection.Refused {
			expectRefusal(t, statuses[0], instrv1.WorkloadTooLarge, "the annotations of its pod template leave no room")
			expectSame(t, "no room", given, &own)
		}
		// The controller decides about what the cache has.
		stripped := injection.Strip(&own)
		if statuses := compose(setting, &stripped, nil); statuses[0].State != test.state {
			t.Errorf("with annotations of %d bytes, of which the cache has the size, the state is %d", test.size, statuses[0].State)
		}
	}
}

// An unreadable grant is no grant.
func TestGrants(t *testing.T) {
	const id = "0123abcd"
	for _, test := range []struct {
		text string
		want injection.Grant
	}{
		{"", injection.Grant{}}, {"rev", injection.Grant{}}, {"rev 2026-11-21T08:00:00Z", injection.Grant{}}, {"rev yesterday 1",
			injection.Grant{}},
		{"rev 2026-11-21T08:00:00Z once", injection.Grant{}}, {"rev 2026-11-21T08:00:00Z 1 2", injection.Grant{}},
		{"rev 2026-11-21T08:00:00Z 3", injection.Grant{Revision: "rev", At: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), Attempts: 3}},
	} {
		got := injection.GrantOf(map[string]string{injection.GrantKey(id): test.text}, id)
		if got != test.want {
			t.Errorf("%q is read as %v", test.text, got)
		}
		if test.want.Revision != "" && got.String() != test.text {
			t.Errorf("%q is written as %q", test.text, got.String())
		}
	}
}
