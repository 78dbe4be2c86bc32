package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/api"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/ecommerceplatform"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// underDefaultPolicy returns what the manager gives to kinds in a namespace of an environment with
// the policy that every installation starts with.
func underDefaultPolicy(t *testing.T, environment policy.Environment) registration.Input {
	t.Helper()
	made, err := newDefaultPolicy(nil)
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{api.LabelEnvironment: string(environment)}
	rules := policy.Set{Policies: []mspolicyv1.PlatformPolicy{*made}}.Governing("web", labels)
	return registration.Input{
		Manager: someManager{scheme: scheme}, Kinds: kinds(), PostgreSQLImages: map[string]string{"17": "registry.example.com/postgresql:17.11"},
		Rules: func(context.Context, string) (policy.Rules, error) { return rules, nil },
	}
}

// TestPlatformsPassTheDefaultPolicy: what a platform is compiled into is admitted in a namespace of
// its environment, part by part; and the check would notice a part that is not.
func TestPlatformsPassTheDefaultPolicy(t *testing.T) {
	for _, environment := range []policy.Environment{policy.Development, policy.Staging, policy.Production} {
		in := underDefaultPolicy(t, environment)
		installation := ecommerceplatform.Installation{HasStacks: true, Databases: []string{"17"}}
		for _, c := range in.Components() {
			installation.Types = append(installation.Types, c.Type)
		}
		review := in.Review(schema.GroupKind{Group: "platform.mainstay.dev", Kind: "AppStack"})
		said := func(change func(*platformv1.EcommercePlatformSpec)) string {
			platform := &platformv1.EcommercePlatform{Spec: platformv1.EcommercePlatformSpec{Environment: string(environment),
				Frontend: platformv1.PlatformWeb{Image: "r.io/front:1"}, Backend: platformv1.PlatformWeb{Image: "r.io/back:1"},
				Cache:   platformv1.PlatformCache{Enabled: new(slices.Contains(installation.Types, "cache"))},
				Ingress: &platformv1.PlatformIngress{Host: "shop.example.com"},
			}}
			platform.Namespace, platform.Name = "web", "shop"
			change(&platform.Spec)
			ecommerceplatform.Default(platform)
			if problems := ecommerceplatform.Validate(platform, installation); len(problems) > 0 {
				t.Fatal(problems)
			}
			stack := ecommerceplatform.Compile(platform, nil, installation)
			found, err := review(t.Context(), stack, nil)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, problem := range found.Problems {
				texts = append(texts, ecommerceplatform.InPlatform(problem.Error(), stack))
			}
			for _, violation := range found.Violations {
				texts = append(texts, ecommerceplatform.InPlatform(violation.Field, stack)+" violates "+violation.Policy)
			}
			return strings.Join(texts, "; ")
		}
		if got := said(func(*platformv1.EcommercePlatformSpec) {}); got != "" {
			t.Errorf("%s: %s", environment, got)
		}
		if got := said(func(s *platformv1.EcommercePlatformSpec) { s.Backend.Replicas = ptr.To[int32](11) }); got != "spec.backend.replicas violates default" {
			t.Errorf("%s: of 11 replicas it says %q", environment, got)
		}
		if got := said(func(s *platformv1.EcommercePlatformSpec) { s.Frontend.Image = "A:b" }); !strings.HasPrefix(got, "spec.frontend.image: ") {
			t.Errorf("%s: of a bad image it says %q", environment, got)
		}
	}
}

// rightPlatform is the spec of a platform without a mistake, with every field that has limits.
const rightPlatform = `{"environment":"staging","frontend":{"image":"reg.io/front:1","port":3000},
	"backend":{"image":"reg.io/back:1","replicas":2,"env":[{"name":"A","value":"b"}],"resources":{"limits":{"cpu":"1","memory":"1Gi"}}},
	"database":{"type":"postgresql","version":"17","storage":"20Gi"},"cache":{"enabled":true,"memory":"64Mi","version":"9"},
	"monitoring":{"enabled":true},"ingress":{"host":"shop.example.com"},"labels":{"team":"a"}}`

