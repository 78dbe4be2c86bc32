package ecommerceplatform

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
)

// TestValidate: each rule refuses one platform, and accepts its neighbour.
func TestValidate(t *testing.T) {
	noCaches := installation
	noCaches.Types = []string{"webApp", "postgresql"}
	withoutStacks, withoutAll := installation, installation
	withoutStacks.HasStacks, withoutAll.Types = false, []string{"cache"}
	const none, no = `{}`, ""
	for want, test := range map[string]struct {
		bad, good string
		in        Installation
	}{
		`spec.environment: Unsupported value: "live": supported values: "development", "dev", "staging", "production", "prod"`: {
			`environment: live`, `environment: prod`, installation},
		`spec.database.type: Invalid value: "mysql": kind MySQLCluster is not installed: use postgresql`: {
			`database: {type: mysql}`, none, installation},
		`spec.database.type: Unsupported value: "oracle": supported values: "postgresql", "mysql"`: {
			`database: {type: oracle}`, none, installation},
		`spec.cache.enabled: Invalid value: true: kind Cache is not installed: enable kinds.cache in the chart's values, or set this to false`: {
			none, `cache: {enabled: false}`, noCaches},
		`spec.frontend.image: Required value`: {`frontend: {image: ''}`, none, installation},
		`spec.backend.replicas: Invalid value: 0: must be from 1 to 10000`: {
			`backend: {replicas: 0}`, `backend: {replicas: 1}`, installation},
		`spec.backend.replicas: Forbidden: may not be set together with autoscaling`: {
			`backend: {replicas: 1, autoscaling: {max: 2}}`, `backend: {autoscaling: {max: 2}}`, installation},
		`spec.ingress.host: Required value`: {`ingress: {}`, `ingress: {host: a.b}`, installation},
		`spec.ingress.host: Invalid value: "https://a.b": must be a DNS name`: {
			`ingress: {host: 'https://a.b'}`, `ingress: {host: '*.a.b'}`, installation},
		`spec.ingress.route: Forbidden: className and tlsSecretName apply to an Ingress only`: {
			`ingress: {host: a.b, tlsSecretName: x, route: {}}`, `ingress: {route: {}}`, installation},
		`spec.labels[platform]: Invalid value: "other": must be left out`: {
			`labels: {platform: other}`, `labels: {platform: shop}`, installation},
		`spec: Forbidden: kind AppStack is not installed`: {none, no, withoutStacks},
		`spec: Forbidden: kind WebApp is not installed`:   {none, no, withoutAll},
	} {
		if problems := Validate(admitted(withFields(test.bad)), test.in); len(problems) == 0 || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("got  %v\nwant %s", problems, want)
		}
		if test.good != no {
			if problems := Validate(admitted(withFields(test.good)), test.in); len(problems) > 0 {
				t.Errorf("%s: its neighbour is refused: %v", want, problems)
			}
		}
	}
}

// TestValidateWithin: what the namespace and the existing database refuse.
func TestValidateWithin(t *testing.T) {
	stored := made(admitted(in("staging")), nil)
	without, old := installation, installation
	without.Databases, old.Caches = nil, []string{"8"}
	production := map[string]string{"mainstay.dev/environment": "prod"}
	const no, staging = "", "environment: staging\n"
	for want, test := range map[string]struct {
		bad, good string
		namespace map[string]string
		existing  *platformv1.AppStack
		in        Installation
	}{
		`spec.environment: Invalid value: "staging": must be production: that is the environment of namespace web`: {
			staging, `environment: production`, production, nil, installation},
		`spec.environment: Invalid value: "staging": namespace web has the label mainstay.dev/environment=x`: {
			staging, no, map[string]string{"mainstay.dev/environment": "x"}, nil, installation},
		`spec.database.version: Required value: this installation has no image for postgresql: set databaseImages.postgresql`: {
			staging, staging + `database: {version: '17'}`, nil, nil, without},
		`spec.database.version: Unsupported value: "15": supported values: "16", "17", "9", "next"`: {
			staging + `database: {version: '15'}`, staging + `database: {version: '16'}`, nil, nil, installation},
		`spec.database.version: Invalid value: "16": must be 17: for another major version, dump the data`: {
			staging + `database: {version: '16'}`, staging + `database: {version: '17'}`, nil, stored, installation},
		`spec.database.storage: Invalid value: "10Gi": must be at least 50Gi: volumes only grow`: {
			staging + `database: {storage: 10Gi}`, staging + `database: {storage: 50Gi}`, nil, stored, installation},
		`spec.database.storageClassName: Invalid value: "fast": must not be set: the volumes exist, in the cluster's default class`: {
			staging + `database: {storageClassName: fast}`, `environment: production`, nil, stored, installation},
		`spec.cache.version: Invalid value: "8": must be at least 9: an earlier server can't read the data of a later one`: {
			staging + `cache: {version: '8'}`, staging + `cache: {version: '10'}`, nil, stored, installation},
		`spec.cache.version: Unsupported value: "9": supported values: "8"`: {`cache: {version: '9'}`, `cache: {version: '8'}`, nil, nil, old},
	} {
		problems := ValidateWithin(admitted(withFields(test.bad)), test.namespace, test.existing, test.in)
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("got  %v\nwant %s", problems, want)
		}
		if test.good != no {
			if problems := ValidateWithin(admitted(withFields(test.good)), test.namespace, test.existing, test.in); len(problems) > 0 {
				t.Errorf("%s: its neighbour is refused: %v", want, problems)
			}
		}
	}
}

