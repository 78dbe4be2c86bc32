package served

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

// TestMetadataClient acts as the namespace controller, which would otherwise never finish a
// namespace: with a client that prefers protobuf, which we do not write, it deletes all objects and
// lists the rest.
func TestMetadataClient(t *testing.T) {
	g := gomega.NewWithT(t)
	namespace := newNamespace(t)
	animal := &farmv1alpha1.Llama{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "perla"},
		Spec: farmv1alpha1.LlamaSpec{Weight: 120, Height: 1.7}}
	g.Expect(cluster.client.Create(t.Context(), animal)).To(gomega.Succeed())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "shop:9"}}}}
	g.Expect(cluster.client.Create(t.Context(), pod)).To(gomega.Succeed())
	asking, err := metadata.NewForConfig(cluster.config)
	g.Expect(err).NotTo(gomega.HaveOccurred())

	animals := asking.Resource(farmv1alpha1.GroupVersion.WithResource("llamas")).Namespace(namespace)
	listed, err := animals.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(listed.Items).To(gomega.HaveLen(1))
	g.Expect(animals.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})).To(gomega.Succeed())
	listed, err = animals.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(listed.Items).To(gomega.BeEmpty())
	g.Eventually(func() (int, error) {
		pods, err := asking.Resource(farmv1alpha1.GroupVersion.WithResource("farmpods")).Namespace(namespace).List(t.Context(),
			metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		return len(pods.Items), nil
	}).Should(gomega.Equal(1))
}
