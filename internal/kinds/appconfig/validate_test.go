package appconfig

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/api"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

func problemsOf(problems field.ErrorList) string {
	if len(problems) == 0 {
		return ""
	}
	return problems.ToAggregate().Error()
}

func TestValidate(t *testing.T) {
	overrides := func(words ...string) func(*configv1.AppConfigSpec) {
		return func(spec *configv1.AppConfigSpec) {
			spec.Environments = map[string]configv1.ConfigOverride{}
			for _, word := range words {
				spec.Environments[word] = configv1.ConfigOverride{}
			}
		}
	}
	for name, test := range map[string]struct {
		change func(*configv1.AppConfigSpec)
		want   string
	}{
		"as little as can be":         {func(*configv1.AppConfigSpec) {}, ""},
		"environments":                {overrides("dev", "staging", "production"), ""},
		"an environment twice":        {overrides("prod", "production"), `spec.environments.production: Invalid value: "production": is the same environment as prod: merge the two`},
		"no environment":              {overrides("test"), `spec.environments.test: Invalid value: "test": must be development (dev), staging or production (prod)`},
		"its environment is none":     {func(spec *configv1.AppConfigSpec) { spec.Environment = "test" }, `spec.environment: Invalid value: "test": must be development (dev), staging or production (prod)`},
		"an application":              {func(spec *configv1.AppConfigSpec) { spec.Application = "Shop" }, `spec.application: Invalid value: "Shop": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`},
		"a long application":          {func(spec *configv1.AppConfigSpec) { spec.Application = strings.Repeat("a", 57) }, `spec.application: Too long: may not be more than 56 bytes`},
		"a key":                       {func(spec *configv1.AppConfigSpec) { spec.Config["a b"] = "" }, `spec.config.a b: Invalid value: "a b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`},
		"a rollout policy":            {func(spec *configv1.AppConfigSpec) { spec.Rollout.Policy = rolloutv1.Policy{MaxParallel: new(int32(0))} }, `spec.rollout.maxParallel: Invalid value: 0: must be at least 1`},
		"a mode":                      {func(spec *configv1.AppConfigSpec) { spec.Rollout.Mode = "Maybe" }, `spec.rollout.mode: Unsupported value: "Maybe": supported values: "Automatic", "Manual"`},
		"an action":                   {func(spec *configv1.AppConfigSpec) { spec.Rollout.OnFailure = "Cry" }, `spec.rollout.onFailure: Unsupported value: "Cry": supported values: "Stop", "Rollback"`},
		"a revision":                  {func(spec *configv1.AppConfigSpec) { spec.Revision = new(int64(0)) }, `spec.revision: Invalid value: 0: must be greater than or equal to 1: status.revisions lists the revisions`},
		"a history":                   {func(spec *configv1.AppConfigSpec) { spec.RevisionHistoryLimit = new(int32(-1)) }, `spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0`},
		"a Secret's name twice":       {func(spec *configv1.AppConfigSpec) { spec.SecretRefs = []configv1.SecretRef{{Name: "A"}, {Name: "A"}} }, `spec.secretRefs[1].name: Duplicate value: "A"`},
		"templates are not looked at": {says("{{"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := newConfig(test.change)
			equal(t, test.want, problemsOf(Validate(config, policy.Environments{})))
			before := config.DeepCopy()
			Default(config)
			equal(t, before, config)
		})
	}
	long := newConfig()
	long.Name = strings.Repeat("a", 64)
	equal(t, `metadata.name: Too long: may not be more than 63 bytes`, problemsOf(Validate(long, policy.Environments{})))
}

func TestValidateIn(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*configv1.AppConfigSpec)
		want   string
	}{
		"a template":             {says("{{ .Values.NO }}"), `spec.config.MESSAGE: Invalid value: line 1: there is no key NO in config: it has MESSAGE`},
		"of its environment":     {override("prod", "{{ .Values.NO }}"), `spec.environments.prod.config.MESSAGE: Invalid value: line 1: there is no key NO in config: it has MESSAGE`},
		"of another environment": {override("dev", "{{ .Values.NO }}"), ""},
		"a file and a key":       {func(spec *configv1.AppConfigSpec) { spec.Files = map[string]string{"MESSAGE": ""} }, `spec.files.MESSAGE: Invalid value: spec.config.MESSAGE has the same key, and both are keys of one ConfigMap: rename one`},
		"a Secret and a key":     {func(spec *configv1.AppConfigSpec) { spec.SecretRefs = []configv1.SecretRef{{Name: "MESSAGE"}} }, `spec.secretRefs[0].name: Invalid value: "MESSAGE": spec.config.MESSAGE has the same name, which would be ambiguous for pods: rename one`},
		"a value of a Secret": {func(spec *configv1.AppConfigSpec) {
			spec.Config["MESSAGE"], spec.SecretRefs = "{{ .Values.PASSWORD }}", []configv1.SecretRef{{Name: "PASSWORD"}}
		}, `spec.config.MESSAGE: Invalid value: line 1: .Values.PASSWORD is one of spec.secretRefs: templates cannot use the values of Secrets, which pods get by reference`},
		"a value of a file": {func(spec *configv1.AppConfigSpec) {
			spec.Config["MESSAGE"], spec.Files = `{{ index .Values "a" }}`, map[string]string{"a": ""}
		}, `spec.config.MESSAGE: Invalid value: line 1: .Values.a is a file: templates can use the keys of config only`},
		"an unknown field": {says("{{ .Release.Name }}"), `spec.config.MESSAGE: Invalid value: line 1: .Release does not exist: must be .Application, .Environment, .Namespace or .Values.KEY`},
		"too much": {func(spec *configv1.AppConfigSpec) {
			spec.Files = map[string]string{"a": strings.Repeat("x", 1<<20)}
		}, `spec: Invalid value: config and files render to 1048589 bytes, including keys: must be at most 1048576, which is the limit of a ConfigMap`},
		"a schema":              {schema(`{"properties":{"MESSAGE":{"pattern":"^[0-9]+$"}}}`), `spec.config.MESSAGE: Invalid value: "hello": does not match pattern ^[0-9]+$`},
		"a schema that is none": {schema(`{"type":"thing"}`), `spec.schema: Invalid value: at /type: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'`},
	} {
		t.Run(name, func(t *testing.T) {
			config := newConfig(test.change)
			equal(t, test.want, problemsOf(ValidateIn(config, Place{Labels: map[string]string{api.LabelEnvironment: "production"}}, nil)))
		})
	}
}