// platformMistakes are what users get wrong in a platform: an edit of rightPlatform, and the
// answer, with the platform's own field. What the API server refuses by the schema is not here.
var platformMistakes = []struct{ from, to, want string }{
	{`"environment":"staging"`, `"environment":"live"`,
		`spec.environment: Unsupported value: "live": supported values: "development", "dev", "staging", "production", "prod"`},
	{`"type":"postgresql"`, `"type":"mysql"`, `spec.database.type: Invalid value: "mysql": kind MySQLCluster is not installed: use postgresql`},
	{`"version":"17"`, `"version":"16"`, `spec.database.version: Unsupported value: "16": supported values: "17"`},
	{`"storage":"20Gi"`, `"storage":"1Mi"`, `spec.database.storage: Invalid value: "1Mi": must be from 512Mi to 1Pi`},
	{`"storage":"20Gi"`, `"storage":"1e-999999999"`, `spec.database.storage: Invalid value: "1e-999999999": `},
	{`"memory":"64Mi"`, `"memory":"1Mi"`, `spec.cache.memory: Invalid value: "1Mi": must be from 32Mi to 1Ti`},
	{`"version":"9"`, `"version":"6"`, `spec.cache.version: Unsupported value: "6"`},
	{`"reg.io/front:1"`, `"reg.io/Front:1"`, `spec.frontend.image: Invalid value: "reg.io/Front:1": must be an image reference`},
	{`"reg.io/front:1"`, `"docker.io/front:1"`,
		`spec.frontend.image: Invalid value: "docker.io/front:1": must be an image of reg.io (policy "default", rule "*.allowedRegistries")`},
	{`"replicas":2`, `"replicas":6`, `spec.backend.replicas: Invalid value: 6: must be at most 5 (policy "default", rule "*.maxReplicas")`},
	{`"replicas":2`, `"replicas":2,"autoscaling":{"max":3}`, `spec.backend.replicas: Forbidden: may not be set together with autoscaling`},
	{`"port":3000`, `"port":70000`, `spec.frontend.port: Invalid value: 70000: `},
	{`{"name":"A","value":"b"}`, `{"name":"A=","value":"b"}`, `spec.backend.env[0].name: Invalid value: "A=": `},
	{`"memory":"1Gi"`, `"memory":"-1Gi"`, `spec.backend.resources.limits.memory: Invalid value: "-1Gi": must be 0 or more`},
	{`"shop.example.com"`, `"https://shop.example.com"`, `spec.ingress.host: Invalid value: "https://shop.example.com": must be a DNS name`},
	{`"host":"shop.example.com"`, `"className":"nginx"`, `spec.ingress.host: Required value`},
	{`"team":"a"`, `"team":"a","platform":"other"`, `spec.labels[platform]: Invalid value: "other": must be left out`},
	{`"team":"a"`, `"app.kubernetes.io/name":"a"`, `spec.labels[app.kubernetes.io/name]: Forbidden: `},
}

// platformRequest returns a request about the platform shop.
func platformRequest(operation, spec, former string) string {
	const object = `{"apiVersion":"platform.mainstay.dev/v1","kind":"EcommercePlatform","metadata":{"namespace":"shop","name":"shop","uid":"1"},"spec":%s}`
	text := fmt.Sprintf(`"operation":%q,"object":`+object, operation, spec)
	if former != "" {
		text += fmt.Sprintf(`,"oldObject":`+object, former)
	}
	return text
}

// TestPlatformMistakes: each mistake is refused, with the platform's own field and what is right,
// and without it the platform is accepted.
func TestPlatformMistakes(t *testing.T) {
	hook := validationOf(t, "ecommerceplatform")
	if right := ask(t, hook, platformRequest("CREATE", rightPlatform, "")); !right.Allowed {
		t.Fatalf("without a mistake it is refused: %s", right.told())
	}
	for _, one := range platformMistakes {
		wrong := strings.Replace(rightPlatform, one.from, one.to, 1)
		if wrong == rightPlatform {
			t.Errorf("%s: edits nothing", one.from)
			continue
		}
		if got := ask(t, hook, platformRequest("CREATE", wrong, "")); got.Allowed || !strings.HasPrefix(got.told(), one.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", one.to, got.told(), one.want)
		}
	}
}

