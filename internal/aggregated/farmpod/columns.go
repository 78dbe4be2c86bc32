package farmpod

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated/table"
)

// wide is the priority of columns that only kubectl get -o wide shows.
const wide = 1

// Columns returns the columns of kubectl get farmpods. Detail is the last of the narrow ones,
// because it may be long.
func Columns() []table.Column[farmv1alpha1.FarmPod] {
	columns := []table.Column[farmv1alpha1.FarmPod]{
		table.Name[farmv1alpha1.FarmPod](),
		column("Ready", "How many of its containers are ready, and how many it has.", 0, func(pod *farmv1alpha1.FarmPod) string {
			return fmt.Sprintf("%d/%d", pod.Status.ReadyContainers, pod.Spec.Containers)
		}),
		column("Status", "The problem, or what it waits for, in a word; otherwise its phase.", 0, func(pod *farmv1alpha1.FarmPod) string {
			word, _ := split(pod)
			return word
		}),
		{
			TableColumnDefinition: metav1.TableColumnDefinition{Name: "Restarts", Type: "integer",
				Description: "How often its containers were restarted."},
			Cell: func(pod *farmv1alpha1.FarmPod) any { return int64(pod.Status.Restarts) },
		},
		table.Age[farmv1alpha1.FarmPod](),
		column("Owner", "The top of its owner chain.", 0, func(pod *farmv1alpha1.FarmPod) string { return orNone(pod.Spec.Owner) }),
		column("Node", "The node it runs on.", 0, func(pod *farmv1alpha1.FarmPod) string { return orNone(pod.Spec.NodeName) }),
		column("Detail", "The problem, or what it waits for, in more words.", 0, func(pod *farmv1alpha1.FarmPod) string {
			_, rest := split(pod)
			return rest
		}),
		column("Images", "The images of its containers, with the running digests.", wide, shownImages),
		column("Requests", "The resource requests of its containers.", wide,
			func(pod *farmv1alpha1.FarmPod) string { return shownResources(pod.Spec.Requests) }),
		column("Limits", "The resource limits of its containers.", wide,
			func(pod *farmv1alpha1.FarmPod) string { return shownResources(pod.Spec.Limits) }),
	}
	for i := range facts {
		columns = append(columns, facts[i].column)
	}
	return columns
}

// column returns a column of text.
func column(name, description string, priority int32, cell func(*farmv1alpha1.FarmPod) string) table.Column[farmv1alpha1.FarmPod] {
	return table.Column[farmv1alpha1.FarmPod]{
		TableColumnDefinition: metav1.TableColumnDefinition{Name: name, Type: "string", Description: description, Priority: priority},
		Cell:                  func(pod *farmv1alpha1.FarmPod) any { return cell(pod) },
	}
}

// split returns the first word of a reason and the rest. The word of a Pod without a reason is its
// phase.
func split(pod *farmv1alpha1.FarmPod) (word, rest string) {
	if pod.Status.Reason == "" {
		return pod.Status.Phase, ""
	}
	word, rest, _ = strings.Cut(pod.Status.Reason, " ")
	return strings.TrimSuffix(word, ":"), rest
}

func orNone(given string) string {
	if given == "" {
		return "<none>"
	}
	return given
}

// shownDigits is the number of a digest's digits in tables: as many as registries and runtimes
// show.
const shownDigits = 12

func shownImages(pod *farmv1alpha1.FarmPod) string {
	shown := make([]string, 0, len(pod.Spec.Images))
	for _, one := range pod.Spec.Images {
		image := one.Image
		if _, digits, found := strings.Cut(one.Digest, ":"); found && !strings.Contains(image, "@") {
			image += "@" + digits[:min(shownDigits, len(digits))]
		}
		shown = append(shown, image)
	}
	return orNone(strings.Join(shown, ","))
}

func shownResources(list corev1.ResourceList) string {
	shown := make([]string, 0, len(list))
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		shown = append(shown, string(name)+"="+quantity.String())
	}
	return orNone(strings.Join(shown, ","))
}
