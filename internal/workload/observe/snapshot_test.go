package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// cached returns a reader of objects as the cache would keep them.
func cached(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	transform := func(object client.Object) error {
		var err error
		switch object.(type) {
		case *corev1.ConfigMap:
			_, err = hashConfigMap(object)
		case *corev1.Secret:
			_, err = hashSecret(hasher)(object)
		case *appsv1.Deployment:
			_, err = asCached(object)
		}
		return err
	}
	return fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(objects...).WithReturnManagedFields().
		WithIndex(&corev1.ConfigMap{}, annotatedIndex, annotated).WithIndex(&corev1.Secret{}, annotatedIndex, annotated).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, under client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
				if err := under.Get(ctx, key, into, options...); err != nil {
					return err
				}
				into.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(""))
				return transform(into)
			},
			List: func(ctx context.Context, under client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
				if err := under.List(ctx, into, options...); err != nil {
					return err
				}
				switch list := into.(type) {
				case *corev1.ConfigMapList:
					for i := range list.Items {
						if err := transform(&list.Items[i]); err != nil {
							return err
						}
					}
				case *corev1.SecretList:
					for i := range list.Items {
						if err := transform(&list.Items[i]); err != nil {
							return err
						}
					}
				}
				return nil
			},
		}).Build()
}

func reader(t *testing.T, objects ...client.Object) Reader {
	t.Helper()
	all := cached(t, objects...)
	return Reader{
		Cached: all, Sources: &Sources{reader: all, access: SecretAccess{Namespaces: []string{"shop"}, Hasher: hasher}},
		Stakater: true,
		Problem:  func(_ context.Context, object client.Object, err error) { t.Errorf("%s: %v", object.GetName(), err) },
	}
}

// without returns the sources of a reader without access to Secrets.
func without(r *Reader) *Sources { return &Sources{reader: r.Sources.reader} }

func metaOf(name string, annotations ...string) metav1.ObjectMeta {
	object := metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: *at(1)}
	for i := 0; i+1 < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&object, annotations[i], annotations[i+1])
	}
	return object
}

func deployment(name string, annotations ...string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metaOf(name, annotations...), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(),
	}}
}

func configMap(name, message string, annotations ...string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metaOf(name, annotations...), Data: map[string]string{"MESSAGE": message}}
}

func secret(name string, annotations ...string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metaOf(name, annotations...), Data: map[string][]byte{"password": []byte("hunter2")}}
}

// asking returns the reader of a kind with fixed demands.
func asking(kind string, demands ...workload.Demand) DemandReader {
	return DemandReader{Name: kind, List: func(_ context.Context, _ Reader, namespace string) ([]workload.Demand, error) {
		if namespace != "shop" {
			return nil, fmt.Errorf("asked for namespace %s", namespace)
		}
		return demands, nil
	}}
}

// rendering returns the reader of a kind that declares what the ConfigMaps with an owner contain.
func rendering(demands ...workload.Demand) DemandReader {
	reader := asking("rendering", demands...)
	reader.Declaration = func(source metav1.Object) workload.Declaration {
		if metav1.GetControllerOf(source) == nil {
			return workload.Declaration{}
		}
		return workload.Declaration{Owner: "Rendering", Declared: source.GetAnnotations()[configv1.AnnotationHash], PutBack: true}
	}
	return reader
}

func owned(object *corev1.ConfigMap) *corev1.ConfigMap {
	object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Rendering", Name: "shop", UID: "uid-of-shop",
		Controller: new(true)}}
	return object
}

// on returns a demand that concerns the users of a ConfigMap.
func on(origin, configMap string, keys ...string) workload.Demand {
	return workload.Demand{Origin: origin, Source: workload.SourceRef{Kind: workload.ConfigMap, Name: configMap}, Keys: keys,
		Scope: workload.Scope{Users: true}}
}

// asked returns the origin and source of each demand, in order.
func asked(s workload.Snapshot) []string {
	var all []string
	for _, demand := range s.Demands {
		all = append(all, fmt.Sprintf("%s: %s %v", demand.Origin, demand.Source, demand.Keys))
	}
	return all
}

