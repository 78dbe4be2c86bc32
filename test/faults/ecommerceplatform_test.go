package faults

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

// platform creates an EcommercePlatform without a cache, whose parts start one after the other;
// changes the backend, takes the monitoring away, and deletes it. Faults happen to the platform's
// own requests: those for its parts belong to the scenarios of their kinds.
func platform() campaign.Scenario {
	return campaign.Scenario{
		Name:  "ecommerceplatform",
		Owner: platformv1.GroupVersion.WithKind("EcommercePlatform"),
		Children: []schema.GroupVersionKind{
			platformv1.GroupVersion.WithKind("AppStack"), databasev1.GroupVersion.WithKind("PostgreSQL"),
			msappsv1.GroupVersion.WithKind("WebApp"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		},
		Steps: []campaign.Step{
			{Name: "create", Do: create(newPlatform()), Settled: platformIs("Deploying 0/3 1", "back:1", false)},
			{Name: "start the database", Do: inTurn(bind("shop-db", 0), observe("shop-db", "1"), lead("shop-db", 1, 0),
				startPod("shop-db", 0, "1", primary(1, ""))), Settled: platformIs("Deploying 1/3 2", "back:1", false), IsOfOthers: true},
			{Name: "start the backend", Do: available("shop-backend"), Settled: platformIs("Deploying 2/3 3", "back:1", false), IsOfOthers: true},
			{Name: "start the frontend", Do: available("shop-frontend"), Settled: platformIs("Running 3/3 3", "back:1", true), IsOfOthers: true},
			{Name: "update", Do: merge(newPlatform(), `{"spec": {"backend": {"image": "back:2"}, "monitoring": {"enabled": false}}}`),
				Settled: platformIs("Deploying 2/3 3", "back:2", false)},
			{Name: "delete", Do: inTurn(remove(newPlatform()), remove(pod("shop-db", 0))), Settled: campaign.IsEmpty},
		},
		Finalizes: true,
		IsReady:   platformIsReady, Mask: hideRandom,
		// The status of a platform is about the statuses of its parts, which change one after the other.
		MoreStatuses:    40,
		HasManyChildren: true,
		Tries: func(request proxy.Request) bool {
			return request.Resource == "ecommerceplatforms" || request.Resource == "appstacks" || request.Name == "shop-platform-dashboard"
		},
	}
}

func newPlatform() *platformv1.EcommercePlatform {
	return &platformv1.EcommercePlatform{ObjectMeta: metav1.ObjectMeta{Name: appName}, Spec: platformv1.EcommercePlatformSpec{
		Frontend: platformv1.PlatformWeb{Image: "front:1"}, Backend: platformv1.PlatformWeb{Image: "back:1"},
		Cache: platformv1.PlatformCache{Enabled: new(false)},
	}}
}

// platformIs returns a check of phase and ready parts of the status, and of the number of parts
// that exist; of the image of the backend; and of whether there is a dashboard.
func platformIs(want, image string, isMonitored bool) func(campaign.World) error {
	return func(world campaign.World) error {
		var stored platformv1.EcommercePlatform
		if err := world.Read("EcommercePlatform", appName, &stored); err != nil {
			return err
		}
		parts := 0
		for _, name := range []string{"PostgreSQL shop-db", "WebApp shop-backend", "WebApp shop-frontend"} {
			if world[name] != nil {
				parts++
			}
		}
		if got := fmt.Sprintf("%s %s %d", stored.Status.Phase, stored.Status.ComponentSummary, parts); got != want ||
			stored.Status.ObservedGeneration != stored.Generation {
			return fmt.Errorf("it is %q, of generation %d of %d", got, stored.Status.ObservedGeneration, stored.Generation)
		}
		for _, one := range stored.Status.Components {
			if one.Phase == platformv1.ComponentProgressing && one.Message == "" {
				return fmt.Errorf("the part %s has not said yet what it does", one.Name)
			}
		}
		if app := world["WebApp shop-backend"]; app != nil {
			if got, _, _ := unstructured.NestedString(app.Object, "spec", "image"); got != image {
				return fmt.Errorf("the backend has the image %s", got)
			}
		}
		if _, exists := world["ConfigMap shop-platform-dashboard"]; exists != isMonitored {
			return fmt.Errorf("there is a dashboard: %t", exists)
		}
		return nil
	}
}

// platformIsReady trusts the condition of the present generation.
func platformIsReady(owner *unstructured.Unstructured) bool {
	var stored platformv1.EcommercePlatform
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(owner.Object, &stored); err != nil {
		return false
	}
	return stored.Status.ObservedGeneration == stored.Generation && meta.IsStatusConditionTrue(stored.Status.Conditions, "Ready")
}
