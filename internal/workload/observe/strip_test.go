package observe

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

func configMapKey(name, key string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name},
		Key: key}}
}

func secretKey(name, key string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name},
		Key: key}}
}

// template returns a pod template with a reference in every possible place, and much else.
func template() corev1.PodTemplateSpec {
	named := corev1.LocalObjectReference{}
	with := func(name string) corev1.LocalObjectReference { named.Name = name; return named }
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app": "shop"},
			Annotations: map[string]string{"config.mainstay.dev/restarted-for": "flags=1", "prometheus.io/scrape": "true"},
		},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", Image: "init:1", Env: []corev1.EnvVar{{Name: "A", ValueFrom: configMapKey("init",
				"a")}}}},
			Containers: []corev1.Container{{
				Name: "web", Image: "shop:1", Command: []string{"shop"}, Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
				Env: []corev1.EnvVar{
					{Name: "PLAIN", Value: "hunter2"},
					{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
					{Name: "PASSWORD", ValueFrom: secretKey("database", "password")},
				},
				EnvFrom:      []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: with("all")}}},
				VolumeMounts: []corev1.VolumeMount{{Name: "flags", MountPath: "/flags"}},
			}},
			Volumes: []corev1.Volume{
				{Name: "flags", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: with("flags")}}},
				{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}}},
				{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "both", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
					{Secret: &corev1.SecretProjection{LocalObjectReference: with("projected")}},
				}}}},
				{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
				}}}},
			},
			ServiceAccountName: "shop",
		},
	}
}

// metadata returns the metadata of an object that Mainstay did not create.
func metadata() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "1", Generation: 3, ResourceVersion: "9", CreationTimestamp: *at(1),
		Finalizers: []string{"example.com/a"},
		Labels:     map[string]string{"app": "shop", "team": "blue"},
		Annotations: map[string]string{
			"config.mainstay.dev/reload": "auto", "configmap.reloader.stakater.com/reload": "flags",
			"secrets.exclude.reloader.stakater.com/reload": "tls",
			"deployment.kubernetes.io/revision":            "7",
		},
		ManagedFields:   []metav1.ManagedFieldsEntry{entry("kubectl", at(1), `{"f:spec":{}}`), entry("mainstay/workload", at(2), `{"f:spec":{}}`)},
		OwnerReferences: []metav1.OwnerReference{{Name: "other"}, {Name: "shop", Controller: new(true)}},
	}
}

// TestStrippedUses: a stripped workload has the same uses as the whole, and keeps what identifies
// it.
func TestStrippedUses(t *testing.T) {
	whole := template()
	got := transformed(t, asCached, &appsv1.Deployment{
		ObjectMeta: metadata(),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)), Paused: true, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}},
			Template: template(),
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, ProgressDeadlineSeconds: new(int32(60)),
		},
		Status: appsv1.DeploymentStatus{ReadyReplicas: 2},
	})
	if diff := cmp.Diff(workload.Uses(&whole.Spec), workload.Uses(&got.Spec.Template.Spec)); diff != "" {
		t.Error(diff)
	}
	want := &appsv1.Deployment{
		ObjectMeta: metadata(),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)), Paused: true, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "shop"},
					Annotations: map[string]string{"config.mainstay.dev/restarted-for": "flags=1"}},
				Spec: corev1.PodSpec{
					InitContainers: []corev1.Container{{Name: "init", Env: []corev1.EnvVar{{Name: "A", ValueFrom: configMapKey("init", "a")}}}},
					Containers: []corev1.Container{{
						Name: "web", Env: []corev1.EnvVar{{Name: "PASSWORD",
							ValueFrom: secretKey("database", "password")}}, EnvFrom: whole.Spec.Containers[0].EnvFrom,
					}},
					Volumes: append(whole.Spec.Volumes[:2:2], corev1.Volume{Name: "both", VolumeSource: corev1.VolumeSource{
						Projected: &corev1.ProjectedVolumeSource{Sources: whole.Spec.Volumes[3].Projected.Sources[1:]},
					}}),
				},
			},
		},
		Status: appsv1.DeploymentStatus{ReadyReplicas: 2},
	}
	delete(want.Annotations, "deployment.kubernetes.io/revision")
	want.ManagedFields, want.Finalizers, want.OwnerReferences = nil, nil, want.OwnerReferences[1:]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestStripSets: the same for the other kinds, which keep their update strategy, and a StatefulSet
