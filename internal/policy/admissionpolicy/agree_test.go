package admissionpolicy

import (
	gocmp "cmp"
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/test/cases"
)

// request is a write of a workload.
type request struct {
	resource, subresource  string
	path                   *field.Path // of the pod's spec
	template, oldTemplate  *corev1.PodTemplateSpec
	object, old            runtime.Object // old is nil on creation
	labels, oldLabels      map[string]string
	replicas, oldReplicas  *int32
	user                   string
	namespace, environment string
	team                   string // a label of the namespace
}

// build returns an object of the request's resource.
func (r request) build(template *corev1.PodTemplateSpec, labels map[string]string, replicas *int32) runtime.Object {
	meta := metav1.ObjectMeta{Name: "x", Namespace: r.namespace, Labels: labels}
	switch {
	case r.subresource == "scale":
		return &autoscalingv1.Scale{ObjectMeta: meta, Spec: autoscalingv1.ScaleSpec{Replicas: *replicas}}
	case r.resource == "deployments":
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: replicas, Template: *template}}
	case r.resource == "cronjobs":
		job := batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: *template}}
		return &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{JobTemplate: job}}
	default:
		meta.Annotations = template.Annotations
		return &corev1.Pod{ObjectMeta: meta, Spec: template.Spec}
	}
}

// namespaceLabels returns the labels of the namespace; nil for none.
func (r request) namespaceLabels() map[string]string {
	var labels map[string]string
	for key, value := range map[string]string{"mainstay.dev/environment": r.environment, "team": r.team} {
		if value != "" {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[key] = value
		}
	}
	return labels
}

// subject returns what package policy checks.
func (r request) subject(template *corev1.PodTemplateSpec, labels map[string]string, replicas *int32) policy.Subject {
	if r.subresource == "scale" {
		return policy.Subject{Replicas: []policy.Replicas{{Field: field.NewPath("spec", "replicas"), Count: *replicas}},
			Unrestricted: func() []string { return nil }}
	}
	return policy.Workload{Labels: labels, Template: template, At: r.path, Replicas: replicas}.Subject()
}

// text returns an expression of any type.
func text(expression string) *validating.Variable {
	return &validating.Variable{Expression: expression}
}

func valueOf(t testing.TB, result interface {
	ConvertToNative(reflect.Type) (any, error)
}) []string {
	t.Helper()
	plain, err := result.ConvertToNative(reflect.TypeFor[[]string]())
	if err != nil {
		t.Fatal(err)
	}
	return plain.([]string)
}

// compiled is a ValidatingAdmissionPolicy as the API server compiles it.
type compiled struct {
	decide    validating.Validator
	violators cel.ConditionEvaluator
}

func compile(t testing.TB, built *admissionregistrationv1.ValidatingAdmissionPolicy) compiled {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	options := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, variable := range built.Spec.Variables {
		result := compiler.CompileAndStoreVariable(&validating.Variable{Name: variable.Name, Expression: variable.Expression}, options,
			environment.NewExpressions)
		if result.Error != nil {
			t.Fatalf("%s: %v\n%s", variable.Name, result.Error, variable.Expression)
		}
	}
	condition := func(accessors ...cel.ExpressionAccessor) cel.ConditionEvaluator {
		evaluator := compiler.CompileCondition(accessors, options, environment.NewExpressions)
		if problems := evaluator.CompilationErrors(); len(problems) > 0 {
			t.Fatal(problems)
		}
		return evaluator
	}
	rule := built.Spec.Validations[0]
	return compiled{
		decide: validating.NewValidator(
			condition(&validating.ValidationCondition{Expression: rule.Expression, Message: rule.Message, Reason: rule.Reason}), nil,
			condition(), condition(&validating.MessageExpressionCondition{MessageExpression: rule.MessageExpression}),
			built.Spec.FailurePolicy, nil),
		violators: condition(text("variables.violations"), text("[variables.unclear]")),
	}
}

// evaluate returns the violations, the message about an unclear environment, and the decision.
func (c compiled) evaluate(t testing.TB, r request) (violations []string, unclear string, decision validating.PolicyDecision) {
	t.Helper()
	operation := admission.Create
	if r.old != nil {
		operation = admission.Update
	}
	resource := schema.GroupVersionResource{Version: "v1", Resource: r.resource}
	attributes := &admission.VersionedAttributes{Attributes: admission.NewAttributesRecord(r.object, r.old,
		schema.GroupVersionKind{}, r.namespace, "x",
		resource, r.subresource, operation, nil, false, &user.DefaultInfo{Name: r.user})}
	attributes.VersionedObject.Set(r.object)
	if r.old != nil {
		attributes.VersionedOldObject.Set(r.old)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace, Labels: r.namespaceLabels()}}
	results, _, err := c.violators.ForInput(context.Background(), attributes, cel.CreateAdmissionRequest(attributes.Attributes,
		metav1.GroupVersionResource(resource), metav1.GroupVersionKind{}), cel.OptionalVariableBindings{}, namespace,
		celconfig.RuntimeCELCostBudget)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if result.Error != nil {
			t.Fatal(result.Error)
		}
	}
	decided := c.decide.Validate(context.Background(), resource, attributes, nil, namespace, celconfig.RuntimeCELCostBudget, nil)
	return valueOf(t, results[0].EvalResult), valueOf(t, results[1].EvalResult)[0], decided.Decisions[0]
}

