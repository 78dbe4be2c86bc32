package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Reader reads what decisions about a namespace depend on. It writes nothing, and is safe for
// concurrent use.
type Reader struct {
	// Cached reads from a cache with the options of this package and of the kinds.
	Cached client.Reader
	// Live reads from the API server.
	Live client.Reader
	// Sources has the ConfigMaps and Secrets.
	Sources *Sources
	// Templates caches the creation times of pod templates; nil disables that.
	Templates *TemplateTimes
	// AppConfigs and ConfigMonitors report which of the kinds are on. Objects of a disabled kind are
	// not read.
	AppConfigs, ConfigMonitors bool
	// Stakater makes the annotations of Stakater Reloader effective.
	Stakater bool
	// Problem is called for each invalid annotation, each time the object is read; it may be nil. The
	// object has name, namespace and UID.
	Problem func(ctx context.Context, object client.Object, err error)
}

// Snapshot returns what the cache knows about a namespace. It makes no API calls. The result shares
// memory with the cache and must not be modified.
func (r Reader) Snapshot(ctx context.Context, namespace string) (workload.Snapshot, error) {
	s := &snapshot{Reader: r, namespace: namespace, read: map[workload.SourceRef]*read{}}
	for _, step := range []func(context.Context) error{s.observeTargets, s.observeAppConfigs, s.observeMonitors, s.observeAnnotated,
		s.askTargets} {
		if err := step(ctx); err != nil {
			return workload.Snapshot{}, err
		}
	}
	s.Snapshot.Sources = map[workload.SourceRef]workload.Source{}
	for _, demand := range s.Demands {
		found, err := s.source(ctx, demand.Source)
		if err != nil {
			return workload.Snapshot{}, err
		}
		if found.source.State != workload.Absent {
			s.Snapshot.Sources[demand.Source] = found.source
		}
	}
	return s.Snapshot, nil
}

// snapshot is a Snapshot under construction.
type snapshot struct {
	Reader
	workload.Snapshot
	namespace string
	read      map[workload.SourceRef]*read
}

// read is a source as read from the cache.
type read struct {
	source      workload.Source
	annotations map[string]string
}

// list lists cached objects of the namespace without copying them.
func (s *snapshot) list(ctx context.Context, from client.Reader, into client.ObjectList, options ...client.ListOption) error {
	if err := from.List(ctx, into, append(options, client.InNamespace(s.namespace), client.UnsafeDisableDeepCopy)...); err != nil {
		return fmt.Errorf("listing %T of namespace %s: %w", into, s.namespace, err)
	}
	return nil
}

// observeTargets reads the workloads, except those that are being deleted.
func (s *snapshot) observeTargets(ctx context.Context) error {
	var deployments appsv1.DeploymentList
	var statefulSets appsv1.StatefulSetList
	var daemonSets appsv1.DaemonSetList
	for _, list := range []client.ObjectList{&deployments, &statefulSets, &daemonSets} {
		if err := s.list(ctx, s.Cached, list); err != nil {
			return err
		}
	}
	for i := range deployments.Items {
		one := &deployments.Items[i]
		s.addTarget("Deployment", one, &one.Spec.Template, workload.RolledOfDeployment(one))
	}
	for i := range statefulSets.Items {
		one := &statefulSets.Items[i]
		s.addTarget("StatefulSet", one, &one.Spec.Template, workload.RolledOfStatefulSet(one))
	}
	for i := range daemonSets.Items {
		one := &daemonSets.Items[i]
		s.addTarget("DaemonSet", one, &one.Spec.Template, workload.RolledOfDaemonSet(one))
	}
	slices.SortFunc(s.Targets, func(a, b workload.Target) int {
		return cmp.Or(cmp.Compare(a.Ref.Name, b.Ref.Name), cmp.Compare(a.Ref.Kind, b.Ref.Kind))
	})
	return nil
}