// its pod management policy.
func TestStripSets(t *testing.T) {
	whole := template()
	uses := workload.Uses(&whole.Spec)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}
	set := transformed(t, asCached, &appsv1.StatefulSet{ObjectMeta: metadata(), Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(3)), Selector: selector, Template: template(), ServiceName: "shop",
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{}},
		UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
		PodManagementPolicy:  appsv1.ParallelPodManagement,
	}})
	if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType || *set.Spec.Replicas != 3 || set.Spec.Selector != selector ||
		set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement || set.Spec.VolumeClaimTemplates != nil || set.Spec.ServiceName != "" {
		t.Errorf("got %+v", set.Spec)
	}
	daemons := transformed(t, asCached, &appsv1.DaemonSet{ObjectMeta: metadata(), Spec: appsv1.DaemonSetSpec{
		Selector: selector, Template: template(), MinReadySeconds: 9,
		UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
	}})
	if daemons.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType || daemons.Spec.Selector != selector ||
		daemons.Spec.MinReadySeconds != 0 {
		t.Errorf("got %+v", daemons.Spec)
	}
	for kind, stripped := range map[string]corev1.PodTemplateSpec{"StatefulSet": set.Spec.Template, "DaemonSet": daemons.Spec.Template} {
		if diff := cmp.Diff(uses, workload.Uses(&stripped.Spec)); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
		if stripped.Spec.Containers[0].Image != "" || len(stripped.Labels) != 1 {
			t.Errorf("%s: got %+v", kind, stripped)
		}
	}
}

// TestOursStayWhole: objects of Mainstay are cached exactly as without this package.
func TestOursStayWhole(t *testing.T) {
	ours := func() *appsv1.Deployment {
		deployment := &appsv1.Deployment{ObjectMeta: metadata(), Spec: appsv1.DeploymentSpec{Template: template(),
			Strategy: appsv1.DeploymentStrategy{
				RollingUpdate: &appsv1.RollingUpdateDeployment{},
			}}}
		deployment.Labels["app.kubernetes.io/managed-by"] = "mainstay"
		return deployment
	}
	byDefault, err := watch.Default(nil, nil).DefaultTransform(ours())
	if err != nil {
		t.Fatal(err)
	}
	got := transformed(t, asCached, ours())
	if diff := cmp.Diff(byDefault, any(got)); diff != "" {
		t.Error(diff)
	}
	if !watch.IsWhole(got) {
		t.Error("it counts as cached in part")
	}
}

// workloadOptions returns the cache options of workloads alone.
func workloadOptions() map[client.Object]cache.ByObject {
	options, err := watch.Unite(map[string][]watch.Need{"workload": WorkloadNeeds(nil)})
	if err != nil {
		panic(err)
	}
	return options
}

// asCached returns a workload as the shared cache keeps it.
func asCached(object any) (any, error) {
	for known, option := range workloadOptions() {
		if reflect.TypeOf(known) == reflect.TypeOf(object) {
			return option.Transform(object)
		}
	}
	return object, nil
}

// TestWorkloadNeeds: all workloads are cached, but not as they are.
func TestWorkloadNeeds(t *testing.T) {
	for object, option := range workloadOptions() {
		if !option.Label.Matches(labels.Set{}) || option.Transform == nil {
			t.Errorf("%T: only some are cached, or as they are", object)
		}
	}
}

// Pod-level fields that are requested in addition are kept.
func TestStrippedKeepsWhatIsRequested(t *testing.T) {
	asked := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"size": "7"}},
		Spec: corev1.PodSpec{
			OS: &corev1.PodOS{Name: corev1.Linux}, NodeSelector: map[string]string{corev1.LabelOSStable: "linux"},
			Resources:  &corev1.ResourceRequirements{},
			Containers: []corev1.Container{{Name: "app"}},
		},
	}
	strip := stripper{more: func(*corev1.PodTemplateSpec) corev1.PodTemplateSpec { return asked }}
	if got := strip.template(&corev1.PodTemplateSpec{}); !reflect.DeepEqual(got, asked) {
		t.Errorf("kept is %v", got)
	}
}