// key returns what two messages about one violation have in common. Lapses of the profile are
// compared by their reason, and capabilities by the container.
func key(message string) string {
	switch {
	case strings.Contains(message, ".securityProfile\")"):
		start, rest, _ := strings.Cut(message, ": Invalid value: \"")
		reason, _, _ := strings.Cut(rest, " (")
		reason, _, _ = strings.Cut(reason, `": must be`)
		reason = strings.Replace(reason, "AppArmor profiles", "AppArmor profile", 1)
		return start + " " + reason + message[strings.LastIndex(message, " (rule"):]
	case strings.Contains(message, "adds "):
		start, _, _ := strings.Cut(message, ": Invalid value")
		return start + " adds" + message[strings.LastIndex(message, " (rule"):]
	}
	return message
}

// keys returns the keys of the violations of one policy.
func keys(violations []policy.Violation, name string) (found []string) {
	for _, violation := range violations {
		if violation.Policy == name {
			found = append(found, key(strings.Replace(violation.String(), `policy "`+name+`", `, "", 1)))
		}
	}
	return sorted(found)
}

func sorted(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

func (c chance) request() request {
	r := request{user: "alice", namespace: one(c, "shop", "prod", "shop-prod", "shop-dev", "a-staging"), environment: one(c, "", "", "prod", "dev", "qa"),
		team: one(c, "", "a", "it's")}
	r.resource, r.path = "deployments", field.NewPath("spec", "template", "spec")
	template := c.template()
	switch c.IntN(5) {
	case 0:
		r.resource, r.path = "pods", field.NewPath("spec")
	case 1:
		r.resource, r.path = "pods", field.NewPath("spec")
		r.subresource = "ephemeralcontainers"
		made := c.container("e")
		made.Resources = corev1.ResourceRequirements{}
		template.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(made)}}
	case 2:
		r.resource, r.path = "cronjobs", field.NewPath("spec", "jobTemplate", "spec", "template", "spec")
	case 3:
		r.subresource = "scale"
	}
	if r.resource == "deployments" {
		r.replicas, r.oldReplicas = new(int32(c.IntN(7))), new(int32(c.IntN(7)))
	}
	r.labels, r.template = c.labels(), &template
	r.object = r.build(&template, r.labels, r.replicas)
	if r.subresource != "" || c.IntN(2) == 0 {
		before := *template.DeepCopy()
		other := c.template()
		if c.IntN(2) == 0 && len(before.Spec.Containers) == len(other.Spec.Containers) {
			before.Spec.Containers = other.Spec.Containers
		} else if c.IntN(2) == 0 {
			before.Spec = other.Spec
		}
		if r.subresource == "ephemeralcontainers" {
			before.Spec.EphemeralContainers = nil
		}
		r.oldTemplate, r.oldLabels = &before, one(c, r.labels, c.labels())
		if r.subresource != "" {
			r.oldLabels = r.labels
		}
		r.old = r.build(&before, r.oldLabels, r.oldReplicas)
	}
	return r
}

var kinds = map[string]string{"deployments": "Deployment", "pods": "Pod", "cronjobs": "CronJob"}

// others are not the default environments. The longest ending of a namespace's name counts.
var others = func() policy.Environments {
	made, err := policy.NewEnvironments([]string{"production:prod", "shop:shop-prod", "qa", "dev"})
	if err != nil {
		panic(err)
	}
	return made
}()

// saysUnclear reports whether violations are told as one of the label of the namespace.
func saysUnclear(violations []policy.Violation) bool {
	return slices.ContainsFunc(policy.Told(violations), func(v policy.Violation) bool { return v.Rule == "environment" })
}

// certain returns the violations of which CEL finds each that is worse than before.
func certain(violations []policy.Violation) []policy.Violation {
	return slices.DeleteFunc(slices.Clone(violations), func(v policy.Violation) bool { return strings.HasSuffix(v.Rule, "securityProfile") })
}

// isUnclear reports whether a policy has a rule of which it is unknown whether it governs.
func isUnclear(on policy.Set, name string, enforcement mspolicyv1.Enforcement, r request) bool {
	on.Policies = slices.DeleteFunc(slices.Clone(on.Policies), func(stored mspolicyv1.PlatformPolicy) bool { return stored.Name != name })
	for i, stored := range on.Policies {
		on.Policies[i].Spec.Rules = slices.DeleteFunc(slices.Clone(stored.Spec.Rules),
			func(rule mspolicyv1.Rule) bool { return given(rule.Enforcement) != enforcement })
	}
	return saysUnclear(on.Governing(r.namespace, r.namespaceLabels()).CheckReplicas(nil))
}

