package webapp

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/test/golden"
)

// situation is one input of Desired.
type situation struct {
	app      func(*msappsv1.WebApp)
	observed Observed
}

// situations returns all cases that testdata has a file for, by the file's name.
func situations() map[string]situation {
	autoscaled := withFields("autoscaling: {min: 3, max: 9, memory: 70}\nresources: {requests: {memory: 64Mi}}")
	legacy := rolledOut(func(d *appsv1.Deployment) {
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"run": "legacy"}}
	})
	monitored := Observed{HasMonitorAPI: true, MonitorLabels: map[string]string{"release": "kube-prometheus-stack"}}
	return map[string]situation{
		"minimal":             {app: withFields(`{}`)},
		"everything":          {app: everything, observed: Observed{HasRouteAPI: true, HasMonitorAPI: true}},
		"autoscaled-new":      {app: autoscaled},
		"autoscaled-existing": {app: autoscaled, observed: Observed{Children: found(plan.Ours, rolledOut())}},
		"restricted":          {app: withFields(`securityProfile: Restricted`)},
		"helpers": {app: withFields("initContainers: [{name: migrate, image: 'migrate:1', command: [/migrate]}]\n" +
			"sidecars: [{name: proxy, image: 'proxy:2'}]")},
		"adopted":                     {app: withFields(`networkPolicy: {}`), observed: Observed{Children: found(plan.Consenting, legacy)}},
		"foreign-deployment":          {app: withFields(`{}`), observed: Observed{Children: found(plan.Foreign, legacy)}},
		"recreate":                    {app: withFields(`strategy: {type: Recreate, minReadySeconds: 7}`)},
		"no-budget":                   {app: withFields("replicas: 5\ndisruption: {disabled: true}")},
		"networkpolicy-without-peers": {app: withFields(`networkPolicy: {}`)},
		"ingress-tls": {app: withFields("ingress: {host: shop.example.com, tlsSecretName: shop-tls, className: nginx, " +
			"annotations: {a.example/b: c}}")},
		"route": {observed: Observed{HasRouteAPI: true}, app: withFields("route: {hostnames: [shop.example.com], " +
			"parentRefs: [{name: public, namespace: gateways, sectionName: https}, {name: internal}]}")},
		"metrics": {observed: monitored, app: withFields(`metrics: {interval: 30s, dashboard: true}`)},
		"metrics-of-another-port": {observed: monitored, app: withFields("networkPolicy: {}\nlabels: {release: other}\n" +
			"metrics: {port: 9090, path: /q/metrics, from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]}")},
		"metrics-without-the-operator": {app: withFields("metrics: {port: 9090, interval: 30s}\n" +
			"serviceMetadata: {annotations: {prometheus.io/port: '1', prometheus.io/scheme: http}}")},
		"route-without-its-api":  {app: withFields(`route: {parentRefs: [{name: public}]}`)},
		"serviceaccount-missing": {app: withFields(`serviceAccountName: robot`), observed: Observed{ServiceAccountMissing: true}},
		"suspended":              {app: withFields(`suspend: true`), observed: Observed{Children: found(plan.Ours, rolledOut())}},
		"suspended-everything": {
			app:      func(app *msappsv1.WebApp) { everything(app); app.Spec.Suspend = true },
			observed: Observed{HasRouteAPI: true, HasMonitorAPI: true, ServiceAccountMissing: true},
		},
		"bindings":         {app: bindings(oneBinding), observed: binding(Observed{}, store("True", "1"))},
		"bindings-waiting": {app: bindings(oneBinding), observed: binding(Observed{}, nil)},
		"paused":           {app: withFields(`paused: true`)},
	}
}

