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
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/setup"
)

// listCommand is the argument that makes this program list what a manager must read, and nothing
// else.
const listCommand = "list"

// listed are the resources in a manager's cache.
var listed = map[string]struct {
	list     client.ObjectList
	selector string
}{
	"webapps":                  {&msappsv1.WebAppList{}, ""},
	"platformpolicies":         {platformPolicies(), ""},
	"deployments":              {&appsv1.DeploymentList{}, ""},
	"statefulsets":             {&appsv1.StatefulSetList{}, ""},
	"daemonsets":               {&appsv1.DaemonSetList{}, ""},
	"configmaps":               {&corev1.ConfigMapList{}, ""},
	"appconfigs":               {&configv1.AppConfigList{}, ""},
	"appstacks":                {&platformv1.AppStackList{}, ""},
	"configmonitors":           {&configv1.ConfigMonitorList{}, ""},
	"instrumentations":         {&instrv1.InstrumentationList{}, ""},
	"clusterinstrumentations":  {&instrv1.ClusterInstrumentationList{}, ""},
	"services":                 {&corev1.ServiceList{}, ours},
	"serviceaccounts":          {&corev1.ServiceAccountList{}, ""},
	"pods":                     {&corev1.PodList{}, api.LabelOwner},
	"ingresses":                {&networkingv1.IngressList{}, ours},
	"networkpolicies":          {&networkingv1.NetworkPolicyList{}, ours},
	"poddisruptionbudgets":     {&policyv1.PodDisruptionBudgetList{}, ours},
	"horizontalpodautoscalers": {&autoscalingv2.HorizontalPodAutoscalerList{}, ours},
	"namespaces":               {namespaceMetadata(), ""},
	"postgresqls":              {&databasev1.PostgreSQLList{}, ""},
	"persistentvolumeclaims":   {&corev1.PersistentVolumeClaimList{}, ours},
	"caches":                   {&databasev1.CacheList{}, ""},
	"ecommerceplatforms":       {&platformv1.EcommercePlatformList{}, ""},
	"roles":                    {&rbacv1.RoleList{}, ours},
	"rolebindings":             {&rbacv1.RoleBindingList{}, ours},

	"validatingadmissionpolicies":       {&admissionregistrationv1.ValidatingAdmissionPolicyList{}, ours},
	"validatingadmissionpolicybindings": {&admissionregistrationv1.ValidatingAdmissionPolicyBindingList{}, ours},
}

// ours selects the objects that Mainstay creates.
const ours = api.LabelManagedBy + "=" + api.ManagedBy

func namespaceMetadata() client.ObjectList {
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
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(context.Background())
	for _, each := range listed {
		group.Go(func() error {
			selector, err := labels.Parse(each.selector)
			return errors.Join(err, reader.List(ctx, each.list, client.MatchingLabelsSelector{Selector: selector}))
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(state{FirstReconcile: time.Since(options.Started)})
}
