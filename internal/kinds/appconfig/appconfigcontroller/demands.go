package appconfigcontroller

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// demands returns the reader of what AppConfigs demand of workloads.
func demands() *observe.DemandReader {
	return &observe.DemandReader{
		Name: appconfig.Controller, Objects: []client.Object{&configv1.AppConfig{}}, List: listDemands, Declaration: appconfig.DeclarationOf,
	}
}

// listDemands returns the demands of the AppConfigs that are in effect. Others for the same
// application write nothing. One that is being deleted still demands: without its ConfigMap nothing
// restarts, and another one for the application finds what the pods were started with.
func listDemands(ctx context.Context, from observe.Reader, namespace string) ([]workload.Demand, error) {
	var configs configv1.AppConfigList
	if err := from.Cached.List(ctx, &configs, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	found, err := effective(ctx, from.Sources, namespace, configs.Items)
	if err != nil {
		return nil, err
	}
	var demands []workload.Demand
	for _, config := range found {
		marks, err := marksOf(ctx, from.Sources, config)
		if err != nil {
			return nil, err
		}
		demands = append(demands, appconfig.DemandsOf(config, marks)...)
	}
	return demands, nil
}

// marksOf returns the annotations of an AppConfig's ConfigMap, if the demands depend on them: while
// spec.revision is set.
func marksOf(ctx context.Context, sources *observe.Sources, config *configv1.AppConfig) (map[string]string, error) {
	if config.Spec.Revision == nil {
		return nil, nil
	}
	return sources.AnnotationsOf(ctx, client.ObjectKey{Namespace: config.Namespace, Name: config.ConfigMapName()})
}

// effective returns the AppConfigs of a namespace that are in effect: see appconfig.Effective. It
// reads ConfigMaps, from the cache, only if the ages do not decide.
func effective(ctx context.Context, sources *observe.Sources, namespace string, configs []configv1.AppConfig) ([]*configv1.AppConfig,
	error) {
	var failed error
	found := appconfig.Effective(configs, func(name string) types.UID {
		controller, err := sources.ControllerOf(ctx, client.ObjectKey{Namespace: namespace, Name: name})
		failed = cmp.Or(failed, err)
		return controller
	})
	return found, failed
}
