package observe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// EffectiveAppConfigs returns the AppConfigs of a namespace that are in effect: see
// workload.EffectiveAppConfigs. It reads ConfigMaps, from the cache, only if the ages do not
// decide.
func (r Reader) EffectiveAppConfigs(ctx context.Context, namespace string, configs []configv1.AppConfig) ([]*configv1.AppConfig, error) {
	var failed error
	counting := workload.EffectiveAppConfigs(configs, func(name string) types.UID {
		var found corev1.ConfigMap
		err := r.Sources.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &found, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			failed = fmt.Errorf("reading ConfigMap %s/%s, whose AppConfig is in effect: %w", namespace, name, err)
		}
		if controller := metav1.GetControllerOf(&found); err == nil && controller != nil {
			return controller.UID
		}
		return ""
	})
	return counting, failed
}