// everything sets each field that does not exclude another.
func everything(app *msappsv1.WebApp) {
	app.Labels = map[string]string{"app.kubernetes.io/part-of": "storefront"}
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")}}}
	}
	app.Spec = msappsv1.WebAppSpec{
		Replicas: ptr.To[int32](4), Image: "registry.example.com/shop:2", ImagePullPolicy: "Always",
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}, Port: 3000, ServicePort: 80,
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1500m")}},
		Env:       []corev1.EnvVar{{Name: "MODE", Value: "fast"}},
		EnvFrom: []corev1.EnvFromSource{{Prefix: "DB_",
			SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "db"}}}},
		Command: []string{"/shop"}, Args: []string{"--serve"},
		InitContainers: []msappsv1.Container{{Name: "migrate", Image: "migrate:1", Args: []string{"up"}}},
		Sidecars: []msappsv1.Container{{
			Name: "proxy", Image: "proxy:2", ImagePullPolicy: "Never", Env: []corev1.EnvVar{{Name: "A",
				Value: "1"}}, StartupProbe: probe("/started"),
			VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/work"}},
		}},
		TerminationGracePeriodSeconds: ptr.To[int64](8), RestartedAt: new(metav1.NewTime(time.Date(2026, 1, 31, 13, 0, 0, 0,
			time.FixedZone("CET", 3600)))),
		Probes:             msappsv1.Probes{Readiness: probe("/readyz"), Liveness: probe("/healthz"), Startup: probe("/startup")},
		ServiceAccountName: "robot", SecurityProfile: "Default",
		SecurityContext:    &corev1.SecurityContext{ReadOnlyRootFilesystem: new(true), RunAsUser: ptr.To[int64](33)},
		PodSecurityContext: &corev1.PodSecurityContext{FSGroup: ptr.To[int64](33)},
		Ingress:            &msappsv1.Ingress{Host: "*.example.com", Path: "/shop"},
		Route: &msappsv1.Route{ParentRefs: []msappsv1.ParentReference{{Name: "public"}},
			Hostnames: []msappsv1.Hostname{"shop.example.com"}},
		Disruption: &msappsv1.Disruption{MinAvailable: new(intstr.FromString("50%"))},
		NetworkPolicy: &msappsv1.NetworkPolicy{From: []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "edge"}},
		}}},
		Metrics: &msappsv1.Metrics{Port: 9090, Path: "/stats", Interval: "1m30s", Dashboard: true,
			From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "prometheus"}}}}},
		Strategy: msappsv1.Strategy{
			Type: "RollingUpdate", MaxSurge: new(intstr.FromInt32(2)), MaxUnavailable: new(intstr.FromString("10%")),
			MinReadySeconds: 5, ProgressDeadlineSeconds: 120,
		},
		TopologySpread: "Required", NodeSelector: map[string]string{"disk": "ssd"},
		Tolerations:  []corev1.Toleration{{Key: "spot", Operator: "Exists"}},
		Affinity:     &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
		Volumes:      []msappsv1.Volume{{Name: "scratch", EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
		Labels:       msappsv1.Labels{"team": "retail", "tier": "all"},
		Annotations:  msappsv1.Annotations{"example.com/owner": "retail"},
		PodMetadata: msappsv1.Metadata{Labels: msappsv1.Labels{"tier": "pod"},
			Annotations: msappsv1.Annotations{"example.com/pod": "1"}},
		ServiceMetadata: msappsv1.Metadata{Labels: msappsv1.Labels{"tier": "service"},
			Annotations: msappsv1.Annotations{"example.com/service": "1"}},
		ServiceAccountMetadata: msappsv1.Metadata{Annotations: msappsv1.Annotations{"example.com/role": "1"}},
		Paused:                 false,
		// Autoscaling excludes replicas, and serviceAccountMetadata needs the created account: the files
		// autoscaled-new and minimal have those.
	}
}

// TestDesired pins every byte of what is created: a change of a pod template replaces all pods of
// all applications at the next upgrade of Mainstay, so it must not happen unnoticed.
func TestDesired(t *testing.T) {
	var files []string
	for name, test := range situations() {
		t.Run(name, func(t *testing.T) {
			golden.Check(t, name+".yaml", []byte(written(t, Desired(admitted(test.app), test.observed))))
		})
		files = append(files, name+".yaml")
	}
	golden.CheckUnused(t, files)
}

// written returns a plan as text, its children in their order.
func written(t *testing.T, wanted plan.Plan) string {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "# hold: %t, keep: %s\n", wanted.Withhold, plan.Join(wanted.Keep))
	for _, child := range wanted.Children {
		content, err := yaml.Marshal(child.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "---\n# %s, yields %v\n%s", reflect.TypeOf(child.Object).Elem().Name(), child.Yield, content)
	}
	return text.String()
}

func TestDesiredIsAFunction(t *testing.T) {
	for name, test := range situations() {
		t.Run(name, func(t *testing.T) {
			app := admitted(test.app)
			before := app.DeepCopy()
			var deployment, deploymentBefore *appsv1.Deployment
			if deployment = test.observed.deployment(app); deployment != nil {
				deploymentBefore = deployment.DeepCopy()
			}
			first := written(t, Desired(app, test.observed))
			for range 20 { // the order of Go's maps differs from run to run
				if diff := cmp.Diff(first, written(t, Desired(app, test.observed))); diff != "" {
					t.Fatalf("the same input gave another plan:\n%s", diff)
				}
			}
			if diff := cmp.Diff(before, app); diff != "" {
				t.Errorf("Desired changed the app:\n%s", diff)
			}
			if diff := cmp.Diff(deploymentBefore, deployment); diff != "" {
				t.Errorf("Desired changed what was observed:\n%s", diff)
			}
		})
	}
}

