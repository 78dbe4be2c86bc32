package webapp

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func entry(manager, version, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: "Update", APIVersion: "apps.mainstay.dev/" + version, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestOwnAsV1(t *testing.T) {
	type entries = []metav1.ManagedFieldsEntry
	for name, test := range map[string]struct{ before, want entries }{
		"v1 alone": {
			entries{entry("a", "v1", `{"f:spec":{"f:image":{}}}`)},
			entries{entry("a", "v1", `{"f:spec":{"f:image":{}}}`)},
		},
		"fields and the host": {
			entries{entry("a", "v1beta1", `{"f:metadata":{"f:labels":{".":{},"f:x":{}}},"f:spec":{".":{},"f:host":{},"f:image":{}}}`)},
			entries{entry("a", "v1", `{"f:metadata":{"f:labels":{".":{},"f:x":{}}},"f:spec":{".":{},"f:image":{},"f:ingress":{"f:host":{}}}}`)},
		},
		"the stash is no field of v1": {
			entries{entry("a", "v1beta1", `{"f:metadata":{"f:annotations":{"f:mainstay.dev/v1-spec":{},"f:x":{}}}}`)},
			entries{entry("a", "v1", `{"f:metadata":{"f:annotations":{"f:x":{}}}}`)},
		},
		"both versions of one manager become one": {
			entries{entry("a", "v1", `{"f:spec":{"f:env":{}}}`), entry("b", "v1beta1", `{"f:spec":{"f:port":{}}}`), entry("a", "v1beta1", `{"f:spec":{"f:image":{}}}`)},
			entries{entry("a", "v1", `{"f:spec":{"f:env":{},"f:image":{}}}`), entry("b", "v1", `{"f:spec":{"f:port":{}}}`)},
		},
		"what can't be read": {
			entries{entry("a", "v1beta1", `{"f:spec":`)}, entries{entry("a", "v1beta1", `{"f:spec":`)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp()
			app.ManagedFields = test.before
			changed := OwnAsV1(app)
			if diff := cmp.Diff(test.want, app.ManagedFields); diff != "" {
				t.Error(diff)
			}
			if changed == cmp.Equal(test.before, test.want) {
				t.Errorf("changed is %t", changed)
			}
			if OwnAsV1(app) {
				t.Error("it changes again")
			}
		})
	}
}

func TestOwnAsV1KeepsTheLaterTime(t *testing.T) {
	early, late := entry("a", "v1", `{"f:spec":{}}`), entry("a", "v1beta1", `{"f:spec":{}}`)
	early.Time, late.Time = &metav1.Time{Time: time.Unix(1, 0)}, &metav1.Time{Time: time.Unix(2, 0)}
	app := newApp()
	app.ManagedFields = []metav1.ManagedFieldsEntry{early, late}
	OwnAsV1(app)
	if len(app.ManagedFields) != 1 || app.ManagedFields[0].Time.Unix() != 2 {
		t.Errorf("got %+v", app.ManagedFields)
	}
}
