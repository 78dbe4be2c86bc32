package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
)

// TestListed: only names in the annotation are listed, and a name that no object can have is none.
func TestListed(t *testing.T) {
	for text, want := range map[string][]SourceRef{
		"auto": nil, "true": nil, "false": nil, "": nil,
		"yes":                                    {{ConfigMap, "yes"}},
		"flags, secret/database":                 {{ConfigMap, "flags"}, {Secret, "database"}},
		strings.Repeat("a", 1<<18):               {},
		"flags," + strings.Repeat("a", 254):      {{ConfigMap, "flags"}},
		strings.Repeat("a", 253) + ",deploy/web": {{ConfigMap, strings.Repeat("a", 253)}},
	} {
		target := &Target{Annotations: map[string]string{configv1.AnnotationReload: text}}
		if diff := cmp.Diff(want, Listed(target)); diff != "" {
			t.Errorf("%.20s: %s", text, diff)
		}
	}
}

// TestTrueMeansAuto: it is what users of Stakater Reloader write.
func TestTrueMeansAuto(t *testing.T) {
	target := &Target{Annotations: map[string]string{configv1.AnnotationReload: "true"}, Uses: map[SourceRef]Use{{ConfigMap, "flags"}: {}}}
	if demands, err := OfWorkload(target); err != nil || len(demands) != 1 || demands[0].Source.Name != "flags" {
		t.Errorf("got %v, %v", demands, err)
	}
}

// TestMissingMessage: a message is short whatever was written.
func TestMissingMessage(t *testing.T) {
	const end = ": use auto, false, or names of ConfigMaps and Secrets"
	one := SourceRef{ConfigMap, "yes"}
	const want = "metadata.annotations[config.mainstay.dev/reload]: ConfigMap/yes does not exist" + end
	if got := MissingMessage([]SourceRef{one}); got != want {
		t.Errorf("got %s", got)
	}
	var many []SourceRef
	for i := range 250 {
		many = append(many, SourceRef{ConfigMap, fmt.Sprintf("%03d%s", i, strings.Repeat("a", 250))})
	}
	if got := MissingMessage(many); len(got) > 300 || !strings.Contains(got, "and 248 more do not exist") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// TestNotGranted: each Secret is named once, whichever annotation asks for it. Other demands have
// an object of their own.
func TestNotGranted(t *testing.T) {
	hidden, open := SourceRef{Secret, "hidden"}, SourceRef{Secret, "open"}
	target := web("web")
	target.Uses = map[SourceRef]Use{hidden: {}, open: {}}
	target.Annotations = map[string]string{configv1.AnnotationReload: "auto", stakaterAuto: "true"}
	demands, err := OfWorkload(&target)
	if err != nil {
		t.Fatal(err)
	}
	ofStakater, err := OfStakater(&target, nil)
	if err != nil {
		t.Fatal(err)
	}
	demands = append(demands, ofStakater...)
	other := watching(func(d *Demand) { d.Source = hidden })
	snapshot := Snapshot{Targets: []Target{target}, Demands: append(demands, other), Sources: map[SourceRef]Source{
		hidden: {Ref: hidden, State: NotGranted}, open: {Ref: open, State: Present},
	}}
	if diff := cmp.Diff(map[TargetRef][]SourceRef{target.Ref: {hidden}}, snapshot.NotGranted()); diff != "" {
		t.Error(diff)
	}
}

// TestNotGrantedMessage: a message is short whatever was written.
func TestNotGrantedMessage(t *testing.T) {
	const want = "Secret/db: changes restart nothing, because Mainstay may not read the Secrets of namespace shop: " +
		"add it to secrets.namespaces"
	if got := NotGrantedMessage("shop", []SourceRef{{Secret, "db"}}); got != want {
		t.Errorf("got %s", got)
	}
	var many []SourceRef
	for i := range 250 {
		many = append(many, SourceRef{Secret, fmt.Sprintf("%03d%s", i, strings.Repeat("a", 250))})
	}
	if got := NotGrantedMessage(strings.Repeat("a", 63), many); len(got) > 350 || !strings.Contains(got, "and 248 more: changes") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}
