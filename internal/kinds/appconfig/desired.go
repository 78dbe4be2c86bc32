package appconfig

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Desired returns what should exist for a defaulted, valid AppConfig: the immutable ConfigMap that
// keeps the chosen content and then, in one write, the ConfigMap that pods use. Earlier revisions
// are kept unchanged, or pruned.
func Desired(config *configv1.AppConfig, observed Observed, choice Choice) plan.Plan {
	if observed.Older != "" || choice.isBarred() {
		return plan.Plan{Withhold: true}
	}
	var wanted plan.Plan
	for _, revision := range keptRevisions(config, observed, choice) {
		wanted.Keep = append(wanted.Keep, ref(config, revision.ConfigMap))
	}
	main, own := ref(config, config.ConfigMapName()), ref(config, revisionName(config, choice.Chosen))
	content := choice.Content
	if choice.ChosenHash != choice.Hash {
		content = choice.Kept
	}
	if content == nil {
		// It is as desired, or its desired content is lost: leave it.
		wanted.Keep = append(wanted.Keep, main)
		return wanted
	}
	needs := []plan.Ref(nil)
	if !slices.Contains(wanted.Keep, own) {
		wanted.Children = append(wanted.Children, plan.Child{Object: desiredRevision(config, choice, content)})
		needs = []plan.Ref{own}
	}
	current := observed.current(config)
	wanted.Children = append(wanted.Children, plan.Child{
		Object: desiredConfigMap(config, choice, content, wanted.Keep), Needs: needs, ReclaimData: current.Exists &&
			current.Holds != current.Hash,
	})
	return wanted
}

// keptRevisions returns the revisions to keep: the chosen one, the one in the ConfigMap, the
// rendered one, the last good one, those that pods run, and the newest of the others, up to the
// limit.
func keptRevisions(config *configv1.AppConfig, observed Observed, choice Choice) []Revision {
	current := observed.current(config)
	needed := []int64{choice.Chosen, current.Revision, choice.Rendered, choice.Marks.LastGood}
	var run []string
	for _, user := range observed.users(config) {
		run = append(run, user.Hash)
		if user.State != workload.UpToDate {
			run = append(run, user.Was) // pods that have not been replaced yet
		}
	}
	room := defaultHistory
	if limit := config.Spec.RevisionHistoryLimit; limit != nil {
		room = int(*limit)
	}
	var kept []Revision
	for _, revision := range observed.revisions(config) {
		isNeeded := slices.Contains(needed, revision.Number) || slices.Contains(run, revision.Hash)
		if !isNeeded {
			if room == 0 {
				continue
			}
			room--
		}
		kept = append(kept, revision)
	}
	return kept
}

func meta(config *configv1.AppConfig, name string, choice Choice) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:   name,
		Labels: naming.Merged(part(config).Labels(), map[string]string{configv1.LabelAppConfig: config.Name}),
		Annotations: map[string]string{
			configv1.AnnotationRevision: revisionText(choice.Chosen),
			configv1.AnnotationHash:     choice.ChosenHash,
		},
	}
}

func desiredRevision(config *configv1.AppConfig, choice Choice, content map[string]string) *corev1.ConfigMap {
	kept := &corev1.ConfigMap{ObjectMeta: meta(config, revisionName(config, choice.Chosen), choice), Data: content, Immutable: new(true)}
	kept.Labels[configv1.LabelRevision] = revisionText(choice.Chosen)
	return kept
}

func desiredConfigMap(config *configv1.AppConfig, choice Choice, content map[string]string, kept []plan.Ref) *corev1.ConfigMap {
	configMap := &corev1.ConfigMap{ObjectMeta: meta(config, config.ConfigMapName(), choice), Data: content}
	if choice.Marks.LastGood > 0 {
		configMap.Annotations[configv1.AnnotationLastGood] = revisionText(choice.Marks.LastGood)
	}
	var failed []string
	for _, revision := range choice.Marks.Failed {
		// A revision that is no longer kept can't be rendered under the same number again.
		if revision == choice.Chosen || slices.Contains(kept, ref(config, revisionName(config, revision))) {
			failed = append(failed, revisionText(revision))
		}
	}
	if len(failed) > 0 {
		configMap.Annotations[configv1.AnnotationFailed] = strings.Join(failed, ",")
	}
	if choice.Highest > choice.Chosen {
		configMap.Annotations[configv1.AnnotationHighest] = revisionText(choice.Highest)
	}
	if choice.Marks.Failure != "" {
		configMap.Annotations[configv1.AnnotationFailure] = choice.Marks.Failure
	}
	if choice.IsPutBack {
		configMap.Annotations[configv1.AnnotationPutBack] = putBack
	}
	return configMap
}
