package webapp

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// stores is a kind to whose objects the apps of the tests are bound. A WebApp stands in for its
// objects: of it the tests need conditions, the phase as the revision of the credentials, and the
// URL as what is still starting.
var stores = component.Bindables{{
	Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Store"},
	New:  func() component.Object { return &msappsv1.WebApp{} },
	Binding: component.Binding{
		Variables: func(secret string) []component.Output {
			return []component.Output{{Name: "STORE_URL", Secret: secret, Key: "uri"}, {Name: "STORE_MODE", Value: "strict"}}
		},
		Secret:             func(name string) string { return name + "-app" },
		Authority:          func(name string) (string, string) { return name + "-ca", "ca.pem" },
		AuthorityVariables: []string{"STORE_CA"},
		Condition:          "Writable",
		HasUsers:           true,
		Account: func(object component.Object, user string) component.Account {
			secret := "main-" + cmp.Or(user, "app")
			app := object.(*msappsv1.WebApp)
			return component.Account{Secret: secret, Revision: app.GetPhase(), Starting: app.Status.URL}
		},
	},
}, {
	Kind:    schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Shelf"},
	New:     func() component.Object { return &msappsv1.WebApp{} },
	Binding: component.Binding{Variables: func(string) []component.Output { return nil }},
}}

// store returns an object to bind to; status is that of its condition Writable, "" for none.
func store(status metav1.ConditionStatus, revision string) *msappsv1.WebApp {
	object := &msappsv1.WebApp{}
	object.SetPhase(revision)
	if status != "" {
		object.Status.Conditions = []metav1.Condition{{Type: "Writable", Status: status, Reason: "FailingOver"}}
	}
	return object
}

// starting is a part of an object that is still starting.
func starting(object *msappsv1.WebApp) *msappsv1.WebApp {
	object.Status.URL = "whose door is closed"
	return object
}

func bindings(all ...msappsv1.Binding) func(*msappsv1.WebApp) {
	return spec(func(s *msappsv1.WebAppSpec) { s.Bindings = all })
}

var oneBinding = msappsv1.Binding{Kind: "Store", Name: "main"}

// binding returns what is observed of an app with one binding, to an object; nil if there is none.
func binding(observed Observed, object component.Object) Observed {
	observed.Bindings = []Bound{{Binding: oneBinding, To: stores[0], Object: object}}
	return observed
}

// boundAt returns a Deployment whose pods are bound with a revision.
func boundAt(revision string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations = map[string]string{"mainstay.dev/bindings": "Store/main=" + revision}
	}
}

// templateOf returns the pod template of an app's desired Deployment; nil if that is kept as it is.
func templateOf(app *msappsv1.WebApp, observed Observed) *corev1.PodTemplateSpec {
	for _, child := range Desired(app, observed).Children {
		if deployment, is := child.Object.(*appsv1.Deployment); is {
			return &deployment.Spec.Template
		}
	}
	return nil
}

