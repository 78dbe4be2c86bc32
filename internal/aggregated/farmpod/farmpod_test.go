package farmpod

import (
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated/table"
	"github.com/mainstay-platform/mainstay/test/cases"
	"github.com/mainstay-platform/mainstay/test/fuzz"
	"github.com/mainstay-platform/mainstay/test/golden"
)

const digits = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func list(cpu, memory string) corev1.ResourceList {
	made := corev1.ResourceList{}
	for name, amount := range map[corev1.ResourceName]string{"cpu": cpu, "memory": memory} {
		if amount != "" {
			made[name] = resource.MustParse(amount)
		}
	}
	return made
}

// whole returns a Pod with everything that a FarmPod shows.
func whole() *corev1.Pod {
	return pod(hasProxy, was("OOMKilled", 137, 5), web(waits("CrashLoopBackOff", "back-off")), func(pod *corev1.Pod) {
		pod.Labels = map[string]string{"app": "shop", "pod-template-hash": "1"}
		pod.Annotations = map[string]string{
			configv1.AnnotationRestartedFor: "flags=1f6a0c2b9d3e4f50",
			instrv1.AnnotationInjected:      `[{"by":"Instrumentation/java","id":"agent-1","revision":"1a2b3c4d5e6f7081","image":"a:1","mode":"Image","mountPath":"/a","containers":[{"name":"web"}]}]`,
		}
		pod.ResourceVersion, pod.CreationTimestamp = "4711", began
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "shop-1"}}
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		pod.Spec.InitContainers = []corev1.Container{
			{Name: "migrate", Image: "migrate:1", Resources: corev1.ResourceRequirements{Requests: list("8", "8Gi"), Limits: list("8", "8Gi")}},
			{Name: "mesh", Image: "mesh:1", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
				Resources: corev1.ResourceRequirements{Requests: list("50m", ""), Limits: list("", "32Mi")}},
		}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "migrate"}, {Name: "mesh", Ready: true, Started: new(true)}}
		exits("Completed", 0)(&pod.Status.InitContainerStatuses[0])
		runs(&pod.Status.InitContainerStatuses[1])
		pod.Status.ContainerStatuses[0].ImageID = "registry.example.com/shop@sha256:" + digits
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list("100m", "64Mi"), Limits: list("1", "128Mi")}
		pod.Spec.Containers[1].Resources = corev1.ResourceRequirements{Requests: list("100m", "64Mi"), Limits: list("", "128Mi")}
	})
}

func TestOf(t *testing.T) {
	got, err := yaml.Marshal(Of(whole(), "WebApp/shop"))
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "farmpod.yaml", got)
}

