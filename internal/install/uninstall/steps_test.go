package uninstall

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mainstay-platform/mainstay/api"
	recordsv1alpha1 "github.com/mainstay-platform/mainstay/api/records/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
)

// installed returns options of an uninstallation with this release's definitions, objects that are
// stored in another version, and a ready manager. Calls go through funcs.
func installed(t *testing.T, funcs interceptor.Funcs) Options {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	names, err := crds.Names()
	if err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "manager"}, Status: appsv1.DeploymentStatus{ReadyReplicas: 1},
	}}
	for _, name := range names {
		objects = append(objects, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: name},
				Scope:    apiextensionsv1.NamespaceScoped,
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
			},
			Status: apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1beta1", "v1"}},
		})
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	return Options{Client: c, Definitions: c, Namespace: "system", Deployment: "manager", Patience: time.Hour}
}

// TestAwaitMigration: the wait ends when no manager is left to migrate, long before Patience.
func TestAwaitMigration(t *testing.T) {
	for name, test := range map[string]struct {
		namespaces []string
		// readyFor is the number of reads in which the Deployment is ready.
		readyFor, wantReads int
	}{
		"some namespaces":         {[]string{"shop"}, 1000, 0},
		"managers that disappear": {nil, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				reads := 0
				options := installed(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object,
					o ...client.GetOption) error {
					err := c.Get(ctx, key, into, o...)
					if deployment, is := into.(*appsv1.Deployment); is {
						if reads++; reads > test.readyFor {
							deployment.Status.ReadyReplicas = 0
						}
					}
					return err
				}})
				options.WatchNamespaces = test.namespaces
				if err := options.awaitMigration(ctx); err == nil {
					t.Error("the error does not say what is left")
				}
				if ctx.Err() != nil || reads != test.wantReads {
					t.Errorf("the Deployment was read %d times, and ctx is: %v", reads, ctx.Err())
				}
			})
		})
	}
}

// TestStopManagers: evicted pods stay in their Deployment when it is scaled to zero, and are not
// waited for. All others are.
func TestStopManagers(t *testing.T) {
	for phase, isAwaited := range map[corev1.PodPhase]bool{
		corev1.PodPending: true, corev1.PodRunning: true, corev1.PodFailed: false, corev1.PodSucceeded: false,
	} {
		t.Run(string(phase), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				labels := map[string]string{"app": "manager"}
				c := fake.NewClientBuilder().WithObjects(
					&appsv1.Deployment{
						ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "manager"},
						Spec:       appsv1.DeploymentSpec{Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels}},
					},
					&corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "manager-1", Labels: labels},
						Status:     corev1.PodStatus{Phase: phase},
					},
				).Build()
				options := Options{Client: c, Namespace: "system", Deployment: "manager", Patience: time.Minute}
				began := time.Now()
				err := options.stopManagers(t.Context())
				if waited := time.Since(began); (err != nil) != isAwaited || (waited > 0) != isAwaited {
					t.Errorf("it waited %s, and the error is: %v", waited, err)
				}
			})
		})
	}
}

// TestEachKind: a failing kind takes no time from the others.
func TestEachKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var listed []string
		options := installed(t, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, into client.ObjectList,
			_ ...client.ListOption) error {
			listed = append(listed, into.GetObjectKind().GroupVersionKind().Kind)
			if len(listed) == 1 {
				return errors.New("no answer")
			}
			return nil
		}})
		if err := options.releaseFinalizers(t.Context()); err != nil {
			t.Fatal(err)
		}
		kinds := slices.Compact(slices.Sorted(slices.Values(listed)))
		if len(kinds) < 2 || len(listed) != 2*len(kinds) {
			t.Fatalf("listed %v", listed)
		}
		if pass := listed[:len(kinds)]; len(slices.Compact(slices.Sorted(slices.Values(pass)))) != len(kinds) {
			t.Errorf("one kind was tried again before the others were tried once: %v", listed)
		}
	})
}

// TestFinalizersEverywhere: an installation that was narrowed to some namespaces has left its
// finalizers in the others, and nothing else would remove them.
func TestFinalizersEverywhere(t *testing.T) {
	lists := 0
	options := installed(t, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, into client.ObjectList,
		how ...client.ListOption) error {
		lists++
		if namespace := (&client.ListOptions{}).ApplyOptions(how).Namespace; namespace != "" {
			t.Errorf("of %s only those in namespace %s are released", into.GetObjectKind().GroupVersionKind().Kind, namespace)
		}
		return nil
	}})
	options.WatchNamespaces = []string{"shop"}
	if err := options.releaseFinalizers(t.Context()); err != nil || lists == 0 {
		t.Errorf("%d lists, %v", lists, err)
	}
}

// TestRecordsAreHeld: a record keeps its finalizer for the next installation, unless it is being
// deleted or all objects are.
func TestRecordsAreHeld(t *testing.T) {
	const records, others = "llamarecords.records." + api.Domain, "instrumentations.instrumentation." + api.Domain
	for name, test := range map[string]struct {
		deleteAll bool
		want      []string
	}{
		"definitions stay": {false, []string{others + "/deleted", others + "/kept", records + "/deleted"}},
		"definitions go":   {true, []string{others + "/deleted", others + "/kept", records + "/deleted", records + "/kept"}},
	} {
		t.Run(name, func(t *testing.T) {
			var released []string
			options := installed(t, interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, _ ...client.ListOption) error {
					list, is := into.(*metav1.PartialObjectMetadataList)
					if !is || !slices.Contains([]string{records + "List", others + "List"}, list.Kind) {
						return nil
					}
					one := metav1.ObjectMeta{Namespace: "web", Name: "kept", Finalizers: []string{recordsv1alpha1.Finalizer}}
					going := *one.DeepCopy()
					going.Name, going.DeletionTimestamp = "deleted", new(metav1.Now())
					list.Items = []metav1.PartialObjectMetadata{{ObjectMeta: one}, {ObjectMeta: going}}
					return nil
				},
				Patch: func(_ context.Context, _ client.WithWatch, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
					released = append(released, object.GetObjectKind().GroupVersionKind().Kind+"/"+object.GetName())
					return nil
				},
			})
			options.DeleteDefinitions = test.deleteAll
			if err := options.releaseFinalizers(t.Context()); err != nil {
				t.Fatal(err)
			}
			if slices.Sort(released); !slices.Equal(released, test.want) {
				t.Errorf("released %v, want %v", released, test.want)
			}
		})
	}
}

// TestUnknownOwner: what may belong to another installation stays.
func TestUnknownOwner(t *testing.T) {
	options := installed(t, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
			if _, is := into.(*apiregistrationv1.APIService); is {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "apiservices"}, key.Name)
			}
			return apierrors.NewForbidden(schema.GroupResource{Resource: "webhookconfigurations"}, key.Name, nil)
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			t.Error("it looks for objects to release")
			return nil
		},
		Delete: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.DeleteOption) error {
			t.Errorf("it deletes %T %s", object, object.GetName())
			return nil
		},
		Patch: func(_ context.Context, _ client.WithWatch, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
			t.Errorf("it changes %T %s", object, object.GetName())
			return nil
		},
	})
	options.Deployment, options.Owner, options.DeleteDefinitions = "", "mainstay-manager", true
	if err := Run(t.Context(), options); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want the error of the API server", err)
	}
}