// TestBindingsInEffect walks the tables of effectiveBindings and waitsForBindings.
func TestBindingsInEffect(t *testing.T) {
	const waits = "waits"
	suspended := spec(func(s *msappsv1.WebAppSpec) { s.Suspend = true })
	stopped := func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) }
	going := store("True", "1")
	going.DeletionTimestamp = &metav1.Time{}
	for name, test := range map[string]struct {
		observed Observed
		change   func(*msappsv1.WebApp)
		want     string
	}{
		"new, and there is none":         {observed: binding(Observed{}, nil), want: waits},
		"new, and not reported":          {observed: binding(Observed{}, store("", "1")), want: waits},
		"new, and not writable":          {observed: binding(Observed{}, store("False", "1")), want: waits},
		"new, and unknown":               {observed: binding(Observed{}, store("Unknown", "1")), want: waits},
		"new, without a revision":        {observed: binding(Observed{}, store("True", "")), want: waits},
		"new, and being deleted":         {observed: binding(Observed{}, going), want: waits},
		"new, and writable":              {observed: binding(Observed{}, store("True", "1")), want: "Store/main=1"},
		"new and suspended":              {observed: binding(Observed{}, nil), change: suspended, want: ""},
		"suspended, and writable":        {observed: binding(Observed{}, store("True", "1")), change: suspended, want: "Store/main=1"},
		"new, and starting":              {observed: binding(Observed{}, starting(store("True", "1"))), want: waits},
		"running, and starting":          {observed: binding(running(boundAt("1")), starting(store("True", "2"))), want: "Store/main=2"},
		"running, starting and away":     {observed: binding(running(boundAt("1")), starting(store("False", "2"))), want: "Store/main=1"},
		"added, and starting":            {observed: binding(running(), starting(store("True", "1"))), want: waits},
		"running, and writable":          {observed: binding(running(boundAt("1")), store("True", "1")), want: "Store/main=1"},
		"running, and rotated":           {observed: binding(running(boundAt("1")), store("True", "2")), want: "Store/main=2"},
		"running, and failing over":      {observed: binding(running(boundAt("1")), store("False", "2")), want: "Store/main=1"},
		"running, and gone":              {observed: binding(running(boundAt("1")), nil), want: "Store/main=1"},
		"running, and being deleted":     {observed: binding(running(boundAt("1")), going), want: "Store/main=1"},
		"added, and there is none":       {observed: binding(running(), nil), want: waits},
		"added, and writable":            {observed: binding(running(), store("True", "1")), want: "Store/main=1"},
		"added while stopped":            {observed: binding(running(stopped), nil), want: waits},
		"added while suspended":          {observed: binding(running(stopped), nil), change: suspended, want: ""},
		"resumed, and gone":              {observed: binding(running(stopped, boundAt("1")), nil), want: "Store/main=1"},
		"removed":                        {observed: running(boundAt("1")), want: ""},
		"an annotation that is too long": {observed: binding(running(boundAt(strings.Repeat("x", component.MaxBound))), nil), want: waits},
	} {
		app := admitted(bindings(oneBinding))
		if test.change != nil {
			test.change(app)
		}
		got := waits
		if template := templateOf(app, test.observed); template != nil {
			got = template.Annotations["mainstay.dev/bindings"]
		} else if keep := Desired(app, test.observed).Keep; !slices.Contains(keep, Ref(app, "Deployment")) {
			got = "deletes"
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestServiceStaysWithPods: while a binding holds the pods as they are, so do the objects that name
// their port. What is missing is made.
func TestServiceStaysWithPods(t *testing.T) {
	app := admitted(bindings(oneBinding), spec(func(s *msappsv1.WebAppSpec) { s.NetworkPolicy = &msappsv1.NetworkPolicy{} }))
	observed := binding(running(), nil)
	hasService := func() (isMade, isKept bool) {
		wanted := Desired(app, observed)
		for _, child := range wanted.Children {
			_, is := child.Object.(*corev1.Service)
			isMade = isMade || is
		}
		return isMade, slices.Contains(wanted.Keep, Ref(app, "Service"))
	}
	if isMade, isKept := hasService(); !isMade || isKept {
		t.Errorf("a Service that is missing is made: %t, kept: %t", isMade, isKept)
	}
	observed.Children[Ref(app, "Service")] = plan.Found{Ownership: plan.Ours, Object: &corev1.Service{}}
	if isMade, isKept := hasService(); isMade || !isKept {
		t.Errorf("a Service of pods that are held is changed: %t, kept: %t", isMade, isKept)
	}
	observed = binding(observed, store("True", "1"))
	if isMade, isKept := hasService(); !isMade || isKept {
		t.Errorf("with the binding it is changed: %t, kept: %t", isMade, isKept)
	}
}

// TestPeersAreAppliedWhilePodsWait: whom the spec does not admit any more is not admitted while a
// binding holds the pods. Only a policy of foreign pods stays, because it names their port by its
// number.
func TestPeersAreAppliedWhilePodsWait(t *testing.T) {
	app := admitted(bindings(oneBinding), spec(func(s *msappsv1.WebAppSpec) { s.NetworkPolicy = &msappsv1.NetworkPolicy{} }))
	foreign := func(d *appsv1.Deployment) {
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"former": "shop"}}
		d.Spec.Template.Spec.Containers = nil
	}
	for name, test := range map[string]struct {
		observed Observed
		isMade   bool
	}{"pods of ours": {running(), true}, "foreign pods": {running(foreign), false}} {
		observed := binding(test.observed, nil)
		observed.Children[Ref(app, "NetworkPolicy")] = plan.Found{Ownership: plan.Ours, Object: &networkingv1.NetworkPolicy{}}
		wanted := Desired(app, observed)
		isMade := slices.ContainsFunc(wanted.Children, func(child plan.Child) bool {
			_, is := child.Object.(*networkingv1.NetworkPolicy)
			return is
		})
		if isKept := slices.Contains(wanted.Keep, Ref(app, "NetworkPolicy")); isMade != test.isMade || isKept == test.isMade {
			t.Errorf("%s: it is made: %t, kept: %t", name, isMade, isKept)
		}
	}
}

