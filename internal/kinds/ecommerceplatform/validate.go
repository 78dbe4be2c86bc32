package ecommerceplatform

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// host is the form of spec.ingress.host, as in the schema.
var host = regexp.MustCompile(`^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// Validate returns what is wrong with a defaulted platform by itself, given the installation. What
// its parts refuse is found by the admission of its AppStack.
func Validate(platform *platformv1.EcommercePlatform, installation Installation) field.ErrorList {
	spec, at := &platform.Spec, field.NewPath("spec")
	problems := checkEnvironment(spec.Environment, installation, at.Child("environment"))
	problems = append(problems, checkKinds(spec, installation, at)...)
	problems = append(problems, checkWeb(spec.Frontend, at.Child("frontend"))...)
	problems = append(problems, checkWeb(spec.Backend, at.Child("backend"))...)
	if spec.Ingress != nil {
		problems = append(problems, checkIngress(spec.Ingress, at.Child("ingress"))...)
	}
	if value, given := spec.Labels[Label]; given && string(value) != platform.Name {
		problems = append(problems, field.Invalid(at.Child("labels").Key(Label), string(value),
			"must be left out: it is the name of the platform, by which its parts are found"))
	}
	return append(problems, naming.CheckInstanceLabels(spec.Labels, at.Child("labels"))...)
}

// checkEnvironment requires an environment of the installation that has a row in the table.
func checkEnvironment(word string, installation Installation, at *field.Path) field.ErrorList {
	environment, known := installation.Environments.Parse(word)
	if _, inTable := table[environment]; known && inTable {
		return nil
	}
	var accepted []string
	for _, one := range installation.Environments.Words() {
		environment, _ := installation.Environments.Parse(one)
		if _, inTable := table[environment]; inTable {
			accepted = append(accepted, one)
		}
	}
	return field.ErrorList{field.NotSupported(at, word, accepted)}
}

// checkKinds requires that the kinds of the parts are on.
func checkKinds(spec *platformv1.EcommercePlatformSpec, installation Installation, at *field.Path) field.ErrorList {
	if !installation.HasStacks {
		return field.ErrorList{field.Forbidden(at, "kind AppStack is not installed: enable kinds.appstack in the chart's values")}
	}
	var problems field.ErrorList
	isOn := func(typeName string) bool { return slices.Contains(installation.Types, typeName) }
	if !isOn(webAppType) {
		problems = append(problems, field.Forbidden(at, "kind WebApp is not installed: enable kinds.webapp in the chart's values"))
	}
	database := at.Child("database", "type")
	switch {
	case spec.Database.Type == platformv1.DatabaseMySQL:
		if !isOn(mysqlType) {
			problems = append(problems, field.Invalid(database, spec.Database.Type, "kind MySQLCluster is not installed: use postgresql"))
		}
	case spec.Database.Type != platformv1.DatabasePostgreSQL:
		problems = append(problems, field.NotSupported(database, spec.Database.Type,
			[]platformv1.DatabaseType{platformv1.DatabasePostgreSQL, platformv1.DatabaseMySQL}))
	case !isOn(postgresqlType):
		problems = append(problems, field.Invalid(database, spec.Database.Type,
			"kind PostgreSQL is not installed: enable kinds.postgresql in the chart's values"))
	}
	if *spec.Cache.Enabled && !isOn(cacheType) {
		problems = append(problems, field.Invalid(at.Child("cache", "enabled"), true,
			"kind Cache is not installed: enable kinds.cache in the chart's values, or set this to false"))
	}
	return problems
}

// maxReplicas is the limit of a WebApp's schema.
const maxReplicas = 10000

// checkWeb repeats what the schema says, for a platform that it has not seen: one of an older
// definition.
func checkWeb(web platformv1.PlatformWeb, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	if web.Image == "" {
		problems = append(problems, field.Required(at.Child("image"), "must be the image to run, for example registry.example.com/team/shop:1.4.2"))
	}
	if count := ptr.Deref(web.Replicas, 1); count < 1 || count > maxReplicas {
		problems = append(problems, field.Invalid(at.Child("replicas"), count, fmt.Sprintf("must be from 1 to %d", maxReplicas)))
	}
	if web.Replicas != nil && web.Autoscaling != nil {
		problems = append(problems, field.Forbidden(at.Child("replicas"),
			"may not be set together with autoscaling, which owns the number of replicas: leave it out"))
	}
	return problems
}

func checkIngress(ingress *platformv1.PlatformIngress, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	switch {
	case ingress.Host == "" && ingress.Route == nil:
		problems = append(problems, field.Required(at.Child("host"), "must be the DNS name of the shop, for example shop.example.com"))
	case ingress.Host != "" && !host.MatchString(ingress.Host):
		problems = append(problems, field.Invalid(at.Child("host"), ingress.Host,
			"must be a DNS name in lower case without scheme, port or path, for example shop.example.com"))
	}
	if ingress.Route != nil && (ingress.ClassName != nil || ingress.TLSSecretName != "") {
		problems = append(problems, field.Forbidden(at.Child("route"), "className and tlsSecretName apply to an Ingress only: remove them, or remove route"))
	}
	return problems
}

// ValidateWithin returns what is wrong with a valid platform in its surroundings: its namespace,
// and the AppStack that exists; nil without one.
func ValidateWithin(platform *platformv1.EcommercePlatform, namespace map[string]string, existing *platformv1.AppStack,
	installation Installation) field.ErrorList {
	at := field.NewPath("spec")
	problems := checkNamespace(platform, namespace, installation.Environments, at.Child("environment"))
	problems = append(problems, checkCache(platform.Spec.Cache, existing, installation.Caches, at.Child("cache", "version"))...)
	database, was := platform.Spec.Database, formerDatabase(platform, existing)
	if componentOf(existing, databaseName) == nil {
		return append(problems, checkNewDatabase(database, installation.versions(database.Type), at.Child("database", "version"))...)
	}
	// Once the AppStack was deleted, it may have been made anew with others, and the status not have
	// them yet.
	now := formerly(existing, databaseName)
	if version := database.Version; version != "" && was.Version != "" && version != was.Version && version != now.Version {
		problems = append(problems, field.Invalid(at.Child("database", "version"), database.Version,
			fmt.Sprintf("must be %s: for another major version, dump the data and restore them into another platform", was.Version)))
	}
	if class := database.StorageClassName; class != nil && *class != ptr.Deref(was.StorageClassName, "") &&
		*class != ptr.Deref(now.StorageClassName, "") {
		problems = append(problems, field.Invalid(at.Child("database", "storageClassName"), *class, classRemedy(was.StorageClassName)))
	}
	if size := was.size(); size != nil && database.Storage != nil && database.Storage.Cmp(*size) < 0 {
		problems = append(problems, field.Invalid(at.Child("database", "storage"), database.Storage.String(),
			fmt.Sprintf("must be at least %s: volumes only grow", size)))
	}
	return problems
}

// classRemedy says which storage class is accepted, given that of the volumes.
func classRemedy(was *string) string {
	if was == nil {
		return "must not be set: the volumes exist, in the cluster's default class"
	}
	return fmt.Sprintf("must be %q: the volumes exist", *was)
}

// checkNewDatabase requires a version that the installation has an image for. offered are those of
// the database's type; where there are none, the database says what it needs.
func checkNewDatabase(database platformv1.PlatformDatabase, offered []string, at *field.Path) field.ErrorList {
	switch {
	case database.Version == "" && newest(offered) == "":
		return field.ErrorList{field.Required(at, fmt.Sprintf(
			"this installation has no image for %s: set databaseImages.%s in the chart's values", database.Type, database.Type))}
	case len(offered) > 0 && database.Version != "" && !slices.Contains(offered, database.Version):
		return field.ErrorList{field.NotSupported(at, database.Version, slices.Sorted(slices.Values(offered)))}
	}
	return nil
}

// checkCache refuses a version that can't follow that of the existing cache. One that is disabled
// is removed, so that the next may be of any version.
func checkCache(cache platformv1.PlatformCache, existing *platformv1.AppStack, offered []string, at *field.Path) field.ErrorList {
	if componentOf(existing, cacheName) == nil {
		return checkNewCache(cache, offered, at)
	}
	was := formerly(existing, cacheName).Version
	if !*cache.Enabled || cache.Version == "" || number(cache.Version) >= number(was) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, cache.Version,
		fmt.Sprintf("must be at least %s: an earlier server can't read the data of a later one", was))}
}

// checkNewCache requires a version that the installation has an image for. Where there is none at
// all, the cache says what it needs.
func checkNewCache(cache platformv1.PlatformCache, offered []string, at *field.Path) field.ErrorList {
	if !*cache.Enabled || cache.Version == "" || len(offered) == 0 || slices.Contains(offered, cache.Version) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, cache.Version, slices.Sorted(slices.Values(offered)))}
}

// checkNamespace refuses an environment that contradicts that of the namespace.
func checkNamespace(platform *platformv1.EcommercePlatform, labels map[string]string, environments policy.Environments,
	at *field.Path) field.ErrorList {
	there, err := environments.Of(platform.Namespace, labels)
	if err != nil {
		return field.ErrorList{field.Invalid(at, platform.Spec.Environment, err.Error())}
	}
	wanted, _ := environments.Parse(platform.Spec.Environment)
	if there == policy.None || there == wanted {
		return nil
	}
	return field.ErrorList{field.Invalid(at, platform.Spec.Environment, fmt.Sprintf(
		"must be %s: that is the environment of namespace %s", there, platform.Namespace))}
}

// fieldsOf are the fields of a platform that a field of a component's spec is made of, by the names
// of the component and the field. What has none is the platform's part as a whole.
var fieldsOf = map[string]string{
	"db": "spec.database", "db.version": "spec.database.version", "db.storage": "spec.database.storage",
	"db.storageClassName": "spec.database.storageClassName", "db.resources": "spec.database.resources",
	"cache": "spec.cache", "cache.memory": "spec.cache.memory", "cache.version": "spec.cache.version", "cache.resources": "spec.cache.resources",
	"backend": "spec.backend", "backend.image": "spec.backend.image", "backend.replicas": "spec.backend.replicas",
	"backend.port": "spec.backend.port", "backend.env": "spec.backend.env", "backend.resources": "spec.backend.resources",
	"backend.autoscaling": "spec.backend.autoscaling",
	"frontend":            "spec.frontend", "frontend.image": "spec.frontend.image", "frontend.replicas": "spec.frontend.replicas",
	"frontend.port": "spec.frontend.port", "frontend.env": "spec.frontend.env", "frontend.resources": "spec.frontend.resources",
	"frontend.autoscaling": "spec.frontend.autoscaling", "frontend.ingress": "spec.ingress", "frontend.route": "spec.ingress.route",
	"backend.metrics": "spec.monitoring", "frontend.metrics": "spec.monitoring",
}

// stackPath is the path of a field of a component in an AppStack.
var stackPath = regexp.MustCompile(`spec\.components\[([0-9]{1,3})\]((\.[A-Za-z]+|\[[^\]]*\])*)`)

// InPlatform returns a text about an AppStack in the words of the platform that it is made of:
// paths of fields of the components are those of the platform.
func InPlatform(text string, stack *platformv1.AppStack) string {
	return stackPath.ReplaceAllStringFunc(text, func(found string) string {
		match := stackPath.FindStringSubmatch(found)
		index := number(match[1])
		if index >= len(stack.Spec.Components) {
			return found
		}
		return fieldOf(stack.Spec.Components[index].Name, match[2])
	})
}

// fieldOf returns the field of a platform that a field of a component follows from; path is that
// below the component: ".spec.resources.limits".
func fieldOf(component, path string) string {
	if strings.HasPrefix(path, ".name") {
		return "metadata.name"
	}
	below, inSpec := strings.CutPrefix(path, ".spec.")
	if !inSpec {
		return fieldsOf[component]
	}
	switch {
	case component == frontendName && strings.HasPrefix(below, "route.hostnames"):
		return "spec.ingress.host"
	case below == "metrics.port": // that of the part itself
		below = "port"
	}
	end := strings.IndexFunc(below, func(r rune) bool { return r == '.' || r == '[' })
	if end < 0 {
		end = len(below)
	}
	if field, has := fieldsOf[component+"."+below[:end]]; has {
		return field + below[end:]
	}
	return fieldsOf[component]
}
