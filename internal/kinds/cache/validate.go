package cache

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/podspec"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
)

// Versions are the major versions that there are.
var Versions = []string{"8", "9"}

// policies are the eviction policies that there are.
var policies = []string{
	string(databasev1.EvictAllKeysLRU), string(databasev1.EvictAllKeysLFU), string(databasev1.EvictAllKeysRandom),
	string(databasev1.EvictVolatileLRU), string(databasev1.EvictVolatileLFU), string(databasev1.EvictVolatileRandom),
	string(databasev1.EvictVolatileTTL), string(databasev1.EvictNothing),
}

// Limits of quantities: an empty server takes some megabytes, and more than the highest values is a
// mistake.
var (
	leastMemory, maxMemoryGiven = resource.MustParse("32Mi"), resource.MustParse("1Ti")
	leastStorage, maxStorage    = resource.MustParse("64Mi"), resource.MustParse("1Pi")
)

// Limits of other fields.
const (
	leastPercent, mostPercent = 10, 90
	leastPort, mostPort       = 1024, 65535
)

// usedPorts are those of every instance.
var usedPorts = []int32{serverPort, database.ProbePort, database.PeerPort, metricsPort}

// Validate returns what is wrong with the spec of a defaulted Cache. The schema says the same,
// where it can: this is for what it can't, and for objects that it did not check. What may be of
// any length then is bounded before it is parsed, and where it is repeated.
func Validate(c *databasev1.Cache) field.ErrorList {
	spec, at := &c.Spec, field.NewPath("spec")
	problems := checkServer(spec, at)
	problems = append(problems, checkMemory(spec, at)...)
	problems = append(problems, checkPersistence(spec, at.Child("persistence"))...)
	problems = append(problems, checkClients(c, at)...)
	problems = append(problems, database.CheckFailover(spec.Failover.After, spec.Failover.AcceptLoss, at.Child("failover"))...)
	problems = append(problems, checkParameters(c, at.Child("parameters"))...)
	problems = append(problems, rollout.ValidateWindow(spec.Rollout.Window, at.Child("rollout", "window"))...)
	problems = append(problems, naming.CheckInstanceLabels(spec.Labels, at.Child("labels"))...)
	problems = append(problems, naming.CheckAnnotations(spec.Annotations, at.Child("annotations"))...)
	problems = append(problems, podspec.CheckNodeSelector(spec.NodeSelector, at.Child("nodeSelector"))...)
	problems = append(problems, podspec.CheckTolerations(spec.Tolerations, at.Child("tolerations"))...)
	problems = append(problems, podspec.CheckName(spec.PriorityClassName, "PriorityClass", at.Child("priorityClassName"))...)
	problems = append(problems, podspec.CheckResources(spec.Resources, at.Child("resources"))...)
	return problems
}

// checkServer returns what is wrong with the server's version and image, and how many there are.
func checkServer(spec *databasev1.CacheSpec, at *field.Path) field.ErrorList {
	problems := database.CheckServer(spec.Version, Versions, spec.Image, spec.Replicas, at)
	if least := spec.MinReplicasToWrite; spec.Replicas > 0 && (least < 0 || least >= spec.Replicas) {
		problems = append(problems, field.Invalid(at.Child("minReplicasToWrite"), least, fmt.Sprintf(
			"must be from 0 to %d, less than spec.replicas: otherwise no write is ever accepted", spec.Replicas-1)))
	}
	return problems
}

// checkMemory returns what is wrong with how much memory there is, and what becomes of keys when it
// is full.
func checkMemory(spec *databasev1.CacheSpec, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	if spec.Memory.Cmp(leastMemory) < 0 || spec.Memory.Cmp(maxMemoryGiven) > 0 {
		problems = append(problems, field.Invalid(at.Child("memory"), spec.Memory.String(), "must be from 32Mi to 1Ti, for example 256Mi"))
	}
	if spec.MaxMemoryPercent < leastPercent || spec.MaxMemoryPercent > mostPercent {
		problems = append(problems, field.Invalid(at.Child("maxMemoryPercent"), spec.MaxMemoryPercent, "must be from 10 to 90"))
	}
	if !slices.Contains(policies, string(spec.EvictionPolicy)) {
		problems = append(problems, field.NotSupported(at.Child("evictionPolicy"), database.Shown(string(spec.EvictionPolicy)), policies))
	}
	for name, list := range map[string]corev1.ResourceList{"limits": spec.Resources.Limits, "requests": spec.Resources.Requests} {
		if _, given := list[corev1.ResourceMemory]; given {
			problems = append(problems, field.Forbidden(at.Child("resources", name, "memory"), "it is computed from spec.memory"))
		}
	}
	slices.SortFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return problems
}

// checkPersistence returns what is wrong with the volumes.
func checkPersistence(spec *databasev1.CacheSpec, at *field.Path) field.ErrorList {
	stored := spec.Persistence
	if stored == nil {
		return nil
	}
	var problems field.ErrorList
	switch {
	case stored.Storage.Cmp(leastStorage) < 0 || stored.Storage.Cmp(maxStorage) > 0:
		problems = append(problems, field.Invalid(at.Child("storage"), stored.Storage.String(), "must be from 64Mi to 1Pi, for example 1Gi"))
	case stored.Storage.Value()/leastRoom < spec.Memory.Value():
		problems = append(problems, field.Invalid(at.Child("storage"), stored.Storage.String(), fmt.Sprintf(
			"must be at least %s, twice spec.memory: the server rewrites its file beside the old one", times(leastRoom, spec.Memory))))
	}
	if class := stored.StorageClassName; class != nil {
		problems = append(problems, podspec.CheckName(*class, "StorageClass", at.Child("storageClassName"))...)
	}
	return problems
}

// checkClients returns what is wrong with how clients connect.
func checkClients(c *databasev1.Cache, at *field.Path) field.ErrorList {
	spec, port := &c.Spec, c.Spec.PlainPort
	problems := podspec.CheckName(database.Shown(spec.PasswordSecret), "Secret", at.Child("passwordSecret"))
	made := []string{database.ApplicationName(c.Name), database.CertificatesName(c.Name), database.MetricsName(c.Name)}
	if slices.Contains(made, spec.PasswordSecret) {
		problems = append(problems, field.Invalid(at.Child("passwordSecret"), spec.PasswordSecret,
			"must be a Secret of your own: Mainstay makes this one"))
	}
	switch {
	case port != 0 && (port < leastPort || port > mostPort || slices.Contains(usedPorts, port)):
		problems = append(problems, field.Invalid(at.Child("plainPort"), port,
			"must be from 1024 to 65535, and not 6379, 8080, 8443 or 9121, which the instances use"))
	case port == 0 && spec.TLS != nil && !*spec.TLS:
		problems = append(problems, field.Required(at.Child("plainPort"),
			"spec.tls is false, so clients need a port without TLS, for example 6380"))
	}
	return problems
}
