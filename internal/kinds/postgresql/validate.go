package postgresql

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	imageref "github.com/mainstay-platform/mainstay/internal/kit/image"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
)

// Versions are the major versions that there are.
var Versions = []string{"12", "13", "14", "15", "16", "17", "18"}

// leastStorage is what an empty database, its log and some room to work take.
var leastStorage = resource.MustParse("512Mi")

// maxStorage is more than any volume has: a mistake.
var maxStorage = resource.MustParse("1Pi")

// Limits of spec.failover.after.
const (
	shortestAfter = 5 * time.Second
	longestAfter  = 5 * time.Minute
)

// Validate returns what is wrong with the spec of a defaulted PostgreSQL. The schema says the same,
// where it can: this is for what it can't, and for objects that it did not check.
func Validate(db *databasev1.PostgreSQL) field.ErrorList {
	spec, at := &db.Spec, field.NewPath("spec")
	var problems field.ErrorList
	if !slices.Contains(Versions, spec.Version) {
		problems = append(problems, field.NotSupported(at.Child("version"), spec.Version, Versions))
	}
	if spec.Image != "" {
		if _, err := imageref.Parse(spec.Image); err != nil {
			problems = append(problems, field.Invalid(at.Child("image"), spec.Image, err.Error()))
		}
	}
	if spec.Replicas < 1 || spec.Replicas > MaxReplicas {
		problems = append(problems, field.Invalid(at.Child("replicas"), spec.Replicas, "must be from 1 to 5"))
	}
	if spec.Storage.Cmp(leastStorage) < 0 || spec.Storage.Cmp(maxStorage) > 0 {
		problems = append(problems, field.Invalid(at.Child("storage"), spec.Storage.String(), "must be from 512Mi to 1Pi, for example 10Gi"))
	}
	if wal := spec.WALStorage; wal != nil && (wal.Size.Cmp(leastStorage) < 0 || wal.Size.Cmp(maxStorage) > 0) {
		problems = append(problems,
			field.Invalid(at.Child("walStorage", "size"), wal.Size.String(), "must be from 512Mi to 1Pi, for example 5Gi"))
	}
	if after, err := time.ParseDuration(spec.Failover.After); err != nil || after < shortestAfter || after > longestAfter {
		problems = append(problems, field.Invalid(at.Child("failover", "after"), spec.Failover.After, "must be from 5s to 5m, for example 11s"))
	}
	if spec.Failover.AcceptLoss < 0 {
		problems = append(problems, field.Invalid(at.Child("failover", "acceptLoss"), spec.Failover.AcceptLoss, "must be a term, as in status.term"))
	}
	problems = append(problems, checkParameters(db, at.Child("parameters"))...)
	if pods := podNames(db.Name, spec.Replicas); spec.PreferredPrimary != "" && !slices.Contains(pods, spec.PreferredPrimary) {
		problems = append(problems, field.NotSupported(at.Child("preferredPrimary"), spec.PreferredPrimary, pods))
	}
	problems = append(problems, rollout.ValidateWindow(spec.Rollout.Window, at.Child("rollout", "window"))...)
	problems = append(problems, checkBackup(spec.Backup, at.Child("backup"))...)
	problems = append(problems, naming.CheckInstanceLabels(spec.Labels, at.Child("labels"))...)
	problems = append(problems, naming.CheckAnnotations(spec.Annotations, at.Child("annotations"))...)
	if memory := spec.Resources.Limits.Memory(); !memory.IsZero() && memory.Cmp(leastMemory) < 0 {
		problems = append(problems, field.Invalid(at.Child("resources", "limits", "memory"), memory.String(),
			"must be at least 192Mi: the server needs it to start"))
	}
	return problems
}

// leastMemory is what the server takes with its default parameters, and our program beside it.
var leastMemory = resource.MustParse("192Mi")
