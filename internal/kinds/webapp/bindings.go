package webapp

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

const (
	// bindingsVolume is the volume with the authorities of what the app is bound to, at bindingsPath.
	bindingsVolume = "bindings"
	bindingsPath   = "/etc/mainstay/bindings"
	// authorityFile is the name of a file with authorities.
	authorityFile = "ca.crt"
)

// Lengths and forms of spec.bindings, as in the schema.
const maxBindings, maxBindingText = 16, 63

var (
	bindingKind   = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	bindingName   = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	bindingUser   = regexp.MustCompile(`^([A-Za-z_][-A-Za-z0-9_]*)?$`)
	bindingPrefix = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)?$`)
)

// Bound is a binding of the spec, and what was observed of its object.
type Bound struct {
	msappsv1.Binding
	// To is the kind of the object.
	To component.Bindable
	// Object is nil if there is none.
	Object component.Object
}

// key identifies the object, and the user of it.
func (b Bound) key() string { return component.BoundKey(b.Kind, b.Name, b.User) }

// starting returns why pods can't be bound yet; "" if they can.
func (b Bound) starting() string { return b.To.Starting(b.Object, b.User) }

// unready returns why pods that are bound can't get what the object says now; "" if they can.
func (b Bound) unready() string { return b.To.Unready(b.Object, b.User) }

// authority is the path of the file with the authorities, below bindingsPath.
func (b Bound) authority() string {
	return path.Join(strings.ToLower(b.Kind), b.Name, authorityFile)
}

// effective is a binding that pods have.
type effective struct {
	Bound
	revision, secret string
}

// bound is what the annotation says of it: it names the Secret, if that is not the one that every
// object of the kind has.
func (e effective) bound() component.Bound {
	one := component.Bound{Key: e.key(), Revision: e.revision}
	if e.secret != e.To.Secret(e.Name) {
		one.Secret = e.secret
	}
	return one
}

// effectiveBindings returns the bindings that pods get now, and the others as pending:
//
//	its object      the Deployment     result
//	may be used     -                  effective, with the present revision of the credentials
//	is starting     has the binding    effective, with the present revision of the credentials
//	is starting     has it not         pending
//	may not         has the binding    effective, with the revision that the Deployment has
//	may not         has it not         pending
//
// So a database that fails, or is gone, changes nothing for pods that have started with it, and
// pods that start are not replaced a moment later, when all of it has started.
func effectiveBindings(app *msappsv1.WebApp, observed Observed) (now []effective, pending []Bound) {
	has := boundBefore(app, observed)
	for _, bound := range observed.Bindings {
		former, isBound := has[bound.key()]
		switch {
		case bound.starting() == "", isBound && bound.unready() == "":
			account := bound.To.Account(bound.Object, bound.User)
			now = append(now, effective{bound, account.Revision, account.Secret})
		case isBound:
			now = append(now, effective{bound, former.Revision, cmp.Or(former.Secret, bound.To.Secret(bound.Name))})
		default:
			pending = append(pending, bound)
		}
	}
	return now, pending
}

// boundBefore returns what the Deployment's pods are bound to, by its key.
func boundBefore(app *msappsv1.WebApp, observed Observed) map[string]component.Bound {
	before := map[string]component.Bound{}
	if deployment := observed.deployment(app); deployment != nil {
		for _, one := range component.ParseBound(deployment.Spec.Template.Annotations[api.AnnotationBindings]) {
			before[one.Key] = one
		}
	}
	return before
}

// boundAnnotation returns the text that boundBefore reads; "" without bindings.
func boundAnnotation(now []effective) string {
	var all []component.Bound
	for _, one := range now {
		all = append(all, one.bound())
	}
	return component.FormatBound(all)
}

// lostBinding returns what is wrong with a binding of the pods whose object, or user of it, is
// gone, or not made again yet; nil if nothing is. One that only can't be used now, such as a
// database that fails over, is not lost.
func lostBinding(app *msappsv1.WebApp, observed Observed) *summary.Summary {
	now, _ := effectiveBindings(app, observed)
	var all []string
	for _, one := range now {
		if why := one.To.Lost(one.Object, one.User); why != "" {
			all = append(all, fmt.Sprintf("%s %s, %s", one.Kind, one.Name, why))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return new(summary.Of(summary.Degraded, msappsv1.ReasonBindingLost, "spec.bindings: the pods are bound to %s: those that run go on, "+
		"but a pod that starts now may not be able to", conditions.FirstFew(all, "; ")))
}

// waitsForBindings reports whether the Deployment must stay as it is, or away, because its pods
// would lack a binding of the spec. So a binding that is added to an app that runs comes with the
// rest of its change in one rollout, and no pod ever runs with only a part of it:
//
//	a binding is pending    suspended    result
//	no                      -            false
//	yes                     no           true
//	yes                     yes          false: no pod will lack it. Once it is resumed, it waits
func waitsForBindings(app *msappsv1.WebApp, observed Observed) bool {
	_, pending := effectiveBindings(app, observed)
	return len(pending) > 0 && !app.Spec.Suspend
}

// hasNoPods reports whether the app has no Deployment, or one without pods.
func hasNoPods(app *msappsv1.WebApp, observed Observed) bool {
	deployment := observed.deployment(app)
	return deployment == nil || ptr.Deref(deployment.Spec.Replicas, 1) == 0
}

// pendingBindings says what is waited for; "" for nothing.
func pendingBindings(app *msappsv1.WebApp, observed Observed) string {
	var all []string
	_, pending := effectiveBindings(app, observed)
	for _, bound := range pending {
		all = append(all, fmt.Sprintf("%s %s, %s", bound.Kind, bound.Name, bound.starting()))
	}
	return conditions.FirstFew(all, "; ")
}

// bindingVariables returns the environment variables of bindings, but those of which the spec has
// one itself. They come before the spec's, which can refer to them: $(PGHOST).
func bindingVariables(spec *msappsv1.WebAppSpec, now []effective) []corev1.EnvVar {
	own := map[string]bool{}
	for _, variable := range spec.Env {
		own[variable.Name] = true
	}
	var all []corev1.EnvVar
	add := func(variable corev1.EnvVar) {
		if !own[variable.Name] {
			all = append(all, variable)
		}
	}
	for _, one := range now {
		for _, output := range one.To.Variables(one.secret) {
			variable := corev1.EnvVar{Name: one.Prefix + output.Name, Value: output.Value}
			if output.Secret != "" {
				variable.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: output.Secret}, Key: output.Key,
				}}
			}
			add(variable)
		}
		for _, name := range one.To.AuthorityVariables {
			add(corev1.EnvVar{Name: one.Prefix + name, Value: path.Join(bindingsPath, one.authority())})
		}
	}
	return all
}

// bindingVolumes returns the volume with the authorities of bindings; none without any.
func bindingVolumes(now []effective) []corev1.Volume {
	var sources []corev1.VolumeProjection
	seen := map[string]bool{}
	for _, one := range now {
		if seen[one.authority()] {
			continue
		}
		seen[one.authority()] = true
		name, key := one.To.Authority(one.Name)
		sources = append(sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Items: []corev1.KeyToPath{{Key: key, Path: one.authority()}},
		}})
	}
	if len(sources) == 0 {
		return nil
	}
	return []corev1.Volume{{Name: bindingsVolume, VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: sources},
	}}}
}

// withBindings returns the mounts of the app's container with that of the authorities, if there are
// any.
func withBindings(mounts []corev1.VolumeMount, now []effective) []corev1.VolumeMount {
	if len(now) == 0 {
		return mounts
	}
	return append(slices.Clone(mounts), corev1.VolumeMount{Name: bindingsVolume, MountPath: bindingsPath, ReadOnly: true})
}

// validateBindings repeats the schema's rules about bindings, and keeps their volume and its path
// free.
func validateBindings(spec *msappsv1.WebAppSpec, at *field.Path) field.ErrorList {
	list, problems := at.Child("bindings"), field.ErrorList(nil)
	if len(spec.Bindings) == 0 {
		return nil
	}
	if len(spec.Bindings) > maxBindings {
		return field.ErrorList{field.TooMany(list, len(spec.Bindings), maxBindings)}
	}
	check := func(value string, form *regexp.Regexp, at *field.Path, message string) {
		switch {
		case len(value) > maxBindingText:
			problems = append(problems, field.TooLong(at, "", maxBindingText))
		case !form.MatchString(value):
			problems = append(problems, field.Invalid(at, value, message))
		}
	}
	for i, one := range spec.Bindings {
		check(one.Kind, bindingKind, list.Index(i).Child("kind"), "must be the name of a kind, for example PostgreSQL")
		check(one.Name, bindingName, list.Index(i).Child("name"),
			"must be a DNS label: lower-case letters, digits and '-', starting with a letter")
		check(one.User, bindingUser, list.Index(i).Child("user"), "must be letters, digits, _ and -, beginning with a letter or _")
		check(one.Prefix, bindingPrefix, list.Index(i).Child("prefix"),
			"must be letters, digits and '_', and not start with a digit, for example ORDERS_")
	}
	for i, volume := range spec.Volumes {
		if volume.Name == bindingsVolume {
			problems = append(problems, field.Invalid(at.Child("volumes").Index(i).Child("name"), volume.Name,
				"must have another name: this is the volume with the files of spec.bindings"))
		}
	}
	for i, mount := range spec.VolumeMounts {
		if mounted := path.Clean(mount.MountPath); isWithin(mounted, bindingsPath) || isWithin(bindingsPath, mounted) {
			problems = append(problems, field.Invalid(at.Child("volumeMounts").Index(i).Child("mountPath"), mount.MountPath,
				"must not be at, above or below "+bindingsPath+", where the files of spec.bindings are"))
		}
	}
	return problems
}

// isWithin reports whether a path is a folder, or below it.
func isWithin(inner, folder string) bool {
	return inner == folder || strings.HasPrefix(inner, folder+"/")
}

// ValidateBindings checks bindings against the kinds that are on: that each is of one of them, and
// that no two give the same variable.
func ValidateBindings(app *msappsv1.WebApp, kinds component.Bindables) field.ErrorList {
	var problems field.ErrorList
	from := map[string]int{}
	for i, one := range app.Spec.Bindings[:min(len(app.Spec.Bindings), maxBindings)] {
		at := field.NewPath("spec", "bindings").Index(i)
		kind, known := kinds.Get(one.Kind)
		if !known {
			problems = append(problems, field.NotSupported(at.Child("kind"), cmp.Or(one.Kind, "none"), kinds.Names()))
			continue
		}
		if one.User != "" && !kind.HasUsers {
			problems = append(problems, field.Invalid(at.Child("user"), one.User, fmt.Sprintf("must be left out: a %s has one user only", one.Kind)))
		}
		for _, name := range kind.Names(one.Prefix) {
			if other, taken := from[name]; taken {
				problems = append(problems, field.Invalid(at.Child("prefix"), one.Prefix, fmt.Sprintf(
					"must differ from that of spec.bindings[%d]: both give the variable %s", other, name)))
				break
			}
			from[name] = i
		}
	}
	return problems
}

// Bind returns the bindings of an app with their kinds, without their objects. Those of unknown
// kinds are left out: ValidateBindings refuses them.
func Bind(app *msappsv1.WebApp, kinds component.Bindables) []Bound {
	var all []Bound
	for _, one := range app.Spec.Bindings {
		if kind, known := kinds.Get(one.Kind); known {
			all = append(all, Bound{Binding: one, To: kind})
		}
	}
	return all
}
