package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The Pods that are served: each Deployment has one ReplicaSet with replicas Pods.
const (
	servedNamespaces = 20
	servedSets       = 1000
	servedReplicas   = 10
	servedPods       = servedSets * servedReplicas
	servedNodes      = 100
	// teams is the number of teams. Each has a tenth of the Pods.
	teams = 10
)

// Field managers, as in a real cluster.
const (
	controllerManager = "kube-controller-manager"
	kubelet           = "kubelet"
)

// fillServed creates namespaces, Deployments, their ReplicaSets and their Pods, as the controllers
// and a kubelet would leave them.
func fillServed(ctx context.Context, to client.Client) error {
	for i := range servedNamespaces {
		if err := makeNamespace(ctx, to, servedNamespace(i)); err != nil {
			return err
		}
	}
	return each(ctx, servedSets, patchesAtOnce, func(ctx context.Context, i int) error {
		set, err := makeSet(ctx, to, i)
		if err != nil {
			return err
		}
		for replica := range servedReplicas {
			if err := makePod(ctx, to, set, i*servedReplicas+replica); err != nil {
				return err
			}
		}
		return nil
	})
}

func servedNamespace(set int) string { return fmt.Sprintf("farm-%02d", set%servedNamespaces) }

func servedSet(set int) string {
	return fmt.Sprintf("checkout-%03d-%010x", set, 0x6bf5d0c7a*(set+1)&0xffffffffff)
}

// servedPod returns the name of the i-th Pod, in the namespace of its ReplicaSet.
func servedPod(i int) types.NamespacedName {
	set := i / servedReplicas
	return types.NamespacedName{Namespace: servedNamespace(set), Name: fmt.Sprintf("%s-%05x", servedSet(set), i*7919&0xfffff)}
}

// makeSet creates a Deployment, and what its controller would create.
func makeSet(ctx context.Context, to client.Client, i int) (*appsv1.ReplicaSet, error) {
	labels := servedLabels(i)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: servedNamespace(i), Name: fmt.Sprintf("checkout-%03d", i), Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(servedReplicas)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: servedSpec(i, "")},
		},
	}
	if err := to.Create(ctx, deployment, client.FieldOwner("helm")); err != nil {
		return nil, err
	}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: deployment.Namespace, Name: servedSet(i), Labels: hashed(i, labels),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: deployment.Spec.Replicas, Selector: &metav1.LabelSelector{MatchLabels: hashed(i, labels)},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: hashed(i, labels)}, Spec: deployment.Spec.Template.Spec},
		},
	}
	return set, to.Create(ctx, set, client.FieldOwner(controllerManager))
}

func servedLabels(set int) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name": "checkout", "app.kubernetes.io/instance": fmt.Sprintf("checkout-%03d",
			set), "app.kubernetes.io/version": "2.14.0",
		"app.kubernetes.io/component": "web", "team": fmt.Sprintf("team-%d", set/servedNamespaces%teams),
	}
}

// hashed returns the labels of the objects that a Deployment's controller creates.
func hashed(set int, labels map[string]string) map[string]string {
	all := maps.Clone(labels)
	all[appsv1.DefaultDeploymentUniqueLabelKey] = fmt.Sprintf("%010x", 0x6bf5d0c7a*(set+1)&0xffffffffff)
	return all
}

// makePod creates the i-th Pod, and writes the status that its kubelet would.
func makePod(ctx context.Context, to client.Client, set *appsv1.ReplicaSet, i int) error {
	name := servedPod(i)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name, GenerateName: set.Name + "-", Labels: set.Spec.Template.Labels,
			Annotations:     map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Spec: servedSpec(i/servedReplicas, servedNode(i)),
	}
	// The admission plugin of ServiceAccounts, which this API server lacks, would add these.
	pod.Spec.Volumes = append(pod.Spec.Volumes, tokenVolume())
	container := &pod.Spec.Containers[0]
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
		Name: tokenVolumeName, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true,
	})
	if err := to.Create(ctx, pod, client.FieldOwner(controllerManager)); err != nil {
		return err
	}
	pod.Status = servedStatus(i, pod)
	return to.Status().Update(ctx, pod, client.FieldOwner(kubelet))
}

func servedNode(i int) string { return fmt.Sprintf("node-%03d", i%servedNodes) }

const (
	tokenVolumeName = "kube-api-access-x7k2p"
	servedImage     = "registry.example.com/shop/checkout:2.14.0"
	servedDigest    = "registry.example.com/shop/checkout@sha256:0d5e4d7c1c9d6c6a4f6d6f9e5b1e0c7d2b8a3f4e5d6c7b8a9f0e1d2c3b4a5968"
)

func tokenVolume() corev1.Volume {
	return corev1.Volume{Name: tokenVolumeName, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(0o644)),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
			}}},
		},
	}}}
}

// servedSpec returns what most Deployments of a shop would have.
func servedSpec(set int, node string) corev1.PodSpec {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 10, TimeoutSeconds: 2, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")},
		}}
	}
	return corev1.PodSpec{
		NodeName: node, ServiceAccountName: "default",
		Containers: []corev1.Container{{
			Name: "checkout", Image: servedImage, Args: []string{"serve", "--config=/etc/checkout/config.yaml"},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "metrics", ContainerPort: 9090}},
			Env: []corev1.EnvVar{
				{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				{Name: "LOG_LEVEL", Value: "info"},
				{Name: "DATABASE_URL", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("checkout-%03d", set)}, Key: "url",
				}}},
				{Name: "CACHE_SIZE", Value: "256Mi"},
			},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("256Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
			},
			LivenessProbe: probe("/healthz"), ReadinessProbe: probe("/readyz"),
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/checkout", ReadOnly: true}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("checkout-%03d", set)},
		}}}},
		Tolerations: []corev1.Toleration{
			{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: new(int64(300))},
			{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: new(int64(300))},
		},
	}
}

// servedStatus returns the status of a running Pod. One Pod of each ReplicaSet has been restarted.
func servedStatus(i int, pod *corev1.Pod) corev1.PodStatus {
	started := metav1.NewTime(pod.CreationTimestamp.Add(3 * time.Second))
	var conditions []corev1.PodCondition
	for _, one := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	} {
		conditions = append(conditions, corev1.PodCondition{Type: one, Status: corev1.ConditionTrue, LastTransitionTime: started})
	}
	ip := fmt.Sprintf("10.%d.%d.%d", 64+i%servedNodes/50, i%servedNodes, i/servedNodes)
	host := fmt.Sprintf("192.168.10.%d", i%servedNodes)
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: conditions, QOSClass: pod.Status.QOSClass, StartTime: &pod.CreationTimestamp,
		HostIP: host, HostIPs: []corev1.HostIP{{IP: host}}, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, Ready: true, Started: new(true), Image: servedImage, ImageID: servedDigest,
			ContainerID: containerID(i), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
		}},
	}
	if i%servedReplicas == 0 {
		one := &status.ContainerStatuses[0]
		one.RestartCount = 1
		one.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: "OOMKilled", StartedAt: pod.CreationTimestamp, FinishedAt: started, ContainerID: containerID(i + servedPods),
		}
	}
	return status
}

func containerID(i int) string { return fmt.Sprintf("containerd://%064x", i) }
