package webapp

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// WarnOfImposed returns a warning if the rules changed how the containers of an app run where the
// user was silent: many images need root, or write to their own files. Govern itself warns of
// values that the user had written. given is the app before it was governed.
func WarnOfImposed(given, governed *msappsv1.WebApp, rules policy.Rules) []string {
	var causes []string
	for _, imposed := range rules.Imposed(securities(&given.Spec, given.Spec.SecurityProfile),
		securities(&governed.Spec, governed.Spec.SecurityProfile)) {
		causes = append(causes, imposed.String())
	}
	if len(causes) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: the containers run %s", field.NewPath("spec", "securityContext"), strings.Join(causes, "; "))}
}

// Imposed returns a note for each container of an app whose security settings the rules change, by
// its name: " (runs as non-root: policy ...)". The message about a container that keeps exiting
// ends with it, because the change may be why.
func Imposed(app *msappsv1.WebApp, rules policy.Rules) map[string]string {
	// What the user wrote: the default profile adds nothing to it.
	stored := securities(&app.Spec, msappsv1.SecurityDefault)
	notes := map[string]string{}
	for i, effective := range securities(&app.Spec, app.Spec.SecurityProfile) {
		var causes []string
		for _, imposed := range rules.ImposedOnStored(stored[i:i+1], []policy.Security{effective}) {
			causes = append(causes, imposed.String())
		}
		if len(causes) > 0 {
			notes[containerName(&app.Spec, i)] = " (runs " + strings.Join(causes, "; ") + ")"
		}
	}
	return notes
}

// securities returns the effective security context of each container of an app under a profile:
// those of the init containers, the side-cars and the application.
func securities(spec *msappsv1.WebAppSpec, profile msappsv1.SecurityProfile) []policy.Security {
	pod := corev1.PodSpec{SecurityContext: podSecurity(profile, spec.PodSecurityContext)}
	add := func(given *corev1.SecurityContext) {
		pod.Containers = append(pod.Containers, corev1.Container{SecurityContext: containerSecurity(profile, given)})
	}
	for i := range spec.InitContainers {
		add(spec.InitContainers[i].SecurityContext)
	}
	for i := range spec.Sidecars {
		add(spec.Sidecars[i].SecurityContext)
	}
	add(spec.SecurityContext)
	var all []policy.Security
	for _, container := range policy.Containers(&pod, func(string) *field.Path { return nil }) {
		all = append(all, container.Security)
	}
	return all
}

// containerName returns the name of the container at an index of securities.
func containerName(spec *msappsv1.WebAppSpec, index int) string {
	inits := len(spec.InitContainers)
	switch {
	case index < inits:
		return spec.InitContainers[index].Name
	case index < inits+len(spec.Sidecars):
		return spec.Sidecars[index-inits].Name
	default:
		return ContainerName
	}
}