func TestEffectiveReplicas(t *testing.T) {
	existing := Observed{Children: found(plan.Ours, rolledOut())}
	autoscaled := spec(func(s *msappsv1.WebAppSpec) { s.Autoscaling = &msappsv1.Autoscaling{Min: 3, Max: 6} })
	for name, test := range map[string]struct {
		app      func(*msappsv1.WebApp)
		observed Observed
		want     *int32
	}{
		"a number is that number": {spec(func(s *msappsv1.WebAppSpec) { s.Replicas = ptr.To[int32](7) }), existing,
			ptr.To[int32](7)},
		"a new autoscaled app begins at its minimum":    {autoscaled, Observed{}, ptr.To[int32](3)},
		"an autoscaled one that exists is left alone":   {autoscaled, existing, nil},
		"without either the number is nobody's":         {func(*msappsv1.WebApp) {}, Observed{}, nil},
		"a foreign Deployment's number counts for none": {autoscaled, Observed{Children: found(plan.Foreign, rolledOut())}, ptr.To[int32](3)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, effectiveReplicas(admitted(test.app), test.observed)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWantsBudget(t *testing.T) {
	replicas := func(n int32) func(*msappsv1.WebApp) {
		return spec(func(s *msappsv1.WebAppSpec) { s.Replicas = new(n) })
	}
	autoscaled := func(most int32) func(*msappsv1.WebApp) {
		return spec(func(s *msappsv1.WebAppSpec) { s.Autoscaling = &msappsv1.Autoscaling{Min: 1, Max: most} })
	}
	one := func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](1) }
	for name, test := range map[string]struct {
		app      func(*msappsv1.WebApp)
		observed Observed
		want     bool
	}{
		"one replica has none":                            {replicas(1), Observed{}, false},
		"two replicas have one":                           {replicas(2), Observed{}, true},
		"autoscaled to one has none":                      {autoscaled(1), Observed{}, false},
		"autoscaled to two has one":                       {autoscaled(2), Observed{}, true},
		"a replica number of others counts as it is: two": {func(*msappsv1.WebApp) {}, Observed{Children: found(plan.Ours, rolledOut())}, true},
		"a replica number of others counts as it is: one": {func(*msappsv1.WebApp) {}, Observed{Children: found(plan.Ours, rolledOut(one))},
			false},
		"nothing is known yet":                    {func(*msappsv1.WebApp) {}, Observed{}, false},
		"two replicas that can't be created":      {replicas(2), Observed{ServiceAccountMissing: true}, false},
		"two replicas that wait for a binding":    {replicas(2), binding(Observed{}, nil), false},
		"two that run while a binding is awaited": {replicas(2), binding(running(), nil), true},
		"one replica has one if asked for": {spec(func(s *msappsv1.WebAppSpec) { s.Disruption = &msappsv1.Disruption{} }),
			Observed{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wantsBudget(admitted(test.app), test.observed); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestStopPause(t *testing.T) {
	for period, want := range map[int64]int64{0: 0, 1: 0, 2: 1, 9: 4, 10: 5, 30: 5, 3600: 5} {
		t.Run(fmt.Sprintf("of %d seconds", period), func(t *testing.T) {
			got := int64(0)
			if hook := stopPause(period); hook != nil {
				got = hook.PreStop.Sleep.Seconds
			}
			if got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		})
	}
}

func TestNeedsTmp(t *testing.T) {
	const readOnly = "securityContext: {readOnlyRootFilesystem: true}\n"
	const mount = readOnly + "volumes: [{name: scratch, emptyDir: {}}]\nvolumeMounts: [{name: scratch, mountPath: "
	for name, test := range map[string]struct {
		fields string
		want   bool
	}{
		"a writable root needs none":                        {`{}`, false},
		"a read-only root needs one":                        {readOnly, true},
		"the Restricted profile makes the root read-only":   {`securityProfile: Restricted`, true},
		"what the user mounts at /tmp wins":                 {mount + "/tmp}]", false},
		"what the user mounts at /tmp/ wins as well":        {mount + "/tmp/}]", false},
		"what the user mounts below /tmp is no replacement": {mount + "/tmp/cache}]", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := needsTmp(&admitted(withFields(test.fields)).Spec); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestAddress(t *testing.T) {
	const ingress, route = `ingress: {host: shop.example.com, path: /eu}`, `route: {hostnames: ['*.example.com', www.example.com]}`
	for name, test := range map[string]struct {
		fields, want string
		missing      bool
	}{
		"the Service":                                    {fields: `servicePort: 80`, want: "http://shop.web.svc:80"},
		"the Ingress":                                    {fields: ingress, want: "http://shop.example.com/eu"},
		"a wildcard is no address":                       {fields: `ingress: {host: '*.example.com', path: /}`, want: "http://shop.web.svc:8080"},
		"a host beside a wildcard is":                    {fields: route, want: "http://www.example.com/"},
		"no route without its API, yet":                  {fields: route, missing: true, want: "http://shop.web.svc:8080"},
		"the Ingress with TLS":                           {fields: `ingress: {host: shop.example.com, path: /eu, tlsSecretName: tls}`, want: "https://shop.example.com/eu"},
		"the route comes before the Ingress":             {fields: ingress + "\nroute: {hostnames: [www.example.com]}", want: "http://www.example.com/"},
		"a route for any host has no address of its own": {fields: `route: {}`, want: "http://shop.web.svc:8080"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := address(admitted(withFields(test.fields)), Observed{HasRouteAPI: !test.missing}); got != test.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

// wantedKinds returns the kinds that a plan applies and those that it keeps.
func wantedKinds(wanted plan.Plan) (applied, kept []string) {
	for _, child := range wanted.Children {
		applied = append(applied, reflect.TypeOf(child.Object).Elem().Name())
	}
	for _, ref := range wanted.Keep {
		kept = append(kept, ref.Kind)
	}
	return applied, kept
}

func TestItsOwnServiceAccountStaysWhilePodsMayNeedIt(t *testing.T) {
	named := func(name string) *msappsv1.WebApp {
		return admitted(spec(func(s *msappsv1.WebAppSpec) { s.ServiceAccountName = name }))
	}
	uses := func(name string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Spec.Template.Spec.ServiceAccountName = name }
	}
	missing := running(uses("shop"))
	missing.ServiceAccountMissing = true
	for name, test := range map[string]struct {
		app      *msappsv1.WebApp
		observed Observed
		keeps    bool
	}{
		"the pods still run with it":               {named("robot"), running(uses("shop")), true},
		"the named one is missing":                 {named("typo"), missing, true},
		"the change is still being rolled out":     {named("robot"), running(uses("robot"), rolling), true},
		"it is the named one":                      {named("shop"), running(uses("shop")), true},
		"all pods run with the named one, at last": {named("robot"), running(uses("robot")), false},
	} {
		t.Run(name, func(t *testing.T) {
			_, kept := wantedKinds(Desired(test.app, test.observed))
			if got := slices.Contains(kept, "ServiceAccount"); got != test.keeps {
				t.Errorf("kept: %t", got)
			}
		})
	}
}

func TestAServiceToAdoptWaitsForPods(t *testing.T) {
	app := admitted(spec(func(*msappsv1.WebAppSpec) {}))
	consenting := func(observed Observed) Observed {
		observed.Children[plan.Ref{Kind: "Service", Namespace: "web", Name: "shop"}] = plan.Found{Object: &corev1.Service{},
			Ownership: plan.Consenting}
		return observed
	}
	for name, test := range map[string]struct {
		observed Observed
		keeps    bool
	}{
		"without a Deployment":   {consenting(Observed{Children: plan.Children{}}), true},
		"without available pods": {consenting(running(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 })), true},
		"with pods":              {consenting(running()), false},
	} {
		t.Run(name, func(t *testing.T) {
			applied, kept := wantedKinds(Desired(app, test.observed))
			if slices.Contains(kept, "Service") != test.keeps || slices.Contains(applied, "Service") == test.keeps {
				t.Errorf("applied %v, kept %v", applied, kept)
			}
		})
	}
}

// TestChildrenThatActOnOthersNeedThem: an autoscaler would scale a foreign Deployment of the app's
// name, an Ingress would publish a foreign Service.
func TestChildrenThatActOnOthersNeedThem(t *testing.T) {
	app := admitted(spec(func(s *msappsv1.WebAppSpec) {
		s.Replicas, s.Autoscaling = nil, &msappsv1.Autoscaling{Min: 1, Max: 2}
		s.Ingress = &msappsv1.Ingress{Host: "a.example.com"}
		s.Route, s.Metrics = &msappsv1.Route{}, &msappsv1.Metrics{}
	}))
	needs := map[string]string{}
	for _, child := range Desired(app, Observed{HasRouteAPI: true, HasMonitorAPI: true}).Children {
		for _, ref := range child.Needs {
			needs[reflect.TypeOf(child.Object).Elem().Name()] += ref.Kind
		}
	}
	want := map[string]string{"Deployment": "ServiceAccount", "HorizontalPodAutoscaler": "Deployment", "Ingress": "Service",
		"HTTPRoute": "Service", "ServiceMonitor": "Service"}
	if diff := cmp.Diff(want, needs); diff != "" {
		t.Error(diff)
	}
}

// TestNoAutoscalerWithoutADeployment: while the Deployment is held, it is not known whether its
// name belongs to another owner. An autoscaler that exists is not kept either.
func TestNoAutoscalerWithoutADeployment(t *testing.T) {
	autoscaled := spec(func(s *msappsv1.WebAppSpec) { s.Autoscaling = &msappsv1.Autoscaling{Min: 1, Max: 2} })
	foreign := Observed{Children: found(plan.Foreign, rolledOut())}
	without := func(observed Observed) Observed {
		observed.ServiceAccountMissing = true
		return observed
	}
	for name, test := range map[string]struct {
		change   func(*msappsv1.WebApp)
		observed Observed
		want     bool
	}{
		"new":                              {bindings(), Observed{}, true},
		"new, and waits":                   {bindings(oneBinding), binding(Observed{}, nil), false},
		"new, and can start":               {bindings(oneBinding), binding(Observed{}, store("True", "1")), true},
		"a foreign Deployment, and waits":  {bindings(oneBinding), binding(foreign, nil), false},
		"runs, and waits":                  {bindings(oneBinding), binding(running(), nil), true},
		"to be adopted, and waits":         {bindings(oneBinding), binding(Observed{Children: found(plan.Consenting, rolledOut())}, nil), true},
		"a foreign one, without account":   {bindings(), without(foreign), false},
		"new, without its ServiceAccount":  {bindings(), without(Observed{}), false},
		"runs, without its ServiceAccount": {bindings(), without(running()), true},
	} {
		applied, kept := wantedKinds(Desired(admitted(autoscaled, test.change), test.observed))
		const kind = "HorizontalPodAutoscaler"
		if slices.Contains(applied, kind) != test.want || slices.Contains(kept, kind) {
			t.Errorf("%s: applied %v, kept %v", name, applied, kept)
		}
	}
}

func TestAnAutoscalerNeverStartsFromZero(t *testing.T) {
	app := admitted(spec(func(s *msappsv1.WebAppSpec) { s.Replicas, s.Autoscaling = nil, &msappsv1.Autoscaling{Min: 3, Max: 5} }))
	for name, test := range map[string]struct {
		live *int32
		want *int32
	}{
		"scaled to zero": {new(int32(0)), new(int32(3))},
		"running":        {new(int32(4)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := effectiveReplicas(app, running(func(d *appsv1.Deployment) { d.Spec.Replicas = test.live }))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAServicePortKeepsItsName(t *testing.T) {
	app := admitted(spec(func(*msappsv1.WebAppSpec) {}))
	for name, test := range map[string]struct {
		port      corev1.ServicePort
		ownership plan.Ownership
		want      string
	}{
		"an adopted one without a name":      {corev1.ServicePort{Port: 8080, Protocol: "TCP"}, plan.Consenting, ""},
		"an adopted one with a name":         {corev1.ServicePort{Name: "web", Port: 8080, Protocol: "TCP"}, plan.Ours, "web"},
		"another port does not count":        {corev1.ServicePort{Name: "web", Port: 81, Protocol: "TCP"}, plan.Ours, "http"},
		"another protocol does not":          {corev1.ServicePort{Name: "web", Port: 8080, Protocol: "UDP"}, plan.Ours, "http"},
		"that of a foreign Service does not": {corev1.ServicePort{Name: "web", Port: 8080, Protocol: "TCP"}, plan.Foreign, "http"},
	} {
		t.Run(name, func(t *testing.T) {
			service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{test.port}}}
			observed := Observed{Children: plan.Children{{Kind: "Service", Namespace: "web", Name: "shop"}: {Object: service,
				Ownership: test.ownership}}}
			if got := desiredService(app, observed).Spec.Ports[0].Name; got != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
