package watch

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestReadNamespace: the API server is asked only for what the cache lacks.
func TestReadNamespace(t *testing.T) {
	with := func(from string, names ...string) client.Reader {
		builder := fake.NewClientBuilder()
		for _, name := range names {
			builder.WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"from": from}}})
		}
		return builder.Build()
	}
	live := with("server", "old", "new")
	for name, test := range map[string]struct {
		cached    client.Reader
		namespace string
		want      string
	}{
		"in the cache":     {with("cache", "old"), "old", "cache"},
		"too new for it":   {with("cache", "old"), "new", "server"},
		"no such cache":    {nil, "old", "server"},
		"there is no such": {with("cache", "old"), "gone", ""},
	} {
		found, err := ReadNamespace(t.Context(), test.cached, live, test.namespace)
		if found.Labels["from"] != test.want || apierrors.IsNotFound(err) != (test.want == "") {
			t.Errorf("%s: got %v, %v", name, found.Labels, err)
		}
	}
}
