package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

const (
	// javaOptions is the variable that a Java agent extends.
	javaOptions = "JAVA_TOOL_OPTIONS"
	javaSuffix  = "-javaagent:/mainstay/agent/agent.jar"
)

// form is a way in which an owner may set JAVA_TOOL_OPTIONS of a container.
type form struct {
	name string
	env  []corev1.EnvVar
	from []corev1.EnvFromSource
	// wanted is the value with the agent, empty if nothing is injected.
	wanted string
}

// forms returns all forms. Function sources creates their ConfigMaps and Secrets.
func forms() []form {
	value := func(text string) []corev1.EnvVar { return []corev1.EnvVar{{Name: javaOptions, Value: text}} }
	source := func(from *corev1.EnvVarSource) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: javaOptions, ValueFrom: from}}
	}
	all := func(name string, optional *bool) []corev1.EnvFromSource {
		reference := corev1.LocalObjectReference{Name: name}
		return []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: reference, Optional: optional}}}
	}
	options := corev1.LocalObjectReference{Name: "options"}
	extended := "$(MAINSTAY_" + javaOptions + ") " + javaSuffix
	return []form{
		{name: "absent", wanted: javaSuffix},
		{name: "empty", env: value(""), wanted: javaSuffix},
		{name: "value", env: value("-Xmx1g"), wanted: "-Xmx1g " + javaSuffix},
		{name: "config map", env: source(&corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: options,
			Key: "java"}}), wanted: extended},
		{name: "secret", env: source(&corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: options, Key: "java"}}),
			wanted: extended},
		{name: "field", env: source(&corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}}),
			wanted: extended},
		{name: "all of a config map that has it", from: all("has", nil), wanted: "$(" + javaOptions + ") " + javaSuffix},
		{name: "all of a config map that lacks it", from: all("lacks", nil), wanted: javaSuffix},
		{name: "all of a config map that is optional", from: all("has", new(true))},
	}
}

// sources creates the ConfigMaps and Secrets that the forms refer to.
func (s *governed) sources(t *testing.T, namespace string) {
	t.Helper()
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	for name, data := range map[string]map[string]string{"has": {javaOptions: "-Xmx2g"}, "lacks": {"COLOUR": "red"},
		"options": {"java": "-Xmx3g"}} {
		s.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data})
	}
	s.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "options"},
		StringData: map[string]string{"java": "-Xmx4g"}})
}

// owned returns a manifest as an owner keeps it in a repository, with everything that injection
// must leave in place.
func owned(namespace, name string, has form) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	env := slices.Concat([]corev1.EnvVar{{Name: "FIRST", Value: "1"}}, has.env, []corev1.EnvVar{{Name: "LAST", Value: "$(FIRST)"}})
	mount := []corev1.VolumeMount{{Name: "work", MountPath: "/work"}}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					InitContainers: []corev1.Container{{Name: "prepare", Image: "prepare:1", VolumeMounts: mount}},
					Containers: []corev1.Container{
						{Name: "app", Image: "app:1", Env: env, EnvFrom: has.from, VolumeMounts: mount},
						{Name: "istio-proxy", Image: "proxy:1"},
					},
					Volumes: []corev1.Volume{{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
				},
			},
		},
	}
}

// pairs are Deployments, one for each change from one form to another. Each has a twin without an
// agent.
type pairs struct {
	*governed
	namespace string
	forms     []form
	namedWriter
}

// each calls a function for every pair.
func (p *pairs) each(do func(web, bare string, from, to form)) {
	for i, from := range p.forms {
		for j, to := range p.forms {
			if p.isSlow && (len(p.forms)+j-i)%3 != 0 {
				continue
			}
			do(fmt.Sprintf("web-%d-%d", i, j), fmt.Sprintf("bare-%d-%d", i, j), from, to)
		}
	}
}

// apply writes all Deployments as their owner, before or after the change.
func (p *pairs) apply(t *testing.T, isChanged bool) {
	t.Helper()
	var manifests []*appsv1.Deployment
	p.each(func(web, bare string, from, to form) {
		if isChanged {
			from = to
		}
		manifests = append(manifests, owned(p.namespace, web, from), owned(p.namespace, bare, from))
	})
	p.write(t, p.governed, manifests)
}

