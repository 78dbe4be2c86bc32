package postgresql

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// Limits of spec.initSQL: of its items, as in the schema, and of all SQL together, in bytes.
const maxInitItems, maxInitBytes = 16, 64 << 10

// ObservedInit is what was read of spec.initSQL.
type ObservedInit struct {
	Statements []contract.Statement
	// Problem says what can't be used; then there are no statements.
	Problem string
}

// Initialises reports whether the database of the application, when it is made, waits for the
// statements of the spec. Once the PostgreSQL was ready, they have been executed, or the database
// was there before.
func Initialises(db *databasev1.PostgreSQL) bool {
	return len(db.Spec.InitSQL) > 0 && db.Status.FirstReadyTime == nil
}

// checkInitSQL returns what is wrong with the statements of the spec, as far as it has them.
func checkInitSQL(all []databasev1.InitSQL, at *field.Path) field.ErrorList {
	if len(all) > maxInitItems {
		return field.ErrorList{field.TooMany(at, len(all), maxInitItems)}
	}
	var problems field.ErrorList
	bytes := 0
	for i, one := range all {
		at, given := at.Index(i), 0
		if one.SQL != "" {
			given++
			bytes += len(one.SQL)
			if problem := CheckSQL(one.SQL); problem != "" && len(one.SQL) <= maxInitBytes {
				problems = append(problems, field.Invalid(at.Child("sql"), database.Shown(one.SQL), problem))
			}
		}
		named := func(from *field.Path, kind, name, key string) {
			given++
			if len(validation.IsDNS1123Subdomain(name)) > 0 {
				problems = append(problems, field.Invalid(from.Child("name"), database.Shown(name), "must be the name of a "+kind))
			}
			if len(validation.IsConfigMapKey(key)) > 0 {
				problems = append(problems, field.Invalid(from.Child("key"), database.Shown(key), "must be a key of a "+kind+", for example init.sql"))
			}
		}
		if from := one.ConfigMapKeyRef; from != nil {
			named(at.Child("configMapKeyRef"), "ConfigMap", from.Name, from.Key)
		}
		if from := one.SecretKeyRef; from != nil {
			named(at.Child("secretKeyRef"), "Secret", from.Name, from.Key)
		}
		if given != 1 {
			problems = append(problems, field.Invalid(at, "", "must have exactly one of sql, configMapKeyRef or secretKeyRef"))
		}
	}
	if bytes > maxInitBytes {
		problems = append(problems, field.TooLong(at, "", maxInitBytes))
	}
	return problems
}

// CheckSQL returns why SQL can't be sent to a server; "" if it can.
func CheckSQL(text string) string {
	switch {
	case strings.TrimSpace(text) == "":
		return "must have a statement"
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "must be UTF-8 without NUL"
	}
	return ""
}

// NextInit returns what the primary is to execute, of what was read from each item.
func NextInit(read []contract.Statement, problems []string) ObservedInit {
	if len(problems) > 0 {
		return ObservedInit{Problem: problems[0]}
	}
	bytes := 0
	for i, one := range read {
		bytes += len(one.SQL)
		if problem := CheckSQL(one.SQL); problem != "" {
			return ObservedInit{Problem: fmt.Sprintf("spec.initSQL[%d]: %s", i, problem)}
		}
	}
	if bytes > maxInitBytes {
		return ObservedInit{Problem: fmt.Sprintf("spec.initSQL: Too long: may not be more than %d bytes in total", maxInitBytes)}
	}
	return ObservedInit{Statements: read}
}

// withoutInit: the statements can't be read.
func withoutInit(s *subject) string {
	return summary.If(s.observed.Init.Problem != "", "the database app waits for its first statements: %s", s.observed.Init.Problem)
}
