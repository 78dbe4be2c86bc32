package postgresql

import (
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// given returns the user's parameters.
func given(db *databasev1.PostgreSQL) map[string]string {
	all := make(map[string]string, len(db.Spec.Parameters))
	for name, value := range db.Spec.Parameters {
		all[name] = string(value)
	}
	return all
}

// checkParameters returns what is wrong with spec.parameters: at most one problem for each, and one
// if there are too many to look at.
func checkParameters(db *databasev1.PostgreSQL, at *field.Path) field.ErrorList {
	all, size := given(db), 0
	for name, value := range all {
		size += len(name) + len(value)
	}
	switch {
	case len(all) > postgres.MaxParameters:
		return field.ErrorList{field.TooMany(at, len(all), postgres.MaxParameters)}
	case size > postgres.MaxParametersBytes:
		return field.ErrorList{field.TooLong(at, "", postgres.MaxParametersBytes)}
	}
	var problems field.ErrorList
	for _, setting := range postgres.Parameters(all) {
		if err := postgres.CheckParameterOf(major(db), setting.Name, setting.Value); err != nil {
			problems = append(problems, field.Invalid(at.Key(setting.Name), setting.Value, err.Error()))
		}
	}
	return problems
}

// parameters are those of the server: the user's, and where these leave them out, those that follow
// from the container's limits.
func parameters(db *databasev1.PostgreSQL) map[string]string {
	all, limits := map[string]string{}, db.Spec.Resources.Limits
	for _, setting := range postgres.DefaultParameters(limits.Memory().Value(), limits.Cpu().MilliValue()) {
		all[setting.Name] = setting.Value
	}
	maps.Copy(all, given(db))
	return all
}

// restartingParameters returns a hash of the parameters that take effect with a start of the server
// only; "" if there are none. It is part of the pods' template, so that a change replaces the pods.
func restartingParameters(db *databasev1.PostgreSQL) string {
	return database.ParametersHash(func(yield func(name, value string) bool) {
		for _, setting := range postgres.Parameters(parameters(db)) {
			if postgres.NeedsRestart(major(db), setting.Name) && !yield(setting.Name, setting.Value) {
				return
			}
		}
	})
}

// major is the server's major version; 0 if it is none.
func major(db *databasev1.PostgreSQL) int {
	number, _ := strconv.Atoi(db.Spec.Version) // Validate refuses what is no number.
	return number
}
