package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// Refusals remembers the restarts that the API server refuses; nil disables that.
	Refusals *Refusals
	// DemandReaders are those of the enabled kinds, in the order of their demands.
	DemandReaders []DemandReader
	// Stakater makes the annotations of Stakater Reloader effective.
	Stakater bool
	// Problem is called for each invalid annotation, each time the object is read; it may be nil. The
	// object has name, namespace and UID.
	Problem func(ctx context.Context, object client.Object, err error)
}

// Snapshot returns what the cache knows about a namespace. It makes no API calls. The result shares
// memory with the cache and must not be modified. A ConfigMap whose demands concern no workload is
// not in it: a namespace may have thousands, and nothing depends on them. A Secret always is, for
// its owner reports whether it exists.
func (r Reader) Snapshot(ctx context.Context, namespace string) (workload.Snapshot, error) {
	s := &snapshot{Reader: r, namespace: namespace, read: map[workload.SourceRef]*read{}}
	for _, step := range []func(context.Context) error{s.observeTargets, s.observeDemands, s.observeAnnotated, s.askTargets} {
		if err := step(ctx); err != nil {
			return workload.Snapshot{}, err
		}
	}
	s.Snapshot.Sources = map[workload.SourceRef]workload.Source{}
	targets := workload.NewIndex(s.Targets)
	for i := range s.Demands {
		demand := &s.Demands[i]
		if demand.Source.Kind == workload.ConfigMap && len(targets.Concerned(demand)) == 0 {
			continue
		}
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

// observeTargets reads the workloads, except those that are being deleted.
func (s *snapshot) observeTargets(ctx context.Context) error {
	objects, err := ListWorkloads(ctx, s.Cached, s.namespace)
	if err != nil {
		return err
	}
	for _, object := range objects {
		template := PodTemplate(object)
		s.Targets = append(s.Targets, workload.Target{
			Ref:          workload.TargetRef{Kind: KindOfWorkload(object), Name: object.GetName()},
			UID:          object.GetUID(),
			Created:      object.GetCreationTimestamp().Time,
			Generation:   object.GetGeneration(),
			Labels:       template.Labels,
			Annotations:  naming.Merged(template.Annotations, object.GetAnnotations()),
			Uses:         workload.Uses(&template.Spec),
			Stamp:        workload.ParseStamp(object.GetAnnotations()[configv1.AnnotationObserved]),
			RestartedFor: template.Annotations[configv1.AnnotationRestartedFor],
			Rolled:       Rolled(object),
			Refusal:      s.Refusals.recall(object),
		})
	}
	slices.SortFunc(s.Targets, func(a, b workload.Target) int {
		return cmp.Or(cmp.Compare(a.Ref.Name, b.Ref.Name), cmp.Compare(a.Ref.Kind, b.Ref.Kind))
	})
	return nil
}

// observeAnnotated reads the demands of the annotations on ConfigMaps and Secrets.
func (s *snapshot) observeAnnotated(ctx context.Context) error {
	annotated := client.MatchingFields{annotatedIndex: annotatedValue}
	lists := map[workload.SourceKind]client.ObjectList{workload.ConfigMap: &corev1.ConfigMapList{}, workload.Secret: &corev1.SecretList{}}
	for _, kind := range []workload.SourceKind{workload.ConfigMap, workload.Secret} {
		if kind == workload.Secret && !s.Reader.Sources.access.granted(s.namespace) {
			continue
		}
		found, err := list(ctx, s.Reader.Sources.reader, s.namespace, lists[kind], annotated)
		if err != nil {
			return err
		}
		slices.SortFunc(found, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
		for _, one := range found {
			demand, asked, err := workload.OfSource(workload.SourceRef{Kind: kind, Name: one.GetName()}, one.GetAnnotations())
			if err != nil {
				about := emptySource(kind)
				about.SetNamespace(s.namespace)
				about.SetName(one.GetName())
				about.SetUID(one.GetUID())
				s.tell(ctx, about, err)
			}
			if asked {
				s.Demands = append(s.Demands, demand)
			}
		}
	}
	return nil
}

// askTargets reads the demands of the annotations on workloads.
func (s *snapshot) askTargets(ctx context.Context) error {
	for i := range s.Targets {
		target := &s.Targets[i]
		demands, err := workload.OfWorkload(target)
		if err != nil {
			s.tell(ctx, ObjectOf(target, s.namespace), err)
		}
		s.Demands = append(s.Demands, demands...)
		if !s.Stakater || !hasStakater(target.Annotations) || target.Declines() {
			continue
		}
		marks := map[workload.SourceRef]map[string]string{}
		for _, ref := range slices.AppendSeq(workload.StakaterNamed(target), maps.Keys(target.Uses)) {
			found, err := s.source(ctx, ref)
			if err != nil {
				return err
			}
			marks[ref] = found.annotations
		}
		if demands, err = workload.OfStakater(target, marks); err != nil {
			s.tell(ctx, ObjectOf(target, s.namespace), err)
		}
		s.Demands = append(s.Demands, demands...)
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

// Source returns what the cache knows about one source. It makes no API calls.
func (r Reader) Source(ctx context.Context, namespace string, ref workload.SourceRef) (workload.Source, error) {
	found, err := (&snapshot{Reader: r, namespace: namespace}).readSource(ctx, ref)
	if err != nil {
		return workload.Source{}, err
	}
	return found.source, nil
}

// readSource reads a source from the cache, which holds only hashes. A source that does not exist
// or may not be read has a State that says so, not an error.
func (s *snapshot) readSource(ctx context.Context, ref workload.SourceRef) (*read, error) {
	found := &read{source: workload.Source{Ref: ref}}
	if ref.Kind == workload.Secret {
		if !s.Reader.Sources.access.granted(s.namespace) {
			found.source.State = workload.NotGranted
			return found, nil
		}
		found.source.KeyID = s.Reader.Sources.access.Hasher.ID()
	}
	object := emptySource(ref.Kind)
	err := s.Reader.Sources.reader.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: ref.Name}, object, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s of namespace %s: %w", ref, s.namespace, err)
	}
	source := &found.source
	source.State, source.Created = workload.Present, object.GetCreationTimestamp().Time
	switch object := object.(type) {
	case *corev1.ConfigMap:
		source.Keys, source.Binary = object.Data, slices.Sorted(maps.Keys(object.BinaryData))
	case *corev1.Secret:
		source.Keys = object.StringData
	}
	source.Changed, source.Writers = lastChange(object)
	source.Declaration = s.declaration(object)
	found.annotations = object.GetAnnotations()
	return found, nil
}

func (s *snapshot) tell(ctx context.Context, object client.Object, err error) {
	if s.Problem != nil {
		s.Problem(ctx, object, err)
	}
}
