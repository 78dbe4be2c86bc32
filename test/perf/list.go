package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/setup"
)

// Arguments that make this program read what a manager must read, and nothing else.
const (
	listCommand   = "list"
	cachesCommand = "caches"
)

// listedKind is a kind of which a manager's cache has all objects, or those that it selects.
type listedKind struct {
	object   client.Object
	list     client.ObjectList
	selector string
}

// listed are the kinds in a manager's cache, by their resources.
var listed = map[string]listedKind{
	"webapps":                  {&msappsv1.WebApp{}, &msappsv1.WebAppList{}, ""},
	"platformpolicies":         {platformPolicy(), platformPolicies(), ""},
	"deployments":              {&appsv1.Deployment{}, &appsv1.DeploymentList{}, ""},
	"statefulsets":             {&appsv1.StatefulSet{}, &appsv1.StatefulSetList{}, ""},
	"daemonsets":               {&appsv1.DaemonSet{}, &appsv1.DaemonSetList{}, ""},
	"configmaps":               {&corev1.ConfigMap{}, &corev1.ConfigMapList{}, ""},
	"appconfigs":               {&configv1.AppConfig{}, &configv1.AppConfigList{}, ""},
	"appstacks":                {&platformv1.AppStack{}, &platformv1.AppStackList{}, ""},
	"configmonitors":           {&configv1.ConfigMonitor{}, &configv1.ConfigMonitorList{}, ""},
	"instrumentations":         {&instrv1.Instrumentation{}, &instrv1.InstrumentationList{}, ""},
	"clusterinstrumentations":  {&instrv1.ClusterInstrumentation{}, &instrv1.ClusterInstrumentationList{}, ""},
	"services":                 {&corev1.Service{}, &corev1.ServiceList{}, ours},
	"serviceaccounts":          {&corev1.ServiceAccount{}, &corev1.ServiceAccountList{}, ""},
	"pods":                     {&corev1.Pod{}, &corev1.PodList{}, api.LabelOwner},
	"ingresses":                {&networkingv1.Ingress{}, &networkingv1.IngressList{}, ours},
	"networkpolicies":          {&networkingv1.NetworkPolicy{}, &networkingv1.NetworkPolicyList{}, ours},
	"poddisruptionbudgets":     {&policyv1.PodDisruptionBudget{}, &policyv1.PodDisruptionBudgetList{}, ours},
	"horizontalpodautoscalers": {&autoscalingv2.HorizontalPodAutoscaler{}, &autoscalingv2.HorizontalPodAutoscalerList{}, ours},
	"namespaces":               {namespaceMetadata(), namespaceMetadataList(), ""},
	"postgresqls":              {&databasev1.PostgreSQL{}, &databasev1.PostgreSQLList{}, ""},
	"persistentvolumeclaims":   {&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaimList{}, ours},
	"caches":                   {&databasev1.Cache{}, &databasev1.CacheList{}, ""},
	"ecommerceplatforms":       {&platformv1.EcommercePlatform{}, &platformv1.EcommercePlatformList{}, ""},
	"roles":                    {&rbacv1.Role{}, &rbacv1.RoleList{}, ours},
	"rolebindings":             {&rbacv1.RoleBinding{}, &rbacv1.RoleBindingList{}, ours},

	"validatingadmissionpolicies": {
		&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyList{}, ours,
	},
	"validatingadmissionpolicybindings": {
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{}, ours,
	},
}

// ours selects the objects that Mainstay creates.
const ours = api.LabelManagedBy + "=" + api.ManagedBy

func namespaceMetadata() client.Object {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}

func namespaceMetadataList() client.ObjectList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	return list
}

// single are the resources of which a manager watches one object each by name, and which the floor
// does not list.
var single = []string{"customresourcedefinitions", "secrets", "mutatingwebhookconfigurations", "validatingwebhookconfigurations",
	"endpointslices"}

// checkListed checks that the floor lists all resources that the manager watches.
func checkListed(made calls) error {
	var missing []string
	for _, watched := range made.that(func(c call) bool { return c.Verb == "watch" || c.Verb == "list" }) {
		resource := watched.ObjectRef.Resource
		if _, found := listed[resource]; !found && !slices.Contains(single, resource) && !slices.Contains(missing, resource) {
			missing = append(missing, resource)
		}
	}
	if missing != nil {
		return fmt.Errorf("a manager reads what the bare LIST does not, to be added to `listed`: %s", strings.Join(missing, ", "))
	}
	return nil
}

// runList lists everything in parallel, and prints the time since its start.
func runList(encoded string) error {
	return runBare(encoded, func(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) error {
		reader, err := client.New(config, client.Options{Scheme: scheme})
		if err != nil {
			return err
		}
		group, ctx := errgroup.WithContext(ctx)
		for _, each := range listed {
			group.Go(func() error {
				selector, err := labels.Parse(each.selector)
				return errors.Join(err, reader.List(ctx, each.list, client.MatchingLabelsSelector{Selector: selector}))
			})
		}
		return group.Wait()
	})
}

// runCaches fills the library's caches with everything, with nothing of ours in them, and prints
// the time since its start.
func runCaches(encoded string) error {
	return runBare(encoded, func(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) error {
		selected := map[client.Object]cache.ByObject{}
		for _, each := range listed {
			selector, err := labels.Parse(each.selector)
			if err != nil {
				return err
			}
			selected[each.object] = cache.ByObject{Label: selector}
		}
		caches, err := cache.New(config, cache.Options{Scheme: scheme, ByObject: selected})
		if err != nil {
			return err
		}
		for _, each := range listed {
			if _, err := caches.GetInformer(ctx, each.object, cache.BlockUntilSynced(false)); err != nil {
				return err
			}
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- caches.Start(ctx) }()
		if caches.WaitForCacheSync(ctx) {
			return nil
		}
		return fmt.Errorf("the caches were not filled: %w", <-ended)
	})
}

// runBare reads everything, and prints the time since its start.
func runBare(encoded string, read func(context.Context, *rest.Config, *runtime.Scheme) error) error {
	var options childOptions
	if err := json.Unmarshal([]byte(encoded), &options); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", options.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = -1, -1
	scheme, err := setup.Scheme()
	if err != nil {
		return err
	}
	if err := read(context.Background(), config, scheme); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(state{FirstReconcile: time.Since(options.Started)})
}
