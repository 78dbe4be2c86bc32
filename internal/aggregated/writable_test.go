package aggregated

import (
	"testing"

	"k8s.io/apiserver/pkg/registry/generic/registry"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
)

// TestIsWritten: everything with a verb that writes needs the cluster's admission, subresources
// included.
func TestIsWritten(t *testing.T) {
	t.Parallel()
	store := &registry.Store{}
	read := readOnly{store, []string{"fp"}}
	for name, one := range map[string]struct {
		storages map[string]registryrest.Storage
		want     bool
	}{
		"nothing":                  {nil, false},
		"what is read":             {map[string]registryrest.Storage{"goats": read}, false},
		"what is written":          {map[string]registryrest.Storage{"goats": writable{store, []string{"go"}}}, true},
		"what is written among":    {map[string]registryrest.Storage{"farmpods": read, "goats": writable{store, nil}}, true},
		"a status that is written": {map[string]registryrest.Storage{"goats": read, "goats/status": statusOnly{store}}, true},
		"only created":             {map[string]registryrest.Storage{"goats": creatable{read, store}}, true},
		"only deleted":             {map[string]registryrest.Storage{"goats": deletable{read, store}}, true},
		"the registry itself":      {map[string]registryrest.Storage{"goats": store}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := isWritten(one.storages); got != one.want {
				t.Errorf("%t, expected %t", got, one.want)
			}
		})
	}
}

// creatable can be read and created.
type creatable struct {
	readOnly
	registryrest.Creater //nolint:misspell // the library's name
}

// deletable can be read and deleted.
type deletable struct {
	readOnly
	registryrest.GracefulDeleter
}

// TestShortNames: every resource has its own.
func TestShortNames(t *testing.T) {
	t.Parallel()
	if got := (writable{nil, []string{"go"}}).ShortNames(); len(got) != 1 || got[0] != "go" {
		t.Errorf("%v, expected go", got)
	}
}
