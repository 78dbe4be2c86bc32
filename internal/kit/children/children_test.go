package children

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

func TestOwnershipOf(t *testing.T) {
	owner := &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", UID: "uid-2"}}
	kind := schema.GroupVersionKind{Group: "apps.mainstay.dev", Version: "v1", Kind: "WebApp"}
	controlledBy := func(apiVersion, kind, name, uid string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid), Controller: new(true)}
	}
	consent := func(value string) map[string]string { return map[string]string{"mainstay.dev/adopt": value} }
	for name, test := range map[string]struct {
		owners      []metav1.OwnerReference
		annotations map[string]string
		want        plan.Ownership
	}{
		"an object without a controller is foreign": {nil, nil, plan.Foreign},
		"with consent it may be adopted":            {nil, consent("WebApp/shop"), plan.Consenting},
		"consent for another name does not count":   {nil, consent("WebApp/other"), plan.Foreign},
		"consent for another kind does not count":   {nil, consent("Cache/shop"), plan.Foreign},
		"consent is case-sensitive":                 {nil, consent("webapp/shop"), plan.Foreign},
		"our UID": {[]metav1.OwnerReference{controlledBy("apps.mainstay.dev/v1", "WebApp", "shop",
			"uid-2")}, nil, plan.Ours},
		"our UID in another version": {[]metav1.OwnerReference{controlledBy("apps.mainstay.dev/v2", "WebApp", "shop",
			"uid-2")}, nil, plan.Ours},
		"an earlier owner of our name": {[]metav1.OwnerReference{controlledBy("apps.mainstay.dev/v1", "WebApp", "shop",
			"uid-1")}, nil, plan.Former},
		"an earlier owner in another version": {[]metav1.OwnerReference{controlledBy("apps.mainstay.dev/v1beta1", "WebApp", "shop",
			"uid-1")}, nil, plan.Former},
		"another of our kind is foreign": {[]metav1.OwnerReference{controlledBy("apps.mainstay.dev/v1", "WebApp", "other",
			"uid-1")}, nil, plan.Foreign},
		"another kind of our name is foreign": {[]metav1.OwnerReference{controlledBy("apps.mainstay.dev/v1", "Cache", "shop",
			"uid-1")}, nil, plan.Foreign},
		"another group's kind of our name is foreign": {[]metav1.OwnerReference{controlledBy("example.com/v1", "WebApp", "shop", "uid-1")},
			nil, plan.Foreign},
		"an object with another controller can't consent": {[]metav1.OwnerReference{controlledBy("apps/v1", "Deployment", "x", "uid-9")},
			consent("WebApp/shop"), plan.Foreign},
		"an owner that is no controller does not count": {[]metav1.OwnerReference{{APIVersion: "apps.mainstay.dev/v1", Kind: "WebApp",
			Name: "shop", UID: "uid-2"}}, nil, plan.Foreign},
	} {
		t.Run(name, func(t *testing.T) {
			object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", OwnerReferences: test.owners,
				Annotations: test.annotations}}
			if got := ownershipOf(owner, kind, object); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestRefOf(t *testing.T) {
	scheme := runtime.NewScheme()
	object := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop"}}
	if _, err := RefOf(object, scheme); err == nil {
		t.Error("the scheme does not know the kind")
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	got, err := RefOf(object, scheme)
	if err != nil || got != (plan.Ref{Kind: "Service", Namespace: "web", Name: "shop"}) {
		t.Errorf("got %v, %v", got, err)
	}
}