// TestCacheIsNotRefused: a cache that is off, that exists, or in an installation without any image
// is not refused for its version; nor is an earlier one that is to come after one that goes.
func TestCacheIsNotRefused(t *testing.T) {
	old := installation
	old.Caches = []string{"8"}
	newer, off := admitted(withFields(`cache: {version: '9'}`)), admitted(withFields(`cache: {version: '9', enabled: false}`))
	goes := admitted(withFields(`cache: {version: '8', enabled: false}`))
	for name, problems := range map[string]field.ErrorList{
		"off": ValidateWithin(off, nil, nil, old), "exists": ValidateWithin(newer, nil, made(newer, nil), old),
		"no image": ValidateWithin(newer, nil, nil, installation), "goes": ValidateWithin(goes, nil, made(newer, nil), old),
	} {
		if len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

// TestInPlatform: paths of parts are those of the platform.
func TestInPlatform(t *testing.T) {
	stack := Compile(admitted(), nil, installation)
	for given, want := range map[string]string{
		"spec.components[0].spec.version":                                 "spec.database.version",
		"spec.components[0].spec.replicas":                                "spec.database",
		"spec.components[0].name":                                         "metadata.name",
		"spec.components[1].type":                                         "spec.cache",
		"spec.components[0].spec.resources.limits[cpu]":                   "spec.database.resources.limits[cpu]",
		"spec.components[1].spec.memory":                                  "spec.cache.memory",
		"spec.components[1].spec.resources.limits[memory]":                "spec.cache.resources.limits[memory]",
		"spec.components[2].spec":                                         "spec.backend",
		"spec.components[2].spec.resources.limits[cpu]":                   "spec.backend.resources.limits[cpu]",
		"spec.components[2].spec.env[3].name: no":                         "spec.backend.env[3].name: no",
		"spec.components[3].spec.ingress.host: a. b":                      "spec.ingress.host: a. b",
		"spec.components[3].spec.route.hostnames[0]: no":                  "spec.ingress.host: no",
		"spec.components[3].spec.route.parentRefs[0].name":                "spec.ingress.route.parentRefs[0].name",
		"spec.components[3].spec.metrics.port":                            "spec.frontend.port",
		"spec.components[3].spec.metrics":                                 "spec.monitoring",
		"spec.components[3].spec.image and spec.components[2].spec.image": "spec.frontend.image and spec.backend.image",
		"spec.components[7].spec.image":                                   "spec.components[7].spec.image",
		"spec.labels[a]":                                                  "spec.labels[a]",
	} {
		if got := InPlatform(given, stack); got != want {
			t.Errorf("%s: got %s, want %s", given, got, want)
		}
	}
}

// TestTheTableFitsThePolicies: nothing that is compiled is more than the default policy allows; the
// kinds of the parts check the rest (test/integration).
func TestTheTableFitsThePolicies(t *testing.T) {
	const most = 10 // maxReplicas of the default policy
	var names []string
	for environment, row := range table {
		names = append(names, string(environment))
		if row.instances < 1 || row.instances > most {
			t.Errorf("%s has %d instances", environment, row.instances)
		}
	}
	slices.Sort(names)
	if want := []string{"development", "production", "staging"}; !slices.Equal(names, want) {
		t.Errorf("the environments are %v", names)
	}
}
