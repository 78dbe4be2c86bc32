package postgresql

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// longestName is how long the name of a PostgreSQL may be.
const longestName = 50

// TestLongestName: every name that is made from the longest one fits where it stands.
func TestLongestName(t *testing.T) {
	db := newDatabase(everything, replicas(database.MaxReplicas))
	db.Name = strings.Repeat("a", longestName)
	observed := empty()
	observed.HasMonitorAPI = true
	for _, child := range Desired(db, observed, Decide(db, observed)).Children {
		name, problems := child.Object.GetName(), apivalidation.NameIsDNSSubdomain(child.Object.GetName(), false)
		switch child.Object.(type) {
		case *corev1.Service:
			problems = append(problems, validation.IsDNS1035Label(name)...)
		case *appsv1.StatefulSet:
			// The API server writes it with up to ten characters more as a label's value.
			problems = append(problems, validation.IsValidLabelValue(name+"-0123456789")...)
		}
		if len(problems) > 0 {
			t.Errorf("%T %s: %v", child.Object, name, problems)
		}
		for key, value := range child.Object.GetLabels() {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Errorf("%T %s: label %s=%s: %v", child.Object, name, key, value, problems)
			}
		}
	}
	for ordinal := range database.MaxReplicas {
		checkLongestPod(t, db, ordinal)
	}
}

// checkLongestPod: the names of an instance fit into a host's name, a certificate and the server.
func checkLongestPod(t *testing.T, db *databasev1.PostgreSQL, ordinal int) {
	t.Helper()
	pod := database.PodName(db.Name, ordinal)
	if problems := validation.IsDNS1123Label(pod); len(problems) > 0 {
		t.Errorf("pod %s: %v", pod, problems)
	}
	const mostCommonName = 64 // ub-common-name of RFC 5280
	if name := Common(db, empty()).CommonName(ordinal); len(name) > mostCommonName {
		t.Errorf("common name %s has %d characters", name, len(name))
	}
	// What package volume gives each volume.
	member := election.Member{Name: pod, Incarnation: "a2b3c4d5e6"}
	if _, err := postgres.ApplicationName(member); err != nil {
		t.Error(err)
	}
	if _, err := postgres.SlotName(member); err != nil {
		t.Error(err)
	}
}