func override(environment, text string) func(*configv1.AppConfigSpec) {
	return func(spec *configv1.AppConfigSpec) {
		spec.Environments = map[string]configv1.ConfigOverride{environment: {Config: map[string]string{"MESSAGE": text}}}
	}
}

func schema(text string) func(*configv1.AppConfigSpec) {
	return func(spec *configv1.AppConfigSpec) { spec.Schema = &runtime.RawExtension{Raw: []byte(text)} }
}

func TestEnvironmentIn(t *testing.T) {
	for name, test := range map[string]struct {
		namespace, label, given string
		want                    string
	}{
		"none":                      {namespace: "web"},
		"by the namespace's name":   {namespace: "shop-prod", want: "production"},
		"by its label":              {namespace: "web", label: "staging", want: "staging"},
		"by the spec":               {namespace: "web", given: "dev", want: "development"},
		"both say the same":         {namespace: "shop-prod", given: "production", want: "production"},
		"they contradict":           {namespace: "shop-prod", given: "dev", want: `spec.environment: Invalid value: "dev": namespace shop-prod is for production: leave the field out, or create the AppConfig in a namespace for development`},
		"the label comes first":     {namespace: "shop-prod", label: "dev", given: "dev", want: "development"},
		"a label that means none":   {namespace: "web", label: "x", given: "dev", want: `metadata.namespace: Invalid value: "web": namespace web has the label mainstay.dev/environment=x: must be development (dev), staging or production (prod): correct the label`},
		"a word that means nothing": {namespace: "web", given: "x", want: `spec.environment: Invalid value: "x": must be development (dev), staging or production (prod)`},
	} {
		t.Run(name, func(t *testing.T) {
			config := &configv1.AppConfig{ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace},
				Spec: configv1.AppConfigSpec{Environment: test.given}}
			labels := map[string]string{}
			if test.label != "" {
				labels[api.LabelEnvironment] = test.label
			}
			environment, problem := EnvironmentIn(config, Place{Labels: labels})
			got := string(environment)
			if problem != nil {
				got = problem.Error()
			}
			equal(t, test.want, got)
		})
	}
}

func TestWarn(t *testing.T) {
	approved := func(mode configv1.RolloutMode, hash string) func(*configv1.AppConfigSpec) {
		return func(spec *configv1.AppConfigSpec) { spec.Rollout.Mode, spec.Rollout.Approved = mode, hash }
	}
	revision := func(number int64) func(*configv1.AppConfigSpec) {
		return func(spec *configv1.AppConfigSpec) { spec.Revision = &number }
	}
	for name, test := range map[string]struct {
		change func(*configv1.AppConfigSpec)
		want   string
	}{
		"nothing":                    {func(*configv1.AppConfigSpec) {}, ""},
		"approved, and Manual":       {approved(configv1.RolloutManual, "x"), ""},
		"approved, and Automatic":    {approved(configv1.RolloutAutomatic, "x"), "spec.rollout.approved: "},
		"approved, and no mode":      {approved("", "x"), "spec.rollout.approved: "},
		"not approved, and no mode":  {approved("", ""), ""},
		"not approved, yet Manual":   {approved(configv1.RolloutManual, ""), ""},
		"a revision that is kept":    {revision(1), ""},
		"a revision that is not":     {revision(77), "spec.revision: 77 is not kept, so nothing is rolled out: must be one of 2, 1"},
		"approved, and no such mode": {approved("Maybe", "x"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := newConfig(test.change)
			config.Status.Revisions = []configv1.RevisionStatus{{Revision: 2}, {Revision: 1}}
			got := strings.Join(Warn(config), "; ")
			if (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
