package setup

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

func TestStackObjects(t *testing.T) {
	read, err := Settings{StackObjects: []string{"rabbitmqclusters.v1beta1.rabbitmq.com/RabbitmqCluster"}}.stackObjects(clientgoscheme.Scheme)
	want := schema.GroupVersionKind{Group: "rabbitmq.com", Version: "v1beta1", Kind: "RabbitmqCluster"}
	if err != nil || len(read) != 1 || read[0].GroupVersionKind != want || read[0].Definition() != "rabbitmqclusters.rabbitmq.com" {
		t.Errorf("got %v, %v", read, err)
	}
	for text, want := range map[string]string{
		"rabbitmqclusters.v1beta1.rabbitmq.com": "must be RESOURCE.VERSION.GROUP/KIND",
		"rabbitmqclusters/RabbitmqCluster":      "must be RESOURCE.VERSION.GROUP/KIND",
		"":                                      "must be RESOURCE.VERSION.GROUP/KIND",
		"deployments.v1.apps/Deployment":        "must not be a kind of Kubernetes",
		"webapps.v1.apps.mainstay.dev/WebApp":   "must not be a kind of Kubernetes, of Mainstay",
		"clusterroles.v1.rbac.authorization.k8s.io/ClusterRole": "must not be a kind of Kubernetes",
	} {
		_, err := Settings{StackObjects: []string{text}}.stackObjects(clientgoscheme.Scheme)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