func (s *snapshot) addTarget(kind string, object metav1.Object, template *corev1.PodTemplateSpec, rolled workload.Rolled) {
	if object.GetDeletionTimestamp() != nil {
		return
	}
	s.Targets = append(s.Targets, workload.Target{
		Ref:          workload.TargetRef{Kind: kind, Name: object.GetName()},
		UID:          object.GetUID(),
		Created:      object.GetCreationTimestamp().Time,
		Labels:       template.Labels,
		Annotations:  naming.Merged(template.Annotations, object.GetAnnotations()),
		Uses:         workload.Uses(&template.Spec),
		Stamp:        workload.ParseStamp(object.GetAnnotations()[configv1.AnnotationObserved]),
		RestartedFor: template.Annotations[configv1.AnnotationRestartedFor],
		Rolled:       rolled,
	})
}

// observeAppConfigs reads the demands of the AppConfigs that are in effect. Others for the same
// application write nothing.
func (s *snapshot) observeAppConfigs(ctx context.Context) error {
	if !s.AppConfigs {
		return nil
	}
	var configs configv1.AppConfigList
	if err := s.list(ctx, s.Cached, &configs); err != nil {
		return err
	}
	counting, err := s.EffectiveAppConfigs(ctx, s.namespace, configs.Items)
	if err != nil {
		return err
	}
	for _, config := range counting {
		if config.DeletionTimestamp == nil {
			s.Demands = append(s.Demands, workload.OfAppConfig(config)...)
		}
	}
	return nil
}

// observeMonitors reads the demands of ConfigMonitors. Those that evict pods demand nothing of
// workloads.
func (s *snapshot) observeMonitors(ctx context.Context) error {
	if !s.ConfigMonitors {
		return nil
	}
	var monitors configv1.ConfigMonitorList
	if err := s.list(ctx, s.Cached, &monitors); err != nil {
		return err
	}
	slices.SortFunc(monitors.Items, func(a, b configv1.ConfigMonitor) int { return cmp.Compare(a.Name, b.Name) })
	for i := range monitors.Items {
		monitor := &monitors.Items[i]
		if monitor.DeletionTimestamp == nil && monitor.Spec.Strategy != configv1.StrategyEvict {
			s.Demands = append(s.Demands, workload.OfMonitor(monitor))
		}
	}
	return nil
}

// observeAnnotated reads the demands of the annotations on ConfigMaps and Secrets.
func (s *snapshot) observeAnnotated(ctx context.Context) error {
	annotated := client.MatchingFields{annotatedIndex: annotatedValue}
	var configMaps corev1.ConfigMapList
	if err := s.list(ctx, s.Reader.Sources.reader, &configMaps, annotated); err != nil {
		return err
	}
	slices.SortFunc(configMaps.Items, func(a, b corev1.ConfigMap) int { return cmp.Compare(a.Name, b.Name) })
	for i := range configMaps.Items {
		one := &configMaps.Items[i]
		s.askSource(ctx, workload.SourceRef{Kind: workload.ConfigMap, Name: one.Name}, one.Annotations,
			&corev1.ConfigMap{ObjectMeta: identity(one)})
	}
	if !s.Reader.Sources.access.granted(s.namespace) {
		return nil
	}
	var secrets corev1.SecretList
	if err := s.list(ctx, s.Reader.Sources.reader, &secrets, annotated); err != nil {
		return err
	}
	slices.SortFunc(secrets.Items, func(a, b corev1.Secret) int { return cmp.Compare(a.Name, b.Name) })
	for i := range secrets.Items {
		one := &secrets.Items[i]
		s.askSource(ctx, workload.SourceRef{Kind: workload.Secret, Name: one.Name}, one.Annotations, &corev1.Secret{ObjectMeta: identity(one)})
	}
	return nil
}

func (s *snapshot) askSource(ctx context.Context, ref workload.SourceRef, annotations map[string]string, about client.Object) {
	demand, asked, err := workload.OfSource(ref, annotations)
	if err != nil {
		s.tell(ctx, about, err)
	}
	if asked {
		s.Demands = append(s.Demands, demand)
	}
}