func given(enforcement mspolicyv1.Enforcement) mspolicyv1.Enforcement {
	return gocmp.Or(enforcement, mspolicyv1.EnforcementDeny)
}

// TestAgreesWithPolicy: CEL finds the violations that package policy finds, in the same words.
func TestAgreesWithPolicy(t *testing.T) {
	for seed := range cases.Seeds(t, 60, 5_000) {
		c := chance{rand.New(rand.NewPCG(seed, 11))} //nolint:gosec // tests need a repeatable sequence
		policies := c.policies()
		all := policy.Set{Policies: policies, Environments: one(c, policy.Environments{}, others), Now: time.Unix(5, 0)}
		enforcement := one(c, mspolicyv1.EnforcementDeny, mspolicyv1.EnforcementDeny, mspolicyv1.EnforcementWarn, mspolicyv1.EnforcementAudit)
		built, _ := Build(Input{Name: "x", Policy: &policies[0], Enforcement: enforcement, All: all, Manager: "m"})
		evaluated := compile(t, built)
		for range 8 {
			r := c.request()
			on := all
			on.ForWorkloads = true
			rules := on.Governing(r.namespace, r.namespaceLabels()).For(kinds[r.resource], "x")
			if r.subresource == "scale" {
				rules = rules.For("WebApp", "x") // as the autoscaler of a WebApp scales its Deployment
			}
			found := rules.Check(r.subject(r.template, r.labels, r.replicas))
			if r.old != nil {
				found = policy.Worse(found, rules.Check(r.subject(r.oldTemplate, r.oldLabels, r.oldReplicas)))
			}
			if r.subresource == "scale" {
				found = slices.DeleteFunc(found, func(v policy.Violation) bool { return !strings.HasSuffix(v.Rule, "maxReplicas") })
			}
			isNewAndUnclear := r.old == nil && isUnclear(on, policies[0].Name, enforcement, r)
			found = slices.DeleteFunc(found, func(v policy.Violation) bool { return v.Policy != policies[0].Name || v.Enforcement != enforcement })
			want := keys(policy.Told(found), policies[0].Name)
			violations, unclear, decision := evaluated.evaluate(t, r)
			must, may := isNewAndUnclear || saysUnclear(certain(found)), isNewAndUnclear || saysUnclear(found)
			if must && unclear == "" || !may && unclear != "" {
				t.Fatalf("unclear: %q, want %t", unclear, may)
			}
			if isDenied := len(violations) > 0 || unclear != ""; isDenied != (decision.Action == validating.ActionDeny) ||
				decision.Evaluation == validating.EvalError || isDenied && strings.HasPrefix(decision.Message, "PlatformPolicy ") {
				t.Fatalf("decided %+v for %q %q", decision, unclear, violations)
			}
			var got []string
			for _, violation := range violations {
				got = append(got, key(violation))
			}
			got = sorted(got)
			if r.old != nil {
				// Of a rule of the profile that was violated before, each may find worse what the other
				// tolerates: policy compares texts about all containers, and CEL the containers, one by one.
				before := keys(rules.Check(r.subject(r.oldTemplate, r.oldLabels, r.oldReplicas)), policies[0].Name)
				isTolerated := func(by []string) func(string) bool {
					return func(k string) bool {
						return slices.Contains(before, k) && strings.Contains(k, "securityProfile") && !slices.Contains(by, k)
					}
				}
				wanted := slices.Clone(want)
				want, got = slices.DeleteFunc(want, isTolerated(got)), slices.DeleteFunc(got, isTolerated(wanted))
			}
			if r.subresource == "ephemeralcontainers" { // policy reports one of several containers with the same lapse
				got = slices.DeleteFunc(got, func(k string) bool {
					return strings.Contains(k, "securityProfile") && !strings.Contains(k, "readOnlyRootFilesystem") && !slices.Contains(want, k)
				})
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("policy (-), CEL (+): %s%s %v", diff, r.resource, r.subresource)
			}
		}
	}
}

// BenchmarkDecide measures what a policy with all kinds of rules adds to a request.
func BenchmarkDecide(b *testing.B) {
	c := chance{rand.New(rand.NewPCG(1, 11))} //nolint:gosec // the same one each time
	stored := mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
	stored.Spec.Workloads, stored.Spec.Rules = mspolicyv1.WorkloadsEnforce, []mspolicyv1.Rule{c.rule("*")}
	rule := &stored.Spec.Rules[0]
	rule.AllowedRegistries, rule.RequireResourceLimits, rule.MaxReplicas = []string{"docker.io", "reg.io"}, true, new(int32(10))
	rule.Enforced.SecurityProfile = mspolicyv1.SecurityRestricted
	built, _ := Build(Input{Name: "x", Policy: &stored, Enforcement: mspolicyv1.EnforcementDeny, All: policy.Set{Policies: []mspolicyv1.PlatformPolicy{stored}}, Manager: "m"})
	compiled, r := compile(b, built), c.request()
	for b.Loop() {
		compiled.evaluate(b, r)
	}
}
