package integration

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/test/testenv"
)

// writer writes Deployments as one kind of owner does.
type writer func(t *testing.T, s *governed, manifests []*appsv1.Deployment)

// namedWriter is one kind of owner.
type namedWriter struct {
	name  string
	write writer
	// isSlow limits the test to a third of the changes.
	isSlow bool
}

// writers returns the kinds of owners. Argo CD and Flux write as kubectl does.
func writers(t *testing.T, s *governed) []namedWriter {
	t.Helper()
	run := kubectl(t, s.config)
	with := func(arguments ...string) writer {
		return func(t *testing.T, _ *governed, manifests []*appsv1.Deployment) {
			t.Helper()
			run(t, listOf(t, manifests), append(arguments, "-f", "-")...)
		}
	}
	replace := func(t *testing.T, s *governed, manifests []*appsv1.Deployment) {
		t.Helper()
		verb := "create"
		if s.client.Get(t.Context(), client.ObjectKeyFromObject(manifests[0]), &appsv1.Deployment{}) == nil {
			verb = "replace"
		}
		run(t, listOf(t, manifests), verb, "-f", "-")
	}
	return []namedWriter{
		{name: "kubectl apply", write: with("apply"), isSlow: true},
		{name: "kubectl apply --server-side", write: with("apply", "--server-side")},
		{name: "kubectl apply --server-side --force-conflicts", write: with("apply", "--server-side", "--force-conflicts")},
		{name: "kubectl replace", write: replace},
		{name: "Helm", write: helm()},
		{name: "a controller that drops annotations", write: update},
	}
}

// kubeconfig returns the name of a file with access to an API server, for kubectl.
func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	access := clientcmdapi.NewConfig()
	access.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	access.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
		Token: config.BearerToken}
	access.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	access.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*access, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// kubectl runs the kubectl that belongs to the API server. The test fails if kubectl fails.
func kubectl(t *testing.T, config *rest.Config) func(t *testing.T, input []byte, arguments ...string) string {
	t.Helper()
	file := kubeconfig(t, config)
	return func(t *testing.T, input []byte, arguments ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), arguments...)
		command.Env = append(os.Environ(), "KUBECONFIG="+file, "HOME="+filepath.Dir(file))
		command.Stdin = bytes.NewReader(input)
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v: %s", arguments, err, output)
		}
		return string(output)
	}
}

// listOf returns a file with the manifests.
func listOf(t *testing.T, manifests []*appsv1.Deployment) []byte {
	t.Helper()
	items := make([]json.RawMessage, len(manifests))
	for i := range manifests {
		items[i] = fileOf(t, manifests[i])
	}
	return []byte(testenv.JSON(t, map[string]any{"apiVersion": "v1", "kind": "List", "items": items}))
}

// fileOf returns a manifest as a user writes it: with the empty value of a variable, which Go
// leaves out.
func fileOf(t *testing.T, manifest *appsv1.Deployment) []byte {
	t.Helper()
	name := testenv.JSON(t, map[string]any{"name": javaOptions})
	return []byte(strings.ReplaceAll(testenv.JSON(t, manifest), name, strings.TrimSuffix(name, "}")+`,"value":""}`))
}

// helm writes as Helm does: with a three-way merge of the last manifest, this one, and the stored
// object.
func helm() writer {
	var last sync.Map
	return func(t *testing.T, s *governed, manifests []*appsv1.Deployment) {
		t.Helper()
		for _, manifest := range manifests {
			wanted := fileOf(t, manifest)
			before, isUpgrade := last.Swap(manifest.Name, wanted)
			if !isUpgrade {
				if err := s.client.Create(t.Context(), manifest, client.FieldOwner("helm")); err != nil {
					t.Fatal(err)
				}
				continue
			}
			var stored appsv1.Deployment
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(manifest), &stored); err != nil {
				t.Fatal(err)
			}
			meta, err := strategicpatch.NewPatchMetaFromStruct(manifest)
			if err != nil {
				t.Fatal(err)
			}
			patch, err := strategicpatch.CreateThreeWayMergePatch(before.([]byte), wanted, []byte(testenv.JSON(t, &stored)), meta, true)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.client.Patch(t.Context(), manifest, client.RawPatch(types.StrategicMergePatchType, patch),
				client.FieldOwner("helm")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// update writes as many controllers do: the whole object, including the annotations.
func update(t *testing.T, s *governed, manifests []*appsv1.Deployment) {
	t.Helper()
	for _, manifest := range manifests {
		var stored appsv1.Deployment
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(manifest), &stored)
		switch {
		case apierrors.IsNotFound(err):
			err = s.client.Create(t.Context(), manifest, client.FieldOwner("controller"))
		case err == nil:
			stored.Annotations, stored.Labels, stored.Spec = manifest.Annotations, manifest.Labels, manifest.Spec
			err = s.client.Update(t.Context(), &stored, client.FieldOwner("controller"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
