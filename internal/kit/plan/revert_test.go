package plan

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestRevertMessage: a message names at most three fields, and stays short for any field.
func TestRevertMessage(t *testing.T) {
	const remedy = "To change it for good: kubectl -n web edit webapp shop"
	ref := Ref{Kind: "Deployment", Namespace: "web", Name: "shop"}
	field := RevertedField{Path: "spec.replicas", Change: FieldChanged, From: "3", To: "5", By: "kubectl"}
	removed := RevertedField{Path: "metadata.labels.app", Change: FieldRemoved}
	for name, test := range map[string]struct {
		fields []RevertedField
		want   string
	}{
		"one field": {[]RevertedField{field},
			"a change of Deployment web/shop is undone: spec.replicas was changed from 3 to 5 by kubectl. " + remedy},
		"many fields": {[]RevertedField{removed, field, removed, field, field}, "a change of Deployment web/shop is undone: " +
			"metadata.labels.app was removed by an unknown field manager, spec.replicas was changed from 3 to 5 by kubectl, " +
			"metadata.labels.app was removed by an unknown field manager and 2 more. " + remedy},
		"a deletion": {nil, "Deployment web/shop was deleted, and is created again; the audit log says who deleted it. " + remedy},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (Revert{Ref: ref, Fields: test.fields}).Message(remedy); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	long := strings.Repeat("é", 1<<17)
	huge := RevertedField{Path: long, Change: FieldChanged, From: long, To: long, By: long}
	if got := (Revert{Ref: ref, Fields: []RevertedField{huge, huge, huge, huge}}).Message(remedy); len(got) > 1000 || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
