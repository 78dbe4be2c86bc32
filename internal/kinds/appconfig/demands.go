package appconfig

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Effective returns the AppConfigs of a namespace that are in effect, sorted by name. If several
// are for one application, the oldest is. Creation times have a precision of one second; among
// AppConfigs of the same age, the one that controls the ConfigMap is in effect, because no other
// could write it. If none controls it, the first by name is. controller returns the UID of a
// ConfigMap's controller, or "" if it has none.
func Effective(configs []configv1.AppConfig, controller func(configMap string) types.UID) []*configv1.AppConfig {
	oldest := map[string]*configv1.AppConfig{}
	for i := range configs {
		config := &configs[i]
		if known, taken := oldest[config.Spec.Application]; !taken || precedes(config, known, controller) {
			oldest[config.Spec.Application] = config
		}
	}
	var effective []*configv1.AppConfig
	for _, config := range oldest {
		effective = append(effective, config)
	}
	slices.SortFunc(effective, func(a, b *configv1.AppConfig) int { return cmp.Compare(a.Name, b.Name) })
	return effective
}

func precedes(a, b *configv1.AppConfig, controller func(configMap string) types.UID) bool {
	if age := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); age != 0 {
		return age < 0
	}
	switch controller(a.ConfigMapName()) {
	case a.UID:
		return true
	case b.UID:
		return false
	default:
		return a.Name < b.Name
	}
}

// DemandsOf returns the demands of an AppConfig: one for its ConfigMap, and one for each Secret in
// secretRefs. The ConfigMap has no cooldown, because each content is an intended change. The
// rollout policy applies to both. If spec.revision selects a content, and the ConfigMap has it, the
// ConfigMap's demand has no policy but its timeout: a rollback must not wait. While the ConfigMap
// has another content, such as one that the user is taking back, that content still has to wait.
// marks are the annotations of the ConfigMap in the cache that workloads are compared with.
func DemandsOf(config *configv1.AppConfig, marks map[string]string) []workload.Demand {
	origin, policy := Origin(config.Name), config.Spec.Rollout.Policy
	if chosen := config.Spec.Revision; chosen != nil && number(marks[configv1.AnnotationRevision]) == *chosen {
		policy = rolloutv1.Policy{Timeout: policy.Timeout}
	}
	demands := []workload.Demand{{
		Origin:  origin,
		Source:  workload.SourceRef{Kind: workload.ConfigMap, Name: config.ConfigMapName()},
		Scope:   workload.Scope{Users: true},
		Rollout: policy,
	}}
	keys := map[string][]string{}
	var secrets []string
	for _, ref := range config.Spec.SecretRefs {
		if _, known := keys[ref.Secret]; !known {
			secrets = append(secrets, ref.Secret)
		}
		if !slices.Contains(keys[ref.Secret], ref.Key) {
			keys[ref.Secret] = append(keys[ref.Secret], ref.Key)
		}
	}
	for _, secret := range secrets {
		slices.Sort(keys[secret])
		demands = append(demands, workload.Demand{
			Origin: origin, Source: workload.SourceRef{Kind: workload.Secret, Name: secret}, Keys: keys[secret],
			Scope: workload.Scope{Users: true}, Cooldown: workload.DefaultCooldown, Rollout: config.Spec.Rollout.Policy,
		})
	}
	return demands
}

// DeclarationOf returns what an AppConfig has declared about a ConfigMap; zero if no AppConfig
// reverts edits of it. Its label and annotations alone do not show that: a copy has them, too, and
// so does what an AppConfig has left behind, and nothing would revert those.
func DeclarationOf(source metav1.Object) workload.Declaration {
	if !isAppConfig(metav1.GetControllerOf(source)) {
		return workload.Declaration{}
	}
	marks := source.GetAnnotations()
	return workload.Declaration{Owner: Kind, Declared: marks[configv1.AnnotationHash], PutBack: isPutBack(marks)}
}

// isPutBack reports whether the annotations of an AppConfig's ConfigMap say that it contains the
// last good content because a later one failed. That some revision once failed does not show it.
func isPutBack(marks map[string]string) bool { return marks[configv1.AnnotationPutBack] == putBack }

// isAppConfig reports whether an owner is an AppConfig, of any version.
func isAppConfig(owner *metav1.OwnerReference) bool {
	return owner != nil && owner.Kind == Kind && strings.HasPrefix(owner.APIVersion, configv1.GroupVersion.Group+"/")
}