// TestPure: the same Pod always gives the same FarmPod, also concurrently, and is not modified.
func TestPure(t *testing.T) {
	given, before := whole(), whole()
	want := Of(whole(), "WebApp/shop")
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if diff := cmp.Diff(want, Of(given, "WebApp/shop")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	group.Wait()
	if diff := cmp.Diff(before, given); diff != "" {
		t.Errorf("the Pod was changed: -want +got:\n%s", diff)
	}
}

// TestForgets: tables do not grow for ever, and entries in use stay.
func TestForgets(t *testing.T) {
	numbers := shared[int]{limit: 10}
	asked := 0
	get := func(key string) int {
		return numbers.get([]byte(key), func() int { asked++; return asked })
	}
	first := get("stays")
	for i := range 1000 {
		get(fmt.Sprint(i))
		if got := get("stays"); got != first {
			t.Fatalf("it was forgotten after %d others", i)
		}
	}
	if kept := len(numbers.young) + len(numbers.old); kept > 20 || asked != 1001 {
		t.Errorf("%d are kept, and %d were made", kept, asked)
	}
	long := strings.Repeat("x", 2000)
	if first, second := get(long), get(long); first == second {
		t.Error("a long key is kept")
	}
}

func TestTerminating(t *testing.T) {
	got := Of(pod(deleted("a/b")), "")
	if got.Status.Phase != "Terminating" || !got.DeletionTimestamp.Equal(&began) || len(got.Finalizers) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestPodName(t *testing.T) {
	for given, want := range map[string]string{"farm-shop-1": "shop-1", "farm-farm-x": "farm-x", "farm-": "", "shop-1": "", "": ""} {
		got, ok := PodName(given)
		if ok != (want != "") || ok && (got != want || Name(got) != given) {
			t.Errorf("%q: got %q, %t", given, got, ok)
		}
	}
}

func TestResources(t *testing.T) {
	alone := func(requirements corev1.ResourceRequirements) change {
		return func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources = requirements }
	}
	for name, test := range map[string]struct {
		pod              *corev1.Pod
		requests, limits corev1.ResourceList
	}{
		"none": {pod: pod()},
		"of one": {pod(alone(corev1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("2", "2Gi")})),
			list("1", "1Gi"), list("2", "2Gi")},
		"limits of one of two": {pod(hasProxy, alone(corev1.ResourceRequirements{Requests: list("1", ""), Limits: list("2", "2Gi")})),
			list("1", ""), nil},
		"of the Pod": {pod(func(pod *corev1.Pod) { pod.Spec.Resources = &corev1.ResourceRequirements{Limits: list("3", "")} }), nil,
			list("3", "")},
		"of the Pod, over one's": {pod(alone(corev1.ResourceRequirements{Requests: list("1", "1Gi")}),
			func(pod *corev1.Pod) { pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list("3", "")} }), list("3", "1Gi"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(test.pod, "")
			if diff := cmp.Diff([]corev1.ResourceList{test.requests, test.limits}, []corev1.ResourceList{got.Spec.Requests,
				got.Spec.Limits}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDigest(t *testing.T) {
	for given, want := range map[string]string{
		"docker.io/library/nginx@sha256:" + digits:      "sha256:" + digits,
		"docker-pullable://nginx@sha256:" + digits:      "sha256:" + digits,
		"docker://sha256:" + digits:                     "sha256:" + digits,
		"sha256:" + digits:                              "sha256:" + digits,
		"localhost:5000/shop@sha512:" + digits + digits: "sha512:" + digits + digits,
		"": "", "nginx:1": "", "localhost:5000/shop:9": "", "sha256:": "", "sha256:xyz": "",
	} {
		if got := digest(given); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}

func TestFacts(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		revision    string
		agents      []string
	}{
		"none":                 {},
		"tampered":             {annotations: map[string]string{instrv1.AnnotationInjected: "{"}},
		"two agents":           {map[string]string{instrv1.AnnotationInjected: `[{"by":"Instrumentation/java","id":"a","revision":"1a2b3c4d5e6f7081"},{"by":"ClusterInstrumentation/all","id":"b","revision":"short"}]`}, "", []string{"java@1a2b3c4d", "all@short"}},
		"restarted":            {map[string]string{configv1.AnnotationRestartedFor: "flags=1f6a0c2b9d3e4f50"}, "fda7912a", nil},
		"restarted for others": {map[string]string{configv1.AnnotationRestartedFor: "flags=2f6a0c2b9d3e4f50"}, "74505557", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(pod(func(pod *corev1.Pod) { pod.Annotations = test.annotations }), "")
			if got.Spec.ConfigurationRevision != test.revision {
				t.Errorf("got the revision %q", got.Spec.ConfigurationRevision)
			}
			if diff := cmp.Diff(test.agents, got.Spec.Agents); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestFields(t *testing.T) {
	want := fields.Set{"metadata.name": "farm-shop-1-x", "metadata.namespace": "web", "spec.nodeName": "n1", "spec.owner": "WebApp/shop",
		"status.phase": "Running"}
	got := Fields(Of(pod(), "WebApp/shop"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	scheme := runtime.NewScheme()
	if err := FieldLabels(scheme); err != nil {
		t.Fatal(err)
	}
	kind := farmv1alpha1.GroupVersion.WithKind("FarmPod")
	for label := range got {
		if name, value, err := scheme.ConvertFieldLabel(kind, label, "x"); name != label || value != "x" || err != nil {
			t.Errorf("%s: got %q, %q, %v", label, name, value, err)
		}
	}
	_, _, err := scheme.ConvertFieldLabel(kind, "spec.containers", "1")
	if want := `field label not supported: "spec.containers": must be one of metadata.name, metadata.namespace, spec.nodeName, spec.owner, status.phase`; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestColumns(t *testing.T) {
	convertor := table.New(Columns(), func() time.Time { return began.Add(time.Hour) })
	shown := func(pod *corev1.Pod, owner string) []string {
		made, err := convertor.ConvertToTable(t.Context(), Of(pod, owner), nil)
		if err != nil {
			t.Fatal(err)
		}
		var cells []string
		for i, cell := range made.DeepCopy().Rows[0].Cells {
			cells = append(cells, fmt.Sprintf("%s %d: %v", made.ColumnDefinitions[i].Name, made.ColumnDefinitions[i].Priority, cell))
		}
		return cells
	}
	want := []string{
		"Name 0: farm-shop-1-x", "Ready 0: 2/3", "Status 0: CrashLoopBackOff", "Restarts 0: 5", "Age 0: 60m", "Owner 0: WebApp/shop",
		"Node 0: n1",
		"Detail 0: container web: OOMKilled, exit 137, 5 restarts in 10 min", "Images 1: shop:9@0123456789ab,proxy:1,mesh:1",
		"Requests 1: cpu=250m,memory=128Mi", "Limits 1: memory=288Mi", "Configuration 1: fda7912a", "Agents 1: java@1a2b3c4d",
	}
	if diff := cmp.Diff(want, shown(whole(), "WebApp/shop")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want = []string{
		"Name 0: farm-shop-1-x", "Ready 0: 0/1", "Status 0: Pending", "Restarts 0: 0", "Age 0: <unknown>", "Owner 0: <none>", "Node 0: <none>",
		"Detail 0: waits for the scheduler", "Images 1: shop:9", "Requests 1: <none>", "Limits 1: <none>", "Configuration 1: <none>",
		"Agents 1: <none>",
	}
	if diff := cmp.Diff(want, shown(pod(unscheduledPod), "")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for given, want := range map[string]string{"": "Running", "Init:1/3: container a runs": "Init:1/3", "Completed": "Completed"} {
		if got, _ := split(&farmv1alpha1.FarmPod{Status: farmv1alpha1.FarmPodStatus{Phase: "Running", Reason: given}}); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}

// FuzzTerminationMessages: no FarmPod shows a container's termination message, or a message that
// repeats it.
func FuzzTerminationMessages(f *testing.F) {
	for seed := range cases.Seeds(f, 100, 1000) {
		f.Add(fmt.Appendf(nil, "%d %s", seed, strings.Repeat(fmt.Sprint(seed*7919), 400)))
	}
	fuzz.AddBombs(f, []byte("1"))
	f.Fuzz(func(t *testing.T, seed []byte) {
		const secret = "hunter2 \"quoted\"\tand more"
		filler := randfill.NewFromGoFuzz(seed).NilChance(0.3).NumElements(1, 3).MaxDepth(20)
		var made corev1.Pod
		filler.Fill(&made.Status)
		filler.Fill(&made.Spec.Containers)
		filler.Fill(&made.Spec.InitContainers)
		made.Name = "shop-1-x"
		if len(seed)%2 == 0 {
			made.Spec.NodeName = "n1"
		}
		if len(made.Status.ContainerStatuses) == 0 {
			made.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web"}}
		}
		said := "first line\n" + secret + "\n"
		repeated := []string{"it said: " + secret, fmt.Sprintf("it said: %q", secret), "first line"}
		spread(&made, said, repeated, len(seed))
		written, err := made.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		defer fuzz.Budget(t, seed, written)()
		got, err := yaml.Marshal(Of(&made, "WebApp/shop"))
		if err != nil {
			t.Fatal(err)
		}
		if text := string(got); strings.Contains(text, "hunter2") || strings.Contains(text, "first line") {
			t.Errorf("the FarmPod shows it:\n%s", text)
		}
	})
}

// spread puts a termination message where the kubelet writes it, and repetitions where others
// write.
func spread(pod *corev1.Pod, said string, repeated []string, chance int) {
	reasons := []string{"ErrImagePull", "ImagePullBackOff", "CreateContainerError", "RunContainerError", "PostStartHookError",
		"CrashLoopBackOff", "Other"}
	pod.Status.Message = repeated[chance%len(repeated)]
	pod.Status.Phase = []corev1.PodPhase{"Pending", "Running", "Failed"}[chance%3]
	for i := range pod.Status.Conditions {
		pod.Status.Conditions[i].Message = repeated[(chance+i)%len(repeated)]
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "PodScheduled", Status: "False",
		Message: repeated[chance%len(repeated)]})
	each := func(containers []corev1.Container, statuses []corev1.ContainerStatus) {
		for i := range statuses {
			if i < len(containers) {
				containers[i].Name = statuses[i].Name
			}
			statuses[i].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "StartError", ExitCode: 128, Message: said}
			if waiting := statuses[i].State.Waiting; waiting != nil {
				statuses[i].State.Terminated = nil
				waiting.Reason, waiting.Message = reasons[(chance/3+i)%len(reasons)], repeated[(chance+i)%len(repeated)]
			}
			if ended := statuses[i].State.Terminated; ended != nil {
				ended.Message = said
			}
		}
	}
	each(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	each(pod.Spec.Containers, pod.Status.ContainerStatuses)
}

// many returns Pods of one workload as an informer returns them: decoded one by one, so that they
// share no memory. They lack managed fields, because an informer may drop those.
func many(tb testing.TB, count int) []*corev1.Pod {
	tb.Helper()
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		template := whole()
		template.Name, template.UID, template.ResourceVersion = fmt.Sprintf("shop-6c5d8f7b9-%05d", i),
			types.UID(fmt.Sprintf("5f0c7a3e-8d4b-4b61-9a55-%012d", i)), fmt.Sprint(1_000_000+i)
		template.Spec.NodeName, template.ManagedFields = fmt.Sprintf("node-%d", i%100), nil
		for at := range template.Spec.Containers {
			one := &template.Spec.Containers[at]
			one.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz"}}}
			for _, name := range []string{"TEAM", "LEVEL", "REGION", "URL"} {
				one.Env = append(one.Env, corev1.EnvVar{Name: name, Value: "the value of " + name})
			}
			one.VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access-abcde", ReadOnly: true,
				MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
		}
		encoded, err := template.Marshal()
		if err != nil {
			tb.Fatal(err)
		}
		pods[i] = &corev1.Pod{}
		if err := pods[i].Unmarshal(encoded); err != nil {
			tb.Fatal(err)
		}
	}
	return pods
}

// held returns the bytes in use on the heap.
func held() int64 {
	goruntime.GC()
	goruntime.GC()
	var now goruntime.MemStats
	goruntime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}

// TestMemory measures what stays in memory of 10,000 Pods when the Pods are dropped. It reads the
// heap's size, which is exact as long as nothing else runs.
func TestMemory(t *testing.T) {
	const count = 10_000
	before := held()
	pods := many(t, count)
	ofPods := held() - before
	made := make([]*farmv1alpha1.FarmPod, count)
	for i := range pods {
		made[i] = Of(pods[i], "WebApp/shop")
	}
	pods = slices.Delete(pods, 0, count)
	ofFarmPods := held() - before
	t.Logf("a Pod holds %d bytes, a FarmPod %d", ofPods/count, ofFarmPods/count)
	if ofFarmPods > count*1024 || ofFarmPods*10 > ofPods*4 {
		t.Errorf("a FarmPod holds %d bytes, a Pod %d: at most 1024, and 0.4 of it", ofFarmPods/count, ofPods/count)
	}
	goruntime.KeepAlive(pods)
	goruntime.KeepAlive(made)
}

func BenchmarkOf(b *testing.B) {
	pods := many(b, 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		Of(pods[i%len(pods)], "WebApp/shop")
	}
}
