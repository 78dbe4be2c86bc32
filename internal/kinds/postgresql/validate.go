package postgresql

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/podspec"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// Versions are the major versions that there are.
var Versions = []string{"12", "13", "14", "15", "16", "17", "18"}

// leastStorage is what an empty database, its log and some room to work take.
var leastStorage = resource.MustParse("512Mi")

// maxStorage is more than any volume has: a mistake.
var maxStorage = resource.MustParse("1Pi")

// Validate returns what is wrong with the spec of a defaulted PostgreSQL. The schema says the same,
// where it can: this is for what it can't, and for objects that it did not check. What may be of
// any length then is bounded before it is parsed, and where it is repeated.
func Validate(db *databasev1.PostgreSQL) field.ErrorList {
	spec, at := &db.Spec, field.NewPath("spec")
	problems := database.CheckServer(spec.Version, Versions, spec.Image, spec.Replicas, at)
	problems = append(problems, checkStorage(spec, at)...)
	problems = append(problems, database.CheckFailover(spec.Failover.After, spec.Failover.AcceptLoss, at.Child("failover"))...)
	problems = append(problems, checkUsers(db, at.Child("users"))...)
	problems = append(problems, checkDatabases(db, at.Child("databases"))...)
	problems = append(problems, checkInitSQL(spec.InitSQL, at.Child("initSQL"))...)
	problems = append(problems, checkAccess(spec.PgHBA, at.Child("pgHBA"))...)
	problems = append(problems, checkPooler(db, at.Child("pooler"))...)
	problems = append(problems, checkParameters(db, at.Child("parameters"))...)
	if pods := database.PodNames(db.Name, spec.Replicas); spec.PreferredPrimary != "" && !slices.Contains(pods, spec.PreferredPrimary) {
		problems = append(problems, field.NotSupported(at.Child("preferredPrimary"), database.Shown(spec.PreferredPrimary), pods))
	}
	problems = append(problems, rollout.ValidateWindow(spec.Rollout.Window, at.Child("rollout", "window"))...)
	problems = append(problems, checkBackup(spec.Backup, at.Child("backup"))...)
	problems = append(problems, naming.CheckInstanceLabels(spec.Labels, at.Child("labels"))...)
	problems = append(problems, naming.CheckAnnotations(spec.Annotations, at.Child("annotations"))...)
	problems = append(problems, podspec.CheckNodeSelector(spec.NodeSelector, at.Child("nodeSelector"))...)
	problems = append(problems, podspec.CheckTolerations(spec.Tolerations, at.Child("tolerations"))...)
	problems = append(problems, podspec.CheckName(spec.PriorityClassName, "PriorityClass", at.Child("priorityClassName"))...)
	problems = append(problems, podspec.CheckResources(spec.Resources, at.Child("resources"))...)
	if memory := spec.Resources.Limits.Memory(); memory.Sign() > 0 && memory.Cmp(leastMemory) < 0 {
		problems = append(problems, field.Invalid(at.Child("resources", "limits", "memory"), memory.String(),
			"must be at least 192Mi: the server needs it to start"))
	}
	return problems
}

// checkStorage returns what is wrong with the volumes.
func checkStorage(spec *databasev1.PostgreSQLSpec, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	if spec.Storage.Cmp(leastStorage) < 0 || spec.Storage.Cmp(maxStorage) > 0 {
		problems = append(problems, field.Invalid(at.Child("storage"), spec.Storage.String(), "must be from 512Mi to 1Pi, for example 10Gi"))
	}
	if class := spec.StorageClassName; class != nil {
		problems = append(problems, podspec.CheckName(*class, "StorageClass", at.Child("storageClassName"))...)
	}
	problems = append(problems, checkGrowth(spec, at.Child("autoGrow"))...)
	wal, at := spec.WALStorage, at.Child("walStorage")
	if wal == nil {
		return problems
	}
	if wal.Size.Cmp(leastStorage) < 0 || wal.Size.Cmp(maxStorage) > 0 {
		problems = append(problems, field.Invalid(at.Child("size"), wal.Size.String(), "must be from 512Mi to 1Pi, for example 5Gi"))
	}
	if class := wal.StorageClassName; class != nil {
		problems = append(problems, podspec.CheckName(*class, "StorageClass", at.Child("storageClassName"))...)
	}
	return problems
}

// checkGrowth returns what is wrong with how volumes grow by themselves.
func checkGrowth(spec *databasev1.PostgreSQLSpec, at *field.Path) field.ErrorList {
	grow := spec.AutoGrow
	if grow == nil {
		return nil
	}
	var problems field.ErrorList
	if grow.Limit.Cmp(spec.Storage) < 0 || grow.Limit.Cmp(maxStorage) > 0 {
		problems = append(problems, field.Invalid(at.Child("limit"), grow.Limit.String(),
			fmt.Sprintf("must be from spec.storage, %s, to 1Pi", spec.Storage.String())))
	}
	within := func(name string, value, least, most int32) {
		if value < least || value > most {
			problems = append(problems, field.Invalid(at.Child(name), value, fmt.Sprintf("must be from %d to %d", least, most)))
		}
	}
	within("from", grow.From, leastFrom, mostFrom)
	within("by", grow.By, leastBy, mostBy)
	return problems
}

// Limits of spec.autoGrow, in percent, as in the schema.
const leastFrom, mostFrom, leastBy, mostBy = 50, 95, 5, 100

// leastMemory is what the server takes with its default parameters, and our program beside it.
var leastMemory = resource.MustParse("192Mi")

// checkAccess returns what is wrong with the lines of pg_hba.conf.
func checkAccess(lines []string, at *field.Path) field.ErrorList {
	if len(lines) > postgres.MaxAccessLines {
		return field.ErrorList{field.TooMany(at, len(lines), postgres.MaxAccessLines)}
	}
	var problems field.ErrorList
	for i, line := range lines {
		if len(line) > postgres.MaxAccessLineBytes {
			problems = append(problems, field.TooLong(at.Index(i), "", postgres.MaxAccessLineBytes))
		} else if err := postgres.CheckAccess(line); err != nil {
			problems = append(problems, field.Invalid(at.Index(i), line, err.Error()))
		}
	}
	return problems
}