// all returns the stored Deployments by name.
func (p *pairs) all(t *testing.T) map[string]*appsv1.Deployment {
	t.Helper()
	var list appsv1.DeploymentList
	if err := p.client.List(t.Context(), &list, client.InNamespace(p.namespace)); err != nil {
		t.Fatal(err)
	}
	found := map[string]*appsv1.Deployment{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	return found
}

// unchanged checks that applying the same manifests again changes nothing.
func (p *pairs) unchanged(t *testing.T, isChanged bool) {
	t.Helper()
	before := p.all(t)
	p.apply(t, isChanged)
	for name, after := range p.all(t) {
		// A change of a Deployment's annotations counts as a new generation too. An owner that drops our
		// annotations causes one.
		isSame := testenv.JSON(t, after.Annotations) == testenv.JSON(t, before[name].Annotations)
		if isSame && after.Generation != before[name].Generation {
			t.Errorf("%s: the same manifest made generation %d of %d", name, after.Generation, before[name].Generation)
		}
		if got, want := testenv.JSON(t, after.Spec.Template), testenv.JSON(t, before[name].Spec.Template); got != want {
			t.Errorf("%s: the same manifest made\n%s\nof\n%s", name, got, want)
		}
	}
}

// reached waits until the agent is in all Deployments that can have it.
func (p *pairs) reached(t *testing.T) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() []string {
		var bare []string
		found := p.all(t)
		p.each(func(web, _ string, from, _ form) {
			if from.wanted != "" && found[web].Spec.Template.Annotations[instrv1.AnnotationInjected] == "" {
				bare = append(bare, web)
			}
		})
		return bare
	}).Should(gomega.BeEmpty())
}

// injected checks that all Deployments have the agent, and no other difference.
func (p *pairs) injected(t *testing.T, isChanged bool) {
	t.Helper()
	found := p.all(t)
	p.each(func(web, bare string, from, to form) {
		if isChanged {
			from = to
		}
		mine, twin := found[web], found[bare]
		about := web + ": " + from.name
		if from.wanted == "" {
			equalTemplates(t, about, mine, twin)
			return
		}
		checkInjected(t, about, mine, twin, from)
		equalOwners(t, about, mine, twin)
	})
}

// checkInjected compares a Deployment that has the agent with its twin.
func checkInjected(t *testing.T, about string, mine, twin *appsv1.Deployment, has form) {
	t.Helper()
	spec, bare := mine.Spec.Template.Spec.DeepCopy(), &twin.Spec.Template.Spec
	container := &spec.Containers[0]
	at := slices.IndexFunc(container.Env, func(one corev1.EnvVar) bool { return one.Name == javaOptions })
	if at < 0 || container.Env[at].Value != has.wanted || container.Env[at].ValueFrom != nil {
		t.Errorf("%s: got %+v, want %s", about, container.Env, has.wanted)
		return
	}
	if got := len(spec.InitContainers) - len(bare.InitContainers); got != 1 {
		t.Errorf("%s: %d more init containers", about, got)
	}
	if got := len(spec.Volumes) - len(bare.Volumes); got != 1 {
		t.Errorf("%s: %d more volumes", about, got)
	}
	if got := len(container.VolumeMounts) - len(bare.Containers[0].VolumeMounts); got != 1 {
		t.Errorf("%s: %d more mounts", about, got)
	}
	isOurs := func(one corev1.EnvVar) bool {
		return one.Name == javaOptions || one.Name == "MAINSTAY_"+javaOptions || one.Name == "TEAM"
	}
	own, theirs := slices.DeleteFunc(slices.Clone(container.Env), isOurs), slices.DeleteFunc(slices.Clone(bare.Containers[0].Env), isOurs)
	if got, want := testenv.JSON(t, own), testenv.JSON(t, theirs); got != want {
		t.Errorf("%s: the owner's variables are %s, not %s", about, got, want)
	}
	if got, want := testenv.JSON(t, spec.Containers[1]), testenv.JSON(t, bare.Containers[1]); got != want {
		t.Errorf("%s: the side-car is %s, not %s", about, got, want)
	}
}