// askTargets reads the demands of the annotations on workloads.
func (s *snapshot) askTargets(ctx context.Context) error {
	for i := range s.Targets {
		target := &s.Targets[i]
		demands, err := workload.OfWorkload(target)
		if err != nil {
			s.tell(ctx, s.emptyTarget(target), err)
		}
		s.Demands = append(s.Demands, demands...)
		if !s.Stakater || !hasStakater(target.Annotations) || target.Declines() {
			continue
		}
		marks := map[workload.SourceRef]map[string]string{}
		for ref := range target.Uses {
			found, err := s.source(ctx, ref)
			if err != nil {
				return err
			}
			marks[ref] = found.annotations
		}
		s.Demands = append(s.Demands, workload.OfStakater(target, marks)...)
	}
	return nil
}

// hasStakater reports whether a workload has any of Stakater Reloader's annotations. Most have
// none, and then cost nothing.
func hasStakater(annotations map[string]string) bool {
	for key := range annotations {
		if strings.Contains(key, workload.StakaterDomain) {
			return true
		}
	}
	return false
}

// source reads a source, once.
func (s *snapshot) source(ctx context.Context, ref workload.SourceRef) (*read, error) {
	if known, done := s.read[ref]; done {
		return known, nil
	}
	found, err := s.readSource(ctx, ref)
	if err != nil {
		return nil, err
	}
	s.read[ref] = found
	return found, nil
}

func (s *snapshot) readSource(ctx context.Context, ref workload.SourceRef) (*read, error) {
	found := &read{source: workload.Source{Ref: ref}}
	var object client.Object
	var hashes func() map[string]string
	switch ref.Kind {
	case workload.ConfigMap:
		configMap := &corev1.ConfigMap{}
		object, hashes = configMap, func() map[string]string {
			found.source.Binary = slices.Sorted(maps.Keys(configMap.BinaryData))
			return configMap.Data
		}
	default:
		if !s.Reader.Sources.access.granted(s.namespace) {
			found.source.State = workload.NotGranted
			return found, nil
		}
		secret := &corev1.Secret{}
		object, hashes = secret, func() map[string]string { return secret.StringData }
		found.source.KeyID = s.Reader.Sources.access.Hasher.ID()
	}
	err := s.Reader.Sources.reader.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: ref.Name}, object, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s of namespace %s: %w", ref, s.namespace, err)
	}
	source := &found.source
	source.State, source.Keys, source.Created = workload.Present, hashes(), object.GetCreationTimestamp().Time
	source.Changed, source.Writers = lastChange(object)
	if s.AppConfigs && isRendered(object) {
		marks := object.GetAnnotations()
		source.Declared, source.PutBack = marks[configv1.AnnotationHash], isPutBack(marks)
	}
	found.annotations = object.GetAnnotations()
	return found, nil
}

// isRendered reports whether an AppConfig reverts edits of the object. Its label and annotations
// alone do not show that: a copy has them, too, and so does what an AppConfig has left behind, and
// nothing would revert those.
func isRendered(object metav1.Object) bool {
	controller := metav1.GetControllerOf(object)
	if controller == nil || controller.Kind != "AppConfig" {
		return false
	}
	group, err := schema.ParseGroupVersion(controller.APIVersion)
	return err == nil && group.Group == configv1.GroupVersion.Group
}

// isPutBack reports whether the annotations of an AppConfig's ConfigMap say that it contains the
// last good content because a later one failed. A later content that all pods run looks the same,
// but has nothing to wait for.
func isPutBack(marks map[string]string) bool {
	revision := marks[configv1.AnnotationRevision]
	return revision != "" && revision == marks[configv1.AnnotationLastGood] && marks[configv1.AnnotationFailed] != ""
}

func (s *snapshot) tell(ctx context.Context, object client.Object, err error) {
	if s.Problem != nil {
		s.Problem(ctx, object, err)
	}
}

func (s *snapshot) emptyTarget(target *workload.Target) client.Object {
	object := EmptyWorkload(target.Ref.Kind, s.namespace, target.Ref.Name)
	object.SetUID(target.UID)
	return object
}

func identity(object metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
}