// TestPlatformChanges: admission says what a change of a platform that runs does, and refuses what
// can't be undone.
func TestPlatformChanges(t *testing.T) {
	platform := &platformv1.EcommercePlatform{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop", UID: "1"},
		Spec: platformv1.EcommercePlatformSpec{Environment: "staging", Frontend: platformv1.PlatformWeb{Image: "reg.io/front:1"},
			Backend: platformv1.PlatformWeb{Image: "reg.io/back:1"}}}
	ecommerceplatform.Default(platform)
	stack := ecommerceplatform.Compile(platform, nil, ecommerceplatform.Installation{Databases: []string{"17"}, Caches: []string{"9"}})
	stack.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(platform, platformv1.GroupVersion.WithKind("EcommercePlatform"))}
	hook := validationOf(t, "ecommerceplatform", stack)
	const before = `{"environment":"staging","frontend":{"image":"reg.io/front:1"},"backend":{"image":"reg.io/back:1"}}`
	for with, want := range map[string]struct{ refused, warned string }{
		`"environment":"staging"`:     {},
		`"environment":"production"`:  {"", "spec.environment: production instead of staging changes all parts, and replaces their pods"},
		`"environment":"prod"`:        {"", "component cache: its instances are replaced, and what it has in memory may be lost"},
		`"environment":"development"`: {"", "component db: its volumes stay at 50Gi, more than the 10Gi of development"},
		`"environment":"dev"`:         {"", "component db: the volumes of the instances that are removed are kept"},
		`"environment":"staging","cache":{"enabled":false}`: {"", "spec.cache.enabled: Cache shop-cache is deleted once the backend runs without it, " +
			"and what it has in memory is lost"},
		`"environment":"staging","database":{"storage":"10Gi"}`: {`spec.database.storage: Invalid value: "10Gi": must be at least 50Gi: volumes only grow`, ""},
		`"environment":"staging","database":{"storageClassName":"fast"}`: {
			`spec.database.storageClassName: Invalid value: "fast": must not be set: the volumes exist, in the cluster's default class`, ""},
	} {
		got := ask(t, hook, platformRequest("UPDATE", strings.Replace(before, `"environment":"staging"`, with, 1), before))
		if got.Allowed != (want.refused == "") || !got.Allowed && got.told() != want.refused {
			t.Errorf("%s: allowed %t: %s", with, got.Allowed, got.told())
		}
		if warned := strings.Join(got.Warnings, "\n"); got.Allowed && (!strings.Contains(warned, want.warned) || want.warned == "" && warned != "") {
			t.Errorf("%s: the warnings are %s", with, warned)
		}
	}
}

// TestPlatformsAdopt: the review of a new platform knows what an AppStack has that consents to be
// adopted: the versions that the installation has no image for any more, for one. Without consent
// it knows nothing.
func TestPlatformsAdopt(t *testing.T) {
	in := underDefaultPolicy(t, policy.Development)
	installation := ecommerceplatform.Installation{HasStacks: true, Databases: []string{"16"}}
	const was, other = `database: {version: '16'}`, `database: {version: '17'}`
	for name, test := range map[string]struct{ consent, fields, want string }{
		"consenting":                  {"EcommercePlatform/shop", `{}`, ""},
		"consenting, its version":     {"EcommercePlatform/shop", was, ""},
		"consenting, another version": {"EcommercePlatform/shop", other, `spec.database.version: Invalid value: "17": must be 16`},
		"consenting, less storage": {"EcommercePlatform/shop", `database: {storage: 1Gi}`,
			`spec.database.storage: Invalid value: "1Gi": must be at least 10Gi`},
		"consenting to another":                {"EcommercePlatform/other", was, `spec.database.version: Unsupported value: "16"`},
		"not consenting":                       {"", was, `spec.database.version: Unsupported value: "16"`},
		"not consenting, the version of today": {"", other, ""},
	} {
		stack := ecommerceplatform.Compile(shop(t, was), nil, installation)
		stack.UID, stack.Annotations = "uid-2", map[string]string{api.AnnotationAdopt: test.consent}
		scheme := in.Manager.GetScheme()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		cached := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stack, namespace).Build()
		in.Manager, in.Reviewing = someManager{scheme: scheme, client: cached}, cached
		review := in.Review(schema.GroupKind{Group: "platform.mainstay.dev", Kind: "EcommercePlatform"})
		found, err := review(t.Context(), shop(t, test.fields), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(found.Problems) > 0 {
			got = found.Problems.ToAggregate().Error()
		}
		if !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// shop returns a platform with fields as users write them, in YAML.
func shop(t *testing.T, fields string) *platformv1.EcommercePlatform {
	t.Helper()
	platform := &platformv1.EcommercePlatform{Spec: platformv1.EcommercePlatformSpec{
		Frontend: platformv1.PlatformWeb{Image: "r.io/front:1"}, Backend: platformv1.PlatformWeb{Image: "r.io/back:1"},
		Cache: platformv1.PlatformCache{Enabled: new(false)},
	}}
	platform.Namespace, platform.Name, platform.UID = "web", "shop", "uid-1"
	if err := yaml.UnmarshalStrict([]byte(fields), &platform.Spec); err != nil {
		t.Fatal(err)
	}
	ecommerceplatform.Default(platform)
	return platform
}