// restored checks that all Deployments are as if there had never been an agent.
func (p *pairs) restored(t *testing.T) {
	t.Helper()
	found := p.all(t)
	p.each(func(web, bare string, from, to form) {
		about := fmt.Sprintf("%s: %s, then %s", web, from.name, to.name)
		equalTemplates(t, about, found[web], found[bare])
		equalOwners(t, about, found[web], found[bare])
		for key := range found[web].Annotations {
			if strings.Contains(key, "mainstay") {
				t.Errorf("%s: there is still %s", about, key)
			}
		}
	})
}

func equalTemplates(t *testing.T, about string, mine, twin *appsv1.Deployment) {
	t.Helper()
	if got, want := testenv.JSON(t, mine.Spec.Template), testenv.JSON(t, twin.Spec.Template); got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", about, got, want)
	}
}

// equalOwners checks that the owner that uses server-side apply owns the same fields as without us,
// and that we own only our annotation. For other writes Kubernetes records only what differs from
// the stored object. That has no effect and is not compared.
func equalOwners(t *testing.T, about string, mine, twin *appsv1.Deployment) {
	t.Helper()
	if got, want := testenv.JSON(t, owners(t, about, mine)), testenv.JSON(t, owners(t, about, twin)); got != want {
		t.Errorf("%s: the fields are owned so:\n%s\nnot so:\n%s", about, got, want)
	}
}

// owners returns the managed fields of server-side apply, without times and without ours.
func owners(t *testing.T, about string, object client.Object) []metav1.ManagedFieldsEntry {
	t.Helper()
	var entries []metav1.ManagedFieldsEntry
	for _, entry := range object.GetManagedFields() {
		entry.Time = nil
		if !strings.HasPrefix(entry.Manager, "mainstay") {
			if entry.Operation == metav1.ManagedFieldsOperationApply {
				entries = append(entries, entry)
			}
			continue
		}
		var fields map[string]map[string]map[string]any
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			t.Errorf("%s: %s owns %s", about, entry.Manager, entry.FieldsV1.GetRawBytes())
			continue
		}
		for key := range fields["f:metadata"]["f:annotations"] {
			if key != "." && !strings.HasSuffix(key, "."+instrv1.AnnotationGranted) || len(fields)+len(fields["f:metadata"]) != 2 {
				t.Errorf("%s: %s owns %s", about, entry.Manager, entry.FieldsV1.GetRawBytes())
			}
		}
	}
	slices.SortFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Operation, b.Operation))
	})
	return entries
}

// removed deletes an Instrumentation and waits until all is restored.
func (s *governed) removed(t *testing.T, agent client.Object) {
	t.Helper()
	if err := s.client.Delete(t.Context(), agent); err != nil {
		t.Fatal(err)
	}
	gomega.NewWithT(t).Eventually(func() bool {
		return apierrors.IsNotFound(s.client.Get(t.Context(), client.ObjectKeyFromObject(agent), agent))
	}).Should(gomega.BeTrue(), "it goes")
}

// TestOwnersOfWorkloads checks that every kind of owner can write its workloads repeatedly, with
// and without the agent.
func TestOwnersOfWorkloads(t *testing.T) {
	t.Parallel()
	s := newGoverned(t)
	s.start(t)
	for i, owner := range writers(t, s) {
		t.Run(owner.name, func(t *testing.T) {
			t.Parallel()
			p := &pairs{governed: s, namespace: fmt.Sprintf("owned-%d", i), forms: forms(), namedWriter: owner}
			s.sources(t, p.namespace)
			p.apply(t, false)
			agent := javaAgent(p.namespace, "web-*")
			s.create(t, agent)
			p.reached(t)
			for name, found := range p.all(t) {
				if strings.HasPrefix(name, "web") && found.Generation > 2 || strings.HasPrefix(name, "bare") && found.Generation > 1 {
					t.Errorf("%s: generation %d", name, found.Generation)
				}
			}
			p.injected(t, false)
			p.unchanged(t, false)
			p.apply(t, true)
			p.injected(t, true)
			p.unchanged(t, true)
			s.removed(t, agent)
			p.restored(t)
			p.unchanged(t, true)
			p.apply(t, false)
			p.restored(t)
		})
	}
}
