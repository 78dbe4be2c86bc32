package served

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

const farmPodsPath = "/apis/farm.mainstay.dev/v1alpha1/namespaces/%s/farmpods"

// TestReadOnly checks that computed resources have no verbs that write.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	createPod(t, namespace, "web")
	pod := &farmv1alpha1.FarmPod{}
	g.Expect(cluster.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "farm-web"}, pod)).To(gomega.Succeed())
	made := pod.DeepCopy()
	made.ResourceVersion = ""
	for verb, err := range map[string]error{
		"create": cluster.client.Create(t.Context(), made), "update": cluster.client.Update(t.Context(), pod.DeepCopy()),
		"patch":            cluster.client.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{}`))),
		"apply":            cluster.client.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.ApplyPatchType, []byte(`{}`)), client.FieldOwner("x")),
		"delete":           cluster.client.Delete(t.Context(), pod.DeepCopy()),
		"deletecollection": cluster.client.DeleteAllOf(t.Context(), &farmv1alpha1.FarmPod{}, client.InNamespace(namespace)),
	} {
		if !apierrors.IsMethodNotSupported(err) {
			t.Errorf("%s: %v, expected MethodNotAllowed", verb, err)
		}
	}
	for name, says := range map[string]string{
		"farm-none": `farmpods.farm.mainstay.dev "farm-none" not found`, "web": `farmpods.farm.mainstay.dev "web" not found`, "farm-": `farmpods.farm.mainstay.dev "farm-" not found`,
	} {
		err := cluster.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &farmv1alpha1.FarmPod{})
		g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "%v", err)
		g.Expect(err).To(gomega.MatchError(says))
	}
}

// createPods creates Pods that differ in everything that selectors can select.
func createPods(t *testing.T) string {
	t.Helper()
	namespace := newNamespace(t)
	for i := range 6 {
		pod := createPod(t, namespace, "p"+strconv.Itoa(i), func(pod *corev1.Pod) {
			pod.Labels = map[string]string{"half": strconv.Itoa(i % 2)}
			pod.Spec.NodeName = "node-" + strconv.Itoa(i%3)
			if i < 2 {
				pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Herd", Name: "north", UID: "1",
					Controller: new(true)}}
			}
		})
		pod.Status.Phase = []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed}[i/3]
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Ready: i < 3,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		if err := cluster.client.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		awaitFarmPod(t, pod)
	}
	return namespace
}

// awaitFarmPod waits until the current version of a Pod is served.
func awaitFarmPod(t *testing.T, pod *corev1.Pod) *farmv1alpha1.FarmPod {
	t.Helper()
	served := &farmv1alpha1.FarmPod{}
	gomega.NewWithT(t).Eventually(func() (string, error) {
		err := cluster.client.Get(t.Context(), client.ObjectKey{Namespace: pod.Namespace, Name: "farm-" + pod.Name}, served)
		return served.ResourceVersion, err
	}).Should(gomega.Equal(pod.ResourceVersion))
	return served
}

// TestSelectors checks selectors of labels and of each selectable field.
func TestSelectors(t *testing.T) {
	t.Parallel()
	namespace := createPods(t)
	list := func(options metav1.ListOptions) (string, error) {
		listed := &farmv1alpha1.FarmPodList{}
		err := cluster.client.List(t.Context(), listed, client.InNamespace(namespace), &client.ListOptions{Raw: &options})
		var names []string
		for _, one := range listed.Items {
			names = append(names, strings.TrimPrefix(one.Name, "farm-p"))
		}
		return strings.Join(names, ""), err
	}
	for selector, want := range map[string]string{"half=0": "024", "half in (0,1)": "012345", "half!=0": "135", "!half": "",
		"half=0,half=1": ""} {
		if got, err := list(metav1.ListOptions{LabelSelector: selector}); err != nil || got != want {
			t.Errorf("labels %s: %s, expected %s (%v)", selector, got, want, err)
		}
	}
	for selector, want := range map[string]string{
		"metadata.name=farm-p3": "3", "metadata.name=p3": "", "spec.nodeName=node-1": "14", "status.phase=Failed": "345",
		"status.phase!=Failed":  "012",
		"spec.owner=Herd/north": "01", "spec.owner=": "2345", "spec.nodeName=node-1,status.phase=Running": "1",
		"metadata.namespace=" + namespace: "012345",
	} {
		if got, err := list(metav1.ListOptions{FieldSelector: selector}); err != nil || got != want {
			t.Errorf("fields %s: %s, expected %s (%v)", selector, got, want, err)
		}
	}
	if got, err := list(metav1.ListOptions{FieldSelector: "spec.nodeName=node-1", LabelSelector: "half=0"}); err != nil || got != "4" {
		t.Errorf("both: %s (%v)", got, err)
	}
	_, err := list(metav1.ListOptions{FieldSelector: "spec.color=red"})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("an unknown field: %v", err)
	}
	expectSays(t, "an unknown field", err, "spec.color", "metadata.name, metadata.namespace, spec.nodeName, spec.owner, status.phase")
	if _, err := list(metav1.ListOptions{LabelSelector: "a b"}); !apierrors.IsBadRequest(err) {
		t.Errorf("an invalid selector: %v", err)
	}
}

// TestPages checks that all pages of a list are of the version of the first, whatever changes
// meanwhile.
func TestPages(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := createPods(t)
	var names []string
	page := &farmv1alpha1.FarmPodList{}
	first := ""
	for {
		g.Expect(cluster.client.List(t.Context(), page, client.InNamespace(namespace), client.Limit(2),
			client.Continue(page.Continue))).To(gomega.Succeed())
		for _, one := range page.Items {
			names = append(names, one.Name)
		}
		if first == "" {
			first = page.ResourceVersion
			g.Expect(page.RemainingItemCount).To(gomega.HaveValue(gomega.Equal(int64(4))))
			g.Expect(cluster.client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p4"}},
				client.GracePeriodSeconds(0))).To(gomega.Succeed())
			createPod(t, namespace, "p9")
		}
		g.Expect(page.ResourceVersion).To(gomega.Equal(first))
		if page.Continue == "" {
			break
		}
	}
	g.Expect(names).To(gomega.Equal([]string{"farm-p0", "farm-p1", "farm-p2", "farm-p3", "farm-p4", "farm-p5"}))
	selected := &farmv1alpha1.FarmPodList{}
	g.Expect(cluster.client.List(t.Context(), selected, client.InNamespace(namespace), client.Limit(1),
		client.MatchingFields{"status.phase": "Running"})).To(gomega.Succeed())
	g.Expect(selected.Items).To(gomega.HaveLen(1))
	g.Expect(selected.Continue).NotTo(gomega.BeEmpty())
	// A token of a version older than everything here.
	err := cluster.client.List(t.Context(), page, client.InNamespace(namespace), client.Limit(2),
		client.Continue(continueAt(t, namespace, "farm-p1", 2)))
	g.Expect(apierrors.IsResourceExpired(err)).To(gomega.BeTrue(), "a list of a version that has expired: %v", err)
	err = cluster.client.List(t.Context(), page, client.InNamespace(namespace), client.Limit(2), client.Continue("nonsense"))
	g.Expect(apierrors.IsBadRequest(err)).To(gomega.BeTrue(), "%v", err)
	expectTooNew(t, fmt.Sprintf(farmPodsPath, namespace)+"?limit=2&continue="+continueAt(t, namespace, "farm-p1", 1<<60))
}

// expectTooNew checks that a read of a version that does not exist yet is refused for the moment.
// Clients of client-go retry; this one does not.
func expectTooNew(t *testing.T, path string) {
	t.Helper()
	g := gomega.NewWithT(t)
	got := get(t, path, "application/json")
	var said metav1.Status
	g.Expect(json.Unmarshal([]byte(got.Body), &said)).To(gomega.Succeed())
	err := error(&apierrors.StatusError{ErrStatus: said})
	g.Expect(got.Status).To(gomega.Equal(http.StatusGatewayTimeout), "a future version: %s", got.Body)
	g.Expect(got.Header.Get("Retry-After")).NotTo(gomega.BeEmpty(), "other clients retry")
	g.Expect(apierrors.IsTimeout(err)).To(gomega.BeTrue(), "%v", err)
	g.Expect(apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)).To(gomega.BeTrue(), "informers understand this cause")
}

// continueAt returns a continue token as the library writes it, for the rest of a list of a version
// after a name.
func continueAt(t *testing.T, namespace, name string, version int64) string {
	t.Helper()
	token, err := storage.EncodeContinue("/farm.mainstay.dev/farmpods/"+namespace+"/"+name+"\x00",
		"/farm.mainstay.dev/farmpods/"+namespace+"/", version)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestVersions checks the meanings of resourceVersion in lists that Kubernetes promises.
func TestVersions(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := createPods(t)
	list := func(version string, match metav1.ResourceVersionMatch) (*farmv1alpha1.FarmPodList, error) {
		listed := &farmv1alpha1.FarmPodList{}
		return listed, cluster.client.List(t.Context(), listed, client.InNamespace(namespace), &client.ListOptions{
			Raw: &metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: match},
		})
	}
	before, err := list("", "")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(before.Items).To(gomega.HaveLen(6))
	created := createPod(t, namespace, "p9")
	for _, match := range []metav1.ResourceVersionMatch{"", metav1.ResourceVersionMatchNotOlderThan} {
		after, err := list(created.ResourceVersion, match)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(after.Items).To(gomega.HaveLen(7), match)
		g.Expect(isNewer(before.ResourceVersion, after.ResourceVersion)).To(gomega.BeFalse())
	}
	past, err := list(before.ResourceVersion, metav1.ResourceVersionMatchExact)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(past.ResourceVersion).To(gomega.Equal(before.ResourceVersion))
	g.Expect(cmp.Diff(before.Items, past.Items)).To(gomega.BeEmpty(), "an earlier version is unchanged")
	any0, err := list("0", "")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(any0.Items).To(gomega.HaveLen(7))
	_, err = list("2", metav1.ResourceVersionMatchExact)
	g.Expect(apierrors.IsResourceExpired(err)).To(gomega.BeTrue(), "a version that has expired: %v", err)
	_, err = list("0", metav1.ResourceVersionMatchExact)
	g.Expect(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)).To(gomega.BeTrue(), "%v", err)
	_, err = list("soon", "")
	g.Expect(err).To(gomega.HaveOccurred())

	for _, path := range []string{"?", "/farm-p9?", "?resourceVersionMatch=Exact&", "?limit=2&"} {
		expectTooNew(t, fmt.Sprintf(farmPodsPath, namespace)+path+"resourceVersion="+created.ResourceVersion+"000")
	}
}

// TestWatch checks objects that leave a selector, and versions that have expired.
func TestWatch(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := createPods(t)
	watching := newClient(t, cluster.config)
	events, err := watching.Watch(t.Context(), &farmv1alpha1.FarmPodList{}, client.InNamespace(namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{
			ResourceVersion: "0", FieldSelector: "status.phase=Running",
		}})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer events.Stop()
	next := func() string {
		t.Helper()
		var event watch.Event
		g.Eventually(events.ResultChan()).Should(gomega.Receive(&event))
		pod, is := event.Object.(*farmv1alpha1.FarmPod)
		if !is {
			t.Fatalf("%s of %+v", event.Type, event.Object)
		}
		return string(event.Type) + " " + pod.Name
	}
	begin := []string{next(), next(), next()}
	slices.Sort(begin)
	g.Expect(begin).To(gomega.Equal([]string{"ADDED farm-p0", "ADDED farm-p1", "ADDED farm-p2"}))
	patchPhase(t, namespace, "p0", "Failed")
	g.Expect(next()).To(gomega.Equal("DELETED farm-p0"), "it left the selector")
	patchPhase(t, namespace, "p5", "Running")
	g.Expect(next()).To(gomega.Equal("ADDED farm-p5"), "it entered the selector")

	old, err := watching.Watch(t.Context(), &farmv1alpha1.FarmPodList{}, client.InNamespace(namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "2"}})
	if err == nil {
		defer old.Stop()
		err = apierrors.FromObject((<-old.ResultChan()).Object)
	}
	g.Expect(apierrors.IsResourceExpired(err) || apierrors.IsGone(err)).To(gomega.BeTrue(), "from a version that has expired: %v", err)
}

// TestBookmarks checks that clients that ask for bookmarks get them. The library sends one shortly
// before the time of a watch is up, if the watch has seen any event. If that was too late, the next
// watch gets one.
func TestBookmarks(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createPod(t, namespace, "web")
	watching := newClient(t, cluster.config)
	gomega.NewWithT(t).Eventually(func() (string, error) {
		events, err := watching.Watch(t.Context(), &farmv1alpha1.FarmPodList{}, client.InNamespace(namespace),
			&client.ListOptions{Raw: &metav1.ListOptions{
				AllowWatchBookmarks: true, TimeoutSeconds: new(int64(5)),
			}})
		if err != nil {
			return "", err
		}
		defer events.Stop()
		for event := range events.ResultChan() {
			if pod, is := event.Object.(*farmv1alpha1.FarmPod); is && event.Type == watch.Bookmark {
				return pod.ResourceVersion, nil
			}
		}
		return "", nil
	}).ShouldNot(gomega.BeEmpty())
}

func patchPhase(t *testing.T, namespace, name, phase string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := cluster.client.Status().Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase))); err != nil {
		t.Fatal(err)
	}
}

// TestOwner checks that the owner of a Pod is the topmost one, here a WebApp.
func TestOwner(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	owned := func(name string, by ...metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: by}
	}
	labels := map[string]string{"app": "shop"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "demo"}}}}
	app := metav1.OwnerReference{APIVersion: msappsv1.GroupVersion.String(), Kind: "WebApp", Name: "shop", UID: "a-webapp",
		Controller: new(true)}
	deployment := &appsv1.Deployment{ObjectMeta: owned("shop", app),
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}
	g.Expect(cluster.client.Create(t.Context(), deployment)).To(gomega.Succeed())
	controlled := func(kind, name string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: uid, Controller: new(true)}
	}
	replicas := &appsv1.ReplicaSet{
		ObjectMeta: owned("shop-1", controlled("Deployment", "shop", deployment.UID)),
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}
	g.Expect(cluster.client.Create(t.Context(), replicas)).To(gomega.Succeed())
	for name, one := range map[string]struct {
		by   []metav1.OwnerReference
		want string
	}{
		"shop-1-a": {[]metav1.OwnerReference{controlled("ReplicaSet", "shop-1", replicas.UID)}, "WebApp/shop"},
		"recycled": {[]metav1.OwnerReference{controlled("ReplicaSet", "shop-1", "another")}, "ReplicaSet/shop-1"},
		"alone":    {nil, ""},
	} {
		pod := createPod(t, namespace, name, func(pod *corev1.Pod) { pod.OwnerReferences = one.by })
		g.Expect(awaitFarmPod(t, pod).Spec.Owner).To(gomega.Equal(one.want), name)
	}
}

// TestNothingSecret checks that no form of a FarmPod contains fields that may have secrets.
func TestNothingSecret(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	const canary = "hunter2"
	pod := createPod(t, namespace, "web", func(pod *corev1.Pod) {
		pod.Annotations, pod.Spec.NodeName = map[string]string{"note": canary}, "node-1"
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", Value: canary}}
		pod.Spec.Containers[0].Args = []string{"--password=" + canary}
	})
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: canary,
		FinishedAt: metav1.Now()}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off " + canary}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: 3, State: waiting, LastTerminationState: ended}}
	g.Expect(cluster.client.Status().Update(t.Context(), pod)).To(gomega.Succeed())
	served := awaitFarmPod(t, pod)
	g.Expect(served.Status.Reason).To(gomega.HavePrefix("CrashLoopBackOff"))
	g.Expect(served.Status.LastTermination.ExitCode).To(gomega.Equal(int32(1)))
	for _, accept := range []string{"application/json", "application/yaml", "application/cbor", tableOf, tableOf + ";includeObject=Object"} {
		answered := get(t, fmt.Sprintf(farmPodsPath, namespace)+"?includeObject=Object", accept)
		g.Expect(answered.Body).To(gomega.ContainSubstring("CrashLoopBackOff"), accept)
		g.Expect(answered.Body).NotTo(gomega.ContainSubstring(canary), accept)
		g.Expect(answered.Body).NotTo(gomega.ContainSubstring("managedFields"), accept)
	}
}

const tableOf = "application/json;as=Table;v=v1;g=meta.k8s.io"

// TestTable checks the columns of kubectl get, with and without -o wide, and of a watch.
func TestTable(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := createPods(t)
	table := &metav1.Table{}
	g.Expect(json.Unmarshal([]byte(get(t, fmt.Sprintf(farmPodsPath, namespace), tableOf).Body), table)).To(gomega.Succeed())
	var narrow, wide []string
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			narrow = append(narrow, column.Name)
		} else {
			wide = append(wide, column.Name)
		}
		g.Expect(column.Description).NotTo(gomega.BeEmpty(), column.Name)
	}
	g.Expect(narrow).To(gomega.Equal([]string{"Name", "Ready", "Status", "Restarts", "Age", "Owner", "Node", "Detail"}))
	g.Expect(wide).To(gomega.Equal([]string{"Images", "Requests", "Limits", "Configuration", "Agents"}))
	g.Expect(table.Rows).To(gomega.HaveLen(6))
	g.Expect(table.ResourceVersion).NotTo(gomega.BeEmpty())
	first := table.Rows[0]
	g.Expect(first.Cells[:4]).To(gomega.Equal([]any{"farm-p0", "1/1", "Running", 0.0}))
	g.Expect(first.Cells[5:7]).To(gomega.Equal([]any{"Herd/north", "node-0"}))
	partial := &metav1.PartialObjectMetadata{}
	g.Expect(json.Unmarshal(first.Object.Raw, partial)).To(gomega.Succeed())
	g.Expect(partial.Kind).To(gomega.Equal("PartialObjectMetadata"))
	g.Expect(partial.Name).To(gomega.Equal("farm-p0"))

	body := open(t, fmt.Sprintf(farmPodsPath, namespace)+"?watch=1&resourceVersion="+table.ResourceVersion, tableOf)
	events := json.NewDecoder(body)
	for i, phase := range []string{"Failed", "Running"} {
		patchPhase(t, namespace, "p0", phase)
		var event struct {
			Type   string
			Object metav1.Table
		}
		g.Expect(events.Decode(&event)).To(gomega.Succeed())
		g.Expect(event.Type).To(gomega.Equal("MODIFIED"))
		g.Expect(event.Object.Kind).To(gomega.Equal("Table"))
		g.Expect(len(event.Object.ColumnDefinitions) > 0).To(gomega.Equal(i == 0), "only the first event has the columns")
		g.Expect(event.Object.Rows).To(gomega.HaveLen(1))
		g.Expect(event.Object.Rows[0].Cells[0]).To(gomega.Equal("farm-p0"))
	}
}

// TestContentTypes checks the encodings that clients may ask for.
func TestContentTypes(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	path := fmt.Sprintf(farmPodsPath, createPods(t))
	for accept, want := range map[string]struct {
		status int
		is     string
	}{
		"application/json": {http.StatusOK, "application/json"}, "application/yaml": {http.StatusOK, "application/yaml"},
		"application/cbor": {http.StatusOK, "application/cbor"}, "": {http.StatusOK, "application/json"},
		"application/vnd.kubernetes.protobuf":                  {http.StatusNotAcceptable, "application/"},
		"application/vnd.kubernetes.protobuf,application/json": {http.StatusOK, "application/json"},
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1": {
			http.StatusOK, "application/vnd.kubernetes.protobuf", // only the metadata can be encoded in it
		},
		"text/html": {http.StatusNotAcceptable, "application/json"},
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io": {http.StatusOK, "application/json"},
	} {
		got := get(t, path, accept)
		g.Expect(got.Status).To(gomega.Equal(want.status), "%s: %s", accept, got.Body)
		g.Expect(got.Header.Get("Content-Type")).To(gomega.HavePrefix(want.is), accept)
	}
}

// TestGzip checks that large answers are compressed.
func TestGzip(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	long := strings.Repeat("x", 800)
	for i := range 4 {
		createPod(t, namespace, "p"+strconv.Itoa(i), func(pod *corev1.Pod) {
			for j := range 60 {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d-%d", i, j),
					Image: long + strconv.Itoa(i*100+j)})
			}
		})
	}
	asked := asProxied(fmt.Sprintf(farmPodsPath, namespace), "admin", "system:masters")
	plain := ask(t, cluster.server, asked)
	g.Expect(len(plain.Body)).To(gomega.BeNumerically(">", 128<<10))
	asked.header["Accept-Encoding"] = "gzip"
	zipped := ask(t, cluster.server, asked)
	g.Expect(zipped.Header.Get("Content-Encoding")).To(gomega.Equal("gzip"))
	g.Expect(len(zipped.Body)).To(gomega.BeNumerically("<", len(plain.Body)/4))
	reader, err := gzip.NewReader(strings.NewReader(zipped.Body))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	text, err := io.ReadAll(reader)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	var a, b farmv1alpha1.FarmPodList
	g.Expect(json.Unmarshal([]byte(plain.Body), &a)).To(gomega.Succeed())
	g.Expect(json.Unmarshal(text, &b)).To(gomega.Succeed())
	g.Expect(cmp.Diff(a.Items, b.Items)).To(gomega.BeEmpty())
}

// TestReadsAskForNothing checks that reads of FarmPods cause no requests by our server: it has
// listed and watches all resources that FarmPods are computed of. It must run alone.
func TestReadsAskForNothing(t *testing.T) {
	g := gomega.NewWithT(t)
	namespace := createPods(t)
	watching := newClient(t, cluster.config)
	asks := func(verbs ...string) int {
		return countCalls(t, sharedServer, "", func(call auditv1.Event) bool {
			return call.ObjectRef != nil && slices.Contains(verbs, call.Verb) &&
				slices.Contains([]string{"pods", "replicasets", "deployments", "statefulsets", "daemonsets", "jobs", "cronjobs"},
					call.ObjectRef.Resource) &&
				(call.ObjectRef.Namespace == "" || call.ObjectRef.Namespace == namespace)
		})
	}
	g.Expect(asks("list")).To(gomega.BeNumerically(">", 0), "the initial lists are counted")
	g.Expect(asks("watch")).To(gomega.BeNumerically(">", 0), "the watches are counted")
	before := asks("get", "list")
	// A watch is renewed every few minutes, which may happen now, at most once for each of the seven
	// resources. Reads that were not cached would begin a watch each.
	watches := asks("watch")
	read(t, watching, namespace)
	g.Expect(asks("watch")-watches).To(gomega.BeNumerically("<=", 7), "watches for 250 reads")
	g.Expect(asks("get", "list")-before).To(gomega.BeZero(), "gets and lists for 250 reads")
}

// read reads FarmPods in all ways, 250 times in total.
func read(t *testing.T, watching client.WithWatch, namespace string) {
	t.Helper()
	g := gomega.NewWithT(t)
	for range 50 {
		g.Expect(watching.List(t.Context(), &farmv1alpha1.FarmPodList{}, client.InNamespace(namespace))).To(gomega.Succeed())
		g.Expect(watching.List(t.Context(), &farmv1alpha1.FarmPodList{}, client.MatchingFields{"status.phase": "Running"},
			client.Limit(2))).To(gomega.Succeed())
		g.Expect(watching.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "farm-p1"}, &farmv1alpha1.FarmPod{})).To(gomega.Succeed())
		g.Expect(apierrors.IsNotFound(watching.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "farm-none"},
			&farmv1alpha1.FarmPod{}))).To(gomega.BeTrue())
		events, err := watching.Watch(t.Context(), &farmv1alpha1.FarmPodList{}, client.InNamespace(namespace))
		g.Expect(err).NotTo(gomega.HaveOccurred())
		var event watch.Event
		g.Eventually(events.ResultChan()).Should(gomega.Receive(&event))
		g.Expect(event.Type).To(gomega.Equal(watch.Added))
		events.Stop()
	}
}

// open requests a path from the API server in an encoding, with all rights.
func open(t *testing.T, path, accept string) io.ReadCloser {
	t.Helper()
	response := request(t, path, accept)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response.Body
}

func get(t *testing.T, path, accept string) answer {
	t.Helper()
	response := request(t, path, accept)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

func request(t *testing.T, path, accept string) *http.Response {
	t.Helper()
	asking, err := rest.HTTPClientFor(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	made, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(cluster.config.Host, "/")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		made.Header.Set("Accept", accept)
	}
	response, err := asking.Do(made)
	if err != nil {
		t.Fatal(err)
	}
	return response
}