func snapshotOf(t *testing.T, r Reader) workload.Snapshot {
	t.Helper()
	s, err := r.Snapshot(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTargets(t *testing.T) {
	started := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	stamp := workload.Stamp{Sources: map[string]workload.SeenSource{"ConfigMap/flags": {All: "x"}}, RestartedAt: &started}
	web := deployment("web", configv1.AnnotationObserved, stamp.String(), configv1.AnnotationReload, "false")
	web.Spec.Template.Annotations[configv1.AnnotationReload] = "auto"
	web.Status = appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 2, ReadyReplicas: 1}
	leaving := deployment("leaving")
	leaving.Finalizers, leaving.DeletionTimestamp = []string{"example.com/a"}, at(2)
	elsewhere := deployment("elsewhere")
	elsewhere.Namespace = "other"
	got := snapshotOf(t, reader(t, web, leaving, elsewhere,
		&appsv1.StatefulSet{ObjectMeta: metaOf("web")}, &appsv1.DaemonSet{ObjectMeta: metaOf("agent")}))
	var names []string
	for _, target := range got.Targets {
		names = append(names, target.Ref.String())
	}
	if diff := cmp.Diff([]string{"DaemonSet/agent", "Deployment/web", "StatefulSet/web"}, names); diff != "" {
		t.Fatal(diff)
	}
	want := workload.Target{
		Ref: workload.TargetRef{Kind: "Deployment",
			Name: "web"}, UID: "uid-of-web", Created: at(1).Time, Labels: map[string]string{"app": "shop"},
		Uses: workload.Uses(&web.Spec.Template.Spec), Stamp: stamp, RestartedFor: "flags=1",
		Rolled: workload.RolledOfDeployment(web),
		Annotations: map[string]string{configv1.AnnotationReload: "false", configv1.AnnotationObserved: stamp.String(),
			configv1.AnnotationRestartedFor: "flags=1"},
	}
	target := got.Targets[1]
	target.Created = target.Created.UTC()
	delete(target.Annotations, "prometheus.io/scrape") // a list is not stripped here
	if diff := cmp.Diff(want, target); diff != "" {
		t.Error(diff)
	}
}

func TestDemands(t *testing.T) {
	objects := []client.Object{
		configMap("flags", "hello"), secret("database"),
		configMap("selecting", "x", configv1.AnnotationPodSelector, "app=shop"), secret("telling", configv1.AnnotationPodSelector,
			"app in (shop)"),
	}
	first := asking("first", on("First/b", "shop-config"), on("First/a", "flags"))
	second := asking("second", on("Second/a", "flags", "MESSAGE"))
	for name, test := range map[string]struct {
		change func(*Reader)
		more   []client.Object
		want   []string
	}{
		"all, in the order of the readers": {func(r *Reader) { r.DemandReaders = []DemandReader{second, first} }, nil, []string{
			"Second/a: ConfigMap/flags [MESSAGE]", "First/b: ConfigMap/shop-config []", "First/a: ConfigMap/flags []",
			"ConfigMap/selecting: ConfigMap/selecting []", "Secret/telling: Secret/telling []",
		}},
		"a kind is off": {func(r *Reader) { r.DemandReaders, r.Sources.access = []DemandReader{second}, SecretAccess{} }, nil, []string{
			"Second/a: ConfigMap/flags [MESSAGE]", "ConfigMap/selecting: ConfigMap/selecting []",
		}},
		"all kinds are off": {func(*Reader) {}, nil, []string{
			"ConfigMap/selecting: ConfigMap/selecting []", "Secret/telling: Secret/telling []",
		}},
		"workloads ask": {func(r *Reader) {
			*r = Reader{Cached: r.Cached, Sources: without(r), Stakater: true, Problem: r.Problem}
		}, []client.Object{
			deployment("named", configv1.AnnotationReload, "other, secret/database"),
			deployment("stakater", "reloader.stakater.com/search", "true"), configMap("all", "x", "reloader.stakater.com/match", "true"),
			deployment("declining", "reloader.stakater.com/auto", "true", configv1.AnnotationReload, "false"),
			deployment("listing", "configmap.reloader.stakater.com/reload", "unused, ignored, missing"), configMap("unused", "x"),
			configMap("ignored", "x", "reloader.stakater.com/ignore", "true"),
		}, []string{
			"ConfigMap/selecting: ConfigMap/selecting []", "Deployment/listing: ConfigMap/unused []", "Deployment/listing: ConfigMap/missing []",
			"Deployment/named: ConfigMap/other []", "Deployment/named: Secret/database []",
			"Deployment/stakater: ConfigMap/all []",
		}},
		"without Stakater's": {func(r *Reader) { *r = Reader{Cached: r.Cached, Sources: without(r)} }, []client.Object{
			deployment("stakater", "reloader.stakater.com/auto", "true"),
		}, []string{"ConfigMap/selecting: ConfigMap/selecting []"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := reader(t, slices.Concat(objects, test.more)...)
			test.change(&r)
			if diff := cmp.Diff(test.want, asked(snapshotOf(t, r))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSources: of ConfigMaps, those that concern a workload are read; of Secrets, all that are
// asked for.
func TestSources(t *testing.T) {
	flags := configMap("flags", "hello")
	flags.ManagedFields = []metav1.ManagedFieldsEntry{entry("kubectl", at(3), dataFields), entry("helm", at(2), dataFields)}
	objects := []client.Object{
		flags, owned(configMap("shop-config", "hello", configv1.AnnotationHash, "x")), configMap("unused", "x"), configMap("forged", "x", configv1.AnnotationHash, "x"),
		owned(configMap("idle-config", "hello", configv1.AnnotationHash, "x")), secret("database"),
		deployment("web", configv1.AnnotationReload, "flags, forged, shop-config, secret/database, missing, secret/missing"),
	}
	r := reader(t, objects...)
	r.DemandReaders = []DemandReader{asking("other"), rendering(on("Rendering/shop", "shop-config"), on("Rendering/idle", "idle-config"))}
	got := snapshotOf(t, r)
	for ref, source := range got.Sources {
		source.Created, source.Changed = source.Created.UTC(), source.Changed.UTC()
		got.Sources[ref] = source
	}
	ref := func(name string) workload.SourceRef { return workload.SourceRef{Kind: workload.ConfigMap, Name: name} }
	database := workload.SourceRef{Kind: workload.Secret, Name: "database"}
	present := func(of workload.SourceRef, message string) workload.Source {
		return workload.Source{
			Ref: of, State: workload.Present, Keys: map[string]string{"MESSAGE": workload.HashKey([]byte(message))}, Created: at(1).Time,
			Changed: at(1).Time,
		}
	}
	want := map[workload.SourceRef]workload.Source{
		ref("flags"): present(ref("flags"), "hello"), ref("forged"): present(ref("forged"), "x"), ref("shop-config"): present(ref("shop-config"),
			"hello"),
		database: {
			Ref: database, State: workload.Present, Keys: map[string]string{"password": hasher.For("shop",
				"database").HashKey([]byte("hunter2"))}, KeyID: hasher.ID(),
			Created: at(1).Time, Changed: at(1).Time,
		},
	}
	one := want[ref("flags")]
	one.Changed, one.Writers = at(3).Time, []string{"kubectl", "helm"}
	want[ref("flags")] = one
	one = want[ref("shop-config")]
	one.Declaration = workload.Declaration{Owner: "Rendering", Declared: "x", PutBack: true}
	want[ref("shop-config")] = one
	if diff := cmp.Diff(want, got.Sources); diff != "" {
		t.Error(diff)
	}
	r.Sources.access = SecretAccess{Namespaces: []string{"elsewhere"}}
	if got := snapshotOf(t, r).Sources[database]; got.State != workload.NotGranted || got.Keys != nil {
		t.Errorf("what is not granted: got %+v", got)
	}
}

// TestDeclaration: what is declared about a source comes from the kinds that are on.
func TestDeclaration(t *testing.T) {
	r := reader(t, owned(configMap("shop-config", "edited", configv1.AnnotationHash, "x")))
	for name, test := range map[string]struct {
		readers []DemandReader
		want    string
	}{
		"the kind is on":  {[]DemandReader{asking("other"), rendering()}, "x"},
		"the kind is off": {[]DemandReader{asking("other")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r.DemandReaders = test.readers
			got, err := r.Source(t.Context(), "shop", workload.SourceRef{Kind: workload.ConfigMap, Name: "shop-config"})
			if err != nil || got.Declared != test.want {
				t.Errorf("got %q, %v; want %q", got.Declared, err, test.want)
			}
		})
	}
}

// TestUnreadableDemands: nothing is decided while the demands of a kind are unknown.
func TestUnreadableDemands(t *testing.T) {
	r := reader(t)
	failing := asking("failing")
	failing.List = func(context.Context, Reader, string) ([]workload.Demand, error) { return nil, errors.New("no answer") }
	r.DemandReaders = []DemandReader{failing}
	if _, err := r.Snapshot(t.Context(), "shop"); fmt.Sprint(err) != "reading the demands of failing in namespace shop: no answer" {
		t.Errorf("got %v", err)
	}
}

// TestBinary: binary data count as other data do, and their keys are known.
func TestBinary(t *testing.T) {
	object := configMap("flags", "hello")
	object.BinaryData = map[string][]byte{"logo": {0xff}}
	got, err := reader(t, object).Source(t.Context(), "shop", workload.SourceRef{Kind: workload.ConfigMap, Name: "flags"})
	if err != nil || len(got.Keys) != len(object.Data)+1 || got.Key("logo") != workload.HashKey([]byte{0xff}) ||
		!slices.Equal(got.Binary, []string{"logo"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestSecretsAreNotAskedFor: a cache that is asked for a Secret would start to watch Secrets, for
// which there may be no right.
func TestSecretsAreNotAskedFor(t *testing.T) {
	under := cached(t, secret("database", configv1.AnnotationPodSelector, "app=shop"),
		deployment("web", configv1.AnnotationReload, "secret/database"))
	refuse := func(object any) error {
		switch object.(type) {
		case *corev1.Secret, *corev1.SecretList:
			return errors.New("Secrets must not be read")
		}
		return nil
	}
	guarded := interceptor.NewClient(under.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, under client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			return errors.Join(refuse(into), under.Get(ctx, key, into, options...))
		},
		List: func(ctx context.Context, under client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			return errors.Join(refuse(into), under.List(ctx, into, options...))
		},
	})
	r := Reader{Cached: guarded, Stakater: true, Sources: &Sources{reader: guarded, access: SecretAccess{Namespaces: []string{"other"}}}}
	if got := snapshotOf(t, r); len(got.Demands) != 1 {
		t.Errorf("got %v", asked(got))
	}
	r.Sources.access.Namespaces = []string{"shop"}
	if _, err := r.Snapshot(t.Context(), "shop"); err == nil || !strings.Contains(err.Error(), "must not be read") {
		t.Errorf("where they are granted they were not read: %v", err)
	}
}

// TestProblems: an invalid annotation is reported with its object, and the rest counts.
func TestProblems(t *testing.T) {
	r := reader(t, configMap("selecting", "x", configv1.AnnotationPodSelector, "app=shop="),
		deployment("web", configv1.AnnotationReload, "flags, pod/x"),
		deployment("worker", "configmap.reloader.stakater.com/reload", "flags, *"))
	reported := map[string]string{}
	r.Problem = func(_ context.Context, object client.Object, err error) {
		reported[fmt.Sprintf("%T %s %s %s", object, object.GetNamespace(), object.GetName(), object.GetUID())] = err.Error()
		if kind := object.GetObjectKind().GroupVersionKind().Kind; kind == hashedKind {
			t.Errorf("an event about it would name the kind %s", kind)
		}
	}
	want := []string{"Deployment/web: ConfigMap/flags []", "Deployment/worker: ConfigMap/flags []"}
	if diff := cmp.Diff(want, asked(snapshotOf(t, r))); diff != "" {
		t.Error(diff)
	}
	for object, want := range map[string]string{
		"*v1.Deployment shop worker uid-of-worker":      `[configmap.reloader.stakater.com/reload]: Invalid value: "*"`,
		"*v1.ConfigMap shop selecting uid-of-selecting": `Invalid value: "app=shop="`,
		"*v1.Deployment shop web uid-of-web":            `Invalid value: "pod/x"`,
	} {
		if !strings.Contains(reported[object], want) {
			t.Errorf("%s: reported %q, want %q", object, reported[object], want)
		}
	}
	r.Problem = nil
	snapshotOf(t, r)
}

func TestTemplateTime(t *testing.T) {
	controlled := func(name string, by types.UID, created *metav1.Time, revision string) metav1.ObjectMeta {
		object := metaOf(name, deploymentRevision, revision)
		object.CreationTimestamp, object.Labels = *created, map[string]string{"app": "web", "pod-template-hash": name}
		object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: by, Controller: new(true)}}
		return object
	}
	unlabelled := controlled("f", "uid-of-web", at(9), "99")
	unlabelled.Labels = nil
	elsewhere := controlled("a", "uid-of-web", at(9), "99")
	elsewhere.Namespace = "other"
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	live := []client.Object{
		&appsv1.ReplicaSet{ObjectMeta: controlled("a", "uid-of-web", at(2), "9")},
		&appsv1.ReplicaSet{ObjectMeta: controlled("b", "uid-of-web", at(3), "10")},
		&appsv1.ReplicaSet{ObjectMeta: controlled("c", "uid-of-web", at(4), "8")},
		&appsv1.ReplicaSet{ObjectMeta: controlled("d", "another", at(9), "99")},
		&appsv1.ReplicaSet{ObjectMeta: unlabelled}, &appsv1.ReplicaSet{ObjectMeta: elsewhere},
		&appsv1.ControllerRevision{ObjectMeta: controlled("a", "uid-of-set", at(6), ""), Revision: 2},
		&appsv1.ControllerRevision{ObjectMeta: controlled("b", "uid-of-set", at(5), ""), Revision: 3},
		&appsv1.ControllerRevision{ObjectMeta: controlled("c", "another", at(7), ""), Revision: 4},
		&appsv1.ControllerRevision{ObjectMeta: controlled("d", "uid-of-agent", at(8), ""), Revision: 1},
	}
	r := Reader{
		Cached: cached(t, &appsv1.Deployment{ObjectMeta: metaOf("web"), Spec: appsv1.DeploymentSpec{Selector: selector}},
			&appsv1.Deployment{ObjectMeta: metaOf("new"), Spec: appsv1.DeploymentSpec{Selector: selector}},
			&appsv1.StatefulSet{ObjectMeta: metaOf("set"), Spec: appsv1.StatefulSetSpec{Selector: selector}},
			&appsv1.DaemonSet{ObjectMeta: metaOf("agent"), Spec: appsv1.DaemonSetSpec{Selector: selector}}),
		Live: fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(live...).Build(),
	}
	for name, test := range map[string]struct {
		kind, name string
		want       time.Time
	}{
		"the highest revision":        {"Deployment", "web", at(3).Time},
		"none":                        {"Deployment", "new", time.Time{}},
		"a StatefulSet's last change": {"StatefulSet", "set", at(5).Time},
		"a DaemonSet":                 {"DaemonSet", "agent", at(8).Time},
	} {
		t.Run(name, func(t *testing.T) {
			target := &workload.Target{Ref: workload.TargetRef{Kind: test.kind, Name: test.name}, UID: types.UID("uid-of-" + test.name)}
			got, err := r.TemplateTime(t.Context(), "shop", target)
			if err != nil || got == nil || !got.Equal(test.want) {
				t.Errorf("got %s, %v; want %s", got, err, test.want)
			}
		})
	}
	if _, err := r.TemplateTime(t.Context(), "shop", &workload.Target{Ref: workload.TargetRef{Kind: "Deployment",
		Name: "gone"}}); !strings.Contains(fmt.Sprint(err), "Deployment/gone") {
		t.Errorf("of one that is gone: %v", err)
	}
}