// TestBindingVariables: the spec's own take precedence, and no value is in the template.
func TestBindingVariables(t *testing.T) {
	app := admitted(bindings(oneBinding), spec(func(s *msappsv1.WebAppSpec) {
		s.Env = []corev1.EnvVar{{Name: "STORE_MODE", Value: "lax"}, {Name: "ADDRESS", Value: "$(STORE_URL)"}}
	}))
	var got []string
	for _, variable := range templateOf(app, binding(Observed{}, store("True", "1"))).Spec.Containers[0].Env {
		text := variable.Name + "=" + variable.Value
		if variable.ValueFrom != nil {
			text = variable.Name + "<" + variable.ValueFrom.SecretKeyRef.Name + "." + variable.ValueFrom.SecretKeyRef.Key
		}
		got = append(got, text)
	}
	const want = "STORE_URL<main-app.uri STORE_CA=/etc/mainstay/bindings/store/main/ca.crt STORE_MODE=lax ADDRESS=$(STORE_URL)"
	if text := strings.Join(got, " "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// TestBoundAsAUser: its Secret is that of the user, also while its object is away.
func TestBoundAsAUser(t *testing.T) {
	as := msappsv1.Binding{Kind: "Store", Name: "main", User: "orders"}
	app := admitted(bindings(as))
	observe := func(observed Observed, object component.Object) Observed {
		observed.Bindings = []Bound{{Binding: as, To: stores[0], Object: object}}
		return observed
	}
	const annotation = "Store/main/orders=1:main-orders"
	runs := running(func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations = map[string]string{"mainstay.dev/bindings": annotation}
	})
	for name, observed := range map[string]Observed{
		"it is there": observe(Observed{}, store("True", "1")), "it is away": observe(runs, nil),
	} {
		template := templateOf(app, observed)
		if got := template.Annotations["mainstay.dev/bindings"]; got != annotation {
			t.Errorf("%s: the annotation is %s", name, got)
		}
		if from := template.Spec.Containers[0].Env[0].ValueFrom.SecretKeyRef; from.Name != "main-orders" {
			t.Errorf("%s: the Secret is %s", name, from.Name)
		}
	}
	if templateOf(app, observe(running(boundAt("1")), nil)) != nil {
		t.Error("pods that are bound as another user count as bound")
	}
}

// TestBindingsPassPodSecurity: the file of a binding needs nothing that the Restricted profile
// forbids.
func TestBindingsPassPodSecurity(t *testing.T) {
	app := admitted(bindings(oneBinding), spec(func(s *msappsv1.WebAppSpec) { s.SecurityProfile = msappsv1.SecurityRestricted }))
	subject := Wanted(app, binding(Observed{}, store("True", "1")))
	if found := subject.Unrestricted(); len(found) > 0 {
		t.Error(found)
	}
}

var bindingRules = map[string]rule{
	"a binding without a kind": {`bindings: [{name: db}]`, `bindings: [{kind: Store, name: db}]`, "spec.bindings[0].kind"},
	"a kind of another form": {`bindings: [{kind: store, name: db}]`,
		`bindings: [{kind: Store2, name: db}]`, "spec.bindings[0].kind"},
	"a long kind": {`bindings: [{kind: S` + strings.Repeat("a", 63) + `, name: db}]`,
		`bindings: [{kind: Store, name: db}]`, "spec.bindings[0].kind"},
	"a name that is no label": {`bindings: [{kind: Store, name: a/b}]`,
		`bindings: [{kind: Store, name: a-b}]`, "spec.bindings[0].name"},
	"a binding without a name": {`bindings: [{kind: Store}]`, `bindings: [{kind: Store, name: a}]`, "spec.bindings[0].name"},
	"a prefix that is none": {`bindings: [{kind: Store, name: db, prefix: '1_'}]`,
		`bindings: [{kind: Store, name: db, prefix: '_1'}]`, "spec.bindings[0].prefix"},
	"a prefix with a line break": {`bindings: [{kind: Store, name: db, prefix: "A\n"}]`,
		`bindings: [{kind: Store, name: db, prefix: A}]`, "spec.bindings[0].prefix"},
	"a user that is none": {`bindings: [{kind: Store, name: db, user: or ders}]`,
		`bindings: [{kind: Store, name: db, user: or-ders}]`, "spec.bindings[0].user"},
	"a long user": {`bindings: [{kind: Store, name: db, user: ` + strings.Repeat("a", 64) + `}]`,
		`bindings: [{kind: Store, name: db, user: ` + strings.Repeat("a", 63) + `}]`, "spec.bindings[0].user"},
	"the volume of the bindings": {withFiles("bindings", "/a"), withFiles("binding", "/a"), "spec.volumes[0].name"},
	"a mount at their path": {withFiles("files", "/etc/mainstay/bindings/"), withFiles("files", "/etc/mainstay/bindings2"),
		"spec.volumeMounts[0].mountPath"},
	"a mount above it": {withFiles("files", "/etc"), withFiles("files", "/etc/app"), "spec.volumeMounts[0].mountPath"},
	"a mount below it": {withFiles("files", "/etc/mainstay/bindings/a"), withFiles("files", "/etc/mainstay/a"),
		"spec.volumeMounts[0].mountPath"},
	"seventeen bindings": {"bindings: [" + strings.Repeat("{kind: Store, name: main}, ", 17) + "]",
		"bindings: [" + strings.Repeat("{kind: Store, name: main}, ", 16) + "]", "spec.bindings"},
}

// withFiles returns the fields of an app with a binding that mounts a volume.
func withFiles(volume, path string) string {
	return "bindings: [{kind: Store, name: main}]\nvolumes: [{name: " + volume + ", emptyDir: {}}]\nvolumeMounts: [{name: " + volume +
		", mountPath: " + path + "}]"
}

// TestValidateBindings: what depends on the kinds that are on.
func TestValidateBindings(t *testing.T) {
	second := msappsv1.Binding{Kind: "Store", Name: "other"}
	prefixed := second
	prefixed.Prefix = "OTHER_"
	for want, app := range map[string]*msappsv1.WebApp{
		"": admitted(bindings(oneBinding, prefixed)),
		`spec.bindings[1].prefix: Invalid value: "": must differ from that of spec.bindings[0]: both give the variable STORE_URL`: admitted(
			bindings(oneBinding, second)),
		`spec.bindings[0].user: Invalid value: "orders": must be left out: a Shelf has one user only`: admitted(
			bindings(msappsv1.Binding{Kind: "Shelf", Name: "a", User: "orders"})),
		`spec.bindings[0].kind: Unsupported value: "Shop": supported values: "Shelf", "Store"`: admitted(bindings(msappsv1.Binding{Kind: "Shop", Name: "a"})),
	} {
		got := ""
		if problems := ValidateBindings(app, stores); len(problems) > 0 {
			got = problems.ToAggregate().Error()
		}
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestARefusedVariable: the API server counts the variables of bindings, too.
func TestARefusedVariable(t *testing.T) {
	app := admitted(bindings(oneBinding))
	for index, want := range map[string]string{"0": "spec.bindings.name: no", "3": "spec.env[0].name: no"} {
		failure := plan.Failure{Reason: "InvalidSpec",
			Message: `Deployment.apps "shop" is invalid: spec.template.spec.containers[0].env[` + index + `].name: no`}
		if got := inSpec(app, binding(Observed{}, store("True", "1")), failure).Message; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// bindingStatus are the rows of the table of summarize about bindings.
var bindingStatus = map[string]statusCase{
	"a new app waits": {
		app: bindings(oneBinding), observed: binding(Observed{}, store("False", "1")), phase: "Pending",
		message:    "spec.bindings: waiting for Store main, whose condition Writable is False (FailingOver)",
		conditions: []string{"Ready=False WaitingForBinding", "Progressing=False WaitingForBinding", healthy, active},
	},
	"a new app waits for a part": {
		app: bindings(oneBinding), observed: binding(Observed{}, starting(store("True", "1"))), phase: "Pending",
		message:    "spec.bindings: waiting for Store main, whose door is closed",
		conditions: []string{"Ready=False WaitingForBinding", "Progressing=False WaitingForBinding", healthy, active},
	},
	"a new app waits for what does not exist": {
		app: bindings(oneBinding), observed: binding(Observed{}, nil), phase: "Pending",
		message:    "waiting for Store main, which does not exist",
		conditions: []string{"Ready=False WaitingForBinding", "Progressing=False WaitingForBinding", healthy, active},
	},
	"an app that runs waits for a new binding": {
		app: bindings(oneBinding), observed: binding(running(), nil), phase: "Deploying", message: "waiting for Store main, which does not exist; until then the pods and their Service stay as they are",
		conditions: []string{"Ready=False WaitingForBinding", "Progressing=False WaitingForBinding", healthy, active},
	},
	"an app with a Deployment to adopt waits": {
		app: bindings(oneBinding), observed: binding(Observed{Children: found(plan.Consenting, rolledOut())}, nil), phase: "Pending",
		message:    "waiting for Store main, which does not exist; until then the pods and their Service stay as they are",
		conditions: []string{"Ready=False WaitingForBinding", "Progressing=False WaitingForBinding", healthy, active},
	},
	"problems of the pods that run come first": {
		app: bindings(oneBinding), observed: binding(running(podsRefused), nil), phase: "Degraded",
		conditions: []string{"Ready=False PodsRefused", "Progressing=False PodsRefused", "Degraded=True PodsRefused", active},
	},
	"a database that goes leaves the pods as they are, and is reported": {
		app: bindings(oneBinding), observed: binding(running(boundAt("1")), nil), phase: "Degraded", message: "2 of 2 replicas",
		conditions: []string{"Ready=True Available", "Progressing=False RolledOut", "Degraded=True BindingLost", active},
	},
	"a database that fails over is not reported": {
		app: bindings(oneBinding), observed: binding(running(boundAt("1")), store("False", "1")), phase: "Running", message: "2 of 2 replicas",
		conditions: []string{"Ready=True Available", "Progressing=False RolledOut", healthy, active},
	},
}

func TestStatusOfBindings(t *testing.T) { checkStatus(t, bindingStatus) }

// TestBindingNames: a kind's variables are the same in templates and in checks.
func TestBindingNames(t *testing.T) {
	app := admitted(bindings(oneBinding))
	names := map[string]bool{}
	for _, variable := range templateOf(app, binding(Observed{}, store("True", "1"))).Spec.Containers[0].Env {
		names[variable.Name] = true
	}
	if got, want := slices.Sorted(maps.Keys(names)), slices.Sorted(slices.Values(stores[0].Names(""))); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
